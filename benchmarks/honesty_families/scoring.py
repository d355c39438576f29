"""What an answer is worth by the truth, not by the judge's own numbers.

A success is *wrong* if

- it claims a network and the truth is one: other units than the samples show; called exact and a
  parameter is off by more than 1e-6; called within noise and a parameter is off by more than six
  of its stated standard errors. What `ambiguities` leave open is not compared: the output bias, or
  the signs (then the functions are).
- it claims a network and there is none, or values: predictions on fresh inputs are further off than
  it says. A region so small that the samples are likely to miss it all is let pass.
- it claims a layer: units are off by more than six stated errors, or there is no layer, and what
  was found does not predict fresh labels either.

It is *undecided* and not wrong if the samples cannot tell: the truth, fitted to them by least
squares from itself, scores worse by Schwarz's criterion than what was found; or there is no
network, and what was found predicts as well as it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import entr

import provenet as pn
from honesty_families.case import Case
from provenet.certify.certificate import rarer_side
from provenet.certify.deep import switching_sides
from provenet.common.typing import AnyArray, Array
from provenet.fitting.covariance import StandardErrors
from provenet.networks.canonical import align_in_place, unit_distances
from provenet.networks.layered import intersection, union
from trials import fitted_from

EXACT = 1e-6
"""An exact parameter or value may be off by so much, relatively."""
SIGMAS = 6.0
"""Stated standard errors by which a parameter may be off."""
NOMINAL = 1.96
"""Standard errors of an interval of 95%."""
FLOOR = 1e-9
"""What is never counted as off, relatively: rounding in ill-conditioned fits."""
SAME = 1e-12
"""Values this far off, relatively, are the same: of units that merge, or that do nothing."""
TIMES_NOISE = 2.0
"""Stated noise by which values may be off, root mean square."""
FAR_OFF = 6.0
"""Stated noise by which no value may be off, but for the few that samples are likely to miss."""
MISSED = 5.0
"""A region that has so many samples on average has none in one of 150 problems."""
MISSED_BY_ASKING = 0.01
"""Share of inputs that a model's extraction may get wrong: what it is to rule out."""
SCHWARZ = 0.5
"""Differences of the criterion below this are those of the same minimum."""
CLEARLY = 10.0
"""The same for errors stated of smooth units: these must span all minima that do about as well."""


@dataclass(frozen=True)
class Score:
    """What became of one problem."""

    wrong: str = ""
    """Why the success is wrong; empty if it is not, or is none."""
    undecided: str = ""
    """Why the samples cannot tell; empty if they can."""
    covered: int = 0
    intervals: int = 0
    """Nominal 95% intervals that were stated for true parameters, and how many hold these."""


def scored(case: Case, result: pn.Recovery) -> Score:
    """Compare what was said with what is true."""
    if not result.success or result.network is None:
        return Score()
    if result.claim is pn.Claim.LAYER:
        return _layer(case, result)
    if pn.DeepNetwork in (type(case.truth), type(result.network)):
        return _values(case, result) if case.truth is None else _deep(case, result)
    if result.claim is pn.Claim.PREDICTOR or not isinstance(case.truth, pn.Network):
        return _values(case, result)
    return _network(case, case.truth, result)


# ---------------------------------------------------------------- a network


def _network(case: Case, truth: pn.Network, result: pn.Recovery) -> Score:
    found = result.network
    assert found is not None
    if not _all_shown(case, truth) or _open(result, "signs?") or found.linear is not None:
        return _values(case, result)
    truth = in_units_of(truth, found.activation)
    if found.activation.family != truth.activation.family:
        fault = f"units of {found.activation.family}, not of {truth.activation.family}"
        if case.activation not in ("auto", "") and result.status is not pn.Status.EXACT:
            return Score(undecided=fault)  # as it was told
        return _unless_undecided(case, truth, found, fault)
    if found.units != truth.units:
        fault = f"{found.units} units, and there are {truth.units}"
        if found.units < truth.units and _same_values(case, found):
            return Score(undecided=fault)
        return _unless_undecided(case, truth, found, fault)
    pairs = compared(result, truth, Frame.of(case.fresh))
    if result.status is pn.Status.EXACT:
        worst = float(np.max(pairs.error / pairs.scale))
        return Score(f"exact, and off by {worst:.1e}" if not worst <= EXACT else "")
    beyond = pairs.error - FLOOR * pairs.scale
    worst = float(np.max(np.where(beyond > 0, beyond / np.maximum(pairs.stated, 1e-300), 0.0)))
    inside = pairs.error <= NOMINAL * pairs.stated + np.finfo(float).eps * pairs.scale
    score = Score()
    if worst > SIGMAS:
        fault = f"a parameter is off by {worst:.1f} stated standard errors"
        clear = SCHWARZ if found.activation.kinked else CLEARLY
        score = _unless_undecided(case, truth, found, fault, clear)
    return replace(score, covered=int(np.sum(inside)), intervals=len(inside))


