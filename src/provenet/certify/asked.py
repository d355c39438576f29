"""What is asked of a network that was read off the answers of a model that may be asked.

Answers are exact to rounding, so the questions are few and strict. *exact* needs that

- the search came to its end, and followed some line;
- points that nothing was learned from, and those that led the search, are predicted. The fresh ones
  are random, and so many that at most `MOST_OFF` of all inputs can be off (`answered`);
- so are points where a function that is no such network differs most easily: the extremes of the
  answers, of the inputs and of every unit, and fresh lines from end to end;
- questions that were asked first get the same answers again at the end;
- so are points on every kink and a little to either side of it. Two units with almost one
  hyperplane are one unit but for a strip about their kinks. With output weights of one sign the
  kink of that one lies inside the strip; with opposite signs it lies at the strip's edge, and
  beside it answers are off by the slope times the distance;
- rounding lets no unit be off by more than `traced.KNOWN`;
- one slope below zero of all units, where it is not that of ReLU, is told by equations to spare;
- no linear term is left, which is what units without a kink in reach, or two units with one
  hyperplane, leave; and the signs of the units are the only ones that explain the function.

A deep network is asked the same; its kinks are bent surfaces, and what else may hide in its layers
is in `asked_layers`.

Each output is judged by its own size: how far its answers range about their mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.answered import AGREES, Answered, where_off
from provenet.certify.asked_certificate import certificate_of
from provenet.certify.asked_layers import (
    every_weight_shows,
    hidden_weights,
    named,
    rare_points_are_predicted,
)
from provenet.certify.checks import Check, Status, asked
from provenet.certify.result import Recovery
from provenet.certify.summary import units_in_words
from provenet.certify.tolerances import MOST_OFF, SLOPE_BITS
from provenet.certify.traced import KNOWN, TracedCandidate
from provenet.common.typing import AnyArray
from provenet.common.words import counted

METHOD = "kinks"
SEARCHED = "points at extremes and on fresh lines"
_NO_KINK = "without a kink in reach"
TO_AGREE = f"all, each output to {AGREES:.0e} of its size"


def conclude_traced(candidate: TracedCandidate) -> Recovery:
    """What a network that was read off a model's answers is worth."""
    return Recovery.judged(
        candidate.network,
        asked(_questions(candidate)),
        Status.EXACT,
        _praise(candidate) if len(candidate.fresh) else "",
        method=METHOD,
        certificate=certificate_of(candidate) if len(candidate.fresh) else None,
        ambiguities=_ambiguities(candidate),
        details=candidate.found,
        asked=candidate.fresh if len(candidate.fresh) else None,
    )


# ---------------------------------------------------------------- the questions


def _questions(candidate: TracedCandidate) -> Iterator[Check]:
    """All of them, in order."""
    yield came_to_its_end(_when_stopped(candidate))
    if candidate.found is None:
        yield _traced_from_end_to_end(candidate)
    yield _guides_are_explained(candidate)
    yield _fresh_points_are_predicted(candidate)
    yield _searched_points_are_predicted(candidate)
    yield _the_same_again(candidate)
    yield _little_can_be_off(candidate)
    yield _rounding_leaves_units_known(candidate)
    if candidate.network.units:
        yield _points_at_kinks_are_predicted(candidate)
    if candidate.network.layers > 1:
        yield rare_points_are_predicted(candidate, _explained(candidate))
        yield every_weight_shows(candidate, _explained(candidate))
    yield _no_linear_term(candidate)
    yield _a_unit_shows(candidate)
    if candidate.spare_bits < np.inf:
        yield _one_slope_is_told(candidate)
    yield _signs_are_determined(candidate)
    if candidate.wanted is not None:
        yield _as_many_as_asked_for(candidate, candidate.wanted)


CAME_TO_ITS_END = "the search came to its end"
"""The name of a check: where it fails, time or questions ran out."""


def came_to_its_end(stopped: str) -> Check:
    """Was the search ended by nothing but its success? What did, in sentences, is `stopped`."""
    return Check(
        CAME_TO_ITS_END,
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
        "the function was traced",
        candidate.complete,
        counted(len(candidate.kinks), "line"),
        "one at least with a piece that could be measured",
        f"No line could be measured. {candidate.lines} There are more units than can be told "
        f"apart, or {_no_network(candidate)}.",
        _unless_stopped(candidate),
    )


def _guides_are_explained(candidate: TracedCandidate) -> Check:
    name = "points that led the search"
    return _all_agree(candidate, candidate.guides, f"{name} are explained", name)


def _fresh_points_are_predicted(candidate: TracedCandidate) -> Check:
    return _all_agree(candidate, candidate.fresh, "fresh points are predicted", "fresh points")


def _searched_points_are_predicted(candidate: TracedCandidate) -> Check:
    return _all_agree(candidate, candidate.searched, f"{SEARCHED} are predicted", SEARCHED)


