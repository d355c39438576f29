"""What is asked of a network that was read off a model's classes.

Classes tell where the network is zero and nothing else, so all questions are about the boundary:

- it passes every piece that was measured;
- random inputs have the class that is predicted. They are so many that at most `MOST_OFF` of all
  inputs can be off (`answered`);
- points that nothing was learned from lie on the predicted boundary, by one class on one side of
  them and the other on the other, so near that a unit off by what is allowed would show; so do
  points beside the bends of every unit;
- equations beyond those that were solved: of a unit that was met at a single bend one number is
  told only by there being no linear term. Without an equation to spare any boundary of so few
  pieces could be explained, so the number of units must have been told.

What a boundary cannot tell is no question: a common positive factor, and units that switch nowhere
on it. The message and the ambiguities say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.answered import Answered, most_off
from provenet.certify.asked import came_to_its_end
from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
)
from provenet.certify.checks import Check, Claim, Status, asked
from provenet.certify.result import Recovery
from provenet.certify.summary import units_in_words
from provenet.certify.tolerances import CONFIDENCE, MOST_OFF
from provenet.certify.traced import KNOWN
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.moments.hermite import check_gaussian
from provenet.networks.network import Network

METHOD = "boundary"
UP_TO_A_FACTOR = (
    "Classes tell a network up to a positive factor: output weights are given with norm 1, rows of "
    "the weights with norm 1, so probabilities of the network mean nothing but the class."
)
ELSEWHERE = (
    "Units, also of further layers, that switch nowhere on the boundary between the classes, as "
    "far as it was followed, do not show, and away from it the function may be another."
)


@dataclass(frozen=True)
class BoundaryCandidate:
    """A network that was read off classes, and answers, +1 or -1, that may confirm it."""

    network: Network
    """Positive where the second class is."""
    distances: Array
    """From every piece that was measured to the network's boundary."""
    allowed: float
    """What these may be for rounding."""
    fresh: Answered
    """Random points that nothing was learned from."""
    inputs: str
    """What inputs these stand for: "standard normal inputs"."""
    beside: Answered
    """Points next to the predicted boundary, on both sides."""
    apart: float
    """How far from it, in deviations of the inputs or sixths of the box."""
    at_bends: Answered
    """The same beside the bends of every unit."""
    bend_of: AnyArray
    """The unit that each of these belongs to."""
    again: Answered
    """Points of the beginning, asked again at the end."""
    first: Answered
    """What was answered to these at first."""
    error_bound: float
    """How far rounding lets a unit be off, relatively."""
    pieces: int
    bends: int
    asked: int
    """Questions that were used to find it."""
    met_once: int = 0
    """Units that were met at a single bend."""
    spare: int = 0
    """How many equations there were beyond those that were needed."""
    others: int = 0
    """How many other networks without a linear term have the same pieces."""
    alternatives: int = 0
    """How many other signs of the units explain the boundary as well."""
    untried: str = ""
    """Why signs were left untried, as a clause; empty if none were."""
    looks: int = 1
    """How many networks, with this one, were put to fresh points of their own."""
    wanted: int | None = None
    """Number of units that was asked for."""
    stopped: str = ""
    """What ended the search before its end and what to try, in sentences; empty if nothing did."""

    @property
    def room(self) -> str:
        """What part of inputs, and of the boundary, can still be off."""
        share = 100 * most_off(len(self.fresh), self.looks)
        return f"at most {share:.1f}% of {self.inputs} are off, at {100 * CONFIDENCE:.0f}%"

    @property
    def off(self) -> AnyArray:
        """Which of the points beside the boundary have the other class."""
        return ~_agree(self.network, self.beside)

    @property
    def refuted(self) -> bool:
        """Whether any answer speaks against the network."""
        parts = (self.fresh, self.beside, self.at_bends)
        return any(not _agree(self.network, part).all() for part in parts)


def _agree(network: Network, points: Answered) -> AnyArray:
    """Which points have the class that is predicted."""
    return np.asarray(np.where(network(points.X) > 0, 1, -1) == points.y)


def conclude_boundary(candidate: BoundaryCandidate) -> Recovery:
    """What a network that was read off classes is worth."""
    checks = asked(_questions(candidate))
    told = all(check.holds for check in checks if check.name in _ABOUT_THE_NETWORK)
    return Recovery.judged(
        candidate.network.replace(link="logit"),
        checks,
        Status.EXACT,
        _praise(candidate),
        method=METHOD,
        claim=Claim.NETWORK if told else Claim.BOUNDARY,
        certificate=_certificate(candidate),
        ambiguities=_ambiguities(candidate),
        asked=candidate.fresh,
    )


_NO_LINEAR, _SIGNS = "no linear term is left", "signs are determined"
_ENOUGH, _ONE = "bends tell every unit", "no other network has these pieces"
_ABOUT_THE_NETWORK = (_NO_LINEAR, _SIGNS, _ENOUGH, _ONE)


