"""`"arbitrary-inputs"`: a few units, any inputs whatever, by sign patterns and linear programs.

BJW19, section 2: `y = A relu(W x)` on inputs that follow no distribution at all, as long as the
labels have as many independent outputs as there are units. Theorem 1: Lemma 1 enumerates the sets
of samples on which a vector of the labels' span can be positive, O(n^k) of them (`sign_patterns`);
Algorithm 1 is a linear program for such a set, Algorithm 2 goes through them until there are k
independent units (`sign_programs`, where the letters are).

`faithful=True` runs these as printed, with Remark 1's 2 n programs, and solves for A and W once. It
fails when no pattern serves, which the text leaves out. The default also:

- Tries the patterns with the most samples first, because these say most about the unit, and solves
  for W and A once more for what rounding left.
- Reads samples that no network without biases explains as those of one with more (`Reading`). A
  constant feature makes biases weights, so that the theorem holds as it stands. An output bias is
  the label of the samples on which no unit is on, the only one that different inputs share. Where
  none is shared, it is a unit that is 1 everywhere: the span of the labels and of the constant has
  all units, and that one counts as found (Lemma 3 allows any first one), for one dimension more.

The theorem promises some network that explains *all* samples, and where they do not determine the
units there are several. So samples are held out first; if the network of the others explains them
too, they confirm it. Otherwise all are fitted, and none is left: the answer is unconfirmed.

Cost: `(2^k - 1) C(n, k)` small systems, at most about n^2 patterns for k = 3, a few programs of a
millisecond. Memory: a few dozen megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.fitting.context import Context
from provenet.methods.stages.label_lines import distinct_samples, shared_label, with_constant
from provenet.methods.stages.sign_patterns import (
    ZERO_RATIO,
    distinct_directions,
    most_patterns,
    pattern_blocks,
    supports,
    unpack,
    vertex_count,
)
from provenet.methods.stages.sign_programs import (
    FoundUnits,
    Programs,
    Spans,
    algorithm_1,
    constant_unit,
    independent_units,
    printed_weights,
    spans_of,
    weights_of,
)
from provenet.methods.tolerances import (
    FINISHED,
    MOST_ENUMERATED_SAMPLES,
    MOST_ENUMERATED_UNITS,
)
from provenet.networks.network import Network


@dataclass(frozen=True)
class Reading:
    """Samples as those of a network without biases, and what that network stands for."""

    X: Array
    """Inputs (n, features), with a constant at the end where the units have biases."""
    Y: Array
    """Labels (n, outputs) less the output bias."""
    output_bias: Array
    biases: bool = False
    constant: bool = False
    """Whether a unit that is 1 everywhere, an output bias, is one of the units."""

    @property
    def units(self) -> str:
        """What the units are taken for."""
        if not self.biases:
            return "units without biases"
        return "units with biases" + (" beside an output bias" if self.constant else "")

    @property
    def key(self) -> tuple[bool, bool, bytes]:
        """The same for the same reading of other samples."""
        return self.biases, self.constant, self.output_bias.tobytes()

    def network(self, W: Array, A: Array) -> Network:
        """The network of the samples as they were given."""
        if not self.biases:
            return Network(W, None, A, self.output_bias)
        b = W[:, -1]
        flat = np.abs(self.X[:, :-1] @ W[:, :-1].T).max(axis=0) <= ZERO_RATIO * np.abs(b)
        c = self.output_bias + A[:, flat] @ np.maximum(b[flat], 0.0)
        return Network(W[~flat, :-1], b[~flat], A[:, ~flat], c)


class NoPatternServes(NoAnswer):
    """No network explains these samples, so none explains them and others."""


Refuted = dict[tuple[bool, bool, bytes], NoPatternServes]
"""Readings of which a part of the samples has told that no network explains it."""


# ---------------------------------------------------------------- the recipe


def arbitrary_inputs(context: Context) -> Iterator[Candidate]:
    """Of the samples to fit, if those held out agree; otherwise of all; one candidate."""
    X, Y = _all_samples(context)
    refuted: Refuted = {}
    yield _confirmed(context, X, Y, refuted) or _of_all(context, X, Y, refuted)


def _all_samples(context: Context) -> tuple[Array, Array]:
    """The samples as they were given, those to fit first."""
    different = len(context.inputs)
    if context.source.size > context.problem.samples.size + context.held_out.size:
        different = context.source.size
    if different > MOST_ENUMERATED_SAMPLES:
        raise NoAnswer(
            f"The sign patterns of at most {MOST_ENUMERATED_SAMPLES} samples are enumerated, and "
            f'there are {different}: use method="lifting", which takes any inputs too, or '
            'method="expand-prune".'
        )
    if context.source.fixed:
        X, y = context.source.rows(0, context.source.size)
        last = np.isin(np.arange(len(X)), context.held_out_rows)
        order = np.argsort(last, kind="stable")
        X, y = X[order], y[order]
    else:
        X, y = context.standardisation.undo(context.drawn.X), context.drawn.y
    return np.asarray(X, dtype=float), np.asarray(y, dtype=float).reshape(len(X), -1)


def _confirmed(context: Context, X: Array, Y: Array, refuted: Refuted) -> Candidate | None:
    """A network of the samples to fit that explains those held out, if there is one."""
    n = context.problem.samples.size
    try:
        for network, evidence in _networks(context, X[:n], Y[:n], refuted):
            if _explains(network, X, Y):
                return _candidate(context, network, evidence)
    except NoAnswer:
        if context.out_of_time:
            raise
    return None


def _of_all(context: Context, X: Array, Y: Array, refuted: Refuted) -> Candidate:
    """A network of all samples, none of which is left to confirm it."""
    network, evidence = next(_networks(context, X, Y, refuted))
    return _candidate(context, network, evidence, fitted_all=True)


def _candidate(
    context: Context, network: Network, evidence: str, *, fitted_all: bool = False
) -> Candidate:
    if context.problem.samples.y.ndim == 1:
        c = float(np.ravel(network.output_bias)[0])
        network = network.replace(output_weights=network.output_weights[0], output_bias=c)
    own = context.standardisation.network_from_user(network)
    return Candidate(own, evidence, fitted_all=fitted_all)


def _explains(network: Network, X: Array, Y: Array) -> bool:
    left = np.linalg.norm(network(X) - Y)
    return bool(network.units and left <= FINISHED * np.linalg.norm(Y - Y.mean(axis=0)))


def _networks(
    context: Context, X: Array, Y: Array, refuted: Refuted
) -> Iterator[tuple[Network, str]]:
    """Networks that explain the samples, one a reading at most, the simplest first."""
    X, Y = distinct_samples(X, Y)
    found, reason = 0, NoAnswer()
    for reading in _readings(X, Y, plain=context.faithful):
        try:
            if reading.key in refuted:
                raise refuted[reading.key]
            network, evidence = _solved(context, reading)
        except NoAnswer as why:
            reason = why
            if isinstance(why, NoPatternServes):
                refuted[reading.key] = why
            if context.out_of_time:
                break
            continue
        if _explains(network, X, Y):
            found += 1
            yield network, evidence
    if not found:
        raise reason


def _readings(X: Array, Y: Array, *, plain: bool) -> Iterator[Reading]:
    """Without biases, with an output bias that samples share, with biases, with both."""
    nothing = np.zeros(Y.shape[1])
    yield Reading(X, Y, nothing)
    if plain:
        return
    c, wide = shared_label(Y), with_constant(X)
    if c.any():
        yield Reading(X, Y - c, c)
    yield Reading(wide, Y, nothing, biases=True)
    if c.any():
        yield Reading(wide, Y - c, c, biases=True)
    yield Reading(wide, Y, nothing, biases=True, constant=True)


def _solved(context: Context, reading: Reading) -> tuple[Network, str]:
    """Lemma 1 and Algorithm 2 on one reading of the samples."""
    X, Y = _with_inputs(reading)
    spans = spans_of(X, with_constant(Y) if reading.constant else Y)
    rank = spans.V.shape[1] - reading.constant
    _check_units(context.units, rank, Y.shape[1])
    found = constant_unit(spans) if reading.constant else FoundUnits.nothing(spans)
    patterns = _lemma_1(context, spans.V)
    evidence = _evidence(rank, len(patterns))
    if context.faithful:
        values = _printed_algorithm_2(context, spans, patterns)
        return reading.network(*printed_weights(X, Y, values)), evidence
    found = _algorithm_2(context, spans, patterns, found, reading.units)
    evidence += _how_sure(found, X)
    return reading.network(*weights_of(X, Y, spans, found)), evidence


def _with_inputs(reading: Reading) -> tuple[Array, Array]:
    """Without the samples x = 0, where a network without biases is zero whatever its weights."""
    empty = ~reading.X.any(axis=1)
    if reading.Y[empty].any():
        raise NoAnswer(
            "A sample with x = 0 has a label other than 0, so the network has biases or an output "
            "bias: leave out faithful=True."
        )
    return reading.X[~empty], reading.Y[~empty]


def _check_units(units: int | None, rank: int, outputs: int) -> None:
    """Whether the labels have as many dimensions as units, and no more than can be enumerated."""
    if rank == 0:
        raise NoAnswer("No sample to fit has a label other than 0: take more samples.")
    if units is not None and outputs < units:
        raise NoAnswer(
            f"{outputs} outputs are fewer than the {units} units asked for: use "
            'method="rank-deficient" (Gaussian inputs) or method="expand-prune".'
        )
    if units is not None and rank < units:
        raise NoAnswer(
            f"The labels have rank {rank}, fewer than the {units} units asked for (dependent "
            "output weights, a unit that no sample activates, or too few samples): use "
            'method="rank-deficient" (Gaussian inputs) or method="expand-prune".'
        )
    if units is not None and rank > units:
        raise NoAnswer(
            f"The labels have rank {rank}, more than the {units} units asked for: there are more "
            'units, an output bias (leave out faithful=True, or use method="lifting") or noise '
            '(use method="rectified").'
        )
    if rank > MOST_ENUMERATED_UNITS:
        raise NoAnswer(
            f"The labels have rank {rank}, and the sign patterns of at most "
            f'{MOST_ENUMERATED_UNITS} units are enumerated: use method="lifting", or '
            'method="rectified" if the rank comes from noise.'
        )


def _lemma_1(context: Context, V: Array) -> AnyArray:
    """All sign patterns of the labels' span that some vector of it can have as its support."""
    D, member = distinct_directions(V)
    total, done = vertex_count(*D.shape), 0
    cost = (
        f"{total} vertices of {len(D)} distinct labels to look at, at most "
        f"{most_patterns(*D.shape)} patterns, a linear program for each that passes the rank tests"
    )
    with context.stage("patterns", cost):
        packed: list[AnyArray] = []
        for done, block in pattern_blocks(D):
            packed.append(block)
            context.progress("patterns", done / total, cost)
            if context.out_of_time:
                raise _out_of_time(f"{done} of {total} vertices were looked at for sign patterns")
        patterns = unpack(np.concatenate(packed), member)
        kept = supports(V, patterns)
        context.progress(
            "patterns", 1.0, f"{len(patterns)} patterns, {len(kept)} of them pass the rank test"
        )
    return kept


