"""The last fits of an answer: least squares up to signs, then with signs, then on all samples.

*Signs.* The answer is first fitted up to signs (absolute values, or mirrored smooth units, beside a
free linear part), where nothing is in the way. Then the signs that the linear part asks for are set
and the linear term is dropped. It stays only if the samples are explained significantly worse
without it (F-test; chi squared for class labels): then some units have no kink within reach of the
samples, and the term stands for them. A slope below zero that is not known (of leaky ReLU) is read
from the linear part as well. Under noise the linear part may mislead, so flips of one sign or two,
and other signs that explain it nearly as well, are compared; of class labels each is fitted to the
end, and the most likely stays.

*All samples.* Under noise every sample counts, and outputs are weighted by their noise: one noisy
output must not spoil the others. Of a great many samples those drawn give the curvature, and all
give the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from scipy.stats import chi2, norm
from scipy.stats import f as f_distribution

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.data.sources import ArraySource, Source, StandardisedSource
from provenet.fitting.context import Context
from provenet.fitting.covariance import Covariance, covariance, covariance_bound
from provenet.fitting.least_squares import Ended, Fit, refine
from provenet.fitting.linear import fit_linear_part
from provenet.fitting.model import Parameters
from provenet.fitting.residuals import rounding_level, scale_outputs
from provenet.networks.activations import Activation, Symmetry, leaky_relu
from provenet.networks.canonical import apply_symmetry, match_units
from provenet.networks.network import Network
from provenet.networks.piecewise import (
    as_absolute,
    even_linear_part,
    in_activation,
    with_free_linear_part,
)
from provenet.networks.signs import (
    Signs,
    nearest_signs,
    signs_from_linear_part,
    slope_from_linear_part,
)


@dataclass(frozen=True)
class Polished:
    """A refined network on standardised inputs."""

    network: Network
    rss: float
    """Residual sum of squares, or deviance, of the samples that were fitted."""
    ambiguities: tuple[str, ...] = ()
    ended: Ended = Ended.CONVERGED
    """How its fit ended."""

    @classmethod
    def of(cls, fit: Fit, network: Network, *ambiguities: str) -> Polished:
        """The network of a fit."""
        return cls(network, fit.rss, ambiguities, fit.ended)


def refined(context: Context, samples: Source, network: Network, **options: Any) -> Fit:
    """The fit next to a network, of the context's loss, to the end or as options say."""
    problem = context.problem
    usual: dict[str, Any] = {
        "spread": problem.spread,
        "iterations": 100,
        "tolerance": 1e-9,
        "damping": 1e-6,  # the start is next to the answer: nearly Gauss and Newton's step
        "deadline": problem.deadline,
        "loss": problem.loss,
    }
    return refine(samples, Parameters.of(network), network.activation, **usual | options)


# ---------------------------------------------------------------- signs


def polish(context: Context, network: Network) -> Polished:
    """Least squares from a candidate: first up to signs, then with the signs settled."""
    problem = context.problem
    if context.activation.slope is None:
        with np.errstate(over="ignore", invalid="ignore"):  # a step too long is not accepted
            smooth = problem.refine_in_steps(Parameters.of(network), 100, 1e-9, last=20)
        return settled_from(context, smooth)
    start = Parameters.of(as_absolute(network))
    r = network(problem.samples.X) - problem.samples.y
    free = Fit(start, float(np.vdot(r, r)), problem.samples.labels, 0, Ended.ZERO)
    if network.linear is not None or free.rms > 450 * EPS * problem.spread:  # else it is rounding
        free = problem.refine_in_steps(start, 100, 1e-5, last=20)
    return settled_from(context, free)


def settled_from(context: Context, free: Fit) -> Polished:
    """The network of a fit of the problem's own model, its signs settled where it has none."""
    problem, activation = context.problem, context.activation
    if activation.name == "leaky_relu":  # its slope may have been left open
        m, beta = free.parameters.units, free.parameters.beta
        W = free.parameters.theta[:, :-1]
        activation = leaky_relu(slope_from_linear_part(beta[:m].T, W, beta[m:-1].T))
    network = in_activation(free.parameters.network(problem.activation), activation)
    if network.linear is None or network.units == 0:
        return Polished.of(free, network)
    unsettled = _with_signs(network, _likeliest_signs(network).signs)
    if not problem.is_zero(free) and held_out_test(context, unsettled, free.rss).excess is not None:
        return Polished.of(free, unsettled)  # a bad minimum: no need to go on
    settled, ambiguities = settle_signs(context, free, network)
    if _linear_term_needed(context, free, settled):
        return Polished.of(free, unsettled, *ambiguities, *_signs_are_free(unsettled))
    return Polished.of(settled, settled.parameters.network(network.activation), *ambiguities)