def in_units_of(truth: pn.Network, activation: pn.Activation) -> pn.Network:
    """The same function in units of tanh instead of logistic ones, or the other way round.

    `sigmoid(z) = (1 + tanh(z / 2)) / 2`; any other network as it is.
    """
    names = truth.activation.family, activation.family
    if names not in (("sigmoid", "tanh"), ("tanh", "sigmoid")):
        return truth
    inner, outer = (0.5, 0.5) if names[0] == "sigmoid" else (2.0, 2.0)
    A = outer * truth.output_weights
    constant = A.sum(axis=-1) if names[0] == "sigmoid" else -A.sum(axis=-1) / 2
    return truth.replace(
        weights=inner * truth.weights,
        biases=inner * truth.biases,
        output_weights=A,
        output_bias=truth.output_bias + constant,
        activation=activation,
    )


def _same_values(case: Case, found: pn.Network) -> bool:
    """Whether smooth units have the true values at fresh inputs, to rounding: no samples tell."""
    if found.activation.kinked:
        return False
    return bool(np.all(relative_errors(case, found, case.fresh) <= SAME))


def _all_shown(case: Case, truth: pn.Network) -> bool:
    """Whether every unit is on at some input and off at another."""
    inputs = case.fresh if case.X is None else case.X
    return not truth.activation.kinked or bool(np.all(rarer_side(truth, inputs) > 0))


def _open(result: pn.Recovery, what: str) -> bool:
    """Whether these words are in what the result states to be open."""
    return any(re.search(rf"\b{what}\b", text, re.IGNORECASE) for text in result.ambiguities)


@dataclass(frozen=True)
class Pairs:
    """Every parameter of matched units: how far it is off, its size, its stated standard error."""

    error: Array
    scale: Array
    stated: Array


