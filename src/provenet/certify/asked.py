"""What is asked of a network that was read off the answers of a model that may be asked.

Answers are exact to rounding, so the questions are few and strict. *exact* needs that

- the search came to its end, and followed some line from end to end;
- points that nothing was learned from, and those that led the search, are predicted;
- so are points on every kink and a little to either side of it. Two units with almost one
  hyperplane are one unit but for a strip about their kinks. With output weights of one sign the
  kink of that one lies inside the strip; with opposite signs it lies at the strip's edge, and
  beside it answers are off by the slope times the distance;
- rounding lets no unit be off by more than `_KNOWN`;
- no linear term is left, which is what units without a kink in reach, or two units with one
  hyperplane, leave; and the signs of the units are the only ones that explain the function.

Each output is judged by its own size: how far its answers range about their mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
)
from provenet.certify.checks import Check, Status, asked
from provenet.certify.result import Recovery
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.sources.arrays import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.fitting.residuals import rounding_level
from provenet.moments.gaussianity import check_gaussian
from provenet.networks.network import Network

METHOD = "kinks"
AGREES = 1e-9
"""Of an output's size: points off by more are not explained. A convention: as far as the weights
are to be known (`_KNOWN`), so far are the values."""
_ROUNDINGS = 1000.0 * float(np.finfo(float).eps)
"""Of the largest answer, where it is far larger than the size: what tangents and sums over many
units make of the rounding of one answer. A convention."""
_KNOWN = 1e-9
"""Relative error of a unit up to which it is called exact. A convention."""
_LEAST = 1e-12
"""Relative error that answers beside a kink may always have: about what the weights are known to
at best (`benchmarks/extraction.py` measures 1e-12)."""


@dataclass(frozen=True)
class Answered:
    """Points, and the model's answers to them."""

    X: Array
    y: Array
    """(n,) or (n, outputs)."""

    def __len__(self) -> int:
        """Number of points."""
        return len(self.X)

    @property
    def values(self) -> Array:
        """The answers, (n, outputs) also for one output."""
        return self.y[:, None] if self.y.ndim == 1 else self.y

    @property
    def spread(self) -> float:
        """Standard deviation of the answers."""
        return float(np.std(self.y)) + 1e-300

    def allowed(self, relative: float) -> Array:
        """The error that each output may have: relative to its size, or rounding."""
        y = self.values
        if len(y) == 0:
            return np.zeros(y.shape[1])
        size = np.abs(y - y.mean(axis=0)).max(axis=0)
        return np.asarray(np.maximum(relative * size, _ROUNDINGS * np.abs(y).max(axis=0)))

    def explained_by(self, network: Network, allowed: Array) -> AnyArray:
        """Which points a network predicts up to the error allowed."""
        left = np.abs(network(self.X).reshape(self.values.shape) - self.values)
        return np.asarray((left <= allowed).all(axis=1))


@dataclass(frozen=True)
class TracedCandidate:
    """A network that was read off a model's answers, and the answers that may confirm it."""

    network: Network
    guides: Answered
    """Points that led the search to where units were missing."""
    fresh: Answered
    """Points that nothing was learned from; none if the search was stopped before."""
    at_kinks: Answered
    """Points on the hyperplane of every unit and beside it."""
    kink_of: AnyArray
    """The unit that each of these belongs to."""
    error_bound: float
    """How far rounding lets a unit be off, relatively, up to its sign."""
    kinks: tuple[int, ...]
    """How many each line met, one line after the other."""
    complete: bool
    """Whether some line could be followed from end to end and measured in every piece."""
    asked: int
    """Points that were used to find it."""
    alternatives: int = 0
    """How many other signs of the units explain the function as well."""
    all_signs: bool = True
    """Whether no signs were left untried."""
    wanted: int | None = None
    """Number of units that was asked for."""
    stopped: str = ""
    """What ended the search before its end and what to try, in sentences; empty if nothing did."""

    @property
    def allowed_at_kinks(self) -> Array:
        """How far rounding lets answers beside a kink be off, an output."""
        return allowed_at_kinks(self.fresh, self.error_bound)

    @property
    def signs_are_convention(self) -> bool:
        """Whether a linear term is left, which makes up for any signs of the units."""
        return self.network.linear is not None and self.network.units > 0

    @property
    def signs_are_open(self) -> bool:
        """Whether other signs of the units would do as well, or might."""
        return self.signs_are_convention or self.alternatives > 0 or not self.all_signs

    @property
    def lines(self) -> str:
        """What the lines met, in words."""
        kinks = ", ".join(str(number) for number in self.kinks)
        return f"Kinks on {counted(len(self.kinks), 'line')}, one after the other: {kinks}."


def allowed_at_kinks(fresh: Answered, error_bound: float) -> Array:
    """How far rounding lets answers beside a kink be off, an output, of units that are known."""
    relative = np.clip(np.nan_to_num(error_bound, nan=_KNOWN), _LEAST, _KNOWN)
    return fresh.allowed(float(relative))


