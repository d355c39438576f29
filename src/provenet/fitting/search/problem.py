"""What is searched: samples, a model, how good a fit is, and the limits of the search.

*The model that is fitted.* Where reversing a unit's sign changes its value by something linear
(absolute values; ReLU, softplus, SiLU, GELU: `sigma(-z) = sigma(z) - z`), a free linear term makes
a unit and its opposite the same thing, and no sign is in the way; |z| stands for every piecewise
linear unit then. Odd units (tanh) are their own opposites with the output weight reversed: they
need none. Units without symmetry (ELU) get one all the same, and their opposites are tried. Several
layers are fitted as they are: no linear term passes by them, and pruning settles the signs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import EPS, TINY, Array
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit, Samples, refine
from provenet.fitting.linear import LinearPart, linear_part
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Parameters
from provenet.networks.activations import ABS, Activation, Symmetry
from provenet.networks.network import free_outputs


def fitted_form(activation: Activation, layers: int = 1) -> Activation:
    """The activation of the model that is fitted in place of another."""
    return ABS if activation.slope is not None and layers == 1 else activation


def zero_level(spread: float, label_rounding: float = 0.0, *, relative: float = 1e-11) -> float:
    """A root mean square residual below this counts as zero.

    A minimum that is not the network leaves far more; ill-conditioned units that are right leave
    less after a few steps. Labels that were rounded leave their rounding.
    """
    return max(relative * spread, 2 * label_rounding)


@dataclass(frozen=True)
class Problem:
    """Standardised samples in memory, a model of them, and the limits of the search."""

    samples: ArraySource
    spread: float
    """Standard deviation of the labels."""
    deadline: float = np.inf
    activation: Activation = ABS
    """Of the model that is fitted; absolute values stand for every piecewise linear one."""
    label_rounding: float = 0.0
    """Root mean square rounding error of labels that are finely rounded, as in single precision; 0
    for any others."""
    layers: int = 1
    """Hidden layers of the model."""
    loss: Loss = SQUARES
    latest: float = np.inf
    """When what comes after the deadline must end, too: a judge has a few seconds else."""

    # ---- the model

    @property
    def has_linear_term(self) -> bool:
        """Whether the model has a free linear term beside its units."""
        symmetry, kinked = self.activation.symmetry, self.activation.slope is not None
        uneven = symmetry is Symmetry.NONE and not self.homogeneous
        return self.layers == 1 and (kinked or symmetry is Symmetry.MIRROR or uneven)

    @property
    def homogeneous(self) -> bool:
        """Whether a unit's norm is a convention; else it counts."""
        return self.activation.degree is not None

    @property
    def is_kinked(self) -> bool:
        """Whether the model is one layer of homogeneous units."""
        return self.layers == 1 and self.homogeneous

    @property
    def outputs(self) -> int:
        """Number of outputs, 1 for plain labels; of softmax those that are free."""
        return free_outputs(self.samples.outputs, self.loss.link)

    @property
    def linear_columns(self) -> int:
        """Columns of the model that are no units': of the inputs, if any, and the constant."""
        return self.samples.features + 1 if self.has_linear_term else 1

    @property
    def a_unit(self) -> int:
        """Free parameters of a unit of the lowest layer: direction, bias, output weights, and its
        norm if that counts."""
        return self.samples.features + self.outputs + int(not self.homogeneous)

    def parameters(self, *widths: int) -> int:
        """Free parameters of layers of these widths: those of each unit, and the linear part."""
        norm, fed = int(not self.homogeneous), (self.samples.features, *widths[:-1])
        hidden = sum(w * (below + norm) for w, below in zip(widths, fed, strict=True))
        return hidden + (widths[-1] + self.linear_columns) * self.outputs

    @property
    def widest(self) -> int:
        """The most units, of all layers, for which labels are enough: parameters take up two thirds
        of them where units have kinks, for wider ones learn labels by heart, else three quarters.
        """
        share = (2 / 3 if self.is_kinked else 3 / 4) * self.samples.size - self.linear_columns
        if self.layers == 1:
            rank = self.samples.size // 2 - self.linear_columns
            return max(1, min(int(share * self.outputs / self.a_unit), rank))
        # Layers of one width w: (layers - 1) w^2 + (features + layers + outputs) w.
        linear = self.samples.features + self.layers + self.outputs
        roots = np.roots([self.layers - 1, linear, -share * self.outputs])
        return self.layers * max(1, int(roots.real.max()))

    # ---- how good a fit is

    @property
    def zero(self) -> float:
        """A root mean square residual below this counts as zero."""
        return zero_level(self.spread, self.label_rounding)

    def is_zero(self, fit: Fit) -> bool:
        """Whether a fit leaves nothing."""
        return fit.rms <= self.zero

    def bic(self, fit: Fit, price: float = 1.0, zero: float | None = None) -> float:
        """Schwarz's criterion `n log(rss) + p log(n)`, the price of a parameter multiplied by
        `price`. Residuals below `zero` are equal, by default those that count as zero; of class
        labels the deviance stands first."""
        n = self.samples.labels if self.loss is SQUARES else self.samples.size
        p, misfit = self.parameters(*fit.parameters.widths), fit.rss
        if self.loss is SQUARES:
            floor = self.zero if zero is None else zero
            misfit = n * np.log(max(n * fit.rms**2, n * floor**2, TINY))
        return float(misfit + price * p * np.log(n))

    def variance(self, fit: Fit) -> float:
        """Of the noise, if a fit leaves nothing else."""
        return fit.rss / max(fit.labels - self.parameters(*fit.parameters.widths), 1)

    def linear_part(self, parameters: Parameters) -> LinearPart:
        """The sums that determine beta near where it is."""
        return linear_part(self.samples, parameters, self.activation, self.loss)

    def best_linear_part(self, parameters: Parameters, passes: int = 1) -> tuple[Parameters, float]:
        """The best beta for given units, and what it leaves."""
        samples = Samples.of(self.samples, parameters, self.activation, self.loss)
        point = samples.evaluate(parameters, passes)
        return point.parameters, point.value

    # ---- on fewer samples

    def for_width(self, *widths: int, fewest: int = 300, a_parameter: int = 5) -> Problem:
        """The same problem on as many samples as layers of these widths need, some for each
        parameter. Of class labels all of them: each tells little."""
        if self.loss is not SQUARES:
            return self
        # Each linear piece of the function needs its own samples, however many the outputs.
        a_piece = 15 * (self.samples.features + 1) if self.outputs > 1 else 0
        wanted = a_parameter * self.parameters(*widths) // self.outputs
        columns = a_parameter * (sum(widths) + self.linear_columns)
        return self.head(max(fewest, wanted, a_piece, columns))

    def to_tell_signs(self, units: int, *, work: float = 2e9) -> Problem:
        """On as many samples as all flips of one sign or two can be compared on in about a second,
        for under noise a sign may hardly show; and on as many as the width needs."""
        rows = int(work / ((units + self.linear_columns) * max(units, 1)) ** 2)
        return self.head(max(rows, self.for_width(units).samples.size))

    def head(self, rows: int) -> Problem:
        """On the first samples only."""
        if rows >= self.samples.size:
            return self
        return replace(self, samples=ArraySource(self.samples.X[:rows], self.samples.y[:rows]))

    # ---- fits

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return working_time() > self.deadline

    def refine(
        self, parameters: Parameters, iterations: int, tolerance: float, *, zero: float = 0.0
    ) -> Fit:
        """Least squares within the deadline, that ends at `zero` of the labels' spread, at least at
        their rounding."""
        return refine(
            self.samples,
            parameters,
            self.activation,
            spread=self.spread,
            iterations=iterations,
            tolerance=tolerance,
            zero=max(4.5 * EPS, zero),
            deadline=self.deadline,
            loss=self.loss,
        )

    def refine_in_steps(
        self, parameters: Parameters, iterations: int, tolerance: float, last: int
    ) -> Fit:
        """Refine on as many samples as the width needs, then by `last` iterations on all.

        A fit that is zero on the first samples is the network, but for units that are seldom active
        there: it is refined to the end.
        """
        part = self.for_width(*parameters.widths)
        fit = part.refine(parameters, iterations, tolerance)
        if part.is_zero(fit):
            last, tolerance = 40, min(tolerance, 1e-2)
        if part is self or last == 0:
            return fit
        return self.refine(fit.parameters, last, tolerance)

    def with_no_output(self, *layers: Array) -> Parameters:
        """Units, their output weights and the linear part zero."""
        rows = len(layers[-1]) + self.linear_columns
        return Parameters(layers[-1], np.zeros((rows, *self.samples.label_shape)), layers[:-1])
