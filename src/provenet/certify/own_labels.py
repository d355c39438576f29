"""An answer from repaired labels, held against the labels that were given.

A method for corrupted labels fits others than the user's. What it took for corruption must look
like it: in a minority of the labels of every output, and with no regard to what the units do. A
wrong output weight makes right labels look corrupted, but only where its unit is on. So does a unit
that is not found because it is rarely on: where it is, which is a region of the inputs, all labels
are off, by multiples of its output weights.

Noise of any kind that is independent of the inputs leaves the units where they are; noise that is
not moves them, though what is fitted of it averages out. So it is asked in parts: whether labels
are far off, to which side, and by how much, against polynomials of the inputs and the units.

Its centre is another matter. Robust fits put the output bias at a centre that heavy tails do not
move, which is the mean only if the noise is symmetric. The distance of the two is how far the bias
may be off, and is part of its standard error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from provenet.certify.candidate import Repaired
from provenet.certify.checks import Check, Status
from provenet.certify.evidence import Evidence
from provenet.certify.residual_form import correlation, hermite_terms
from provenet.certify.tolerances import (
    CORRUPTED_SIGMAS,
    DEPENDENT,
    FAR_OFF,
    LAST_DIGITS,
    MOST_CORRUPTED,
    REGION,
    RELATED,
    SQUARES_FROM,
)
from provenet.common.typing import TINY, AnyArray, Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.huber import HUBER, huber_network, robust_scale, whitening
from provenet.fitting.model import Parameters
from provenet.moments.subspace import numerical_rank
from provenet.moments.symmetric import monomials
from provenet.networks.network import Network
from provenet.networks.piecewise import with_outputs_in_rows


@dataclass(frozen=True)
class SetAside:
    """The labels (samples, outputs) that a method for corrupted labels set aside."""

    corrupted: AnyArray

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to tell, as name and text."""
        count, labels = int(np.count_nonzero(self.corrupted)), self.corrupted.size
        yield "corrupted", f"{count:,} of {labels:,} labels ({count / labels:.2%}) set aside"