def settled_again(context: Context, own: Fit, activation: Activation) -> Polished:
    """The network of a fit in units of the activation, with the linear term that it needs."""
    network, problem = own.parameters.network(activation), context.problem
    if not problem.has_linear_term:
        return Polished.of(own, network)
    start = Parameters.of(with_free_linear_part(network, problem.activation))
    free = problem.refine(start, 20, 1 / problem.samples.labels)
    if network.linear is not None:
        return settled_from(context, free)
    if not _linear_term_needed(context, free, own):
        return Polished.of(own, network)
    unsettled = in_activation(free.parameters.network(problem.activation), activation)
    return Polished.of(free, unsettled, *_signs_are_free(unsettled))


def settle_signs(context: Context, free: Fit, network: Network) -> tuple[Fit, tuple[str, ...]]:
    """The best fit without a linear term, from the signs that the linear part asks for.

    `network` is that of the fit, in units of the activation that was asked for.
    """
    problem, found = context.problem, _likeliest_signs(network)
    signs, alternatives = found.signs, found.alternatives
    if network.activation.symmetry is Symmetry.MIRROR and not problem.is_zero(free):
        signs, alternatives = _flip_while_better(context, network, signs)
    ambiguities = (describe_reversal(context, network, other != signs) for other in alternatives)
    start = without_linear(network, signs)
    rounding = rounding_level(start, problem.samples.X[:2000]) / problem.spread
    zero = 2 * float(np.sqrt(np.mean(rounding**2)))
    return refined(context, problem.samples, start, zero=zero), tuple(ambiguities)


def _likeliest_signs(network: Network) -> Signs:
    """The signs of units beside a linear term that explain it best."""
    if network.activation.symmetry is not Symmetry.MIRROR:
        return Signs(np.ones(network.units), np.zeros(0))
    return signs_from_linear_part(*_linear_equation(network))


def _linear_equation(network: Network) -> tuple[Array, Array, Array]:
    """Output weights, weights and the linear part that their signs are to explain."""
    A, v = even_linear_part(network)
    return A, network.weights, v


def _with_signs(network: Network, signs: Array) -> Network:
    """Mirrored units reversed where the sign is negative; what they do not explain stays linear."""
    return apply_symmetry(network, signs, np.zeros(network.units))


def without_linear(network: Network, signs: Array | None = None) -> Network:
    """Units of given signs, or the likeliest, without what is left linear."""
    xi = _likeliest_signs(network).signs if signs is None else signs
    return _with_signs(network, xi).replace(linear=None)


def describe_reversal(context: Context, network: Network, units: AnyArray) -> str:
    """Name units by their output weights, which do not depend on the order of units."""
    norm = np.linalg.norm(network.weights @ context.standardisation.whiten, axis=1)
    weights = network.output_weights * norm ** (network.activation.degree or 0)
    return (
        f"The units with output weights {np.round(weights[..., units], 4).tolist()} may as well "
        "all have the opposite sign: the samples do not tell."
    )


def described_reversals(context: Context, network: Network, other: Network) -> Iterator[str]:
    """Name the units that another network has reversed; none if a fit reversed them again."""
    first, second = network.canonical(), other.canonical()
    mine, theirs = match_units(first, second)
    reverse = np.zeros(first.units, dtype=bool)
    a, b = Parameters.of(first).theta[mine], Parameters.of(second).theta[theirs]
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    reverse[mine] = np.einsum("ud,ud->u", a, b) < 0.98 * size
    if reverse.any():
        yield describe_reversal(context, first, reverse)


def _signs_are_free(network: Network) -> tuple[str, ...]:
    if network.units == 0 or network.activation.symmetry is not Symmetry.MIRROR:
        return ()
    return (
        "The network has a linear term, so the sign of each unit is a convention: "
        "reversing it changes only the linear term.",
    )