def _algorithm_2(
    context: Context, spans: Spans, patterns: AnyArray, found: FoundUnits, kind: str
) -> FoundUnits:
    """Step 1: run through the patterns until there are as many independent units as dimensions."""
    units, programs, known = spans.V.shape[1], Programs(), len(found)
    with context.stage("programs", f"{len(patterns)} patterns to try"):
        for tried, on in enumerate(patterns):
            _tell(context, tried, patterns, programs, len(found), units)
            found = independent_units(spans, on, found, programs)
            if len(found) == units:
                return found
    raise NoPatternServes(
        f"{_only(patterns, programs, len(found) - known, units - known, kind)}: they have noise "
        '(use method="rectified"), or come from more units than outputs, from units whose output '
        'weights are dependent, or from others than ReLU (use method="expand-prune").'
    )


def _printed_algorithm_2(context: Context, spans: Spans, patterns: AnyArray) -> Array:
    """Steps 1 and 2 as they are printed: for every unit all patterns from the first on."""
    units, programs, Y = spans.V.shape[1], Programs(), np.empty((0, len(spans.size)))
    with context.stage("programs", f"{len(patterns)} patterns to try for each of {units} units"):
        while len(Y) < units:
            for tried, on in enumerate(patterns):
                _tell(context, tried, patterns, programs, len(Y), units)
                y = algorithm_1(spans, on, Y, programs)
                if y is not None:
                    Y = np.vstack([Y, y])
                    break
            else:
                raise NoPatternServes(
                    f"{_only(patterns, programs, len(Y), units, 'units without biases')}: they "
                    "come from a network with biases or an output bias (leave out faithful=True), "
                    'with more units than outputs (use method="expand-prune"), or have noise (use '
                    'method="rectified").'
                )
    return Y