@dataclass(frozen=True)
class OwnLabels:
    """The labels that were given, beside what the network says of them."""

    X: Array
    """Inputs (samples, features)."""
    Z: Array
    """The same, standardised."""
    left: Array
    """What the network leaves of the labels, (samples, outputs)."""
    size: Array
    """Standard deviation of the network's outputs."""
    noise: float
    corrupted: AnyArray
    """Which labels are not what the network says, beyond noise: set aside."""

    @classmethod
    def of(cls, context: Context, evidence: Evidence) -> Self:
        """All samples of the source; those who repair labels hold them in memory."""
        X, y = context.source.rows(0, context.source.size)
        expected = evidence.network(X).reshape(len(X), -1)
        left, size = y.reshape(len(X), -1) - expected, expected.std(axis=0)
        noise = evidence.certificate.noise
        corrupted = np.abs(left) > np.maximum(LAST_DIGITS * size, CORRUPTED_SIGMAS * noise)
        return cls(X, context.standardisation.apply(X), left, size, noise, corrupted)

    def widened(self, errors: StandardErrors) -> StandardErrors:
        """Errors whose output bias may be off by the distance of the noise's centre and mean."""
        distance = self.left.mean(axis=0).reshape(np.shape(errors.output_bias))
        return replace(errors, output_bias=np.hypot(errors.output_bias, distance))

    def checks(self, repaired: Repaired, evidence: Evidence) -> Iterator[Check]:
        """What the labels say to the network, and whether what it leaves knows of the units."""
        if repaired.most_are_exact:
            yield self._a_minority()
            yield self._independent(self.corrupted.astype(float), evidence)
            yield self._anywhere()
            yield from self._of_no_unit()
        else:
            yield self._none_is_off()
            yield self._unrelated(evidence)
            yield from self._needed(evidence)

    def _a_minority(self) -> Check:
        share = self.corrupted.mean(axis=0)
        worst = int(np.argmax(share))
        return Check(
            "labels set aside are a minority",
            bool(share[worst] <= MOST_CORRUPTED),
            f"{100 * share[worst]:.1f}% of output {worst}",
            f"at most {100 * MOST_CORRUPTED:.0f}% of every output",
            f"{100 * share[worst]:.0f}% of the labels of output {worst} are not what the network "
            "says: what explains so few of them proves nothing. Leave that output out, or take "
            "more outputs.",
            Status.PARTIAL,
            samples=len(self.X),
        )

    def _anywhere(self) -> Check:
        """Are labels set aside with no regard to the inputs: to their means and second moments?"""
        masks = np.column_stack([self.corrupted, self._mostly_off])
        many = masks[:, masks.sum(axis=0) >= SQUARES_FROM]
        sigmas = max(_of_region(masks, self.Z), _of_region(many, monomials(self.Z, 2)))
        return Check(
            "labels set aside may be those of any inputs",
            sigmas <= REGION,
            f"{sigmas:.2g} sigma",
            f"at most {REGION:g}",
            "The labels that are not what the network says belong to inputs of one region "
            f"({sigmas:.0f} sigma): a unit that is rarely on looks like that, or corruption "
            'depends on the inputs. If all labels may be right, use method="auto".',
            Status.PARTIAL,
            samples=len(self.X),
        )

    @property
    def _mostly_off(self) -> AnyArray:
        """The samples with most labels set aside."""
        return np.asarray(self.corrupted.mean(axis=1) > 0.5)

    def _of_no_unit(self) -> Iterator[Check]:
        """Where most labels of several samples are off, are they off in more than a few directions?

        A unit that was not found leaves multiples of its output weights.
        """
        left = self.left[self._mostly_off]
        most = min(left.shape)
        if most < 2:
            return
        values = np.linalg.svd(left / np.maximum(self.size, TINY), compute_uv=False)
        rank = numerical_rank(np.asarray(values, dtype=float))
        yield Check(
            "samples set aside are off in every direction",
            rank == most,
            f"rank {rank} of {len(left)} samples",
            f"rank {most}",
            f"Most labels of {len(left)} samples are not what the network says, and what is left "
            f"of them has rank {rank} only, as {counted(rank, 'unit')} rarely on would leave it. "
            'If all labels may be right, use method="auto".',
            Status.PARTIAL,
            samples=len(left),
        )

    def _none_is_off(self) -> Check:
        """Labels that are off are noise, whatever the repaired ones say: exact it is not."""
        off = int(np.sum(np.abs(self.left) > LAST_DIGITS * self.size))
        return Check(
            "the labels given are predicted to the last digits",
            off == 0,
            f"{self.left.size - off:,} of {self.left.size:,}",
            "all of them",
            f"The network explains the labels up to noise of size {self.noise:.3g} in most of "
            f"them; {off:,} of {self.left.size:,} are not predicted to the last digits, and "
            f"{int(self.corrupted.sum()):,} lie beyond {CORRUPTED_SIGMAS:g} times the noise.",
            Status.WITHIN_NOISE,
            samples=len(self.X),
        )

    def _needed(self, evidence: Evidence) -> Iterator[Check]:
        """Is the weakest unit worth its parameters on these labels, the others refitted?

        Repaired labels lie about the network that they were repaired with, and speak for it.
        """
        unit, network = evidence.certificate.weakest_unit, evidence.network
        if unit is None or network.linear is not None:
            return
        gain = self._gain_of_unit(network, unit)
        price = (network.features + self.left.shape[1]) * np.log(self.left.size)
        yield Check(
            "the labels given need every unit",
            bool(gain > price),
            f"unit {unit}: {gain:.3g} variances",
            f"more than {price:.3g} (Schwarz)",
            f"Without unit {unit} the others explain the labels given nearly as well: it may be a "
            "figment of the noise. Ask for fewer units, or take more samples.",
            Status.PARTIAL,
            samples=len(self.X),
        )

    def _gain_of_unit(self, network: Network, unit: int) -> float:
        """How much a unit explains of the labels, in variances of Huber's estimate (Huber 1973).

        A label that is far off counts the same however far: a unit that catches a few of them
        explains nothing.
        """
        white, wide = whitening(self.left), with_outputs_in_rows(network)
        labels = white.apply(self.left + wide(self.X))
        left = labels - white.whitened(wide)(self.X)
        scale = robust_scale(left)
        others = white.whitened(wide.keep(np.arange(network.units) != unit))
        without = labels - self._refitted(others, labels, scale)
        t = np.abs(left) / scale
        noise = np.mean(np.minimum(t, HUBER) ** 2) / max(np.mean(t <= HUBER), 0.05)
        return float((_bounded(without / scale) - _bounded(left / scale)) / noise)

    def _refitted(self, network: Network, labels: Array, scale: Array) -> Array:
        """The values of Huber's estimate from a network; without units the labels' medians."""
        if network.units == 0:
            return np.median(labels, axis=0)
        tolerance = 0.1 / np.sqrt(len(self.X))
        start = Parameters.of(network)
        return huber_network(
            self.X, labels, start, network.activation, tolerance=tolerance, scale=scale
        ).predicted

    def _unrelated(self, evidence: Evidence) -> Check:
        """Noise of any law is the same everywhere."""
        rows = self._terms(evidence.network)
        looks = _looks(self.left, self.size)
        off = {name: self._most_related(rows, values) for name, values in looks.items()}
        name = max(off, key=lambda name: off[name])
        return Check(
            "what is left does not depend on the inputs",
            off[name] <= RELATED,
            f"{name}: {off[name]:.1f} standard errors",
            f"at most {RELATED:g}",
            f"What the network leaves of the labels depends on the inputs ({name}, by "
            f"{off[name]:.1f} standard errors): noise is not the same everywhere, or a unit is "
            "missing, and errors may be larger than stated. Take more samples, or leave out "
            "inputs where labels cannot be trusted.",
            Status.PARTIAL,
            samples=rows.shape[1],
        )

    def _terms(self, network: Network) -> Array:
        """Polynomials of the inputs, the units and whether they are on, one a row, of mean 0."""
        polynomials = hermite_terms(self.Z)[1:]
        margins = (self.X[: polynomials.shape[1]] @ network.weights.T + network.biases).T
        rows = np.vstack([polynomials, np.maximum(margins, 0.0), margins > 0])
        return np.asarray(rows - rows.mean(axis=1, keepdims=True))

    @staticmethod
    def _most_related(rows: Array, values: Array) -> float:
        used = values[: rows.shape[1]]
        return max(correlation(rows, column) for column in (used - used.mean(axis=0)).T)

    def _independent(self, values: Array, evidence: Evidence) -> Check:
        network = evidence.network
        on = self.X @ network.weights.T + network.biases > 0
        output, unit, sigmas = most_dependent(values, on)
        share = 100 * float(self.corrupted[:, output].mean())
        return Check(
            "what is left does not depend on the units",
            sigmas < DEPENDENT,
            f"{sigmas:.2g} sigma (output {output}, unit {unit})",
            f"less than {DEPENDENT:g}",
            f"{share:.0f}% of the labels of output {output} are not what the network says, and "
            f"what is left depends on whether unit {unit} is on ({sigmas:.0f} sigma): its weight "
            "there is wrong, or corruption depends on the inputs. Leave that output out, or take "
            "more outputs.",
            Status.PARTIAL,
            samples=len(self.X),
        )