def _flip_while_better(
    context: Context, network: Network, signs: Array, ruled_out: float = 15.0
) -> tuple[Array, tuple[Array, ...]]:
    """Flip one sign or two, or take other likely signs, while that lowers the residual.

    Returns the best signs and those of these that the samples do not rule out (twice the difference
    in log-likelihood, odds of a thousand to one and more); where the budget is exhausted, of those
    that were compared.
    """
    samples, m = context.problem.to_tell_signs(network.units).samples, len(signs)

    def misfit(xi: Array) -> float:
        start = Parameters.of(without_linear(network, xi))
        return fit_linear_part(samples, start, network.activation)[1]

    best, nearest = misfit(signs), nearest_signs(*_linear_equation(network), 8)
    pairs = [{i, j} for i in range(m) for j in range(i, m)]
    while True:
        flips = [signs * np.where(np.isin(np.arange(m), list(pair)), -1.0, 1.0) for pair in pairs]
        flips += [xi for xi in nearest if np.sum(xi != signs) > 2]
        compared = takewhile(lambda xi: not context.out_of_time, flips)
        values = np.array([misfit(xi) for xi in compared])
        i = int(np.argmin(values)) if len(values) else 0
        if context.out_of_time or values[i] >= best:
            break
        signs, best = flips[i], float(values[i])
    possible = samples.labels * np.log(values / best) < ruled_out
    return signs, tuple(xi for xi, as_good in zip(flips, possible, strict=False) if as_good)


def _linear_term_needed(context: Context, free: Fit, settled: Fit, level: float = 1e-4) -> bool:
    """Whether the fit with a linear term is better than chance allows (F-test)."""
    problem = context.problem
    if problem.is_zero(free):
        return not problem.is_zero(settled)
    extra = problem.samples.features * problem.outputs
    spare = problem.samples.labels - problem.parameters(free.parameters.units)
    if spare <= 0:
        return False
    F = (settled.rss - free.rss) / extra / (free.rss / spare)
    return bool(f_distribution.sf(F, extra, spare) < level)


# ---------------------------------------------------------------- samples held out


@dataclass(frozen=True)
class HeldOut:
    """The residual on held-out samples, beside what noise of the fitted samples' size leaves."""

    residual: float
    """Root mean square."""
    expected: float
    """That of the fitted samples, enlarged by what the fit has hidden of the noise."""
    limit: float
    """The residual that noise exceeds with a small probability."""

    @property
    def excess(self) -> float | None:
        """How many times larger than expected, if it is significantly larger."""
        return self.residual / max(self.expected, TINY) if self.residual > self.limit else None


def held_out_test(context: Context, network: Network, rss: float, level: float = 1e-3) -> HeldOut:
    """Compare mean squares, by their own variances as well as by an F-test.

    The F-test holds for few samples of Gaussian noise, the other for many of any law: the larger
    limit counts. `rss` is the residual sum of squares of the fitted samples.
    """
    samples, held_out = context.problem.samples, context.held_out
    spare = max(samples.labels - network.free_parameters, 1)
    expected = rss / spare * (1 + network.free_parameters / spare)
    user = context.standardisation.network_to_user(network)
    parts = (network(samples.X) - samples.y, user(held_out.X) - held_out.y)
    fitted, found = (np.mean(r.reshape(len(r), -1) ** 2, axis=1) for r in parts)
    # The variance of squares is known badly; but noise is much alike in both.
    own = float(np.var(fitted)) * (samples.labels / spare) ** 2
    own = float(np.clip(np.var(found), own, 10 * own))
    error = np.sqrt(own / len(fitted) + own / len(found))
    factor = float(f_distribution.isf(level, held_out.labels, spare))
    limit = np.sqrt(max(expected + float(norm.isf(level)) * error, expected * factor))
    return HeldOut(float(np.sqrt(np.mean(found))), float(np.sqrt(expected)), float(limit))


# ---------------------------------------------------------------- all samples


@dataclass(frozen=True)
class Refit:
    """Least squares on all samples, on standardised inputs."""

    network: Network
    scale: Array
    """The noise of every output before this fit: what labels were divided by."""
    noise: float
    """Standard deviation of what is left, over `scale`."""
    ended: Ended

    @property
    def pooled_noise(self) -> float:
        """Standard deviation of the noise, its root mean square over the outputs."""
        return self.noise * float(np.sqrt(np.mean(self.scale**2)))


