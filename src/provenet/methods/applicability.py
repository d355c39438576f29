"""Which methods can recover a given network, judged by its weights.

What the registry states as flags is read from there; what it only says in words (`needs`) is here,
as conditions. Inputs and noise are not judged: they are no property of the network. Where the
number of samples is told, methods are left out that need more: those that read moments, as many as
show the last unit (`identifiability.samples_until_seen`), some of them several times as many; those
that search or solve, by their unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.methods import METHODS, Method
from provenet.methods.lifting import count_unknowns
from provenet.methods.tolerances import (
    ALONE,
    ANY_NOISE,
    CLASSES_A_PARAMETER,
    DEPENDENT,
    DRAWN_INPUTS,
    ENUMERATED,
    FEW_OUTPUTS,
    MOST_ENUMERATED_SAMPLES,
    ON_EITHER_SIDE,
    ORTHONORMAL,
    ROWS_AN_UNKNOWN,
    SEARCHED,
    THIN_BANDS,
    WELL_ABOVE,
    ZERO_WEIGHT,
)
from provenet.networks.network import Network

Condition = Callable[[Network], str]
"""What a network lacks, in words; empty if nothing."""


@dataclass(frozen=True)
class MethodVerdict:
    """Whether a method serves a network, and why not."""

    name: str
    applies: bool
    reason: str
    """Empty if it applies."""


def judge_methods(
    network: Network, samples: int | None = None, until_seen: float = 0.0
) -> tuple[MethodVerdict, ...]:
    """A verdict on each of `provenet.METHODS`; every unit must have an effect.

    `until_seen` is the number of samples from which moments show all units.
    """
    canonical = network.canonical()
    verdicts = []
    for method in METHODS.values():
        reason = next(_lacking(method, canonical), "")
        if not reason and samples is not None:
            reason = _too_few(method, canonical, samples, until_seen)
        verdicts.append(MethodVerdict(method.name, not reason, reason))
    return tuple(verdicts)


def _too_few(method: Method, network: Network, samples: int, until_seen: float) -> str:
    """What is wrong with so many samples for the method, if anything."""
    if method.name == "arbitrary-inputs" and samples > MOST_ENUMERATED_SAMPLES:
        return f"takes at most {MOST_ENUMERATED_SAMPLES} samples"
    needed = _samples_for(method.name, network, until_seen)
    if samples >= needed:
        return ""
    number = f"about {math.ceil(needed):,}" if math.isfinite(needed) else "no number of"
    return f"needs {number} samples, and there are {samples:,}"


def _samples_for(name: str, network: Network, until_seen: float) -> float:
    """How many samples a method needs for this network."""
    a_label = network.free_parameters / (network.outputs or 1)
    if name in _BY_SEARCH:
        return max(SEARCHED * a_label, ON_EITHER_SIDE * (network.features + 1))
    if name == "likelihood":
        return CLASSES_A_PARAMETER * network.free_parameters
    if name == "arbitrary-inputs":
        return ENUMERATED * network.free_parameters
    if name == "lifting":
        relu = network.activation.family == "relu"
        return ROWS_AN_UNKNOWN * count_unknowns(network.units, network.features, relu)
    if name == "rank-deficient":
        return ALONE * (network.features + 1) / _least_share_alone(network)
    few_outputs = 1 < (network.outputs or 1) < network.units
    return until_seen * _TIMES_UNTIL_SEEN.get(name, FEW_OUTPUTS if few_outputs else 1.0)


def _least_share_alone(network: Network) -> float:
    """Of standard normal inputs, the share on which the unit is on, and no other, that is rarest.

    Estimated by a draw, and at least what one more input would be.
    """
    X = np.random.default_rng(0).standard_normal((DRAWN_INPUTS, network.features))
    on = X @ network.weights.T + network.biases > 0
    alone = on & (on.sum(axis=1, keepdims=True) == 1)
    return float(max(alone.sum(axis=0).min(), 1) / DRAWN_INPUTS)


def normalised_rows(M: Array) -> Array:
    """Rows of norm 1; a row of zeros stays."""
    norm = np.linalg.norm(M, axis=1, keepdims=True)
    return np.asarray(M / np.where(norm == 0, 1.0, norm))


def smallest_singular_value(M: Array) -> float:
    """Of the rows as vectors: 0 if there are more of them than columns."""
    if len(M) > M.shape[1]:
        return 0.0
    return float(np.linalg.svd(M, compute_uv=False)[-1])


def _lacking(method: Method, network: Network) -> Iterator[str]:
    """What the network lacks for the method, if anything."""
    outputs = network.outputs or 1
    if method.deep:
        yield "serves several hidden layers, and there is one"
    if not method.serves(network.activation):
        yield f"serves {', '.join(method.activations)} units"
    if method.one_output and outputs > 1:
        yield f"needs one output, and there are {outputs}"
    if outputs < method.fewest_outputs:
        yield f"needs at least {method.fewest_outputs} outputs, and there is {outputs}"
    if method.independent_units:
        yield from filter(None, [_independent(network.weights, "weights", "features")])
    if method.independent_outputs:
        A = np.atleast_2d(network.output_weights).T
        yield from filter(None, [_independent(A, "output weights", "outputs")])
    conditions = _CONDITIONS.get(method.name, ())
    yield from filter(None, (condition(network) for condition in conditions))


def _independent(rows: Array, what: str, space: str) -> str:
    units, dimensions = rows.shape
    if units > dimensions:
        return f"needs independent {what}, and there are {units} units and {dimensions} {space}"
    least = smallest_singular_value(normalised_rows(rows))
    return f"needs independent {what}, and theirs are dependent" if least <= DEPENDENT else ""


def _zero_biases(network: Network) -> str:
    worst = float(np.abs(network.biases).max())
    return f"needs biases 0, and the largest is {worst:.3g}" if worst > ZERO_WEIGHT else ""


def _positive_outputs(network: Network) -> str:
    negative = int(np.sum(network.output_weights <= 0))
    return f"needs positive output weights, and {negative} are not" if negative else ""


def _orthonormal(network: Network) -> str:
    gram = network.weights @ network.weights.T
    far = np.abs(gram - np.diag(np.diag(gram))).max() > ORTHONORMAL * np.abs(gram).max()
    return "needs orthogonal weights" if far else ""


def _no_parallel_outputs(network: Network) -> str:
    if (network.outputs or 1) == 1:
        return ""
    return _no_parallel(np.atleast_2d(network.output_weights).T, "output weights")


def _no_parallel_units(network: Network) -> str:
    return _no_parallel(network.weights, "units")


def _no_parallel(rows: Array, what: str) -> str:
    U = normalised_rows(rows)
    # The distance, not the cosine: that of nearly parallel vectors is 1 up to rounding.
    for i, u in enumerate(U[:-1]):
        later = U[i + 1 :]
        apart = np.minimum(np.linalg.norm(later - u, axis=1), np.linalg.norm(later + u, axis=1))
        if apart.min() <= DEPENDENT:
            return f"needs {what} of which no two are parallel"
    return ""


def _high_thresholds(network: Network) -> str:
    low = float((-network.biases / np.linalg.norm(network.weights, axis=1)).min())
    return f"needs thresholds well above 1, and the lowest is {low:.3g}" if low <= 1 else ""


def _binary(network: Network) -> str:
    W = np.abs(network.weights)
    scale = W.max()
    far = np.minimum(W, np.abs(network.weights - scale)) > ORTHONORMAL * scale
    return "needs 0/1 weights, up to one factor" if far.any() else ""


def _disjoint(network: Network) -> str:
    shared = np.count_nonzero(np.abs(network.weights) > ZERO_WEIGHT, axis=0) > 1
    return "needs units of different features" if shared.any() else ""


def _two_labels(network: Network) -> str:
    return "needs labels of two values: a single unit" if network.units > 1 else ""


def _most_units(most: int) -> Condition:
    return lambda network: (
        f"needs at most {most} units, and there are {network.units}" if network.units > most else ""
    )


def _most_features(most: int) -> Condition:
    return lambda network: (
        f"needs at most {most} features, and there are {network.features}"
        if network.features > most
        else ""
    )


def _outputs_as_units(network: Network) -> str:
    return _independent(np.atleast_2d(network.output_weights).T, "output weights", "outputs")


def _many_outputs(network: Network) -> str:
    outputs = network.outputs or 1
    enough = outputs >= WELL_ABOVE * network.units
    return "" if enough else f"needs outputs well above units, and there are {outputs}"


def _classes(network: Network) -> str:
    return "serves class labels: a network with a link" if network.link == "identity" else ""


def _several_outputs(network: Network) -> str:
    return "needs two or more outputs" if (network.outputs or 1) == 1 else ""


_BY_SEARCH = ("auto", "expand-prune", "overcomplete")
_TIMES_UNTIL_SEEN = {"gradient-search": THIN_BANDS, "arbitrary-noise": ANY_NOISE}

_CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "likelihood": (_classes,),
    "rectified": (_no_parallel_outputs,),
    "sparse-noise": (_many_outputs,),
    "ica": (_orthonormal,),
    "symmetric-inputs": (_zero_biases,),
    "rank-deficient": (_no_parallel_outputs,),
    "arbitrary-noise": (_several_outputs,),
    "arbitrary-inputs": (_most_units(3), _outputs_as_units),
    "landscape": (_zero_biases, _positive_outputs),
    "overcomplete": (_no_parallel_units,),
    "lowest-layer": (_high_thresholds,),
    "halfspaces": (_two_labels,),
    "gradient-search": (_most_features(4),),
    "even": (_zero_biases, _orthonormal),
    "binary-cliques": (_binary,),
    "exponential": (_binary, _disjoint),
}