def conclude_traced(candidate: TracedCandidate) -> Recovery:
    """What a network that was read off a model's answers is worth."""
    return Recovery.judged(
        candidate.network,
        asked(_questions(candidate)),
        Status.EXACT,
        _praise(candidate) if len(candidate.fresh) else "",
        method=METHOD,
        certificate=_certificate(candidate) if len(candidate.fresh) else None,
        ambiguities=_ambiguities(candidate),
    )


def stopped_early(result: Recovery, reason: str) -> Recovery:
    """The same answer of a search that was stopped before its end, for this reason."""
    message = f"{result.message} {reason}"
    return replace(result.with_checks(_came_to_its_end(message)), message=message)


# ---------------------------------------------------------------- the questions


def _questions(candidate: TracedCandidate) -> Iterator[Check]:
    """All of them, in order."""
    yield _came_to_its_end(_when_stopped(candidate))
    yield _traced_from_end_to_end(candidate)
    yield _guides_are_explained(candidate)
    yield _fresh_points_are_predicted(candidate)
    yield _rounding_leaves_units_known(candidate)
    if candidate.network.units:
        yield _points_at_kinks_are_predicted(candidate)
    yield _no_linear_term(candidate)
    yield _a_unit_shows(candidate)
    yield _signs_are_determined(candidate)
    if candidate.wanted is not None:
        yield _as_many_as_asked_for(candidate, candidate.wanted)


def _came_to_its_end(stopped: str) -> Check:
    return Check(
        "the search came to its end",
        not stopped,
        "stopped" if stopped else "yes",
        "yes",
        stopped,
        Status.PARTIAL,
    )


def _when_stopped(candidate: TracedCandidate) -> str:
    if not candidate.stopped:
        return ""
    guides, network = candidate.guides, candidate.network
    explained = int(guides.explained_by(network, guides.allowed(AGREES)).sum())
    return (
        f"{candidate.stopped} The {_units(candidate)} found so far are not confirmed: {explained} "
        f"of {len(guides)} points are explained."
    )


def _traced_from_end_to_end(candidate: TracedCandidate) -> Check:
    return Check(
        "the function was traced from end to end",
        candidate.complete,
        counted(len(candidate.kinks), "line"),
        "one at least that could be measured in every piece",
        f"No line could be measured from end to end. {candidate.lines} There are more units than "
        "can be told apart, or the function is not a network with one hidden layer of ReLU units.",
        _unless_stopped(candidate),
    )


def _guides_are_explained(candidate: TracedCandidate) -> Check:
    name = "points that led the search"
    return _all_agree(candidate, candidate.guides, f"{name} are explained", name)


def _fresh_points_are_predicted(candidate: TracedCandidate) -> Check:
    return _all_agree(candidate, candidate.fresh, "fresh points are predicted", "fresh points")


def _all_agree(candidate: TracedCandidate, points: Answered, name: str, what: str) -> Check:
    agree = points.explained_by(candidate.network, points.allowed(AGREES))
    return Check(
        name,
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        f"all, each output to {AGREES:.0e} of its size",
        _not_explained(candidate, agree, what),
        _unless_stopped(candidate),
        samples=len(agree),
    )


def _unless_stopped(candidate: TracedCandidate) -> Status:
    """A search that was stopped may have been on its way."""
    return Status.PARTIAL if candidate.stopped else Status.FAILED


def _not_explained(candidate: TracedCandidate, agree: AnyArray, points: str) -> str:
    return (
        f"{_units(candidate)} found: {int(agree.sum())} of {len(agree)} {points} are explained. "
        f"{candidate.lines} The function is not a network with one hidden layer of ReLU units, or "
        "some units lie too close together."
    )


def _rounding_leaves_units_known(candidate: TracedCandidate) -> Check:
    bound = candidate.error_bound
    return Check(
        "rounding leaves the units known",
        bound <= _KNOWN,
        bound,
        f"at most {_KNOWN:.0e}, relatively",
        f"{_explained(candidate)}, but rounding lets some be off by {bound:.0e}: allow more "
        "queries, or inputs in a wider box.",
        Status.PARTIAL,
    )


def _points_at_kinks_are_predicted(candidate: TracedCandidate) -> Check:
    points, number = candidate.at_kinks, candidate.network.units
    agree = points.explained_by(candidate.network, candidate.allowed_at_kinks)
    unseen = np.setdiff1d(np.arange(number), candidate.kink_of).tolist()
    off = np.unique(candidate.kink_of[~agree]).tolist()
    why = (
        f"not points at the kinks of units {off}: these are two or more units with almost the "
        "same hyperplane."
        if off
        else f"no point at the kinks of units {unseen} could be asked: allow a wider box."
    )
    return Check(
        "points beside every kink are predicted",
        not off and not unseen,
        f"{int(agree.sum())} of {len(agree)}, at {number - len(unseen)} of {number} kinks",
        "all, at every kink",
        f"{_explained(candidate)}, but {why}",
        Status.PARTIAL,
        samples=len(agree),
    )


