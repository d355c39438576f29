"""What is asked of a network with one hidden layer of which all weights are claimed.

- *exact* asks for a residual at the level of rounding on samples that no fit saw, for every unit to
  have more samples than it has parameters on both sides of its kink, and for a Jacobian of full
  rank: otherwise other networks fit the samples as well. Of smooth units a few too many fit almost
  anything smooth: of them it asks whether fewer would do;
- *within noise* asks that unseen samples are predicted no worse than fitted ones, and that no
  further unit explains anything of what is left.

Checks that leave "failed" come first, the cheap before the dear; what follows a failed one of these
is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.about import About, or_other_units
from provenet.certify.certificate import Certificate
from provenet.certify.checks import Check, Status
from provenet.certify.evidence import Evidence, fewest_to_confirm
from provenet.certify.noise_checks import noise_checks
from provenet.certify.residual_checks import ResidualQuestions, what_is_left
from provenet.certify.smooth_checks import smooth_checks
from provenet.certify.tolerances import (
    EXACT_MARGIN,
    FEWEST_UNSEEN,
    LARGEST_EXACT_ERROR,
    SPARE_SAMPLES,
)
from provenet.common.typing import TINY
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.model import Parameters
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute
from provenet.networks.signs import is_one_slope


def network_checks(context: Context, evidence: Evidence) -> Iterator[Check]:
    """All questions, in order."""
    about = _UnitQuestions(context, evidence)
    yield from what_is_left(context, evidence)
    yield about.some_unit()
    if evidence.network.units:
        yield from about.inputs()
        yield from about.each_unit()
        yield from about.all_units()
        yield from about.settled()


@dataclass(frozen=True)
class _UnitQuestions(About):
    """The questions to the units of one answer."""

    @property
    def _bends(self) -> str:
        return "has its kink" if self.kinked else "bends"

    def some_unit(self) -> Check:
        """Is there a unit at all?"""
        advice = (
            f"The labels are a linear function of the inputs: no unit {self._bends} within reach "
            "of the samples. Take samples further out."
            if self.evidence.exact
            else "No unit stands above the noise of the labels: take more samples, or check that "
            "the labels belong to these inputs."
        )
        return Check(
            "a unit shows",
            self.network.units > 0,
            self.network.units,
            "at least 1",
            advice,
            Status.PARTIAL if self.evidence.exact else Status.FAILED,
        )

    # ------------------------------------------------------------ what is missing

    def inputs(self) -> Iterator[Check]:
        """Do enough different inputs confirm the fit?"""
        p = self.certificate.parameters
        distinct = min(self.certificate.samples_fitted, self.certificate.distinct_inputs)
        yield Check(
            "different inputs are enough",
            self.labels >= p + SPARE_SAMPLES,
            self.labels,
            f"at least {p + SPARE_SAMPLES:,}",
            f"{self.found}, but {distinct} different inputs cannot confirm {p} parameters: take "
            f"more {self.more}.",
            Status.PARTIAL,
        )
        if self.evidence.exact and self.evidence.unseen.samples:
            yield Check(
                "unseen inputs differ",
                self.context.unseen >= FEWEST_UNSEEN,
                self.context.unseen,
                f"at least {FEWEST_UNSEEN}",
                f"{self.found}, but the inputs repeat each other so much that none is left to "
                "confirm it: other networks may agree on these. Take samples with other inputs.",
                Status.PARTIAL,
            )

    def each_unit(self) -> Iterator[Check]:
        """Is each unit needed, pinned down, and apart from the others?"""
        certificate, fewest = self.certificate, fewest_to_confirm(self.network)
        needed = margin_needed(certificate, self.network)
        unit = "noise" if certificate.noise else "rounding"
        yield Check(
            "every unit is needed",
            bool(certificate.weakest_margin > needed),
            f"unit {certificate.weakest_unit}: {certificate.weakest_margin:.3g} times {unit}",
            f"more than {needed:.3g}",
            f"{self.found}, but unit {certificate.weakest_unit} hardly contributes: it cannot be "
            f"told from nothing. Take more samples{or_other_units(self.context, 'fewer')}.",
            Status.PARTIAL,
        )
        if self.evidence.uneven:
            yield self._stands_out_of_uneven_noise(needed)
        if self.kinked:
            yield self._pinned_down(fewest)
        yield from smooth_checks(self.context, self.evidence, self.found)
        if certificate.closest_pair is not None:
            first, second, between = certificate.closest_pair
            yield Check(
                "no two units are alike",
                between >= fewest,
                f"{between} samples between the kinks of units {first} and {second}",
                f"at least {fewest}",
                f"{self.found}, but only {between} of them lie between the kinks of units {first} "
                f"and {second}, too few to tell the two apart: take more {self.more}.",
                Status.PARTIAL,
            )

    def _pinned_down(self, fewest: int) -> Check:
        rarest = int(np.argmin(self.certificate.rarer_side))
        return Check(
            "every unit is pinned down",
            len(self.evidence.unresolved) == 0,
            f"unit {rarest}: {self.certificate.rarer_side[rarest]} samples beyond its kink",
            f"at least {fewest} on either side, and a known direction",
            f"{self.found}, but units {self.evidence.unresolved.tolist()} are not pinned down by "
            "them (too few samples on one side of the kink, or too much noise): take more samples.",
            Status.PARTIAL,
        )

    def _stands_out_of_uneven_noise(self, needed: float) -> Check:
        """Where noise is loud, units that follow it look needed; their own errors know better."""
        weights = np.atleast_2d(self.evidence.network.output_weights)
        errors = np.atleast_2d(self.evidence.standard_errors.output_weights)
        sigmas = np.linalg.norm(weights / np.maximum(errors, TINY), axis=0)
        weakest = int(np.argmin(sigmas))
        return Check(
            "every unit stands out of uneven noise",
            bool(sigmas[weakest] > needed),
            f"unit {weakest}: {sigmas[weakest]:.3g} standard errors",
            f"more than {needed:.3g}",
            f"{self.found}, but the noise is not of the same size everywhere, and unit {weakest} "
            "may follow it where it is loud. Take more samples"
            f"{or_other_units(self.context, 'fewer')}.",
            Status.PARTIAL,
        )

    def all_units(self) -> Iterator[Check]:
        """Might other units, or fewer, explain the samples as well?"""
        certificate, left = self.certificate, ResidualQuestions(self.context, self.evidence)
        if not self.evidence.exact:
            yield left.at_rest()
        if not (self.evidence.exact or certificate.rounded):
            yield from noise_checks(self.context, self.evidence.own, self.found)
        if not self.evidence.exact:
            yield self.rivals.none_with_fewer_units(self.found)
        yield Check(
            "all parameters are determined",
            certificate.undetermined == 0,
            f"{counted(certificate.undetermined, 'direction')} free",
            "none",
            f"{self.found}, but they leave {certificate.undetermined} directions of the parameters "
            f"free (units too close to each other to tell apart): take more {self.more}.",
            Status.PARTIAL,
        )
        if self.evidence.exact:
            bound = certificate.parameter_error_bound
            yield Check(
                "rounding leaves the units known",
                bound <= LARGEST_EXACT_ERROR,
                bound,
                f"at most {LARGEST_EXACT_ERROR:.0e}, relatively",
                f"{self.found}, but they hardly determine the units: relative errors up to "
                f"{bound:.0e} would not show. Take more samples, centre inputs that are far from "
                "zero, or remove nearly dependent ones.",
                Status.PARTIAL,
            )

    @property
    def _open_signs(self) -> str:
        """Beside a linear term signs are a convention: that check speaks for both."""
        if self.network.linear is not None:
            return "a convention, beside a linear term"
        return f"{len(self.evidence.ambiguities)} open"

    def settled(self) -> Iterator[Check]:
        """Is a linear term left, a sign open, a unit missing that was asked for?"""
        units = counted(self.network.units, "unit")
        yield Check(
            "no linear term is left",
            self.network.linear is None,
            "none" if self.network.linear is None else "one",
            "none",
            self._about_linear_term(units),
            Status.PARTIAL,
        )
        yield Check(
            "signs are determined",
            not self.evidence.ambiguities or self.network.linear is not None,
            self._open_signs,
            "none",
            f"{self.found}, but the signs of some units cannot be known from any samples: see the "
            "ambiguities.",
            Status.PARTIAL,
        )
        wanted = self.context.units
        if wanted is not None:
            yield Check(
                "all units that were asked for show",
                self.network.units >= wanted,
                self.network.units,
                f"{wanted}",
                f"{self.found} by {units}, not {wanted}: the others do not show in these samples. "
                "Take more samples, or ask for fewer units.",
                Status.PARTIAL,
            )

    def _about_linear_term(self, units: str) -> str:
        if self.network.linear is None:
            return ""
        if _another_slope(self.evidence.own):
            return (
                f"{self.found} by {units} and a linear term that one slope of all units below zero "
                'explains: name activation="leaky_relu", or "abs".'
            )
        shows = "have no kink" if self.kinked else "do not bend"
        return (
            f"{self.found} by {units} and a linear term: one or more units {shows} within reach of "
            "the samples. Take more samples, or samples further out, to tell them apart."
        )


def _another_slope(network: Network) -> bool:
    """Whether units of another slope below zero explain the samples without a linear term."""
    if network.activation.slope is None or network.units == 0:
        return False
    own = Parameters.of(as_absolute(network))
    m = own.units
    return is_one_slope(own.beta[:m].T, own.theta[:, :-1], own.beta[m:-1].T)


def margin_needed(certificate: Certificate, network: Network) -> float:
    """The margin at which the weakest unit is worth its parameters (Schwarz's criterion)."""
    if certificate.noise == 0:
        return float(EXACT_MARGIN * np.sqrt(certificate.labels_fitted))
    return float(np.sqrt(network.parameters_a_unit * np.log(certificate.labels_fitted)))