def _the_same_again(candidate: TracedCandidate) -> Check:
    again = candidate.again
    first = candidate.guides[np.arange(len(again))]
    apart = np.abs(again.values - first.values)
    same = np.asarray((apart <= first.allowed(AGREES)).all(axis=1))
    return Check(
        "the same questions get the same answers",
        bool(same.all()),
        f"{int(same.sum())} of {len(same)}",
        "all, at the beginning and at the end",
        f"{int((~same).sum())} of {len(same)} questions got another answer at the end than at the "
        "beginning: the model changes while it is asked, or its answers depend on what else is "
        "asked with them.",
        _unless_stopped(candidate),
        samples=len(same),
    )


def _little_can_be_off(candidate: TracedCandidate) -> Check:
    return Check(
        "little can be off",
        candidate.most_off <= MOST_OFF,
        candidate.room,
        f"at most {100 * MOST_OFF:.0f}%",
        f"{_explained(candidate)}, but these are few: {candidate.room}. Allow more queries.",
        Status.PARTIAL,
    )


def _all_agree(candidate: TracedCandidate, points: Answered, name: str, what: str) -> Check:
    agree = points.explained_by(candidate.network, points.allowed(AGREES))
    return Check(
        name,
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        TO_AGREE,
        _not_explained(candidate, agree, what),
        _unless_stopped(candidate),
        samples=len(agree),
    )


def _unless_stopped(candidate: TracedCandidate) -> Status:
    """A search that was stopped may have been on its way."""
    return Status.PARTIAL if candidate.stopped else Status.FAILED


def _not_explained(candidate: TracedCandidate, agree: AnyArray, what: str) -> str:
    points = candidate.guides + candidate.fresh + candidate.searched
    place = where_off(points, points.explained_by(candidate.network, points.allowed(AGREES)))
    return (
        f"{_units(candidate)} found: {int(agree.sum())} of {len(agree)} {what} are explained, "
        f"{int((~agree).sum())} are off. {place} {candidate.lines} Some units lie too close "
        f"together, or {_no_network(candidate)}."
    )


def _no_network(candidate: TracedCandidate) -> str:
    if candidate.found is not None:
        return "are missing, or the function is not a network of ReLU units"
    one = "the function is not a network with one hidden layer of ReLU units"
    if candidate.deeper is None:
        return one
    return f"{one}; of several layers it is none that was found either ({candidate.deeper})"


def _rounding_leaves_units_known(candidate: TracedCandidate) -> Check:
    bound = candidate.error
    why = (
        f"rounding lets some be off by {bound:.0e}: allow more queries, or inputs in a wider box"
        if bound < np.inf
        else "answers do not tell how far off some may be: they are always on, so that others "
        "would do in their place, or could not be measured"
    )
    return Check(
        "rounding leaves the units known",
        bound <= KNOWN,
        bound,
        f"at most {KNOWN:.0e}, relatively",
        f"{_explained(candidate)}, but {why}.",
        Status.PARTIAL,
    )


def _points_at_kinks_are_predicted(candidate: TracedCandidate) -> Check:
    points, number = candidate.at_kinks, candidate.network.units
    agree = points.explained_by(candidate.network, candidate.allowed_at_kinks)
    unseen = np.setdiff1d(np.arange(number), candidate.kink_of)
    off = np.unique(candidate.kink_of[~agree])
    why = (
        f"not points at the kinks of {named(candidate.network, off)}: "
        f"{_why_off_at_kinks(candidate)}."
        if len(off)
        else f"no point at the kinks of {named(candidate.network, unseen)} could be asked: "
        f"{_why_no_kink(candidate)}."
    )
    return Check(
        "points beside every kink are predicted",
        len(off) == 0 and len(unseen) == 0,
        f"{int(agree.sum())} of {len(agree)}, at {number - len(unseen)} of {number} kinks",
        "all, at every kink",
        f"{_explained(candidate)}, but {why}",
        Status.PARTIAL,
        samples=len(agree),
    )


def _why_off_at_kinks(candidate: TracedCandidate) -> str:
    at_kinks = candidate.at_kinks.left_by(candidate.network).max(axis=0)
    if (at_kinks <= 2 * candidate.fresh.left_by(candidate.network).max(axis=0)).all():
        return "rounding leaves as much there as elsewhere, and more than the units are known to"
    return "these are two or more units with almost the same hyperplane"


def _why_no_kink(candidate: TracedCandidate) -> str:
    if candidate.network.layers == 1:
        return "allow a wider box"
    return (
        "as far as answers show they are always on, or never. The function is exact at these "
        f"points ({candidate.room}), and others would do in their place"
    )


def _no_linear_term(candidate: TracedCandidate) -> Check:
    left = candidate.network.linear is not None
    return Check(
        "no linear term is left",
        not left,
        "one" if left else "none",
        "none",
        f"{_explained(candidate)} and a linear term. {_why_linear(candidate)}",
        Status.PARTIAL,
    )