def _questions(candidate: BoundaryCandidate) -> Iterator[Check]:
    yield came_to_its_end(candidate.stopped)
    yield _a_bend_shows(candidate)
    yield _pieces_are_explained(candidate)
    yield _classes(candidate, candidate.fresh, "fresh inputs")
    yield _classes(candidate, candidate.beside, "points beside the boundary")
    yield _the_same_again(candidate)
    yield _little_can_be_off(candidate)
    yield _beside_every_bend(candidate)
    if candidate.met_once:
        yield _bends_tell_every_unit(candidate)
        yield _no_other_network(candidate)
    yield _no_linear_term(candidate)
    yield _signs_are_determined(candidate)
    yield _rounding_leaves_units_known(candidate)
    if candidate.wanted is not None:
        yield _as_many_as_asked_for(candidate, candidate.wanted)


def _a_bend_shows(candidate: BoundaryCandidate) -> Check:
    return Check(
        "the boundary bends",
        candidate.network.units > 0,
        counted(candidate.bends, "bend"),
        "one at least",
        "As far as it was followed the boundary between the classes is one hyperplane, the linear "
        "term of the network: nothing else shows. Allow a wider box, or ask for probabilities.",
        Status.PARTIAL,
    )


def _pieces_are_explained(candidate: BoundaryCandidate) -> Check:
    worst = float(candidate.distances.max(initial=0.0))
    return Check(
        "measured pieces of the boundary are explained",
        worst <= candidate.allowed,
        f"{counted(candidate.pieces, 'piece')}, off by up to {worst:.1e}",
        f"all, to {candidate.allowed:.1e} (rounding)",
        f"{_no_network(candidate)}: pieces of its boundary are off by up to {worst:.1e}.",
        _unless_stopped(candidate),
        samples=len(candidate.distances),
    )


def _classes(candidate: BoundaryCandidate, points: Answered, what: str) -> Check:
    agree = _agree(candidate.network, points)
    wrong = int(np.sum(~agree))
    return Check(
        f"{what} have the class predicted",
        wrong == 0,
        f"{int(agree.sum()):,} of {len(agree):,}",
        "all" if points is candidate.fresh else f"all, {candidate.apart:.0e} from it",
        f"{_no_network(candidate)}: {wrong:,} of {len(agree):,} {what} have the other class.",
        _unless_stopped(candidate),
        samples=len(agree),
    )


def _no_network(candidate: BoundaryCandidate) -> str:
    return (
        f"{_units(candidate)} found at {counted(candidate.bends, 'bend')}, but these do not "
        "explain the classes. Units are missing, or the boundary is none of a network with one "
        "hidden layer of ReLU units"
    )


def _unless_stopped(candidate: BoundaryCandidate) -> Status:
    return Status.PARTIAL if candidate.stopped else Status.FAILED


def _the_same_again(candidate: BoundaryCandidate) -> Check:
    same = candidate.again.y == candidate.first.y
    return Check(
        "the same questions get the same answers",
        bool(same.all()),
        f"{int(same.sum())} of {len(same)}",
        "all, at the beginning and at the end",
        f"{int((~same).sum())} of {len(same)} questions got another class at the end than at the "
        "beginning: the model changes while it is asked, or answers at random near the boundary.",
        _unless_stopped(candidate),
        samples=len(same),
    )


def _little_can_be_off(candidate: BoundaryCandidate) -> Check:
    return Check(
        "little can be off",
        most_off(len(candidate.fresh), candidate.looks) <= MOST_OFF,
        candidate.room,
        f"at most {100 * MOST_OFF:.0f}%",
        f"{_explained(candidate)}, but fresh inputs were few: {candidate.room}. Allow more "
        "queries.",
        Status.PARTIAL,
    )


def _beside_every_bend(candidate: BoundaryCandidate) -> Check:
    agree = _agree(candidate.network, candidate.at_bends)
    number = candidate.network.units
    unseen = np.setdiff1d(np.arange(number), candidate.bend_of)
    off = np.unique(candidate.bend_of[~agree])
    why = f"points beside the bends of {counted(len(off), 'unit')} have the other class"
    why = why if len(off) else f"no bend of {counted(len(unseen), 'unit')} could be asked again"
    return Check(
        "points beside the bends of every unit have the class predicted",
        len(off) == 0 and len(unseen) == 0,
        f"{int(agree.sum())} of {len(agree)}, at {number - len(unseen)} of {number} units",
        "all, at every unit",
        f"{_explained(candidate)}, but {why}.",
        Status.PARTIAL,
        samples=len(agree) if number else None,
    )


def _rounding_leaves_units_known(candidate: BoundaryCandidate) -> Check:
    return Check(
        "rounding leaves the units known",
        candidate.error_bound <= KNOWN,
        candidate.error_bound,
        f"at most {KNOWN:.0e}, relatively",
        f"{_explained(candidate)}, but rounding lets some be off by {candidate.error_bound:.0e}: "
        "pieces of the boundary are short, or the model rounds its inputs. Allow a wider box.",
        Status.PARTIAL,
    )