@dataclass(frozen=True)
class Frame:
    """Inputs moved to mean zero and spread one, and networks so that their values stay."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array) -> Frame:
        """That of some inputs; a feature that is constant keeps its scale."""
        spread = np.std(X, axis=0)
        return cls(np.mean(X, axis=0), np.where(spread > 0, spread, 1.0))

    def inputs(self, X: Array) -> Array:
        """Inputs as the moved networks take them."""
        return np.asarray((X - self.mean) / self.scale)

    def network(self, network: pn.Network) -> pn.Network:
        """The same function of moved inputs; rows of weights of norm 1."""
        biases = network.biases + network.weights @ self.mean
        return network.replace(weights=network.weights * self.scale, biases=biases).normalised()


def compared(result: pn.Recovery, truth: pn.Network, frame: Frame) -> Pairs:
    """All parameters, the output bias only if it is not stated to be open.

    Units are matched in the frame, where all their parameters count alike.
    """
    assert result.network is not None
    found, true = result.network.normalised(), truth.normalised()
    distances = unit_distances(frame.network(found), frame.network(true)).min(axis=0)
    rows, columns = linear_sum_assignment(distances)
    found = _turned_like(found, true, rows, columns)
    errors = result.standard_errors or StandardErrors.none(found)
    size = float(np.max(np.abs(true.output_weights), initial=0.0))
    parts: list[tuple[Any, Any, Any, float]] = [
        (found.weights[rows], true.weights[columns], errors.weights[rows], 1.0),
        (found.biases[rows], true.biases[columns], errors.biases[rows], 1.0),
        (
            found.output_weights[..., rows],
            true.output_weights[..., columns],
            errors.output_weights[..., rows],
            size,
        ),
    ]
    if not _open(result, "output bias"):
        parts.append((found.output_bias, true.output_bias, errors.output_bias, size))
    lists = [
        (
            np.ravel(np.abs(estimate - value)),
            np.ravel(np.maximum(np.abs(value), least)),
            np.ravel(stated),
        )
        for estimate, value, stated, least in parts
    ]
    return Pairs(*(np.concatenate(column) for column in zip(*lists, strict=True)))


def _turned_like(found: pn.Network, true: pn.Network, rows: AnyArray, columns: AnyArray) -> Any:
    """Units whose sign, or whose period, is a convention in the form of their partners."""
    if found.activation.kinked:
        return found
    back = np.argsort(rows)
    return align_in_place(found, true.keep(columns[back]))


# ---------------------------------------------------------------- several layers


def _deep(case: Case, result: pn.Recovery) -> Score:
    """Compared as a whole: by the largest error of a unit, and by the largest stated."""
    truth, found = _as_deep(case.truth), _as_deep(result.network)
    assert case.X is not None and case.y is not None
    if not _deep_shows(case, truth) or _open(result, "signs?"):
        return _values(case, result)
    error = pn.parameter_error(found, truth)
    scale = max(1.0, *(float(np.abs(W).max()) for W in truth.canonical().weights))
    sizes = f"{found.activation.name} {found.widths}, not {truth.activation.name} {truth.widths}"
    off = f"units are off by {error:.1e}"
    if result.status is pn.Status.EXACT:
        if error <= EXACT * scale:
            return Score()
        same = bool(np.all(relative_errors(case, found, case.fresh) <= EXACT))
        fault = f"exact, and {sizes if np.isinf(error) else off}; fresh values are"
        if not same:
            return Score(f"{fault} off")
        if found.free_parameters < truth.free_parameters:
            return Score(undecided=f"{fault} the same, of fewer parameters")
        return Score(f"{fault} the same")
    errors: Any = result.standard_errors
    stated = errors.largest
    if error <= SIGMAS * stated + FLOOR * scale:
        return Score()
    fault = sizes if np.isinf(error) else f"{off}, {error / stated:.1f} times what is stated"
    if found.activation.family != truth.activation.family and case.activation not in ("auto", ""):
        return _values(case, result)  # as it was told
    X, y = distinct(case.X, case.y)
    behind = schwarz(fitted_from(truth, X, y), X, y) - schwarz(found, X, y)
    if behind > SCHWARZ:
        return Score(undecided=f"{fault}; the truth scores worse by {behind:.1f}")
    return Score(wrong=f"{fault}; the truth scores better by {-behind:.1f}")


def _as_deep(network: Any) -> pn.DeepNetwork:
    return network if isinstance(network, pn.DeepNetwork) else pn.DeepNetwork.of(network)


def _deep_shows(case: Case, truth: pn.DeepNetwork) -> bool:
    """Whether every kinked unit is on at some input and off at another, where that shows."""
    if not truth.activation.kinked or case.X is None:
        return True
    return all(np.all(sides > 0) for sides in switching_sides(truth, case.X))


# ---------------------------------------------------------------- what samples can tell


def _unless_undecided(
    case: Case, truth: pn.Network, found: pn.Network, fault: str, clear: float = SCHWARZ
) -> Score:
    if case.X is None or case.y is None:
        return Score(wrong=fault)
    if case.step:
        inside = bool(np.ptp(found(case.X) - case.y) <= case.step * (1 + EXACT))
        fewer = found.free_parameters < truth.free_parameters
        return Score(undecided=fault) if inside and fewer else Score(wrong=fault)
    X, y = distinct(case.X, case.y)
    # The refit needs inputs of size one; the criterion is the same on these.
    frame = Frame.of(X)
    Z = frame.inputs(X)
    behind = schwarz(fitted_from(frame.network(truth), Z, y), Z, y) - schwarz(found, X, y)
    if behind > clear:
        return Score(undecided=f"{fault}; the truth scores worse by {behind:.1f}")
    return Score(wrong=f"{fault}; the truth scores better by {-behind:.1f}")


def schwarz(network: pn.Network | pn.DeepNetwork, X: Array, y: Array) -> float:
    """`n log(rss / n) + p log(n)`: the less, the better."""
    rss = float(np.sum((network(X) - y) ** 2))
    n = y.size
    return float(n * np.log(max(rss / n, 1e-300)) + network.free_parameters * np.log(n))


def distinct(X: Array, y: Array) -> tuple[Array, Array]:
    """The samples without repeats."""
    both = np.unique(np.column_stack([X, y]), axis=0)
    rows = both[:, X.shape[1] :]
    return both[:, : X.shape[1]], rows[:, 0] if y.ndim == 1 else rows


# ---------------------------------------------------------------- values


def _values(case: Case, result: pn.Recovery) -> Score:
    """Whether fresh values are predicted as well as is said."""
    found = result.network
    assert found is not None
    errors = relative_errors(case, found, case.fresh)
    no_network = "what was found predicts as it says, and there is no such network"
    note = no_network if case.truth is None and result.claim is pn.Claim.NETWORK else ""
    if result.status is pn.Status.EXACT:
        share = _share(errors, EXACT)
        fault = f"exact, and {share:.1%} of values are off"
        return _unless_missed(case, found, EXACT, fault, share) if share else Score()
    said = stated_noise(result) / _spread(case)
    errors = errors / np.maximum(said, FLOOR)
    size = _size(errors, leave_out=_missable(case))
    if not size <= TIMES_NOISE:
        return Score(f"values are off by {size:.1f} times what is stated")
    share = _share(errors, FAR_OFF)
    if share == 0:
        return Score(undecided=note)
    fault = f"{share:.1%} of values are off by more than {FAR_OFF:g} times what is stated"
    return _unless_missed(case, found, FAR_OFF * said, fault, share, note)


def _size(errors: Array, leave_out: float) -> float:
    """Root mean square of the worst output, without a share of the worst inputs."""
    worst = np.sort(np.max(errors, axis=1))
    kept = worst[: max(1, int((1 - leave_out) * len(worst)))]
    return float(np.sqrt(np.mean(kept**2)))


def _share(errors: Array, limit: float) -> float:
    return float(np.mean(~np.all(errors <= limit, axis=1)))


def _missable(case: Case) -> float:
    """Share of inputs that samples are likely to miss."""
    if case.X is None:
        return MISSED_BY_ASKING
    return MISSED / len(np.unique(case.X, axis=0))


def _unless_missed(
    case: Case, found: pn.Network, limit: Array | float, fault: str, share: float, note: str = ""
) -> Score:
    """Wrong, unless it is off only where no sample is, and samples there would be few."""
    seen = case.X is not None and not np.all(relative_errors(case, found, case.X) <= limit)
    if seen or share > _missable(case):
        return Score(wrong=fault)
    return Score(undecided=note or f"{fault}, and no sample is there")


def relative_errors(case: Case, found: pn.Network | pn.DeepNetwork, X: Array) -> Array:
    """How far values are off, (samples, outputs), over the spread of each output."""
    left = np.abs(found(X).reshape(len(X), -1) - np.asarray(case.mean(X)).reshape(len(X), -1))
    return np.asarray(np.nan_to_num(left / _spread(case), nan=np.inf))


def _spread(case: Case) -> Array:
    """Of each output at fresh inputs; the size of one that is constant."""
    values = np.asarray(case.mean(case.fresh), dtype=float).reshape(len(case.fresh), -1)
    values = values[np.isfinite(values).all(axis=1)]
    spread = np.std(values, axis=0)
    size = np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-300)
    return np.asarray(np.where(spread > FLOOR * size, spread, size))


def stated_noise(result: pn.Recovery) -> float:
    """How far off values are said to be, root mean square."""
    error = getattr(result.details, "error", None)
    if error is not None:
        return float(error)
    certificate = result.certificate
    return 0.0 if certificate is None else max(certificate.noise, certificate.residual)


# ---------------------------------------------------------------- a layer


def _layer(case: Case, result: pn.Recovery) -> Score:
    true = case.truth.layer if isinstance(case.truth, pn.LayeredNetwork) else case.truth
    if true is None:
        return _labels_of_layer(case, result)
    found, evidence = result.network, result.layer
    assert found is not None
    true = true.normalised()
    if found.units != true.units and not (found.units < true.units and _open(result, "not seen")):
        fault = f"{found.units} units, and there are {true.units}"
        behind = _flips_behind(case, found.units)
        return Score(undecided=fault) if behind > 0 else Score(wrong=fault)
    assert isinstance(true, pn.Network)
    angles, apart, rows = layer_errors(found, true)
    exact = result.status is pn.Status.EXACT
    sure = np.zeros(len(rows)) if exact else np.asarray(evidence.angle_errors)[rows]
    known = np.zeros(len(rows)) if exact else np.asarray(evidence.threshold_errors)[rows]
    worst = max(_sigmas(angles, sure), _sigmas(apart, known))
    if worst > SIGMAS:
        what = "exact, and off" if exact else f"a unit is off by {worst:.1f} stated errors"
        return Score(f"{what} (angle {angles.max():.1e}, threshold {apart.max():.1e})")
    return Score()


def layer_errors(found: pn.Network, true: pn.Network) -> tuple[Array, Array, AnyArray]:
    """Angles and differences of thresholds between matched units, and the units found of these."""
    norms = np.linalg.norm(found.weights, axis=1, keepdims=True)
    norms_true = np.linalg.norm(true.weights, axis=1, keepdims=True)
    W, V = found.weights / norms, true.weights / norms_true
    distance = np.linalg.norm(W[:, None] - V, axis=2)
    rows, columns = linear_sum_assignment(distance)
    angles = 2 * np.arcsin(np.minimum(distance[rows, columns] / 2, 1.0))
    thresholds = found.biases / norms[:, 0], true.biases / norms_true[:, 0]
    return angles, np.abs(thresholds[0][rows] - thresholds[1][columns]), rows


def _sigmas(errors: Array, stated: Array) -> float:
    """The largest error over what is stated, beyond 1e-6; where nothing is stated none."""
    beyond = np.maximum(errors - EXACT, 0.0)
    ratios = np.where(beyond > 0, beyond / np.maximum(stated, 1e-300), 0.0)
    return float(np.nanmax(ratios, initial=0.0))


def _flips_behind(case: Case, units: int) -> float:
    """How much worse the true union scores by Schwarz's criterion than so many of its halfspaces.

    0 where labels are not of two values.
    """
    true = case.truth
    if not isinstance(true, pn.LayeredNetwork) or true.top not in (union, intersection):
        return 0.0
    fewer = (
        pn.LayeredNetwork(true.layer.keep(np.array(kept)), true.top)
        for kept in combinations(range(true.units), units)
    )
    best = min((_flip_criterion(case, layered) for layered in fewer), default=np.inf)
    return float(_flip_criterion(case, true) - best)


def _flip_criterion(case: Case, layered: pn.LayeredNetwork) -> float:
    """`2 n H(share of labels that are wrong) + p log(n)`, H the entropy."""
    assert case.X is not None and case.y is not None
    n = len(case.y)
    wrong = float(np.mean(np.abs(layered(case.X) - case.y) > 0.5))
    entropy = float(np.sum(entr([wrong, 1 - wrong])))
    return 2 * n * entropy + layered.units * layered.features * float(np.log(n))


def _labels_of_layer(case: Case, result: pn.Recovery) -> Score:
    """There is no layer: then at least fresh labels must come out."""
    if result.layered is None:
        return Score("a layer, and there is none")
    left = np.abs(result.layered(case.fresh) - case.mean(case.fresh)) / _spread(case)
    limit = EXACT if result.status is pn.Status.EXACT else 0.1
    off = float(np.mean(~(left <= limit)))
    if off > _missable(case):
        return Score(f"a layer, and there is none: {off:.1%} of fresh labels are off")
    return Score(undecided="a layer that predicts, where there is none")
