"""What is asked of a lowest layer.

All samples of the source are asked in one pass, and those that no fit saw by themselves.

- *exact* asks that every label of which the layer says anything comes out to the last digits, that
  each unit has samples of its own on either side, and that its parameters are determined;
- *within noise* asks that what is left of unseen labels is noise and nothing else; or, where only
  firing is read off the labels, that no more are wrong than flips and the stated errors make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc

from provenet.certify.checks import Check, Status
from provenet.certify.evidence import fewest_to_confirm
from provenet.certify.layer_labels import LAST_DIGITS, LabelCount, LayerLabels
from provenet.certify.residual_form import (
    NOT_CHANCE,
    UNLIKELY,
    Residuals,
    along_units,
    chance_of_form,
    dependence,
    tested_samples,
    unit_with_spikes,
)
from provenet.certify.statements import Fires, Predicts
from provenet.certify.tolerances import SPARE_SAMPLES
from provenet.common.words import counted

_LARGEST_EXACT_ERROR = 1e-7
"""Radians, as networks are asked for: a convention."""
_NO_CHANCE = 1e-3
"""A convention: a chance of so many wrong labels below which they are not those expected."""
_NOISE_OFF, _FITTED_NOISE_OFF = 0.05, 0.02
"""Shares by which what is left of unseen and of fitted labels may differ from the noise given,
beside chance. A convention."""
_SIGMAS = 4.0
"""Standard errors of a size that are chance."""
_MORE_THAN_NOISE = 1.1
"""Times the noise given, where units show by themselves. A convention."""
_WHY = (
    "a unit that does not show is missing (units=), the top is no polynomial of low degree, the "
    "activation is another, or the labels are a smooth function that looks like such units. Take "
    "more samples"
)


@dataclass(frozen=True)
class LayerQuestions(LayerLabels):
    """The questions to one layer."""

    @property
    def best(self) -> Status:
        """What the layer can be called at best."""
        statement = self.statement
        return Status.EXACT if statement is None or statement.numbers else Status.WITHIN_NOISE

    # ------------------------------------------------------------ words

    @property
    def errors(self) -> str:
        """How well the worst unit is known."""
        angles, thresholds = self.candidate.angle_errors, self.candidate.threshold_errors
        if self.candidate.worst_error == 0:
            return "0/1 weights beyond chance"
        return (
            f"with standard errors of at most {np.degrees(angles.max()):.2g} degrees in direction "
            f"and {thresholds.max():.2g} in threshold"
        )

    @property
    def open_top(self) -> str:
        """What to do with a layer alone."""
        if self.candidate.layered is not None:
            return ""
        return " What lies above them is open: learn_top fits it."

    @property
    def praise(self) -> str:
        """What to say if nothing speaks against it."""
        what, remark = self.candidate.what, self.candidate.remark
        if self.statement is None or not self.statement.numbers:
            return f"{what}, {self.errors}: {self.predicted}.{self.open_top}{remark}"
        if self.statement.complete:
            return (
                f"{what}, to machine precision: every label of {self.all.said} samples, "
                f"{self.unseen.said} of them not fitted, is predicted to the last digits.{remark}"
            )
        alone = int(self.all.sides[0].sum())
        return (
            f"{what} of the lowest layer to machine precision: every one of {self.all.samples} "
            f"samples fires where they do, and the {alone} on which one fires alone are predicted "
            f"exactly.{self.open_top}{remark}"
        )

    @property
    def _noisy_praise(self) -> str:
        left = "every label that is clear of their faces comes out as far as its digits go"
        if self.all.wrong:
            left = f"{self.predicted}, and looks like noise"
        return f"{self.candidate.what}, {self.errors}; {left}.{self.candidate.remark}"

    # ------------------------------------------------------------ questions

    def checks(self) -> Iterator[Check]:
        """All of them, in order, each advice with what was found."""
        for check in self._questions():
            if check.holds or check.otherwise is Status.WITHIN_NOISE:
                yield check
            else:
                found = f"Found: {self.candidate.what}; {self.predicted}."
                advice = f"{check.advice} {found}{self.candidate.remark}"
                yield replace(check, advice=advice)

    def _questions(self) -> Iterator[Check]:
        yield from self._number_of_units()
        if self.candidate.unrefined:
            yield self._refined()
        yield from self.candidate.findings
        if self.statement is not None:
            yield self._spoken_of()
            yield self._own_samples()
            yield self._different_inputs()
            yield self._determined()
            yield from self._labels()
            yield from self._unseen_inputs()
        elif not self.candidate.unrefined:
            yield Check(
                "labels confirm it",
                False,
                "nothing is said of them",
                "a top, or where labels fire",
                "No top was fitted, so no sample that was not fitted confirms the units. Take more "
                "samples.",
                Status.PARTIAL,
                samples=0,
            )

    def _number_of_units(self) -> Iterator[Check]:
        wanted, found = self.context.units, self.candidate.network.units
        if wanted is None:
            return
        missing = wanted - found
        show = "the other shows" if missing == 1 else f"the {missing} others show"
        yield Check(
            "as many units as were asked for",
            found == wanted,
            found,
            f"{wanted}",
            f"The labels need {counted(found, 'unit')}, more than the {wanted} asked for."
            if found > wanted
            else f"{wanted} units were asked for: {show} no face in these samples. {found} is "
            f"fewer than the {wanted} asked for; units may fire too rarely, be covered by others "
            "or be too close to them for the samples to tell.",
            Status.PARTIAL,
        )

    def _refined(self) -> Check:
        return Check(
            "it was refined on labels",
            False,
            self.candidate.way,
            "a fit to labels",
            self.candidate.unrefined,
            Status.PARTIAL,
        )

    def _spoken_of(self) -> Check:
        return Check(
            "labels confirm it",
            self.all.said > 0,
            f"{self.all.said:,} of {self.all.samples:,} labels",
            "some",
            "It says nothing of any label, so none confirms it. Take more samples.",
            Status.PARTIAL,
            samples=self.all.said,
        )

    def _own_samples(self) -> Check:
        """A unit without samples that it alone explains could be any other."""
        own = self.all.sides.min(axis=0)
        rarest, fewest = int(np.argmin(own)), fewest_to_confirm(self.candidate.network)
        return Check(
            "every unit has samples of its own",
            bool(own[rarest] >= fewest),
            f"unit {rarest}: {own[rarest]}",
            f"at least {fewest} on either side of its face",
            f"Unit {rarest} has {counted(int(own[rarest]), 'sample')} of its own on one side of "
            f"its face, and {fewest} are needed to confirm it. Take more samples, or ask for fewer "
            "units (units=).",
            Status.PARTIAL,
            samples=int(own[rarest]),
        )

    def _determined(self) -> Check:
        return Check(
            "all parameters are determined",
            self.candidate.determined,
            "yes" if self.candidate.determined else "no",
            "a Jacobian of full rank",
            "Not all of the weights are determined: some unit has no effect, or two are the same. "
            "Ask for fewer units (units=).",
            Status.PARTIAL,
        )

    def _different_inputs(self) -> Check:
        fewest, distinct = self.candidate.parameters + SPARE_SAMPLES, len(self.context.inputs)
        return Check(
            "different inputs are enough",
            distinct >= fewest,
            distinct,
            f"at least {fewest:,}",
            f"{counted(distinct, 'different input')} cannot confirm {self.candidate.parameters} "
            "parameters. Take more samples.",
            Status.PARTIAL,
        )

    def _labels(self) -> Iterator[Check]:
        """Do labels come out, or is what is left noise?"""
        if isinstance(self.statement, Fires):
            yield self._few_wrong(self.unseen, "labels that were not fitted")
            yield self._few_wrong(self.all, "labels")
            return
        if isinstance(self.statement, Predicts):
            yield from self._to_the_last_digits()
            if self.all.wrong:
                yield from self._noise(self.statement)
        else:
            yield self._uncontradicted()

    def _uncontradicted(self) -> Check:
        wrong, samples = self.all.wrong, self.all.samples
        return Check(
            "no label contradicts it",
            wrong == 0,
            f"{wrong} of {samples:,}",
            "none",
            f"The units explain the samples on which they fire alone to rounding, but {wrong} of "
            f"all {samples} samples contradict them: a unit is missing that fires too rarely to be "
            "found, or labels are not those of a lowest layer of ReLU units. Give units=, or more "
            "samples.",
            Status.PARTIAL,
            samples=self.all.said,
        )

    def _to_the_last_digits(self) -> Iterator[Check]:
        said, wrong = self.all.said, self.all.wrong
        yield Check(
            "every label comes out to the last digits",
            wrong == 0 and not self.rounded,
            f"{said - wrong:,} of {said:,}, {'single' if self.rounded else 'double'} precision",
            "all of them, in double precision",
            self._noisy_praise,
            Status.WITHIN_NOISE,
            samples=said,
        )
        worst = self.candidate.worst_error
        yield Check(
            "rounding leaves the units known",
            worst <= _LARGEST_EXACT_ERROR,
            worst,
            f"standard errors of at most {_LARGEST_EXACT_ERROR:.0e}",
            self._noisy_praise,
            Status.WITHIN_NOISE,
        )

    # ------------------------------------------------------------ labels as numbers

    def _noise(self, statement: Predicts) -> Iterator[Check]:
        """Is what is left noise? Asked where some label does not come out."""
        held, spread = self.held, self.context.spread
        if held.size < LAST_DIGITS * spread:
            yield self._rare_products()
            return
        yield self._as_large_as_given()
        tested = tested_samples(self.context, statement)
        yield self._without_form(statement, tested)
        spiked = unit_with_spikes(statement, tested)
        yield Check(
            "what is left is no larger at a face",
            spiked is None,
            "no" if spiked is None else f"at that of unit {spiked}",
            "at none",
            "What their best polynomial leaves of the labels is no noise, as it is larger at the "
            f"face of unit {spiked} than beside it: this unit may stand for two that are too close "
            "to each other to be told apart. Take more samples.",
            Status.PARTIAL,
            samples=tested.samples,
        )
        yield self._size_of_fitted()

    def _rare_products(self) -> Check:
        return Check(
            "every label comes out",
            False,
            f"all but {self.all.wrong:,} of {self.all.said:,}",
            "all",
            f"Samples that were not fitted are predicted to the last digits, but not "
            f"{self.all.wrong} of all {self.all.samples}: a product of units that fires rarely is "
            "not known. Take more samples.",
            Status.PARTIAL,
        )

    def _as_large_as_given(self) -> Check:
        given, held = self.context.noise, self.held
        slack = _NOISE_OFF + _SIGMAS / np.sqrt(2 * max(held.samples, 1))
        ratio = held.size / given if given else np.inf
        if self.candidate.shows_apart:
            holds = given is None or ratio <= _MORE_THAN_NOISE
            needed = "any, as each unit shows by itself"
            if given is not None:
                needed = f"at most {_MORE_THAN_NOISE * given:.3g}"
        else:
            holds, needed = bool(abs(ratio - 1) < slack), "noise of the size given (noise=)"
        was_given = (
            "if labels have so much noise, say so (noise=)"
            if not given
            else f"where noise={given:.2g} was given"
        )
        return Check(
            "what is left is as large as the noise",
            holds,
            held.size,
            needed,
            f"Their best polynomial leaves {held.size:.2g} of the labels unexplained "
            f"({was_given}): {_WHY}.",
            Status.PARTIAL,
            samples=held.samples,
        )

    def _size_of_fitted(self) -> Check:
        """Fitted labels, corrected for what was fitted: a bad minimum leaves more of these."""
        given, fitted = self.context.noise, self.fitted
        free = max(fitted.samples - self.candidate.parameters, 1)
        size = fitted.size * np.sqrt(fitted.samples / free)
        slack = _FITTED_NOISE_OFF + _SIGMAS / np.sqrt(2 * max(fitted.samples, 1))
        needed = bool(given) and not self.candidate.shows_apart
        return Check(
            "what is left of fitted labels is as large",
            not needed or bool(abs(size / (given or 1.0) - 1) < slack),
            size,
            f"{given:.3g} within {100 * slack:.2g}%" if needed else "no size was given",
            f"Their best polynomial leaves {size:.3g} of the labels that were fitted where "
            f"noise={given or 0:.3g} was given: {_WHY}.",
            Status.PARTIAL,
        )

    def _without_form(self, statement: Predicts, tested: Residuals) -> Check:
        rounding = LAST_DIGITS * self.context.spread
        along = along_units(statement, tested, rounding)
        off = max(dependence(self.held, self.fitted, tested), along)
        chance = chance_of_form(statement, self.held)
        return Check(
            "what is left does not depend on the inputs",
            off <= NOT_CHANCE and chance >= UNLIKELY,
            f"{off:.1f} standard errors, chance {chance:.2g}",
            f"at most {NOT_CHANCE:g}, at least {UNLIKELY:g}",
            "What their best polynomial leaves of the labels is no noise, by "
            f"{off:.1f} standard errors (chance {chance:.1g}): {_WHY}.",
            Status.PARTIAL,
            samples=self.held.samples,
        )

    # ------------------------------------------------------------ labels that fire or not

    def _few_wrong(self, count: LabelCount, which: str) -> Check:
        """No more labels are wrong than flips and the stated errors of the faces make."""
        unsure = self.all.unsure / self.all.samples
        expected = min(self.candidate.flip_rate + 1 / self.all.samples + unsure, 1.0)
        wrong = count.wrong
        chance = float(bdtrc(wrong - 1, count.samples, expected)) if wrong else 1.0
        share = 100 * wrong / max(count.samples, 1)
        return Check(
            f"{which} fire where they should",
            chance >= _NO_CHANCE,
            f"{share:.3g}% wrong",
            f"about {100 * expected:.2g}% (flips and stated errors), but for chance",
            f"More {which} are wrong, {share:.3g}%, than flips and the stated errors make, about "
            f"{100 * expected:.2g}%: the answer misses something, such as a second halfspace near "
            "one of these, or inputs between the few values that were fitted. Take more samples.",
            Status.PARTIAL,
            samples=count.samples,
        )

    def _unseen_inputs(self) -> Iterator[Check]:
        assert self.statement is not None
        fewest, unseen = self.statement.fewest_unseen, self.context.unseen
        if not fewest:
            return
        yield Check(
            "unseen inputs are enough",
            unseen >= fewest,
            unseen,
            f"at least {fewest}",
            f"Only {counted(unseen, 'different input')} could be kept from the fit, too few to "
            f"confirm the answer where {fewest} are asked. Take more samples.",
            Status.PARTIAL,
        )
