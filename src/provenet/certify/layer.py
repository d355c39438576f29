"""A lowest layer that a method found, and what becomes of it: measured, asked, judged.

Nothing is refitted here: a layer is judged as it was found, on all samples of the user's source
and on those that no fit saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.checks import Check
from provenet.certify.statements import Statement
from provenet.common.typing import AnyArray, Array
from provenet.networks.layered import LayeredNetwork
from provenet.networks.network import Network


@dataclass(frozen=True)
class FirstStep:
    """What a paper's first step gave for each unit, and what its second made of it."""

    weights: Array
    """Rows of norm 1, on the user's inputs."""
    thresholds: Array
    angle_errors: Array
    """Radians, one standard error, by sampling; what the top adds is not in them."""
    turned: Array | None = None
    """Radians by which the second step turned each."""

    def with_last(self, weights: Array, order: AnyArray) -> FirstStep:
        """The same in the order of the answer, whose weights the second step gave."""
        W = self.weights[order]
        last = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        apart = np.minimum(np.linalg.norm(last - W, axis=1) / 2, 1.0)
        return FirstStep(W, self.thresholds[order], self.angle_errors[order], 2 * np.arcsin(apart))


@dataclass(frozen=True)
class LayerEvidence:
    """How well each unit of a lowest layer is pinned down.

    Without the top no label is predicted, so there is no residual: the evidence is in the faces of
    the units, where labels change.
    """

    angle_errors: Array
    """Radians by which each unit's weights may be off, one standard error; nan if not known."""
    threshold_errors: Array
    """The same for the thresholds."""
    samples: AnyArray
    """For each unit, the samples that it was found on."""
    exact: bool
    """Whether every label that the units speak of comes out to machine precision."""
    way: str
    """How directions were found and refined, in words."""
    notes: tuple[str, ...] = ()
    """What else was seen, such as whether the conditions of the method's theorem hold."""
    first: FirstStep | None = None
    """What moments alone gave, where a paper's second step followed (`faithful=True`)."""


@dataclass(frozen=True)
class LayerDetails:
    """The evidence for a lowest layer, and the layer with its top where that is known."""

    layer: LayerEvidence
    layered: LayeredNetwork | None

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to tell, as name and text."""
        yield "found by", self.layer.way
        if self.layer.exact:
            yield "directions", "exact to rounding"
        else:
            angle = float(np.degrees(np.max(self.layer.angle_errors)))
            offset = float(np.max(self.layer.threshold_errors))
            known = f", thresholds within {offset:.3g}" if np.isfinite(offset) else ""
            yield "directions", f"within {angle:.3g} degrees (one standard error){known}"
        first = self.layer.first
        if first is not None and first.turned is not None:
            before, turned = (np.degrees(a.max()) for a in (first.angle_errors, first.turned))
            yield (
                "step 1",
                f"within {before:.3g} degrees by sampling; turned by {turned:.3g} in step 2",
            )
        yield from (("seen", note) for note in self.layer.notes)
        if self.layered is not None:
            yield "top", self.layered.top_in_words


@dataclass(frozen=True)
class LayerCandidate:
    """A method's own answer: units on the user's inputs in canonical order, and what they say."""

    network: Network
    """The units, with the linear part of the top for output weights where it is known."""
    what: str
    """How many of what, in words: "3 units and the polynomial above"."""
    angle_errors: Array
    threshold_errors: Array
    samples: AnyArray
    way: str
    statement: Statement | None = None
    """What the layer says of labels; None if nothing, which no label can confirm."""
    layered: LayeredNetwork | None = None
    """The layer with its top, where that is known."""
    unrefined: str = ""
    """Why it was not refined on labels, in sentences; empty if it was."""
    determined: bool = True
    """Whether the labels determine every parameter of the fit."""
    parameters: int = 0
    """How many were fitted to labels; those of step 1 are not counted."""
    shows_apart: bool = False
    """Whether each unit shows by itself above the noise, so that noise of any size may be left;
    else what is left may be that of a bad minimum, which looks like noise too."""
    flip_rate: float = 0.0
    """Share of labels that are wrong far from every face."""
    findings: tuple[Check, ...] = ()
    """What the method saw on its way that speaks for the answer or against it."""
    notes: tuple[str, ...] = ()
    first: FirstStep | None = None
    """What a paper's first step gave, in the same order."""
    ambiguities: tuple[str, ...] = ()
    remark: str = ""
    """What to add to any message, in sentences."""

    @property
    def worst_error(self) -> float:
        """The largest of all standard errors; nan if one is not known."""
        return float(np.max([self.angle_errors, self.threshold_errors]))

    def evidence(self, exact: bool) -> LayerDetails:
        """The same as what is kept with a result."""
        layer = LayerEvidence(
            angle_errors=self.angle_errors,
            threshold_errors=self.threshold_errors,
            samples=self.samples,
            exact=exact,
            way=self.way,
            notes=self.notes,
            first=self.first,
        )
        return LayerDetails(layer, self.layered)