def _no_linear_term(candidate: TracedCandidate) -> Check:
    why = (
        "It belongs to units without a kink in reach, to two units with one hyperplane, or to "
        "units that are not zero below it: a wider box may show them."
        if candidate.all_signs
        else "Signs of the units may explain it, but there are too many to try them all."
    )
    left = candidate.network.linear is not None
    return Check(
        "no linear term is left",
        not left,
        "one" if left else "none",
        "none",
        f"{_explained(candidate)} and a linear term. {why}",
        Status.PARTIAL,
    )


def _a_unit_shows(candidate: TracedCandidate) -> Check:
    points = candidate.asked + len(candidate.fresh)
    return Check(
        "a unit shows",
        candidate.network.units > 0,
        candidate.network.units,
        "at least 1",
        f"The function is constant at all {points:,} points asked: what it does elsewhere they do "
        "not tell. Allow more queries, or inputs in a wider box.",
        Status.PARTIAL,
    )


def _signs_are_determined(candidate: TracedCandidate) -> Check:
    others = counted(candidate.alternatives, "other pattern")
    return Check(
        "signs are determined",
        candidate.alternatives == 0 and (candidate.all_signs or candidate.signs_are_convention),
        f"{others} of signs" if candidate.all_signs else "not all were tried",
        "no other",
        f"{_explained(candidate)}, and the function is known, but not the signs of all units: see "
        "the ambiguities.",
        Status.PARTIAL,
    )


def _as_many_as_asked_for(candidate: TracedCandidate, wanted: int) -> Check:
    return Check(
        "there are as many units as were asked for",
        candidate.network.units == wanted,
        candidate.network.units,
        f"{wanted}",
        f"The answers are those of {_units(candidate)}, not {wanted}: the others are never on, "
        "always on, or share a hyperplane with one that was found.",
        Status.PARTIAL,
    )


# ---------------------------------------------------------------- what is said and measured


def _units(candidate: TracedCandidate) -> str:
    return counted(candidate.network.units, "unit")


def _explained(candidate: TracedCandidate) -> str:
    return f"All {len(candidate.fresh)} fresh points are explained by {_units(candidate)}"


def _praise(candidate: TracedCandidate) -> str:
    fresh = candidate.fresh
    left = (candidate.network(fresh.X) - fresh.y) / fresh.spread
    return (
        f"Recovered to about {candidate.error_bound:.0e}: {_units(candidate)}. {len(fresh)} fresh "
        f"points are predicted to {np.sqrt(np.mean(left**2)):.0e} of the answers' spread."
    )


def _ambiguities(candidate: TracedCandidate) -> tuple[str, ...]:
    if candidate.signs_are_convention:
        return (
            "The network has a linear term, so the sign of each unit is a convention: "
            "reversing it changes only the linear term.",
        )
    if candidate.alternatives:
        return ("Some units may as well all have the opposite sign: the function is the same.",)
    if not candidate.all_signs:
        return ("Other signs of the units were not all tried: some may explain it as well.",)
    return ()


def _certificate(candidate: TracedCandidate) -> Certificate:
    network, fresh = candidate.network, candidate.fresh
    left = network(fresh.X) - fresh.y
    residual = float(np.sqrt(np.mean(left**2)))
    rounding = float(np.sqrt(np.mean(rounding_level(network, fresh.X) ** 2)))
    sizes = np.linalg.norm(np.atleast_2d(network.output_weights), axis=0)
    weakest = int(np.argmin(sizes)) if network.units else None
    return Certificate(
        residual=residual,
        relative_residual=residual / fresh.spread,
        rounding=rounding,
        noise=0.0,
        label_rounding=0.0,
        label_precision="",
        rounded=False,
        outputs=network.outputs or 1,
        samples_fitted=candidate.asked,
        distinct_inputs=candidate.asked + len(fresh),
        samples_held_out=len(fresh),
        samples_refitted=0,
        parameters=network.free_parameters,
        condition=condition_number(network),
        parameter_error_bound=np.inf if candidate.signs_are_open else candidate.error_bound,
        undetermined=0,
        weakest_unit=weakest,
        weakest_margin=float(sizes.min() / max(residual, rounding, 1e-300)) if len(sizes) else 0.0,
        closest_pair=closest_pair(network, fresh.X),
        residual_kurtosis=residual_kurtosis(ArraySource(fresh.X, fresh.y), network),
        rarer_side=rarer_side(network, fresh.X),
        width_evidence=candidate.lines,
        gaussian=check_gaussian(fresh.X, _standardisation(fresh)),
    )


def _standardisation(fresh: Answered) -> Standardisation:
    """Of points that were drawn with independent features."""
    mean, deviation = fresh.X.mean(axis=0), fresh.X.std(axis=0)
    linear = np.zeros((*fresh.y.shape[1:], len(mean)))
    whiten = np.diag(1 / deviation)
    return Standardisation(mean, whiten, fresh.y.mean(axis=0), fresh.spread, linear, len(fresh))