def _bounded(t: Array) -> float:
    """Sum of squares, none larger than that of a label far off."""
    return float(np.sum(np.minimum(np.abs(t), FAR_OFF) ** 2))


def _looks(left: Array, size: Array) -> dict[str, Array]:
    """Bounded functions of what is left of each output: noise does not depend on inputs in any."""
    centred = left - np.median(left, axis=0)
    t = centred / np.maximum(robust_scale(centred), LAST_DIGITS * size + TINY)
    near, far = np.clip(t, -HUBER, HUBER), np.abs(t) > HUBER
    return {
        "what is left": near,
        "its size": np.abs(near),
        "how often it is large": far.astype(float),
        "the side of what is large": far * np.sign(t),
    }


def _of_region(masks: AnyArray, terms: Array) -> float:
    """By how many standard deviations some term is off where some mask is on, at most.

    A sum over k samples drawn at random has k times the variance of a term.
    """
    terms = (terms - terms.mean(axis=0)) / np.maximum(terms.std(axis=0), TINY)
    sums = masks.T.astype(float) @ terms
    count = np.maximum(masks.sum(axis=0), 1.0)
    return float(np.max(np.abs(sums) / np.sqrt(count)[:, None], initial=0.0))


def most_dependent(values: AnyArray, on: AnyArray) -> tuple[int, int, float]:
    """The output and the unit whose activity tells most about values, and its significance.

    The difference of the values' means where the unit is on and where it is off, over its standard
    error.
    """
    n, active = len(on), on.sum(axis=0)
    if on.shape[1] == 0:
        return 0, 0, 0.0
    B = np.asarray(values, dtype=float)
    together = B.T @ on
    total = B.sum(axis=0)[:, None]
    difference = together / np.maximum(active, 1) - (total - together) / np.maximum(n - active, 1)
    variance = np.maximum(B.var(axis=0), 1 / n)[:, None]
    spread = variance * n / np.maximum(active * (n - active), 1)
    z = np.abs(difference) / np.sqrt(spread)
    output, unit = np.unravel_index(np.argmax(z), z.shape)
    return int(output), int(unit), float(z[output, unit])
