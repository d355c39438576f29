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
from functools import cached_property

import numpy as np

from provenet.certify.certificate import Certificate
from provenet.certify.checks import Check, Status
from provenet.certify.evidence import Evidence, Unseen, fewest_to_confirm
from provenet.certify.noise_checks import noise_checks
from provenet.certify.rivals import RivalQuestions
from provenet.certify.smooth_checks import smooth_checks
from provenet.certify.tolerances import (
    BLURRED,
    EXACT_MARGIN,
    FAR_MORE,
    FEWEST_UNSEEN,
    HEAVY_TAILS,
    KURTOSIS_SIGMAS,
    LARGEST_EXACT_ERROR,
    MORE_THAN_GIVEN,
    MOVES,
    ROUNDING_MARGIN,
    SAMPLES_A_PARAMETER,
    SMALL_RESIDUAL,
    SPARE_SAMPLES,
    VISIBLE,
)
from provenet.common.ended import Ended
from provenet.common.words import counted
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.parameters import Parameters
from provenet.fitting.workspace import Workspace
from provenet.networks.conversions import as_absolute
from provenet.networks.network import Network
from provenet.networks.signs import is_one_slope
from provenet.networks.tolerances import TINY


def network_checks(workspace: Workspace, evidence: Evidence) -> Iterator[Check]:
    """All questions, in order."""
    about = _About(workspace, evidence)
    yield from what_is_left(workspace, evidence)
    yield about.some_unit()
    if evidence.network.units:
        yield from about.inputs()
        yield from about.each_unit()
        yield from about.all_units()
        yield from about.settled()


def what_is_left(workspace: Workspace, evidence: Evidence) -> Iterator[Check]:
    """Is what is left of unseen samples rounding, or noise and nothing else?"""
    about = _About(workspace, evidence)
    yield about.unseen()
    if not evidence.exact:
        yield from about.noise()


def unseen_are_predicted(workspace: Workspace, certificate: Certificate, seen: Unseen) -> Check:
    """Are samples predicted that no fit saw? Asked of networks of any depth."""
    spread = workspace.spread
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
        f"Take more samples{_or_other_units(workspace, 'more', ', ')}, or give more time with "
        "budget=.",
        samples=seen.samples,
    )