def _tell(
    context: Context, tried: int, patterns: AnyArray, programs: Programs, found: int, units: int
) -> None:
    """How far it got, and whether there is time for more."""
    if context.out_of_time:
        raise _out_of_time(
            f"{tried} of {len(patterns)} patterns were tried and {found} of {units} units found"
        )
    share = (found + tried / len(patterns)) / units if context.faithful else tried / len(patterns)
    context.progress("programs", share, f"{programs.run} programs, {found} of {units} units")


def _only(patterns: AnyArray, programs: Programs, found: int, rank: int, kind: str) -> str:
    unclear = f", {programs.undecided} undecided" if programs.undecided else ""
    return (
        f"Of {len(patterns)} sign patterns ({programs.run} linear programs{unclear}) only {found} "
        f"independent ones belong to {kind}, and the labels have rank {rank}"
    )


def _out_of_time(reached: str) -> NoAnswer:
    return NoAnswer(f"The budget was used up when {reached}: give more time with budget=.")


def _evidence(rank: int, patterns: int) -> str:
    return (
        f"The labels have rank {rank}; of {patterns} sign patterns tried in turn the first {rank} "
        "independent ones gave the units."
    )


def _how_sure(found: FoundUnits, X: Array) -> str:
    text = f" The least active one is on in {min(found.active)} of {len(X)} samples."
    if any(found.free):
        text += f" The samples leave {sum(found.free)} directions of their weights open."
    return text