def _why_linear(candidate: TracedCandidate) -> str:
    if candidate.untried:
        return f"Signs of the units may explain it. {_open_signs(candidate)}: {candidate.untried}"
    known = f"So the function is exact: {candidate.room}. " if _is_confirmed(candidate) else ""
    return (
        f"{known}The term belongs to units {_NO_KINK}, to two units with one hyperplane, or to "
        "units that are not zero below it: a wider box may show them, or activation="
        '"leaky_relu".'
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
        candidate.alternatives == 0 and (not candidate.untried or candidate.signs_are_convention),
        "not all were tried" if candidate.untried else f"{others} of signs",
        "no other",
        f"{_explained(candidate)}. {_open_signs(candidate)}: see the ambiguities.",
        Status.PARTIAL,
    )


def _one_slope_is_told(candidate: TracedCandidate) -> Check:
    activation = candidate.network.activation
    return Check(
        "one slope of all units explains the linear part",
        candidate.spare_bits >= SLOPE_BITS,
        f"{candidate.spare_bits:.0f} bits to spare",
        f"{SLOPE_BITS:.0f}, so that it is no chance",
        f"{_explained(candidate)}, each of {activation.name}, but ReLU units and a linear term "
        f'might do as well: if it is so, say activation="{activation.family}".',
        Status.PARTIAL,
    )


def _as_many_as_asked_for(candidate: TracedCandidate, wanted: int | tuple[int, ...]) -> Check:
    network = candidate.network
    found = network.widths if isinstance(wanted, tuple) else network.units
    return Check(
        "there are as many units as were asked for",
        found == wanted,
        network.units if network.layers == 1 else ", ".join(map(str, network.widths)),
        ", ".join(map(str, np.atleast_1d(wanted))),
        f"The answers are those of {_units(candidate)}, not {wanted}: the others are never on, "
        "always on, or share a hyperplane with one that was found.",
        Status.PARTIAL,
    )


# ---------------------------------------------------------------- what is said and measured


def _units(candidate: TracedCandidate) -> str:
    return units_in_words(candidate.network)


def _of_a_slope(candidate: TracedCandidate) -> str:
    slope = candidate.network.activation.slope
    return f" of slope {slope:.6g} below zero" if slope else ""


def _explained(candidate: TracedCandidate) -> str:
    return f"All {len(candidate.fresh)} fresh points are explained by {_units(candidate)}"


def _praise(candidate: TracedCandidate) -> str:
    fresh = candidate.fresh
    left = np.sqrt(np.mean((candidate.network(fresh.X) - fresh.y) ** 2))
    to = f"{left / fresh.spread:.0e} of the answers' spread" if np.ptp(fresh.y) else f"{left:.0e}"
    return (
        f"Recovered to about {candidate.error:.0e}: {_units(candidate)}{_of_a_slope(candidate)}. "
        f"{len(fresh)} fresh "
        f"points are predicted to {to}: {candidate.room}."
    )


def _ambiguities(candidate: TracedCandidate) -> tuple[str, ...]:
    if candidate.network.layers > 1 and len(candidate.fresh):
        return (*_of_signs(candidate), *_unseen_kinks(candidate), *hidden_weights(candidate))
    return _of_signs(candidate)


def _unseen_kinks(candidate: TracedCandidate) -> tuple[str, ...]:
    unseen = np.setdiff1d(np.arange(candidate.network.units), candidate.kink_of)
    if len(unseen) == 0:
        return ()
    return (
        f"No place was found where {named(candidate.network, unseen)} switch and the answers show "
        "it: there they are linear, or nothing, and others would do.",
    )


def _of_signs(candidate: TracedCandidate) -> tuple[str, ...]:
    if candidate.untried:
        return (f"{_open_signs(candidate)}: {candidate.untried}",)
    if candidate.signs_are_convention:
        return (
            "The network has a linear term, so the sign of each unit is a convention: "
            "reversing it changes only the linear term.",
            f"Units {_NO_KINK} are linear wherever it was asked: the linear term is all that is "
            "known of them.",
        )
    if candidate.alternatives:
        others = counted(candidate.alternatives, "other pattern")
        return (f"{_open_signs(candidate)}: {others} of signs give the same function.",)
    slope = candidate.network.activation.slope or 0.0
    if -1 < slope < 0:
        return (f"A slope of {slope:.4g} below zero is one of {1 / slope:.4g} of opposite units.",)
    return ()


def _open_signs(candidate: TracedCandidate) -> str:
    known = "The function is exact; " if _is_confirmed(candidate) else ""
    return f"{known}{counted(candidate.open_signs, 'sign')} of units are open"


def _is_confirmed(candidate: TracedCandidate) -> bool:
    """Whether all points that might refute the function do not."""
    return len(candidate.fresh) > 0 and len(candidate.off) == 0