def refit_on_all(context: Context, network: Network) -> Refit:
    """Weighted least squares from a network that explains the samples up to noise.

    Of several outputs twice: the first fit tells their noise better.
    """
    drawn = context.problem.samples
    for _ in range(1 if context.source.outputs is None else 2):
        squares = np.mean((network(drawn.X) - drawn.y) ** 2, axis=0)
        # Weights beyond a million would be rounding's.
        scale = np.sqrt(np.maximum(squares, 1e-12 * np.max(squares) + TINY))
        everything, part = _scaled_samples(context, scale)
        if part is None and not context.source.in_memory:
            part = ArraySource(drawn.X, drawn.y / scale)
        fit = refined(
            context,
            everything,
            scale_outputs(network, 1 / scale),
            spread=context.spread / float(np.min(scale)),
            iterations=20,
            tolerance=1e-8,
            some=part,
        )
        network = scale_outputs(fit.parameters.network(network.activation), scale)
    spare = max(everything.labels - network.free_parameters, 1)
    return Refit(network, np.asarray(scale), float(np.sqrt(fit.rss / spare)), fit.ended)


def _scaled_samples(context: Context, scale: Array) -> tuple[Source, ArraySource | None]:
    """All samples, labels divided by `scale`, and those drawn if they are far fewer."""
    drawn = context.problem.samples
    source = StandardisedSource(context.source, context.standardisation, scale)
    few = source.size > 10 * drawn.size
    return source, ArraySource(drawn.X, drawn.y / scale) if few else None


def covariance_of_all(
    context: Context, network: Network, scale: Array, largest: int = 8000, in_haste: int = 3000
) -> Covariance:
    """From all samples; of a great many from those that were drawn, if these leave nothing open.

    For outputs over `scale`. Of more than `largest` weights, where the matrix and its inverse take
    a gigabyte and minutes, or more than `in_haste` and no time, it is a bound.
    """
    scaled, standardisation = scale_outputs(network, 1 / scale), context.standardisation
    everything, part = _scaled_samples(context, scale)
    if network.weights.size > (in_haste if context.out_of_time else largest):
        drawn = context.problem.samples
        part = ArraySource(drawn.X, drawn.y / scale)
        bound = covariance_bound(part, scaled, standardisation)
        return bound.times(part.size / everything.size)
    if part is not None:
        found = covariance(part, scaled, standardisation)
        if not found.rank_deficiency:
            return found.times(part.size / everything.size)
    return covariance(everything, scaled, standardisation)


# ---------------------------------------------------------------- class labels


def most_likely(
    context: Context, found: Parameters, level: float = 1e-4, ruled_out: float = 15.0
) -> Polished:
    """The end of a search of class labels, in units of the activation asked for."""
    problem = context.problem
    free = problem.refine(found, 100, 1e-9)
    network = in_activation(free.parameters.network(problem.activation), context.activation)
    if network.linear is None or network.units == 0:
        return Polished.of(free, network)
    m, mirrored = network.units, network.activation.symmetry is Symmetry.MIRROR
    fits = dict[tuple[float, ...], Fit]()

    def best_of(candidates: list[Array]) -> tuple[float, ...]:
        for xi in candidates:
            if tuple(xi) not in fits:
                start = without_linear(network, xi)
                fits[tuple(xi)] = refined(context, problem.samples, start)
        return min(fits, key=lambda xi: fits[xi].rss)

    nearest = nearest_signs(*_linear_equation(network), 8) if mirrored else []
    signs = best_of(nearest or [np.ones(m)])
    flips = 1 - 2 * np.eye(m) if mirrored else np.empty((0, m))
    best = fits[best_of(list(flips * signs))]
    extra = problem.samples.features * problem.outputs
    if chi2.sf(best.rss - free.rss, extra) < level:
        why = "The network has a linear term, so the sign of each unit is a convention."
        return Polished.of(free, network, why)
    answer, sentences = best.parameters.network(network.activation), list[str]()
    for other in fits.values():
        if other.rss - best.rss < ruled_out:
            alternative = other.parameters.network(network.activation)
            sentences += described_reversals(context, answer, alternative)
    return Polished.of(best, answer, *sentences)
