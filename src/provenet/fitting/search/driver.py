"""The search: one driver with moves, an acceptance rule and a schedule.

A state is a fit. A move proposes starts, the most promising first; least squares runs from each,
and the first fit that is accepted becomes the state.

*Growth.* New units are added and the model refitted while the variance `rss / (labels -
parameters)` falls: spare units remove bad minima. One layer doubles, a few steps each, on the
samples that three times its width needs: on fewer it would learn labels by heart. Several layers
grow by a third on the samples that their own width needs, with more steps each: wide ones are
expensive. Then the least useful units are swapped while that helps.

*Near zero* a fit is next to the network, and the cost of dropping a unit tells which are spare:
those that cost no more than a multiple of the residual go at once. From there the fit falls to zero
in a few steps, or never. If no fit reaches zero, the labels have noise or the search failed: the
best fit by BIC is pruned while dropping units lowers BIC. Each restart is more patient than the
last.

*Many features.* A sample says little about each of many weights, and least squares in all
dimensions learns labels by heart. But the residual r of a linear fit has a second moment
`mean(r (x x^T - 1))`, for normal inputs the sum of the units' `a phi(b) w w^T`: its eigenvectors
beyond `2 std(r) sqrt(features / samples)`, the size of chance, span most of the units with fewer
parameters. One layer grows in that span first, and starts from there in all dimensions. Inputs need
not be normal: it is only a start.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.losses import SQUARES
from provenet.fitting.model import Parameters
from provenet.fitting.search.moves import drops, random_start, swapped, widened, without_cheapest
from provenet.fitting.search.problem import Problem

Propose = Callable[[Fit, int], Iterable[Parameters]]
"""Starts from a fit, given how many rounds in a row have failed."""
Refine = Callable[[Parameters], Fit]
Accept = Callable[[Fit, Fit], bool]
"""Whether the first fit takes the place of the second."""


def local_search(
    problem: Problem,
    fit: Fit,
    propose: Propose,
    refine: Refine,
    accept: Accept,
    *,
    patience: int = 1,
) -> Generator[Fit, None, Fit]:
    """Yield each accepted fit until `patience` rounds in a row fail or time is over; return the
    last."""
    failures = 0
    while failures < patience and not problem.out_of_time:
        failures += 1
        for start in propose(fit, failures - 1):
            trial = refine(start)
            if accept(trial, fit):
                fit, failures = trial, 0
                yield fit
                break
            if problem.out_of_time:
                break
    return fit


def lowers_variance(problem: Problem) -> Accept:
    """Whether the variance falls, by 2% at least."""
    return lambda new, old: problem.variance(new) < 0.98 * problem.variance(old)


def lowers_bic(problem: Problem) -> Accept:
    """Whether BIC falls."""
    return lambda new, old: problem.bic(new) < problem.bic(old)


# ---------------------------------------------------------------- pruning, by BIC


def prune(problem: Problem, fit: Fit, most: int | None = None) -> tuple[Fit, Fit | None]:
    """Drop units while that lowers BIC, and until at most `most` are left.

    Returns the narrowest good fit, and the best fit with one unit fewer that was rejected. At most
    `most` are left also when time is over: the cheapest go then.
    """
    while True:
        fit, rejected = _pruned_by_bic(problem, fit)
        if most is None or sum(fit.parameters.widths) <= max(most, problem.layers):
            return fit, rejected
        fit = rejected or problem.refine(without_cheapest(problem, fit.parameters), 4, 1e-2)


def _pruned_by_bic(problem: Problem, fit: Fit) -> tuple[Fit, Fit | None]:
    tried = list[Fit]()

    def propose(fit: Fit, failures: int) -> Iterator[Parameters]:
        return drops(problem, fit)

    def refine(start: Parameters) -> Fit:
        # Without a spare unit a residual of zero comes back after a few steps, or never. Else fits
        # end where BIC gains less than one.
        steps = (8, 0.05, 0) if problem.is_zero(fit) else (40, 1 / problem.samples.labels, 4)
        tried.append(problem.refine_in_steps(start, *steps))
        return tried[-1]

    for better in local_search(problem, fit, propose, refine, lowers_bic(problem)):
        fit = better
        tried.clear()
    width = sum(fit.parameters.widths)
    one_fewer = [trial for trial in tried if sum(trial.parameters.widths) == width - 1]
    return fit, min(one_fewer, key=lambda trial: trial.rms, default=None)


def pruned_to_zero(problem: Problem, fit: Fit, rng: np.random.Generator) -> Fit:
    """From near zero, without spare units or with a missing one, to zero if it gets there."""

    def propose(fit: Fit, failures: int) -> Iterator[Parameters]:
        yield from drops(problem, fit)
        if sum(fit.parameters.widths) < problem.widest and not problem.out_of_time:
            for one_more in np.eye(problem.layers, dtype=int).tolist():
                yield widened(problem, fit.parameters, tuple(one_more), rng)

    def refine(start: Parameters) -> Fit:  # a fit that falls by less a step does not get there
        return problem.refine_in_steps(start, 40, 0.1, 4)

    for better in local_search(problem, fit, propose, refine, lowers_bic(problem)):
        fit = better
        if problem.is_zero(fit):
            break
    return fit


def stepwise_selection(problem: Problem, fit: Fit, widest: int, rng: np.random.Generator) -> Fit:
    """More units, other units and fewer units, while one of these lowers BIC."""

    def propose(fit: Fit, failures: int) -> Iterator[Parameters]:
        if fit.parameters.units < widest:
            yield widened(problem, fit.parameters, (1,), rng)
        yield swapped(problem, fit.parameters, failures, rng)
        yield from drops(problem, fit)

    def refine(start: Parameters) -> Fit:
        return problem.refine_in_steps(start, 40, 1 / problem.samples.labels, 4)

    for better in local_search(problem, fit, propose, refine, lowers_bic(problem), patience=2):
        fit = better
    return fit


# ---------------------------------------------------------------- growth


def growth(
    problem: Problem,
    start: Parameters,
    widest: int,
    rng: np.random.Generator,
    patience: int,
    *,
    near: float = 1e-3,
) -> Iterator[Fit]:
    """Widen while that pays, then swap units; fits end below `near` of the labels' spread.

    After `patience` swaps in a row that do not help it gives up.
    """
    layers = problem.layers
    probe = (8, 1e-3) if layers == 1 else (60, 3e-3)

    def part_of(widths: Sequence[int]) -> Problem:
        times = 3 if layers == 1 else 1
        return problem.for_width(*(min(times * w, max(widest // layers, w)) for w in widths))

    def refine(steps: tuple[int, float], start: Parameters) -> Fit:
        return part_of(start.widths).refine(start, *steps, zero=near)

    def wider(fit: Fit, failures: int) -> Iterator[Parameters]:
        widths = fit.parameters.widths
        room = [max(widest // layers - w, 0) for w in widths]
        counts = [
            min(w if layers == 1 else 1 + w // 3, r) for w, r in zip(widths, room, strict=True)
        ]
        if any(counts):
            part = part_of([w + more for w, more in zip(widths, counts, strict=True)])
            yield widened(part, fit.parameters, tuple(counts), rng)

    def swap(fit: Fit, failures: int) -> Iterator[Parameters]:
        yield swapped(part_of(fit.parameters.widths), fit.parameters, failures, rng)

    grow, settle, helps = (
        partial(refine, probe),
        partial(refine, (40, 1e-2)),
        lowers_variance(problem),
    )
    from_span = _start_from_span(problem, len(start.theta), widest, rng)
    fit = grow(start) if from_span is None else settle(from_span)
    yield fit
    if from_span is not None:
        # A few of these units are right at first, and each that is makes others visible: swaps go
        # on until so few are missing that growth finds them.
        for better in local_search(problem, fit, swap, settle, helps, patience=2):
            fit = better
            yield fit
            if fit.rms < 0.05 * problem.spread:
                break
    fit = yield from local_search(problem, fit, wider, grow, helps, patience=2)
    yield from local_search(problem, fit, swap, settle, helps, patience=patience)


def _start_from_span(
    problem: Problem, first: int, widest: int, rng: np.random.Generator, *, features: int = 80
) -> Parameters | None:
    """Units that were grown in the span of the second moment; None where that is no help."""
    many = problem.is_kinked and problem.samples.features >= features and problem.outputs == 1
    if not many or problem.loss is not SQUARES:
        return None
    basis, residual = signal_span(problem)
    if not 1 < len(basis) <= 0.7 * problem.samples.features:
        return None
    inside = replace(problem, samples=ArraySource(problem.samples.X @ basis.T, residual))
    widest = first * 2 ** int(np.log2(max(widest / first, 1)))
    *_, fit = growth(inside, random_start(inside, (first,), rng), widest, rng, 0)
    theta = fit.parameters.theta
    return problem.with_no_output(np.column_stack([theta[:, :-1] @ basis, theta[:, -1]]))


def signal_span(problem: Problem) -> tuple[Array, Array]:
    """Directions, in rows, whose second moment is beyond chance; the residual of a linear fit."""
    X, y = problem.samples.X, problem.samples.y
    nothing = problem.with_no_output(np.empty((0, X.shape[1] + 1)))
    linear = problem.best_linear_part(nothing)[0].beta
    residual = y - X @ linear[:-1] - linear[-1]
    moment = (X * residual[:, None]).T @ X / len(X) - np.mean(residual) * np.eye(X.shape[1])
    values, vectors = np.linalg.eigh(moment)
    chance = 2 * np.std(residual) * np.sqrt(X.shape[1] / len(X))
    return np.asarray(vectors.T[np.abs(values) > chance]), residual


# ---------------------------------------------------------------- restarts


@dataclass(frozen=True)
class End:
    """Where a restart ended."""

    fit: Fit
    evidence: str
    """Why it has that many units."""
    narrower: float
    """Root mean square residual of the best fit with one unit fewer; infinite if none was fitted to
    the end."""


class _Unwanted(Exception):
    """Another restart has found the answer."""


def restarts(context: Context, known: Array | None = None) -> Iterator[End]:
    """One restart after another until time is over; the caller decides when to stop.

    The first starts from the units `known` (weights and bias on standardised inputs), if given.
    Where the samples are on a cluster all later ones run there, as many at once as it takes.
    """
    at_once, problem = context.source.jobs_at_once, context.problem
    # One layer of smooth units has many bad minima that growth does not leave, and swaps do.
    patience = 1 if problem.is_kinked or problem.layers > 1 else 4
    if not context.out_of_time:
        yield _restart(context, patience, known)
    while not context.out_of_time:
        patience = min(2 * patience, 32)
        if at_once == 1:
            yield _restart(context, patience)
        else:
            yield from _side_by_side(context, patience, at_once)


def _side_by_side(context: Context, patience: int, at_once: int) -> Iterator[End]:
    """Restarts on other machines, each with its own random numbers."""
    seconds = context.problem.deadline - working_time()
    seeds = context.rng.integers(2**63, size=at_once)
    jobs = [
        partial(_elsewhere, context.travelling(np.random.default_rng(seed)), patience, seconds)
        for seed in seeds
    ]
    with closing(context.source.side_by_side(jobs)) as ends:
        for _ in jobs:
            with context.stage("search", f"{len(jobs)} restarts side by side"):
                end = next(ends)
            yield end


def _elsewhere(
    context: Context, patience: int, seconds: float, is_wanted: Callable[[], bool]
) -> End:
    def stop_unless_wanted(*_: object) -> None:
        if not is_wanted():
            raise _Unwanted

    return _restart(replace(context.within(seconds), progress=stop_unless_wanted), patience)


@np.errstate(over="ignore", invalid="ignore")  # fits that overflow are not accepted
def _restart(context: Context, patience: int, known: Array | None = None) -> End:
    """Grown from a few random units, or from known ones, and pruned."""
    problem, rng, fits = context.problem, context.rng, list[Fit]()
    first, widest = first_width(problem, context.units), widest_of(problem, context.units)
    # Wide networks learn labels by heart: so half of the width that labels suffice for is tried
    # first, and in every other restart of kinked units.
    if context.units is None and (patience in (1, 4, 16) or not problem.is_kinked):
        widest = max(first, widest // 2)
    with context.stage("search"):
        if known is not None:
            start = problem.with_no_output(known)
        else:
            start = random_start(problem, _shared_out(first, problem.layers), rng)
        for fit in growth(problem, start, widest, rng, patience):
            report_progress(context, fit)
            if fit.labels != problem.samples.labels:
                steps = (40, 1e-2) if is_near_zero(problem, fit) else (1, 1.0)
                fit = problem.refine(fit.parameters, *steps, zero=1e-3)
            fits.append(fit)
            if is_near_zero(problem, fit):
                fits.append(pruned_to_zero(problem, fit, rng))
                if problem.is_zero(fits[-1]) or problem.layers > 1:
                    break
    return pruned(context, min(fits, key=problem.bic), fits[-1])


def is_near_zero(problem: Problem, fit: Fit) -> bool:
    """Whether a fit is next to the network, or to noise."""
    return problem.loss is SQUARES and fit.rms <= 1e-2 * problem.spread


def pruned(context: Context, fit: Fit, wide: Fit | None = None) -> End:
    """A fit without the units that it does not need; `wide` is the one that it comes from."""
    with context.stage("prune"):
        end, rejected = prune(context.problem, fit, context.units)
        if context.problem.layers == 1 and not context.problem.is_zero(end):
            widest = widest_of(context.problem, context.units)
            better = stepwise_selection(context.problem, end, widest, context.rng)
            if better is not end:
                end, rejected = prune(context.problem, better, context.units)
    tried = rejected is not None and rejected.ended is not Ended.OUT_OF_TIME
    narrower = rejected.rms if tried and rejected is not None else np.inf
    return End(end, _evidence(context, wide or fit, end, rejected), narrower)


def report_progress(context: Context, fit: Fit) -> None:
    """Width and residual."""
    message = f"{in_words(fit.parameters.widths)} units, residual {fit.rms / context.spread:.2g}"
    context.progress("search", context.budget_used, message)


def first_width(problem: Problem, units: int | None) -> int:
    """Units of a start: a few, or some more than were asked for."""
    few = 3 * problem.layers if units is None else units + units // 4 + 1
    return min(few, widest_of(problem, units))


def widest_of(problem: Problem, units: int | None) -> int:
    """The most units."""
    return problem.widest if units is None else min(problem.widest, units + units // 2 + 2)


def _shared_out(units: int, layers: int) -> tuple[int, ...]:
    """So many units over the layers, the lower ones first."""
    return tuple(units // layers + int(k < units % layers) for k in range(layers))


def _evidence(context: Context, wide: Fit, fit: Fit, rejected: Fit | None) -> str:
    units = sum(fit.parameters.widths)
    pruned = f"{in_words(wide.parameters.widths)} units were pruned to "
    pruned += in_words(fit.parameters.widths)
    if rejected is None:
        return f"{pruned}."
    if rejected.ended is Ended.OUT_OF_TIME:
        return f"{pruned}; time was over before fewer were tried to the end."
    return (
        f"{pruned}; with {units - 1}, refined, the residual is "
        f"{rejected.rms / context.spread:.2g} of the labels' spread."
    )


def in_words(widths: Sequence[int]) -> str:
    """Units a layer: "10", or "16, 8" where there are several."""
    return ", ".join(map(str, widths))
