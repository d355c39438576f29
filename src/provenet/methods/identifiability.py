"""What of a network its samples can tell: the papers' conditions, and how strongly they hold.

With rows w_i of W of norm 1 and output weights a_i (ATV21; its W has units as columns):

- *Independent weights*, `s_min(W) > 0` (Theorem 3.1): moments of order 2 to 4 give everything.
- *Order l*: the smallest one for which the powers `w_i^(x)l` are independent (Theorem 3.2): moments
  up to 2l + 2 give all units up to signs. Their Gram matrix has the entries `<w_i, w_j>^l`, so
  `s_min^2` is its least eigenvalue, known to half of the digits, and no tensor is built. The order
  has room for `binomial(d + l - 1, l)` units, at order 1 for as many as features.
- *Perturbed weights* (Corollary 3.3): whatever the weights, once normal numbers of variance
  `tau^2 / d` are added to them, order l serves up to 0.99 of that room, and s_min of the powers is,
  but for a small chance, at least in proportion to `tau^l`: so it is where all units had one
  direction; where only two were nearly parallel it grows as tau.
- *Parallel units*: with none, all parameters are determined up to signs (Theorem 3.4), but moments
  tell nearly parallel units apart with difficulty. Parallel ReLU units with kinks of their own are
  determined too: of any two functions with the same kinks the difference is linear.
- *Signs* (Theorem 3.4, Claim 4.8): `networks.signs`.
- *The group G* of units whose bias is small enough (section 5). In the moment of order k a unit has
  the coefficient `a_i c_k(b_i)`, which falls as `exp(-b_i^2 / 2)`. Along the unit, in
  `T_k(w_i, .., w_i, .)`, the error of a mean over n samples has the size
  `s_k sqrt((k - 1)! (k + d - 1) / n)`: s_k is the standard deviation of what the orders below k do
  not explain, and the root is the size of a Hermite tensor so contracted (`k!` along w_i,
  `(k - 1)!` in each direction across). A unit is seen at order k when its coefficient is `MARGIN`
  times that error. Moments resolve it if it is seen at order 2, which gives the span, and with one
  output at order 3 or 4, which are decomposed; for l > 1, at order 2l + 1 or 2l + 2. Neither label
  noise nor a small s_min is counted. Least squares sees far more: for "expand-prune" it is enough
  that samples lie on both sides of a kink.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.methods.applicability import (
    MethodVerdict,
    judge_methods,
    normalised_rows,
    smallest_singular_value,
)
from provenet.methods.tolerances import (
    DEPENDENT,
    LISTED,
    MARGIN,
    MOST_POWERS,
    NEARLY_PARALLEL,
    SAME_KINK,
    SERIES,
    SMOOTHED_ROOM,
)
from provenet.moments.symmetric import count
from provenet.networks.network import Network
from provenet.networks.risk import order_part, second_moment
from provenet.networks.signs import FlipSets, flip_sets, odd_slope

_VERDICTS = {
    True: "the function determines all parameters",
    False: "different parameters give the same function",
    None: "whether the function determines all parameters is not decided",
}


@dataclass(frozen=True)
class ParallelUnits:
    """Two units (indices) with nearly the same direction, or opposite ones."""

    first: int
    second: int
    cosine: float
    kink_distance: float
    """Of their kinks `w.x + b = 0` along the common direction."""
    same_kink: bool
    """Whether the function has one kink for both, so that it shows only their sum there."""


@dataclass(frozen=True)
class Identifiability:
    """Which conditions a network meets; units are indices into its own order."""

    features: int
    units: int
    outputs: int
    activation: str
    inert: tuple[int, ...]
    """Units without weights or output weights; the rest is about the others."""
    linear_term: bool
    piecewise_linear: bool
    """Whether the units are: what the function determines is known for these only."""
    signs_matter: bool
    """Whether a flip `(w, b) -> (-w, -b)` changes a unit by a linear function, and not by zero."""
    smallest_singular_value: float
    condition: float
    order: int | None
    """The smallest l whose powers are independent; None: none (up to 50, or units - 1)."""
    power_singular_values: tuple[float, ...]
    """s_min of the powers 1, 2, ..., up to that order."""
    perturbed_order: int | None
    """The l that Corollary 3.3 promises once weights are perturbed; None with a single feature."""
    parallel: tuple[ParallelUnits, ...]
    """Pairs with a cosine above 0.99 in size, the nearest first."""
    flips: FlipSets
    samples: int | None
    samples_needed: tuple[float, ...]
    """For each unit, until moments resolve it; infinite for an inert one."""
    resolved: tuple[int, ...]
    """G: the units that moments resolve from so many samples (None: from any number)."""
    methods: tuple[MethodVerdict, ...]
    largest_cosine: float | None = None
    """In size, of any pair of units; None where there is none."""

    @property
    def identifiable(self) -> bool | None:
        """Whether the function determines all parameters (None: not decided).

        The scale of a unit and, for an even activation, its sign are conventions.
        """
        same = [pair for pair in self.parallel if pair.same_kink]
        doubled = any(pair.cosine > 0 for pair in same)
        if self.inert or doubled or self.flips.sets or (self.linear_term and self.signs_matter):
            return False
        return True if self.piecewise_linear and self.flips.complete and not same else None

    def lines(self) -> Iterator[tuple[str, str]]:
        """The report as pairs of a heading and a sentence; units are counted from 1."""
        yield "network", self._sizes()
        yield "verdict", _VERDICTS[self.identifiable]
        if self.inert:
            yield "without effect", _units(self.inert)
        yield "weights", self._weights()
        yield "order", self._order()
        yield "if perturbed", self._perturbed()
        yield "parallel", self._parallel()
        yield "signs", self._signs()
        yield "biases", self._biases()
        yield "methods", ", ".join(v.name for v in self.methods if v.applies) or "none"
        for verdict in self.methods:
            if not verdict.applies:
                yield "", f"not {verdict.name}: {verdict.reason}"

    def __str__(self) -> str:
        """A line for each condition."""
        return "\n".join(f"{heading:<16}{text}".rstrip() for heading, text in self.lines())

    def _sizes(self) -> str:
        outputs = "one output" if self.outputs == 1 else f"{self.outputs} outputs"
        linear = ", a linear term" if self.linear_term else ""
        units = counted(self.units, f"{self.activation} unit")
        return f"{counted(self.features, 'feature')}, {units}, {outputs}{linear}"

    def _weights(self) -> str:
        least = self.smallest_singular_value
        if least <= DEPENDENT:
            return f"dependent (s_min(W) = {least:.2g} for rows of norm 1)"
        return f"independent: s_min(W) = {least:.3g}, condition number {self.condition:.3g}"

    def _order(self) -> str:
        values = ", ".join(f"{value:.2g}" for value in self.power_singular_values[-LISTED:])
        if self.order is None:
            return f"none up to {len(self.power_singular_values)} has independent powers"
        return f"l = {self.order}, moments up to {2 * self.order + 2}; s_min of the powers {values}"

    def _perturbed(self) -> str:
        if self.perturbed_order is None:
            return "no order: units of one feature are parallel"
        return (
            f"l = {self.perturbed_order} serves any weights: s_min of the powers is at least in "
            f"proportion to tau^{self.perturbed_order}"
        )

    def _parallel(self) -> str:
        if not self.parallel:
            if self.largest_cosine is None:
                return "no two units"
            return f"no two units (the largest cosine is {self.largest_cosine:.2g} in size)"
        pairs = [
            f"{p.first + 1} and {p.second + 1} (cosine {p.cosine:.6g}, "
            + ("the same kink)" if p.same_kink else f"kinks {p.kink_distance:.2g} apart)")
            for p in self.parallel
        ]
        return _some(pairs)

    def _signs(self) -> str:
        search = "" if self.flips.complete else "; the search ended before it was complete"
        if not self.signs_matter:
            return (
                "a convention: the activation is even"
                if self.piecewise_linear
                else "not judged: a flip does not change these units by a linear function"
            )
        if self.linear_term:
            return "undetermined: the linear term makes good every flip"
        if not self.flips.sets:
            return f"{'determined' if self.flips.complete else 'no ambiguity found'}{search}"
        sets = [_units(units) for units in self.flips.sets]
        return f"undetermined: may be flipped together {_some(sets, '; or ')}{search}"

    def _biases(self) -> str:
        active = [i for i in range(self.units) if i not in self.inert]
        worst = max(active, key=lambda i: self.samples_needed[i])
        most = f"unit {worst + 1} the last, at {_count(self.samples_needed[worst])} samples"
        if self.samples is None:
            return f"moments resolve all units; {most}"
        hidden = [
            f"{i + 1} (from {_count(self.samples_needed[i])})"
            for i in active
            if i not in self.resolved
        ]
        if not hidden:
            return f"moments of {self.samples:,} samples resolve all units; {most}"
        count = f"{len(self.resolved)} of {len(active)} units"
        return f"moments of {self.samples:,} samples resolve {count}; not {_some(hidden)}"


def identifiability(network: Network, samples: int | None = None) -> Identifiability:
    """Which of the papers' conditions hold for a network, and how strongly.

    Parameters
    ----------
    network
        With one output or several.
    samples
        How many standard normal inputs there will be; None: as many as it takes.
    """
    if samples is not None and not samples >= 1:
        raise InvalidInput(f"The number of samples must be at least 1, not {samples}.")
    network = network.as_one_layer("identifiability")
    A = np.atleast_2d(network.output_weights)
    active = np.flatnonzero(network.weights.any(axis=1) & A.any(axis=0))
    if len(active) == 0:
        raise InvalidInput("No unit of the network has an effect: there is nothing to identify.")
    live = network.keep(active)
    U = normalised_rows(live.weights)
    order, powers = independent_powers(U)
    needed = np.full(network.units, np.inf)
    needed[active] = samples_until_seen(live, order or 1)
    seen = needed[active] <= (np.inf if samples is None else samples)
    slope = odd_slope(network.activation)
    spectrum = np.linalg.svd(U, compute_uv=False)
    return Identifiability(
        features=network.features,
        units=network.units,
        outputs=network.outputs or 1,
        activation=network.activation.name,
        inert=tuple(int(i) for i in range(network.units) if i not in active),
        linear_term=network.linear is not None and bool(network.linear.any()),
        piecewise_linear=network.activation.slope is not None,
        signs_matter=bool(slope),
        smallest_singular_value=powers[0],
        condition=float(spectrum[0] / powers[0]) if powers[0] > 0 else math.inf,
        order=order,
        power_singular_values=powers,
        perturbed_order=perturbed_order(network.features, len(active)),
        parallel=tuple(_parallel_pairs(live, active)),
        flips=flip_sets(network),
        samples=samples,
        samples_needed=tuple(float(n) for n in needed),
        resolved=tuple(int(i) for i in active[seen]),
        methods=judge_methods(live, samples, float(needed[active].max())),
        largest_cosine=_largest_cosine(U),
    )


def _largest_cosine(U: Array) -> float | None:
    """In size, of two rows of norm 1."""
    if len(U) < 2:
        return None
    return float(np.abs(np.triu(U @ U.T, 1)).max())


def independent_powers(U: Array) -> tuple[int | None, tuple[float, ...]]:
    """The smallest l with independent `u_i^(x)l` (rows of norm 1), and s_min of 1, 2, ..., l.

    If no two are parallel, l = units - 1 is enough (ATV21, Fact 4.7).
    """
    gram = np.clip(U @ U.T, -1.0, 1.0)
    np.fill_diagonal(gram, 1.0)
    values = [smallest_singular_value(U)]
    most = min(max(len(U) - 1, 1), MOST_POWERS)
    while values[-1] <= DEPENDENT:
        if len(values) == most:
            return None, tuple(values)
        eigenvalue = float(np.linalg.eigvalsh(gram ** (len(values) + 1))[0])
        values.append(math.sqrt(max(eigenvalue, 0.0)))
    return len(values), tuple(values)


def perturbed_order(features: int, units: int) -> int | None:
    """The smallest l of which 0.99 of the room holds so many units (ATV21, Corollary 3.3)."""
    if features == 1:
        return None
    order = 1
    while units > int(SMOOTHED_ROOM * count(features, order)):
        order += 1
    return order


def samples_until_seen(network: Network, order: int = 1) -> Array:
    """For each unit the number of samples from which moments resolve it, as the module says."""
    groups = [_seen_from(network, ks) for ks in _deciding_orders(network.outputs or 1, order)]
    return np.asarray(np.max(groups, axis=0))


def _deciding_orders(outputs: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Of each group one order must show the unit."""
    if order > 1:
        return ((2 * order + 1, 2 * order + 2),)
    return ((2,),) if outputs > 1 else ((2,), (3, 4))