def _or_other_units(workspace: Workspace, how: str, joined: str = ", or ") -> str:
    """Advice to ask for another number of units, for those who asked for one."""
    return "" if workspace.units is None else f"{joined}ask for {how} units"


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
class _About:
    """The questions to one answer."""

    workspace: Workspace
    evidence: Evidence

    @property
    def certificate(self) -> Certificate:
        return self.evidence.certificate

    @property
    def network(self) -> Network:
        return self.evidence.network

    @property
    def left(self) -> str:
        relative = self.certificate.relative_residual
        return f"A residual of {relative:.2g} of the labels' spread is left"

    @property
    def found(self) -> str:
        how = "exactly" if self.evidence.exact else "up to noise"
        return f"The samples are explained {how}"

    @property
    def _kinked(self) -> bool:
        return self.network.activation.kinked

    @property
    def _bends(self) -> str:
        return "has its kink" if self._kinked else "bends"

    @property
    def labels(self) -> int:
        """Numbers that were fitted, repeated inputs counted once."""
        certificate = self.certificate
        return certificate.outputs * min(certificate.samples_fitted, certificate.distinct_inputs)

    @cached_property
    def _rivals(self) -> RivalQuestions:
        return RivalQuestions.of(self.workspace, self.evidence)

    # ------------------------------------------------------------ what is left

    def unseen(self) -> Check:
        """Are samples predicted that no fit saw?"""
        return unseen_are_predicted(self.workspace, self.certificate, self.evidence.unseen)

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
        if not self.workspace.refine and self.network.units:
            yield self._at_the_minimum()
        if self.network.units and not certificate.rounded:
            yield from self._rivals.no_better(self.left)
        elif self.network.units and not self.workspace.problem.label_rounding:
            yield from self._rivals.no_others(self.left)  # coarse steps have room for other units

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
            "further units would show",
            bool(small or self.certificate.rounded or price < VISIBLE * self.labels),
            f"{price / self.labels:.2g} of the residual",
            f"less than {VISIBLE:g}, or a residual below {SMALL_RESIDUAL:g} of the spread",
            f"{self.left}, and {seen} are too few to tell noise from further units: take more "
            f"{self._more}.",
        )

    @property
    def _more(self) -> str:
        """What would tell more: further samples, or other inputs where these repeat each other."""
        repeated = self.certificate.distinct_inputs < self.certificate.samples_fitted
        return "different inputs" if repeated else "samples"

    def _noise_as_given(self) -> Iterator[Check]:
        given, noise = self.workspace.noise, self.certificate.noise
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
        certificate, workspace = self.certificate, self.workspace
        if not certificate.label_precision or workspace.problem.label_rounding:
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
        gain = _gain_of_least_squares(self.workspace, self.evidence.own)
        moved = gain / max(self.certificate.noise**2, 1e-300) / self.certificate.parameters
        return Check(
            "least squares would not move it",
            moved <= MOVES,
            f"{moved:.2g} noise variances a parameter",
            f"at most {MOVES:g}",
            f"This is the method's own answer, not refined. {self.left}: use refine=True to "
            "finish it.",
        )

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
            f"more {self._more}.",
            Status.PARTIAL,
        )
        if self.evidence.exact and self.evidence.unseen.samples:
            yield Check(
                "unseen inputs differ",
                self.workspace.unseen >= FEWEST_UNSEEN,
                self.workspace.unseen,
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
            f"told from nothing. Take more samples{_or_other_units(self.workspace, 'fewer')}.",
            Status.PARTIAL,
        )
        if self.evidence.uneven:
            yield self._stands_out_of_uneven_noise(needed)
        if self._kinked:
            yield self._pinned_down(fewest)
        yield from smooth_checks(self.workspace, self.evidence, self.found)
        if certificate.closest_pair is not None:
            first, second, between = certificate.closest_pair
            yield Check(
                "no two units are alike",
                between >= fewest,
                f"{between} samples between the kinks of units {first} and {second}",
                f"at least {fewest}",
                f"{self.found}, but only {between} of them lie between the kinks of units {first} "
                f"and {second}, too few to tell the two apart: take more {self._more}.",
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
            f"{_or_other_units(self.workspace, 'fewer')}.",
            Status.PARTIAL,
        )

    def all_units(self) -> Iterator[Check]:
        """Might other units, or fewer, explain the samples as well?"""
        certificate = self.certificate
        if not self.evidence.exact:
            yield self._at_rest()
        if not (self.evidence.exact or certificate.rounded):
            yield self._no_tails()
            yield from noise_checks(self.workspace, self.evidence.own, self.found)
        if not self.evidence.exact:
            yield self._rivals.none_with_fewer_units(self.found)
        yield Check(
            "all parameters are determined",
            certificate.undetermined == 0,
            f"{counted(certificate.undetermined, 'direction')} free",
            "none",
            f"{self.found}, but they leave {certificate.undetermined} directions of the parameters "
            f"free (units too close to each other to tell apart): take more {self._more}.",
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

    def _at_rest(self) -> Check:
        """Standard errors speak of the least-squares network, so the fit must have got there.

        Coarse intervals have room for other networks as long as a fit inside them moves, and along
        the valleys of smooth units it may still go far.
        """
        ended = self.evidence.ended
        coarse = self.certificate.rounded and not self.workspace.problem.label_rounding
        coarse = coarse or not self._kinked
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

    def _no_tails(self) -> Check:
        """Noise is Gaussian or nearly so; few samples that stand out may be a missed unit."""
        kurtosis = self.certificate.residual_kurtosis
        chance = KURTOSIS_SIGMAS * np.sqrt(24 / self.certificate.samples_fitted)
        limit = float(max(chance, HEAVY_TAILS))
        return Check(
            "no few samples stand out",
            kurtosis <= limit,
            f"excess kurtosis {kurtosis:.3g}",
            f"at most {limit:.3g}",
            f"{self.found}, but most are explained far better than a few (excess kurtosis "
            f"{kurtosis:.0f}): these may be outliers, or two units close to each other that were "
            "taken for one. Look at the largest residuals.",
            Status.PARTIAL,
        )

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
            f"{len(self.evidence.ambiguities)} open",
            "none",
            f"{self.found}, but the signs of some units cannot be known from any samples: see the "
            "ambiguities.",
            Status.PARTIAL,
        )
        wanted = self.workspace.units
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
        shows = "have no kink" if self._kinked else "do not bend"
        return (
            f"{self.found} by {units} and a linear term: one or more units {shows} within reach of "
            "the samples. Take more samples, or samples further out, to tell them apart."
        )


def _gain_of_least_squares(workspace: Workspace, network: Network) -> float:
    """By how much least squares lowers the sum of squares of a network's residuals."""
    problem, samples = workspace.problem, workspace.problem.samples
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
