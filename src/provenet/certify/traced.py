"""A network that was read off a model's answers, with all that may confirm or refute it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.certify.answered import AGREES, Answered, most_off
from provenet.certify.layers_found import LayersFound
from provenet.certify.shown import WeightsShown
from provenet.certify.tolerances import CONFIDENCE, ROUNDING_MARGIN
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.networks.network import Network

KNOWN = 1e-9
"""Relative error of a unit up to which it is called exact. A convention."""
_LEAST = 1e-12
"""Relative error that answers beside a kink may always have: about what the weights are known to
at best (`benchmarks/extraction.py` measures 1e-12)."""

_TINIEST = 1e-300
"""Keeps a division by zero away. A convention."""


@dataclass(frozen=True)
class TracedCandidate:
    """A network that was read off a model's answers, and the answers that may confirm it."""

    network: Network
    guides: Answered
    """Points that led the search to where units were missing."""
    fresh: Answered
    """Random points that nothing was learned from; none if the search was stopped before."""
    inputs: str
    """What inputs these stand for: "standard normal inputs"."""
    searched: Answered
    """Points where what is off would show most easily: extremes, and fresh lines."""
    again: Answered
    """The first guides, asked again at the end."""
    at_kinks: Answered
    """Points where every unit switches and beside these."""
    kink_of: AnyArray
    """The unit that each of these belongs to, counted through all layers."""
    error_bound: float
    """How far rounding lets a unit be off, relatively, up to its sign."""
    kinks: tuple[int, ...]
    """How many each line met, one line after the other."""
    complete: bool
    """Whether some line could be followed, and measured in a piece at least."""
    asked: int
    """Points that were used to find it."""
    alternatives: int = 0
    """How many other signs of the units explain the function as well."""
    open_signs: int = 0
    """How many units have another sign in some of these, or have signs that were not all tried."""
    untried: str = ""
    """Why signs were left untried, and what would decide them, as a clause; empty if none were."""
    spare_bits: float = np.inf
    """Where one slope of all units was found: what the equations for it tell beyond a bit a sign.
    Infinite where units are of the activation that was asked for, or ReLU."""
    looks: int = 1
    """How many networks, with this one, were put to fresh points of their own."""
    showing: Answered | None = None
    """Rare points at which weights of a deep network show that do not elsewhere."""
    wanted: int | tuple[int, ...] | None = None
    """Number of units that was asked for, or those of every layer."""
    stopped: str = ""
    """What ended the search before its end and what to try, in sentences; empty if nothing did."""
    found: LayersFound | None = None
    """The layers of a deep network, as they were found; None where one layer was looked for."""
    deeper: LayersFound | None = None
    """What a search for several layers found that explains the function no better."""

    @property
    def error(self) -> float:
        """How far a unit may be off, relatively: for rounding, or for what fresh points leave.

        A unit too small to be found is left there, and moves the others. So is what rounding leaves
        of an output that varies little beside its mean: others may tell the units well, its own
        weights only its answers do.
        """
        left = self.fresh.part_left_by(self.network)
        return float(np.maximum(self.error_bound, ROUNDING_MARGIN * left))

    @property
    def allowed_at_kinks(self) -> Array:
        """How far rounding lets answers beside a kink be off, an output."""
        return allowed_at_kinks(self.fresh, self.error_bound)

    @property
    def shown(self) -> WeightsShown:
        """Which weights between layers show at the points asked."""
        points = self.guides + self.fresh + self.searched + self.at_kinks
        points = points if self.showing is None else points + self.showing
        return WeightsShown(
            self.network, points.X, np.maximum(self.fresh.allowed(AGREES), _TINIEST)
        )

    @property
    def signs_are_convention(self) -> bool:
        """Whether a linear term is left, which makes up for any signs of the units."""
        return self.network.linear is not None and self.network.units > 0

    @property
    def signs_are_open(self) -> bool:
        """Whether other signs of the units would do as well, or might."""
        return self.signs_are_convention or self.alternatives > 0 or bool(self.untried)

    @property
    def off(self) -> Answered:
        """Fresh, searched and rare points that the network does not predict."""
        parts = (self.fresh, self.searched)
        left = [~part.explained_by(self.network, part.allowed(AGREES)) for part in parts]
        found = self.fresh[left[0]] + self.searched[left[1]]
        return found if self.showing is None else found + self.showing[~self.rare_are_predicted]

    @property
    def rare_are_predicted(self) -> AnyArray:
        """Which rare points the network predicts: each output by the size of others, or its own.

        Piecewise linear answers grow with the distance, and so does what rounding of weights makes
        of them, also where they cancel: farther out than fresh points as much more is allowed.
        """
        if self.showing is None:
            return np.empty(0, dtype=bool)
        usual = float(np.median(np.linalg.norm(self.fresh.X, axis=1))) if len(self.fresh) else 1.0
        farther = np.linalg.norm(self.showing.X, axis=1) / max(usual, _TINIEST)
        allowed = self.fresh.allowed(AGREES) * np.maximum(farther, 1.0)[:, None]
        allowed = np.maximum(allowed, AGREES * np.abs(self.showing.values))
        return self.showing.explained_by(self.network, allowed)

    @property
    def most_off(self) -> float:
        """The part of all inputs that the fresh points leave to be off."""
        return most_off(len(self.fresh), self.looks)

    @property
    def room(self) -> str:
        """The same in words."""
        share = f"{100 * self.most_off:.1f}%"
        return f"at most {share} of {self.inputs} are off, at {100 * CONFIDENCE:.0f}%"

    @property
    def coverage(self) -> str:
        """What the fresh points say of all inputs, in words."""
        agree = self.fresh.explained_by(self.network, self.fresh.allowed(AGREES))
        return self.room if agree.all() else f"{int(np.sum(~agree))} of them are off"

    @property
    def lines(self) -> str:
        """What the lines met, or what was found a layer at a time, in words."""
        if self.found is not None:
            return f"Found one after the other: {self.found}."
        kinks = ", ".join(str(number) for number in self.kinks)
        return f"Kinks on {counted(len(self.kinks), 'line')}, one after the other: {kinks}."


def allowed_at_kinks(fresh: Answered, error_bound: float) -> Array:
    """How far rounding lets answers beside a kink be off, an output, of units that are known."""
    relative = np.clip(np.nan_to_num(error_bound, nan=KNOWN), _LEAST, KNOWN)
    return fresh.allowed(float(relative))
