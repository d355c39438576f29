"""From traced units to a Recovery: their signs, the evidence, and what it is worth.

The answer is exact if every fresh point agrees and rounding lets no unit be off by more than
`_KNOWN`. Two units with almost one hyperplane are one unit but for a strip about their kinks. With
output weights of one sign the kink of that one lies inside the strip; with opposite signs it lies
at the strip's edge, and beside it answers are off by the slope times the distance. So points on
every kink and a little to either side of it must agree too. A linear term that the signs of the
units do not explain makes it partial: units without a kink in reach, or two units with one
hyperplane, leave one. All else has failed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
)
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.sources.arrays import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.extraction.kinks import AGREES, Traced
from provenet.extraction.units import Region
from provenet.fitting.residuals import rounding_level
from provenet.moments.gaussianity import check_gaussian
from provenet.networks.conversions import as_absolute, as_rectified
from provenet.networks.network import Network
from provenet.networks.signs import signs_from_linear_part

METHOD = "kinks"
_KNOWN = 1e-9
_NO_LINEAR = 1e-8
"""A linear term up to this, relatively, is rounding; so are signs that explain no more."""
_BOUND = 10.0
"""Errors are at most so many times what rounding makes them on average."""
_ROUNDING = 1e-12
_TRIES = 100
POINTS_A_KINK = 3
_CLEARLY = 10.0


@dataclass(frozen=True)
class Fresh:
    """Points that nothing was learned from, and their answers."""

    X: Array
    y: Array
    """(n,) or (n, outputs)."""

    @property
    def spread(self) -> float:
        """Standard deviation of the answers."""
        return float(np.std(self.y)) + 1e-300


@dataclass(frozen=True)
class Settled:
    """A network whose signs are settled, and whether it keeps a linear term."""

    network: Network
    linear: bool
    alternatives: int
    """How many other signs explain the linear part as well."""


def points_at_kinks(
    traced: Traced, fresh: Fresh, region: Region, rng: np.random.Generator
) -> Array:
    """Points on the hyperplane of every unit and on both sides, where these meet the box.

    Those beside it are as far as makes a unit that is not there show clearly.
    """
    units = traced.units
    found = [np.empty((0, units.W.shape[1]))]
    slopes = np.linalg.norm(units.A, axis=0)
    for w, b, slope in zip(units.W, units.b, slopes, strict=True):
        beside = _CLEARLY * _allowed_at_kinks(traced, fresh) / slope
        X = region.sample(_TRIES, rng)
        X = X - np.outer(X @ w + b, w)
        for offset in (0.0, -beside, beside):
            moved = X + offset * w
            found.append(moved[region.contains(moved)][:1])
    return np.vstack(found)


def _allowed_at_kinks(traced: Traced, fresh: Fresh) -> float:
    """How far answers beside a kink may be off for rounding, of units that are known."""
    relative = float(np.clip(np.nan_to_num(_error_bound(traced), nan=_KNOWN), _ROUNDING, _KNOWN))
    return relative * float(np.abs(fresh.y).max())


def verdict(
    traced: Traced, fresh: Fresh, at_kinks: Fresh, asked: int, units: int | None = None
) -> Recovery:
    """The network and what it is worth; `asked` points were used to find it."""
    settled = _settled(traced, one=fresh.y.ndim == 1)
    certificate = _certificate(settled.network, traced, fresh, asked)
    status, message = _judged(settled, certificate, traced, fresh, at_kinks, units)
    return Recovery(
        network=settled.network,
        status=status,
        message=message,
        method=METHOD,
        certificate=certificate,
        ambiguities=_ambiguities(settled),
    )


def network_of(traced: Traced, *, one: bool) -> Network:
    """The units found, without a verdict; `one` where the answers are numbers, not vectors."""
    return _settled(traced, one=one).network


def _settled(traced: Traced, *, one: bool) -> Settled:
    """Signs from the linear part; what they do not explain stays."""
    found = traced.units
    A, linear, constant = found.A, found.linear, found.constant
    plain = Network(
        found.W,
        found.b,
        A[0] if one else A,
        constant[0] if one else constant,
        linear=linear[0] if one else linear,
    )
    absolute = as_absolute(plain)
    assert absolute.linear is not None
    signs = signs_from_linear_part(2 * absolute.output_weights, absolute.weights, absolute.linear)
    size = np.linalg.norm(linear) + np.linalg.norm(A)
    explained = np.linalg.norm(signs.remainder) <= _NO_LINEAR * size
    if explained:
        network = as_rectified(absolute, signs.signs).replace(linear=None)
        return Settled(network.canonical(), False, len(signs.alternatives))
    return Settled(plain.canonical(), True, 0)


def _certificate(network: Network, traced: Traced, fresh: Fresh, asked: int) -> Certificate:
    left = network(fresh.X) - fresh.y
    residual = float(np.sqrt(np.mean(left**2)))
    rounding = float(np.sqrt(np.mean(rounding_level(network, fresh.X) ** 2)))
    sizes = np.linalg.norm(np.atleast_2d(network.output_weights), axis=0)
    weakest = int(np.argmin(sizes)) if network.units else None
    centred = _standardisation(fresh)
    return Certificate(
        residual=residual,
        relative_residual=residual / fresh.spread,
        rounding=rounding,
        noise=0.0,
        label_rounding=0.0,
        outputs=network.outputs or 1,
        samples_fitted=asked,
        distinct_inputs=asked + len(fresh.X),
        samples_held_out=len(fresh.X),
        samples_refitted=0,
        parameters=network.free_parameters,
        condition=condition_number(network),
        parameter_error_bound=_error_bound(traced),
        undetermined=0,
        weakest_unit=weakest,
        weakest_margin=float(sizes.min() / max(residual, rounding, 1e-300)) if len(sizes) else 0.0,
        closest_pair=closest_pair(network, fresh.X),
        residual_kurtosis=residual_kurtosis(ArraySource(fresh.X, fresh.y), network),
        rarer_side=rarer_side(network, fresh.X),
        width_evidence=_lines(traced),
        gaussian=check_gaussian(fresh.X, centred),
    )


def _standardisation(fresh: Fresh) -> Standardisation:
    """Of points that were drawn with independent features."""
    mean, deviation = fresh.X.mean(axis=0), fresh.X.std(axis=0)
    outputs = fresh.y.shape[1:]
    linear = np.zeros((*outputs, len(mean)))
    whiten = np.diag(1 / deviation)
    return Standardisation(mean, whiten, fresh.y.mean(axis=0), fresh.spread, linear, len(fresh.X))


def _error_bound(traced: Traced) -> float:
    """How far rounding lets a unit be off, relatively."""
    return _BOUND * float(np.max(traced.errors, initial=0.0))


def _lines(traced: Traced) -> str:
    kinks = ", ".join(str(number) for number in traced.kinks)
    return f"Kinks on {counted(len(traced.kinks), 'line')}, one after the other: {kinks}."


def _judged(
    settled: Settled,
    certificate: Certificate,
    traced: Traced,
    fresh: Fresh,
    at_kinks: Fresh,
    units: int | None,
) -> tuple[Status, str]:
    network, number = settled.network, counted(settled.network.units, "unit")
    size = float(np.abs(fresh.y).max())
    agree = _agree(network, fresh, AGREES * size)
    if not agree.all():
        return Status.FAILED, _disagreement(traced, number, agree)
    bound = certificate.parameter_error_bound
    if bound > _KNOWN:
        return Status.PARTIAL, (
            f"All {len(fresh.X)} fresh points are explained by {number}, but rounding lets some be "
            f"off by {bound:.0e}: allow more queries, or inputs in a wider box."
        )
    if not _agree(network, at_kinks, _allowed_at_kinks(traced, fresh)).all():
        return Status.PARTIAL, (
            f"All {len(fresh.X)} fresh points are explained by {number}, but not points at their "
            "kinks: some are two or more units with almost the same hyperplane."
        )
    if settled.linear:
        return Status.PARTIAL, (
            f"All {len(fresh.X)} fresh points are explained by {number} and a linear term. It "
            "belongs to units without a kink in reach, to two units with one hyperplane, or to "
            "units that are not zero below it: a wider box may show them."
        )
    if units is not None and units != network.units:
        return Status.PARTIAL, (
            f"The answers are those of {number}, not {units}: the others are never on, always on, "
            "or share a hyperplane with one that was found."
        )
    if network.units == 0:
        return Status.EXACT, f"The function is constant at all {len(fresh.X)} fresh points."
    return Status.EXACT, (
        f"Recovered to about {bound:.0e}: {number}. {len(fresh.X)} fresh points are predicted to "
        f"{certificate.relative_residual:.0e} of the answers' spread."
    )


def _agree(network: Network, fresh: Fresh, allowed: float) -> AnyArray:
    """Which points are predicted up to an error that is allowed."""
    left = np.atleast_2d((network(fresh.X) - fresh.y).T).T
    return np.asarray(np.abs(left).max(axis=1, initial=0.0) <= allowed)


def _disagreement(traced: Traced, number: str, agree: AnyArray) -> str:
    lines = _lines(traced)
    if not traced.complete:
        return (
            f"No line could be measured from end to end. {lines} There are more units than can be "
            "told apart, or the function is not a network with one hidden layer of ReLU units."
        )
    return (
        f"{number} found: {int(agree.sum())} of {len(agree)} fresh points are explained. {lines} "
        "The function is not a network with one hidden layer of ReLU units, or some units lie too "
        "close together."
    )


def _ambiguities(settled: Settled) -> tuple[str, ...]:
    if settled.linear and settled.network.units:
        return (
            "The network has a linear term, so the sign of each unit is a convention: "
            "reversing it changes only the linear term.",
        )
    if settled.alternatives:
        return ("Some units may as well all have the opposite sign: the function is the same.",)
    return ()
