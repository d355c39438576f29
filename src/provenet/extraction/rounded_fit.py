"""Least squares on random answers, from units that lines show roughly.

Absolute values beside a linear part, so that signs are in nobody's way. Some units may be there
twice, or be two that were met as one. Rounding inside a model follows its inputs, and a unit may be
found in it: so units count only if without any of them far more than rounding would be left. Of two
whose kinks have hardly a random point between them one goes, if the other does as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.extraction.box import Box
from provenet.extraction.deadline import Deadline
from provenet.extraction.rounded import RoughUnits
from provenet.extraction.tolerances import (
    BETWEEN_TWO,
    COARSENED,
    MADE_OF_OTHERS,
    ROUGH_LINES,
    ROUGH_POINTS,
    ROUGHLY_LEFT,
    SINGLE,
    SINGLE_LEFT,
    WITHIN_ERRORS,
)
from provenet.fitting.least_squares import Fit
from provenet.fitting.linear import fit_linear_part, linear_part, without_each_unit
from provenet.fitting.model import Parameters
from provenet.fitting.search.problem import Problem
from provenet.networks.activations import ABS
from provenet.networks.canonical import parameter_error
from provenet.networks.network import Network


def network_from_lines(
    units: RoughUnits, grown: Callable[[int], Answered], deadline: Deadline
) -> Network | None:
    """A network that explains random answers up to rounding, from the units of a few lines.

    `grown` asks for more random answers, until there are so many in all. None where no such network
    was found, or questions or time were spent.
    """
    try:
        while units.lines < ROUGH_LINES and not deadline.passed:
            units.follow_a_line()
            found = _fitted(units, grown, deadline) if len(units.b) else None
            if found is not None:
                return found
    except Spent:
        return None
    return None


def _fitted(
    units: RoughUnits, grown: Callable[[int], Answered], deadline: Deadline
) -> Network | None:
    """The network of the units met so far, if none seems to be missing or there are no more."""
    asked = grown(int(ROUGH_POINTS * units.theta.size))
    fits = FitOfUnits.of(asked, units.box, units.rounding.level, deadline)
    if fits.left_by(units.theta) > ROUGHLY_LEFT and units.lines < ROUGH_LINES:
        return None
    return fits.network(units.theta)


@dataclass(frozen=True)
class FitOfUnits:
    """On random answers, of inputs in units of the box: absolute values and a linear part."""

    problem: Problem
    box: Box
    rounding: float
    """Of an answer."""

    @classmethod
    def of(cls, asked: Answered, box: Box, level: float, deadline: Deadline) -> FitOfUnits:
        """For answers that are rounded to the part `level` of their size."""
        X, y = (asked.X - box.centre) / box.width, asked.y
        spread = float(np.sqrt(np.mean((y - y.mean(axis=0)) ** 2)))
        end = working_time() + deadline.left
        rounding = level * float(np.abs(y).max())
        return cls(Problem(ArraySource(X, y), spread, end, ABS, rounding), box, rounding)

    def with_fewer_units(self, network: Network) -> Network:
        """The same without units that are not needed where more random answers are known."""
        W, b = network.weights, network.biases
        theta = np.column_stack([W * self.box.width, b + W @ self.box.centre])
        return self._of_needed_units(self._refined(theta)) or network

    def left_by(self, theta: Array) -> float:
        """What units as they are leave, their output weights fitted, of the answers' spread."""
        _, rss = self._with_outputs(theta)
        return float(np.sqrt(rss / self.problem.samples.labels)) / self.problem.spread

    def network(self, theta: Array) -> Network | None:
        """The network that explains all answers up to rounding, if these units lead to one.

        Some may be there twice, or be two that were met as one: first without those that add
        nothing as they are, then with all of them.
        """
        start, rss = self._with_outputs(theta)
        adds = self._cost_without(start) > MADE_OF_OTHERS * rss
        fit = self._refined(theta[adds])
        if fit.rms > self.rounding and not adds.all():
            fit = self._refined(theta)
        return self._of_needed_units(fit)

    def _of_needed_units(self, fit: Fit) -> Network | None:
        """Without units that are rounding, or one of two that random answers do not tell apart."""
        if fit.rms > self.rounding:
            return None
        while fit.parameters.units and not self.problem.out_of_time:
            cost = self._cost_without(fit.parameters)
            little = fit.labels * (COARSENED * self.rounding) ** 2
            needless = (cost <= little) | self._smaller_of_two_alike(fit.parameters)
            if not needless.any():
                break
            theta, least = fit.parameters.theta, np.argmin(np.where(needless, cost, np.inf))
            fewer = self._refined(theta[~needless])
            if fewer.rms > self.rounding:
                fewer = self._refined(np.delete(theta, least, axis=0))
            if fewer.rms > self.rounding:
                break
            fit = fewer
        return self._of_inputs(fit.parameters)

    def _smaller_of_two_alike(self, parameters: Parameters) -> AnyArray:
        """Which units have a larger one whose kink is theirs but for a few random points.

        Or have none but for a few: nothing is larger than what does not switch.
        """
        X, theta = self.problem.samples.X, parameters.theta
        signs = np.column_stack([np.sign(X @ theta[:, :-1].T + theta[:, -1]), np.ones(len(X))])
        between = (len(X) - np.abs(signs.T @ signs)) / 2
        sizes = np.append(np.linalg.norm(parameters.output_weights, axis=0), np.inf)
        alike = between < BETWEEN_TWO * (X.shape[1] + 1)
        return np.asarray((alike & (sizes[:, None] > sizes)).any(axis=0)[:-1])

    def _with_outputs(self, theta: Array) -> tuple[Parameters, float]:
        """The units with the best output weights, and what they leave."""
        samples = self.problem.samples
        return fit_linear_part(samples, self.problem.with_no_output(theta), ABS, passes=2)

    def _cost_without(self, parameters: Parameters) -> Array:
        """How much more is left without each unit."""
        sums = linear_part(self.problem.samples, parameters, ABS)
        return without_each_unit(sums, parameters)

    def _refined(self, theta: Array) -> Fit:
        start, _ = self._with_outputs(theta)
        return self.problem.refine_in_steps(start, 100, 1e-5, 20)

    def _of_inputs(self, parameters: Parameters) -> Network:
        """The same network of the inputs themselves."""
        own = parameters.network(ABS)
        assert own.linear is not None, "absolute values have one beside them"
        W, linear = own.weights / self.box.width, own.linear / self.box.width
        return own.replace(
            weights=W,
            biases=own.biases - W @ self.box.centre,
            linear=linear,
            output_bias=own.output_bias - linear @ self.box.centre,
        )


