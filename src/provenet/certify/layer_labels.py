"""What the labels of all samples say to a lowest layer, and those that no fit saw by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.certify.residual_form import Residuals
from provenet.certify.statements import Fires, Predicts, Statement
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Sums
from provenet.fitting.context import Context

LAST_DIGITS = 1e-10
"""Error of a label, over its size and the labels' spread, that is none. A convention: a million
times eps, for what standardisation and sums of products lose."""
SINGLE_PRECISION = 2.0**-22
"""The same for labels in single precision: twice their eps. Derived."""


@dataclass(frozen=True)
class LabelCount(Sums):
    """What all samples of a source say to a statement."""

    samples: int
    said: int
    """Of how many labels anything is said."""
    wrong: int
    unsure: int
    """Samples within one standard error of a face."""
    sides: AnyArray

    @classmethod
    def of(cls, statement: Statement, near: Array, X: Array, y: Array) -> LabelCount:
        """One block; labels are wrong that are off by more than `near` of (their size, 1)."""
        values, labels = statement.values(X), statement.read(y)
        said = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            right = np.abs(labels - values) <= near[0] * np.abs(labels) + near[1]
        unsure = int(statement.faces.unsure(X).sum()) if isinstance(statement, Fires) else 0
        wrong = int(np.sum(said & ~right))
        return cls(len(y), int(said.sum()), wrong, unsure, statement.sides(X))


@dataclass(frozen=True)
class LayerLabels:
    """The labels, held against one layer; each look passes over the samples once."""

    context: Context
    candidate: LayerCandidate

    @property
    def statement(self) -> Statement | None:
        """What the layer says of labels."""
        return self.candidate.statement

    @cached_property
    def all(self) -> LabelCount:
        """The labels of all samples, held against it."""
        assert self.statement is not None
        return self.context.source.total(partial(LabelCount.of, self.statement, self._near))

    @cached_property
    def _wrong_by_double_precision(self) -> int:
        assert self.statement is not None
        near = LAST_DIGITS * np.array([1.0, self.context.spread])
        return self.context.source.total(partial(LabelCount.of, self.statement, near)).wrong

    @cached_property
    def unseen(self) -> LabelCount:
        """Those of samples that no fit saw."""
        assert self.statement is not None
        held = self.context.held_out
        return LabelCount.of(self.statement, self._near, held.X, held.y)

    @cached_property
    def held(self) -> Residuals:
        """What is left of these."""
        assert isinstance(self.statement, Predicts)
        held = self.context.held_out
        return Residuals.of(self.context, self.statement, held.X, held.y)

    @cached_property
    def fitted(self) -> Residuals:
        """What is left of samples that were fitted."""
        assert isinstance(self.statement, Predicts)
        samples = self.context.fitted_samples
        return Residuals.of(self.context, self.statement, samples.X, samples.y)

    @cached_property
    def rounded(self) -> bool:
        """Whether labels come out in single precision only; whole numbers have no more digits."""
        return self.context.problem.label_rounding > 0 and self._wrong_by_double_precision > 0

    @property
    def _near(self) -> Array:
        digits = SINGLE_PRECISION if self.rounded else LAST_DIGITS
        return np.array([digits, digits * self.context.spread])

    @property
    def predicted(self) -> str:
        """What samples say, as a clause."""
        if self.statement is None:
            return "no label confirms it"
        if isinstance(self.statement, Predicts):
            share = self.held.size / self.context.spread
            return (
                f"{self.held.size:.3g} is left of {self.held.samples} samples that were not "
                f"fitted, {share:.2g} of the labels' spread"
            )
        if not self.statement.complete:
            own, all_ = int(self.all.sides[0].sum()), self.all.samples
            return f"of {all_} samples one fires alone on {own}"
        samples, right = self.unseen.samples, self.unseen.samples - self.unseen.wrong
        share = 100 * right / max(samples, 1)
        return f"of {samples} samples that were not fitted {right} are predicted ({share:.4g}%)"