def _seen_from(network: Network, orders: Sequence[int]) -> Array:
    """The number of samples from which one of the orders shows each unit."""
    return np.asarray(np.min([_seen_at(network, k) for k in orders], axis=0))


def _seen_at(network: Network, k: int) -> Array:
    """`(MARGIN s_k / (|a_i| c_k(b_i)))^2 (k - 1)! (k + d - 1)` for each unit."""
    A = np.atleast_2d(network.output_weights)
    size = np.linalg.norm(A, axis=0)
    norm = np.linalg.norm(network.weights, axis=1)
    signal = size * np.abs(network.activation.hermite(k, network.biases, norm))
    # Of several outputs the combination that the unit has the largest part in.
    variance = np.einsum("om,op,pm->m", A / size, _covariance_from(network, k), A / size)
    spread = np.sqrt(np.maximum(variance, 0.0))
    with np.errstate(divide="ignore", over="ignore"):
        ratio = MARGIN * spread / signal
        return np.asarray(ratio**2 * math.factorial(k - 1) * (k + network.features - 1))


def _covariance_from(network: Network, k: int) -> Array:
    """The outputs' covariance without the orders below k."""
    whole = ((1.0, network.canonical()),)
    if network.activation.slope is None:
        return np.asarray(sum(order_part(whole, j) for j in range(k, SERIES + 1)))
    return np.asarray(second_moment(whole) - sum(order_part(whole, j) for j in range(k)))