def as_relu(network: Network) -> Network:
    """Absolute values as ReLU units and a linear term: `|z| = 2 relu(z) - z`."""
    W, b, a = network.weights, network.biases, network.output_weights
    assert network.linear is not None, "absolute values have one beside them"
    return network.replace(
        activation="relu",
        output_weights=2 * a,
        linear=network.linear - a @ W,
        output_bias=network.output_bias - a @ b,
    )


def sharper(found: Recovery, asked: Answered, deadline: Deadline) -> Recovery | None:
    """An answer to coarser answers with the network of the answers as they are.

    None where that is none of those that its standard errors, which stay, allow, or leaves more
    than single precision does: then units are missing that coarser answers hide.
    """
    network, errors = found.network, found.standard_errors
    if network is None or errors is None or network.layers > 1:
        return None
    samples = ArraySource(asked.X, asked.y)
    spread, end = float(np.std(asked.y)), working_time() + deadline.left
    problem = Problem(samples, spread, end, network.activation)
    fit = problem.refine(Parameters.of(network), 20, 1e-8)
    own = fit.parameters.network(network.activation).normalised()
    parts = errors.weights, errors.biases, errors.output_weights
    largest = max(float(np.max(part, initial=0.0)) for part in parts)
    near = parameter_error(own, network) <= WITHIN_ERRORS * np.sqrt(network.features) * largest
    size = float(np.abs(asked.y).max())
    if not near or fit.rms > SINGLE_LEFT * SINGLE * size or found.certificate is None:
        return None
    return replace(found, network=own, message=_told_coarsely(found, fit.rms / size))


def _told_coarsely(found: Recovery, left: float) -> str:
    """What a success says whose judge was shown other answers than the model's own."""
    if not found.success or found.network is None or found.certificate is None:
        return found.message
    return (
        f"A network of {counted(found.network.units, 'unit')} explains the answers to {left:.0e} "
        "of their size. It was judged by answers that are "
        f"{found.certificate.label_precision}, since rounding inside a model of single precision "
        "looks like further units; standard errors are those of such answers."
    )
