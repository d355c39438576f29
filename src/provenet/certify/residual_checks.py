"""Is what is left of samples rounding, or noise and nothing else?

Asked first of every network with one hidden layer, whatever is claimed of it; the first question,
whether unseen samples are predicted, of networks of any depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.about import About, or_other_units
from provenet.certify.certificate import Certificate
from provenet.certify.checks import Check, Status
from provenet.certify.evidence import Evidence, Unseen
from provenet.certify.tolerances import (
    BLURRED,
    FAR_MORE,
    HEAVY_TAILS,
    MORE_THAN_GIVEN,
    MOVES,
    ROUNDING_MARGIN,
    SAMPLES_A_PARAMETER,
    SMALL_RESIDUAL,
    SPARE_SAMPLES,
    VISIBLE,
)
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.least_squares import Ended, refine
from provenet.fitting.model import Parameters
from provenet.networks.network import Network

ENOUGH_TO_SEE_UNITS = "further units would show"
"""The name of a check: where it alone fails, samples are lacking."""


def what_is_left(context: Context, evidence: Evidence) -> Iterator[Check]:
    """Is what is left of unseen samples rounding, or noise and nothing else?"""
    about = ResidualQuestions(context, evidence)
    yield about.unseen()
    if not evidence.exact:
        yield from about.noise()


def unseen_are_predicted(context: Context, certificate: Certificate, seen: Unseen) -> Check:
    """Are samples predicted that no fit saw? Asked of networks of any depth."""
    spread = context.spread
    left = f"A residual of {certificate.relative_residual:.2g} of the labels' spread is left"
    if seen.samples == 0:
        return _none_unseen(certificate, seen, left)
    if seen.exact:
        limit, what = ROUNDING_MARGIN * seen.rounding / spread, "rounding"
    else:
        limit, what = seen.limit / spread, "noise"
    excess = 0.0 if seen.excess is None else seen.excess
    more = f"{excess:.1f} times what noise" if excess < FAR_MORE else "far more than noise"
    return Check(
        "unseen samples are predicted",
        seen.exact or certificate.rounded or seen.excess is None,
        seen.residual / spread,
        f"at most {limit:.2g} of the labels' spread ({what})",
        f"{left} on samples that were not fitted, {more} would leave: this is not yet the network. "
        f"Take more samples{or_other_units(context, 'more', ', ')}, or give more time with "
        "budget=.",
        samples=seen.samples,
    )


def _none_unseen(certificate: Certificate, seen: Unseen, left: str) -> Check:
    """Every sample was fitted: whatever they say, none is left to confirm it."""
    samples = f"All {certificate.samples_fitted} samples"
    explained = (
        f"{samples} are explained exactly, but all of them were fitted: the network is "
        "unconfirmed, and others may explain them as well. Take more samples."
    )
    return Check(
        "unseen samples are predicted",
        False,
        "no sample was unseen",
        "samples that no fit saw",
        explained
        if seen.exact
        else f"{left} on the samples, all of which were fitted: take more samples.",
        Status.PARTIAL if seen.exact else Status.FAILED,
        samples=0,
    )


def few_stand_out(certificate: Certificate) -> bool:
    """Whether a few samples are explained far worse than the others, as noise would not do."""
    return certificate.noise > 0 and certificate.residual_kurtosis > HEAVY_TAILS


@dataclass(frozen=True)
class ResidualQuestions(About):
    """The questions to what is left."""

    def unseen(self) -> Check:
        """Are samples predicted that no fit saw?"""
        return unseen_are_predicted(self.context, self.certificate, self.evidence.unseen)

    def noise(self) -> Iterator[Check]:
        """Can what is left be told from further units, and is it noise?"""
        certificate, p = self.certificate, self.certificate.parameters
        fitted = counted(certificate.samples_fitted, "sample")
        fewest = int(np.ceil(SAMPLES_A_PARAMETER * p)) + SPARE_SAMPLES
        yield Check(
            "labels are enough for the parameters",
            certificate.labels_fitted >= fewest,
            certificate.labels_fitted,
            f"at least {fewest:,}",
            f"{self.left}, and {fitted} are too few to tell whether {p} parameters explain them "
            "or merely fit them: take more samples.",
        )
        yield self._enough_to_see_units()
        yield from self._noise_as_given()
        yield from self._rounding_explains_it()
        if not self.context.refine and self.network.units:
            yield self._at_the_minimum()
        if self.network.units and not certificate.rounded:
            yield from self.rivals.no_better(self.left)
        elif self.network.units and not self.context.problem.label_rounding:
            yield from self.rivals.no_others(self.left)  # coarse steps have room for other units

    def _enough_to_see_units(self) -> Check:
        """Would a unit that makes a fifth of the residual be seen by Schwarz's criterion?

        A residual of less than a thousandth of the labels is not asked, nor one that rounding
        explains label by label: no unit hides there by chance.
        """
        price = self.network.parameters_a_unit * np.log(self.labels)
        small = self.certificate.relative_residual <= SMALL_RESIDUAL
        fitted, distinct = self.certificate.samples_fitted, self.certificate.distinct_inputs
        seen = f"{distinct:,} different inputs" if distinct < fitted else counted(fitted, "sample")
        return Check(
            ENOUGH_TO_SEE_UNITS,
            bool(small or self.certificate.rounded or price < VISIBLE * self.labels),
            f"{price / self.labels:.2g} of the residual",
            f"less than {VISIBLE:g}, or a residual below {SMALL_RESIDUAL:g} of the spread",
            f"{self.left}, and {seen} are too few to tell noise from further units: take more "
            f"{self.more}.",
        )

    def _noise_as_given(self) -> Iterator[Check]:
        given, noise = self.context.noise, self.certificate.noise
        if given is None or self.certificate.rounded:
            return
        yield Check(
            "noise is as large as was given",
            noise <= MORE_THAN_GIVEN * given,
            noise,
            f"at most {MORE_THAN_GIVEN * given:.3g}",
            f"{self.left}, noise of {noise:.3g} where {given:.3g} was given: there are more units, "
            "or the activation is another one.",
        )

    def _rounding_explains_it(self) -> Iterator[Check]:
        """Coarse steps are no noise: all labels come out, or noise is large beside a step."""
        certificate, context = self.certificate, self.context
        if not certificate.label_precision or context.problem.label_rounding:
            return
        sizes = certificate.noise / certificate.label_rounding
        yield Check(
            "rounding explains every label, or is small beside the noise",
            certificate.rounded or sizes > BLURRED,
            f"noise of {sizes:.2g} rounding errors",
            f"every label, or noise of more than {BLURRED:g}",
            f"{self.left}, but not every label, {certificate.label_precision}, comes out: there is "
            "noise of the size of a step, or a unit is missing. Take labels of more digits.",
            Status.PARTIAL,
        )

    def _at_the_minimum(self) -> Check:
        """Is an answer that was not refined where least squares would end?"""
        gain = _gain_of_least_squares(self.context, self.evidence.own)
        moved = gain / max(self.certificate.noise**2, 1e-300) / self.certificate.parameters
        return Check(
            "least squares would not move it",
            moved <= MOVES,
            f"{moved:.2g} noise variances a parameter",
            f"at most {MOVES:g}",
            f"This is the method's own answer, not refined. {self.left}: use refine=True to "
            "finish it.",
        )

    def at_rest(self) -> Check:
        """Standard errors speak of the least-squares network, so the fit must have got there.

        Coarse intervals have room for other networks as long as a fit inside them moves, and along
        the valleys of smooth units it may still go far.
        """
        ended = self.evidence.ended
        coarse = self.certificate.rounded and not self.context.problem.label_rounding
        coarse = coarse or not self.kinked
        return Check(
            "the last fit was finished",
            ended.at_rest if coarse else ended is not Ended.OUT_OF_TIME,
            "at rest" if ended.at_rest else ended.value,
            "at rest" if coarse else "not out of time",
            f"{self.found}, but the last fit ended before it came to rest ({ended.value}), so "
            "errors may be larger than stated: give more time with budget=, or take labels of more "
            "digits.",
            Status.PARTIAL,
        )


def _gain_of_least_squares(context: Context, network: Network) -> float:
    """By how much least squares lowers the sum of squares of a network's residuals."""
    problem, samples = context.problem, context.problem.samples
    left = network(samples.X) - samples.y
    fit = refine(
        samples,
        Parameters.of(network),
        network.activation,
        spread=problem.spread,
        iterations=20,
        tolerance=1e-6,
        deadline=np.inf,
    )
    return float(np.vdot(left, left)) - fit.rss
