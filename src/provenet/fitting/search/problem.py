"""What is searched: samples, how good a fit of them is, and the limits of the search."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit, Samples, refine
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import LinearPart, linear_part
from provenet.fitting.search.policy import Policy, policy_of
from provenet.fitting.search.tolerances import (
    AT_ZERO,
    MOST_SHARE_OF_KINKED,
    MOST_SHARE_OF_SAMPLES,
    NEAR_STEPS,
    NEAR_TOLERANCE,
)
from provenet.fitting.tolerances import (
    FEWEST_ROWS,
    FLIP_WORK,
    ROUNDED,
    ROUNDING_ZERO,
    ROWS_A_FEATURE,
    ROWS_A_PARAMETER,
)
from provenet.networks.activations import ABS, Activation
from provenet.networks.network import free_outputs


@dataclass(frozen=True)
class Problem:
    """Standardised samples in memory and the limits of the search."""

    samples: ArraySource
    spread: float
    deadline: float = np.inf
    activation: Activation = ABS
    """Of the model that is fitted; absolute values stand for every piecewise linear one."""
    label_rounding: float = 0.0
    """Root mean square rounding error of labels that are finely rounded, as in single precision; 0
    for any others."""
    largest: float = np.inf
    """The largest norm of a unit's weights, where it counts."""
    enough: float = 0.0
    """Share of what counts as zero at which a fit ends; 0: when rounding is left."""
    layers: int = 1
    """Hidden layers of the model."""
    loss: Loss = SQUARES
    """What is to be lowered."""
    latest: float = np.inf
    """When what comes after the deadline must end, too: a judge has a few seconds else."""

    @property
    def policy(self) -> Policy:
        """What the search needs to know of the activation."""
        return policy_of(self.activation, self.layers)

    def searching(self) -> Problem:
        """The same problem with norms held together while units are missing, and no fit of more
        digits than it takes to know zero."""
        return replace(self, largest=self.policy.largest, enough=AT_ZERO)

    def with_free_norms(self) -> Problem:
        """The same problem with norms of any size, for a fit that has all its units."""
        return replace(self, largest=np.inf)

    @property
    def zero(self) -> float:
        """A root mean square residual below this counts as zero."""
        return max(self.policy.zero * self.spread, ROUNDED * self.label_rounding)

    @property
    def outputs(self) -> int:
        """Number of outputs, 1 for plain labels; of softmax those that are free."""
        return free_outputs(self.samples.outputs, self.loss.link)

    @property
    def widest(self) -> int:
        """The most units, of all layers, whose parameters the samples determine with something to
        spare."""
        n, tail = self.samples.size, self.linear_columns
        kinked = self.layers == 1 and self.policy.homogeneous
        room = (MOST_SHARE_OF_KINKED if kinked else MOST_SHARE_OF_SAMPLES) * n - tail
        if self.layers > 1:
            return max(self.layers, self._widest_layered(room * self.outputs))
        return max(1, min(int(room * self.outputs / self.a_unit), n // 2 - tail))

    def _widest_layered(self, room: float) -> int:
        """Of layers of one width w: `(layers - 1) w^2 + (features + layers + outputs) w`."""
        square, linear = self.layers - 1, self.samples.features + self.layers + self.outputs
        width = (np.sqrt(linear**2 + 4 * square * room) - linear) / (2 * square)
        return self.layers * int(width)

    @property
    def a_unit(self) -> int:
        """Free parameters of a unit: direction, bias, output weights, and its norm if it counts.

        Of the lowest layer, where there are several.
        """
        return self.samples.features + self.outputs + int(not self.policy.homogeneous)

    @property
    def linear_columns(self) -> int:
        """Columns of the model that are no units': of the inputs, if any, and the constant."""
        return self.samples.features + 1 if self.policy.linear else 1

    def parameters(self, *widths: int) -> int:
        """Free parameters of layers of these widths: those of each unit, and the linear part."""
        norm = int(not self.policy.homogeneous)
        fed = (self.samples.features, *widths[:-1])
        hidden = sum(w * (below + norm) for w, below in zip(widths, fed, strict=True))
        return hidden + (widths[-1] + self.linear_columns) * self.outputs

    def criterion(self, fit: Fit, price: float = 1.0) -> float:
        """Schwarz's criterion, its price of a parameter multiplied by `price`."""
        p = self.parameters(*fit.parameters.widths)
        told = self.samples.labels if self.loss is SQUARES else self.samples.size
        return float(self.misfit(fit.rss) + price * p * np.log(told))

    def misfit(self, rss: float) -> float:
        """The criterion's first term: what is left, as its logarithm or as the deviance it is."""
        if self.loss is not SQUARES:
            return rss
        n = self.samples.labels
        floor = (ROUNDING_ZERO * self.spread) ** 2 * n
        return float(n * np.log(max(rss, floor)))

    def growth(self, fit: Fit, more: Array) -> Array:
        """By how much the criterion's first term would rise with so much more left."""
        if self.loss is not SQUARES:
            return more
        return np.asarray(self.samples.labels * np.log1p(more / fit.rss))

    def linear_part(self, parameters: Parameters) -> LinearPart:
        """The sums that determine beta near where it is."""
        return linear_part(self.samples, parameters, self.activation, self.loss)

    def best_linear_part(self, parameters: Parameters, passes: int = 1) -> tuple[Parameters, float]:
        """The best beta for given units, and what it leaves."""
        samples = Samples.of(self.samples, parameters, self.activation, self.loss)
        point = samples.evaluate(parameters, passes)
        return point.parameters, point.value

    def is_zero(self, fit: Fit) -> bool:
        """Whether a fit leaves nothing."""
        return fit.rms <= self.zero

    def is_near_zero(self, fit: Fit) -> bool:
        """Whether a fit is on its way to zero, but not there: bad minima leave far more."""
        return self.zero < fit.rms <= self.policy.near_zero * self.spread

    def crawls(self, fit: Fit) -> bool:
        """Whether units enough are there, so much alike that least squares hardly gets to zero."""
        return self.is_near_zero(fit) and self.policy.crawls

    def for_width(self, *widths: int) -> Problem:
        """The same problem on as many samples as a model of this width, or widths, needs.

        Of class labels all of them: each tells little.
        """
        if self.loss is not SQUARES:
            return self
        d = self.samples.features
        # Each linear piece of the function needs its own samples, however many the outputs.
        a_piece = ROWS_A_FEATURE * (d + 1) if self.outputs > 1 else 0
        wanted = ROWS_A_PARAMETER * self.parameters(*widths) // self.outputs
        rows = max(
            FEWEST_ROWS, wanted, a_piece, ROWS_A_PARAMETER * (sum(widths) + self.linear_columns)
        )
        return self._on_first(rows)

    def to_tell_signs(self, units: int) -> Problem:
        """On as many samples as all flips of one sign or two can be compared on, for under noise a
        sign may hardly show, and at least on those that the width needs."""
        p = units + self.linear_columns
        rows = int(FLIP_WORK / (p * max(units, 1)) ** 2)
        return self._on_first(max(rows, self.for_width(units).samples.size))

    def _on_first(self, rows: int) -> Problem:
        if rows >= self.samples.size:
            return self
        return replace(self, samples=ArraySource(self.samples.X[:rows], self.samples.y[:rows]))

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return working_time() > self.deadline

    def refine(
        self,
        parameters: Parameters,
        iterations: int,
        tolerance: float,
        *,
        zero: float = 0.0,
    ) -> Fit:
        """Levenberg-Marquardt within the deadline; without units the linear part alone.

        It ends at `zero` of the labels' spread, if that is more than what counts as zero.
        """
        return refine(
            self.samples,
            parameters,
            self.activation,
            spread=self.spread,
            iterations=iterations,
            tolerance=tolerance,
            zero=max(ROUNDING_ZERO, self.enough * self.zero / self.spread, zero),
            largest=self.largest,
            deadline=self.deadline,
            loss=self.loss,
        )

    def refine_near_zero(self, fit: Fit) -> Fit:
        """Go on with a fit that is on its way to zero, if it is; norms are free then."""
        if not self.is_near_zero(fit):
            return fit
        return self.with_free_norms().refine(fit.parameters, NEAR_STEPS, NEAR_TOLERANCE)

    def refine_in_steps(
        self, parameters: Parameters, iterations: int, tolerance: float, last: int
    ) -> Fit:
        """Refine on as many samples as the width needs, then by `last` iterations on all."""
        part = self.for_width(*parameters.widths)
        fit = part.refine(parameters, iterations, tolerance)
        return fit if part is self else self.refine(fit.parameters, last, tolerance)
