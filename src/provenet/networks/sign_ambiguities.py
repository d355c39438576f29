"""Which units may be flipped, `(w, b) -> (-w, -b)`, so that the function stays the same?

ATV21, Theorem 3.4 and Claim 4.8. For activations with `sigma(z) - sigma(-z) = s z` (ReLU: s = 1,
leaky ReLU: 1 + slope) flipping the units of a set F changes the function by

    s sum_{i in F} a_i (w_i.x + b_i),

so it changes nothing but the output bias if and only if `sum_{i in F} a_i w_i = 0` (for several
outputs the sum of the matrices `A_i w_i^T`). If no two units are parallel, no other network of as
many units has the same function (Theorem 3.4), and every such F is a union of disjoint minimal
ones, which are what `flip_sets` looks for. With independent `a_i w_i` there is none; an even
activation has no signs.

The search: indicator vectors x in {0, 1}^m with `V x = 0`, the columns of V the `a_i w_i`.

- *Null space*: x is fixed by as many of its entries as the null space has dimensions k: all 2^k
  choices, for k up to 20. (12 units of 8 features: k = 4.)
- *Meet in the middle* (`subset_sums`), where that is faster and for up to 40 units.
- *Mixed-integer program* (HiGHS) for the rest: the smallest set that contains none found before,
  until there is none, or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr
from scipy.optimize import Bounds, LinearConstraint, milp

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation
from provenet.networks.canonical import parameter_error
from provenet.networks.network import Network
from provenet.networks.signs import unit_terms
from provenet.networks.subset_sums import subsets_with_sum
from provenet.networks.tolerances import (
    BIT_BLOCK,
    EPS,
    FLIP_BUDGET,
    FLIP_TOLERANCE,
    LARGEST_COEFFICIENT,
    LINEAR_ODD_PART,
    MOST_CANDIDATES,
    MOST_FREE,
    MOST_VECTORS,
    NEAR_BINARY,
    NULL_SLACK,
    SAME_NETWORK,
    SOLVER_BINARY,
    SOLVER_TOLERANCE,
    TINY,
)

_INFEASIBLE, _OPTIMAL = 2, 0
"""Derived: statuses of `scipy.optimize.milp`."""


@dataclass(frozen=True)
class FlipSets:
    """Minimal sets of units (indices) whose joint flip changes nothing but the output bias."""

    sets: tuple[tuple[int, ...], ...]
    """By size. Disjoint ones may be flipped together."""
    complete: bool
    """Whether there are no others."""


def flip_sets(
    network: Network, tolerance: float = FLIP_TOLERANCE, budget: float = FLIP_BUDGET
) -> FlipSets:
    """All inclusion-minimal sets of units that may be flipped together.

    Parameters
    ----------
    network
        With one output or several. Units without effect (`a_i w_i = 0`) are in no set, and sets
        whose flip only exchanges units are left out.
    tolerance
        A sum counts as zero up to this fraction of `sum_i |a_i w_i|`.
    budget
        Seconds for the mixed-integer search, where units are too many for an exact one.
    """
    if not tolerance >= 0 or not budget > 0:
        raise InvalidInput(
            f"The tolerance must be at least 0 and the budget positive, not {tolerance}, {budget}."
        )
    network = network.as_one_layer("flip_sets")
    slope = odd_slope(network.activation)
    V = unit_terms(network.output_weights, network.weights)
    size = np.linalg.norm(V, axis=0)
    members = np.flatnonzero(size > tolerance * size.sum())
    if not slope or len(members) == 0:
        return FlipSets((), True)
    found, complete = _minimal_sets(V[:, members], tolerance * float(size.sum()), budget)
    sets = (tuple(int(i) for i in members[x]) for x in found)
    plain = network.replace(linear=None)  # beside a linear term every sign is the same function
    others = (
        units for units in sets if parameter_error(flipped(plain, units), plain) > SAME_NETWORK
    )
    return FlipSets(tuple(sorted(others, key=lambda units: (len(units), units))), complete)


def flipped(network: Network, units: Iterable[int]) -> Network:
    """The network with some units flipped; of the change only the constant is made good."""
    slope = odd_slope(network.activation)
    if slope is None:
        raise InvalidInput(
            f"Units of {network.activation.name!r} cannot be flipped: sigma(z) - sigma(-z) is not "
            "linear."
        )
    chosen = list(units)
    signs = np.ones(network.units)
    signs[chosen] = -1.0
    constant = slope * network.output_weights[..., chosen] @ network.biases[chosen]
    return network.replace(
        weights=network.weights * signs[:, None],
        biases=network.biases * signs,
        output_bias=network.output_bias + constant,
    )


def odd_slope(activation: Activation) -> float | None:
    """The s of `sigma(z) - sigma(-z) = s z`, or None if that is not linear."""
    z = np.array([1.0, 0.1, 0.3, 0.7, 1.9, 3.3])
    ratio = (activation(z) - activation(-z)) / z
    linear = np.allclose(ratio, ratio[0], rtol=0, atol=LINEAR_ODD_PART * (1 + np.abs(ratio[0])))
    return float(ratio[0]) if linear else None


def _minimal_sets(V: Array, allowed: float, budget: float) -> tuple[AnyArray, bool]:
    """Minimal indicator vectors (rows) with `|V x| <= allowed`, and whether these are all."""
    # All right vectors are needed, the left ones never: of a tall V they would fill memory.
    _, s, rows = np.linalg.svd(V, full_matrices=V.shape[0] < V.shape[1])
    rank = int(np.sum(s > NULL_SLACK * max(allowed, EPS * s[0])))
    null = rows[rank:].T
    reduced = s[:, None] * rows[: len(s)]  # the same norms |V x|, in as few rows as there can be
    m, k = null.shape
    if m < 2 * k and m <= MOST_VECTORS:
        cancelling = subsets_with_sum(reduced.T, np.zeros(len(reduced)), allowed, MOST_CANDIDATES)
        if cancelling.complete:
            return _minimal(_vanishing(reduced, cancelling.masks, allowed)), True
    if k <= MOST_FREE:
        candidates, sure = _from_null_space(null, reduced, allowed)
        return _minimal(candidates), sure
    return _by_programs(reduced, allowed, budget)


def _vanishing(V: Array, X: AnyArray, allowed: float) -> AnyArray:
    """The rows of X, not zero, with `|V x| <= allowed`."""
    small = np.linalg.norm(X @ V.T, axis=1) <= allowed
    return np.asarray(X[small & X.any(axis=1)])


def _from_null_space(null: Array, V: Array, allowed: float) -> tuple[AnyArray, bool]:
    """Try all values of k entries that fix a vector of the null space (m, k); round the others.

    A solution is within `1 / NULL_SLACK` of the null space. Rounding takes care of that for sure if
    the matrix that gives the other entries does not make it larger than `NEAR_BINARY`.
    """
    m, k = null.shape
    if k == 0:
        return np.zeros((0, m), dtype=bool), True
    free = qr(null.T, mode="r", pivoting=True)[1][:k]
    others = np.linalg.solve(null[free].T, null.T)
    blocks = []
    for Z in _bit_blocks(k):
        X = Z @ others
        near = np.abs(X - np.round(X)).max(axis=1) < NEAR_BINARY
        X = np.round(X[near])
        binary = np.all((X == 0) | (X == 1), axis=1)
        blocks.append(_vanishing(V, X[binary].astype(bool), allowed))
    sure = (1 + np.linalg.norm(others, 2)) / NULL_SLACK < NEAR_BINARY
    return np.concatenate(blocks), bool(sure)


def _bit_blocks(k: int) -> Iterator[Array]:
    """All 0/1 vectors of length k, in blocks of rows."""
    for start in range(0, 1 << k, BIT_BLOCK):
        yield _bits(np.arange(start, min(start + BIT_BLOCK, 1 << k)), k).astype(float)


def _bits(numbers: AnyArray, k: int) -> AnyArray:
    return np.asarray((numbers[:, None] >> np.arange(k)) & 1, dtype=bool)


def _minimal(X: AnyArray) -> AnyArray:
    """The rows that contain no other."""
    X = X[np.argsort(X.sum(axis=1), kind="stable")]
    kept = []
    while len(X):
        kept.append(X[0])
        X = X[~X[:, X[0]].all(axis=1)]
    return np.array(kept, dtype=bool).reshape(len(kept), X.shape[1])


def _by_programs(V: Array, allowed: float, budget: float) -> tuple[AnyArray, bool]:
    """The smallest set that is left, again and again, each time without the sets found before."""
    deadline = time.monotonic() + budget
    m = V.shape[1]
    # Scaled so that the tolerance is what the solver keeps, as far as the numbers stay moderate.
    scale = min(SOLVER_TOLERANCE / max(allowed, TINY), LARGEST_COEFFICIENT / np.abs(V).max())
    vanish = LinearConstraint(scale * V, -scale * allowed, scale * allowed)
    cuts = [LinearConstraint(np.ones(m), 1, np.inf)]
    found: list[AnyArray] = []
    while (left := deadline - time.monotonic()) > 0:
        answer = milp(
            np.ones(m),
            integrality=np.ones(m),
            bounds=Bounds(0, 1),
            constraints=[vanish, *cuts],
            options={"time_limit": left},
        )
        if answer.status == _INFEASIBLE:
            return _minimal(np.array(found, dtype=bool).reshape(-1, m)), True
        if answer.status != _OPTIMAL:
            break
        x = answer.x > SOLVER_BINARY
        real = len(_vanishing(V, x[None], allowed)) > 0
        found += [x] if real else []
        cuts.append(_without_supersets(x) if real else _other_than(x))
    return _minimal(np.array(found, dtype=bool).reshape(-1, m)), False


def _without_supersets(x: AnyArray) -> LinearConstraint:
    return LinearConstraint(x.astype(float), -np.inf, x.sum() - 1)


def _other_than(x: AnyArray) -> LinearConstraint:
    """Within the solver's tolerance of a solution and yet none: only this vector is left out."""
    return LinearConstraint(np.where(x, -1.0, 1.0), 1 - x.sum(), np.inf)