def _no_linear_term(candidate: BoundaryCandidate) -> Check:
    left = candidate.network.linear is not None
    return Check(
        _NO_LINEAR,
        not left,
        "one" if left else "none",
        "none",
        f"{_explained(candidate)} and a linear term, up to a positive factor. The term belongs to "
        "units that do not switch on the boundary, or to two units with one hyperplane: the "
        "boundary is known, the network behind it is not. A wider box may show them.",
        Status.PARTIAL,
    )


def _signs_are_determined(candidate: BoundaryCandidate) -> Check:
    others = counted(candidate.alternatives, "other pattern")
    return Check(
        _SIGNS,
        candidate.alternatives == 0 and not candidate.untried,
        candidate.untried or f"{others} of signs",
        "no other",
        f"{_explained(candidate)}, but signs of units are open: "
        f"{candidate.untried or f'{others} of signs give the same boundary.'}",
        Status.PARTIAL,
    )


def _bends_tell_every_unit(candidate: BoundaryCandidate) -> Check:
    number, linear = candidate.network.units, candidate.network.linear is not None
    told = not linear and (candidate.spare > 0 or candidate.wanted == number)
    why = (
        "one number of each is open, and so is what is linear on all of the boundary. A wider box "
        "may show more of it."
        if linear
        else f"other units and a linear term would do as well. If it is so, say units={number}."
    )
    return Check(
        _ENOUGH,
        told,
        f"{counted(candidate.met_once, 'unit')} at a single bend, "
        f"{counted(candidate.spare, 'equation')} to spare",
        "several bends of each, or equations to spare, or their number",
        f"{_explained(candidate)}, but {candidate.met_once} of them bend it in one place only: "
        f"{why}",
        Status.PARTIAL,
    )


def _no_other_network(candidate: BoundaryCandidate) -> Check:
    others = counted(candidate.others, "other network")
    return Check(
        _ONE,
        candidate.others == 0,
        f"{others} of {_units(candidate)}",
        "none",
        f"{_explained(candidate)}, but {others} of as many units have the same pieces.",
        Status.PARTIAL,
    )


def _as_many_as_asked_for(candidate: BoundaryCandidate, wanted: int) -> Check:
    return Check(
        "there are as many units as were asked for",
        candidate.network.units == wanted,
        candidate.network.units,
        str(wanted),
        f"The boundary is that of {_units(candidate)}, not {wanted}: the others do not bend it, "
        "or share a hyperplane with one that was found.",
        Status.PARTIAL,
    )


# ---------------------------------------------------------------- what is said and measured


def _units(candidate: BoundaryCandidate) -> str:
    return units_in_words(candidate.network)


def _explained(candidate: BoundaryCandidate) -> str:
    return f"The boundary between the classes is explained by {_units(candidate)}"


def _praise(candidate: BoundaryCandidate) -> str:
    return (
        f"Recovered up to a positive factor, to about {candidate.error_bound:.0e}: "
        f"{_units(candidate)}. {len(candidate.beside):,} points {candidate.apart:.0e} beside the "
        f"boundary and {len(candidate.fresh)} fresh inputs have the class predicted: "
        f"{candidate.room}."
    )


def _ambiguities(candidate: BoundaryCandidate) -> tuple[str, ...]:
    if candidate.network.linear is None:
        return UP_TO_A_FACTOR, ELSEWHERE
    return (
        UP_TO_A_FACTOR,
        ELSEWHERE,
        "The network has a linear term, so the sign of each unit is a convention: reversing it "
        "changes only the linear term.",
    )


def _certificate(candidate: BoundaryCandidate) -> Certificate:
    network, fresh = candidate.network, candidate.fresh
    sizes = np.abs(network.output_weights)
    residual = float(np.sqrt(np.mean(candidate.distances**2)))
    is_open = network.linear is not None or candidate.alternatives or candidate.untried
    return Certificate(
        residual=residual,
        relative_residual=residual,
        rounding=candidate.allowed,
        noise=0.0,
        label_rounding=0.0,
        label_precision="classes",
        rounded=False,
        outputs=1,
        samples_fitted=candidate.asked,
        distinct_inputs=candidate.asked + len(fresh),
        samples_held_out=len(fresh),
        samples_refitted=0,
        parameters=network.free_parameters - 1,
        condition=condition_number(network),
        parameter_error_bound=np.inf if is_open else candidate.error_bound,
        undetermined=0,
        weakest_unit=int(np.argmin(sizes)) if len(sizes) else None,
        weakest_margin=float(sizes.min() / max(residual, 1e-300)) if len(sizes) else 0.0,
        closest_pair=closest_pair(network, fresh.X),
        residual_kurtosis=0.0,
        rarer_side=rarer_side(network, fresh.X),
        width_evidence=f"{counted(candidate.bends, 'bend')} between "
        f"{counted(candidate.pieces, 'piece')} of the boundary were followed",
        coverage=candidate.room,
        gaussian=check_gaussian(fresh.X),
    )