def _parallel_pairs(network: Network, names: AnyArray) -> Iterator[ParallelUnits]:
    """The pairs of nearly parallel units, the nearest first."""
    norm = np.linalg.norm(network.weights, axis=1)
    U, h = network.weights / norm[:, None], network.biases / norm
    cosines = U @ U.T
    pairs = [
        (i, j) for i, j in combinations(range(len(U)), 2) if abs(cosines[i, j]) > NEARLY_PARALLEL
    ]
    for i, j in sorted(pairs, key=lambda pair: -abs(cosines[pair])):
        sign = float(np.sign(cosines[i, j]))
        between = float(abs(h[i] - sign * h[j]))
        apart = float(np.linalg.norm(U[i] - sign * U[j]))
        scale = SAME_KINK * (1 + abs(h[i]))
        same = network.activation.degree is not None and max(apart, between) <= scale
        cosine = float(np.clip(cosines[i, j], -1.0, 1.0))
        yield ParallelUnits(int(names[i]), int(names[j]), cosine, between, same)


def _units(units: Sequence[int]) -> str:
    return ("unit " if len(units) == 1 else "units ") + ", ".join(str(i + 1) for i in units)


def _some(items: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return separator.join(items[:LISTED]) + more


def _count(n: float) -> str:
    return f"{math.ceil(n):,}" if n < 1e7 else f"{n:.1e}" if math.isfinite(n) else "no number of"
