"""The certificate as a table: each assumption, what was measured, what it is held against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.certificate import Certificate
from provenet.certify.checks import Status
from provenet.certify.judgement import SPARE_SAMPLES, fewest_to_confirm, margin_needed
from provenet.certify.result import Recovery
from provenet.common.words import counted
from provenet.networks.network import Network
from provenet.report.console import figure, further_evidence
from provenet.report.tables import small


@dataclass(frozen=True)
class Assumption:
    """One line of the certificate."""

    name: str
    measured: str
    against: str
    """What it is compared with."""
    holds: bool | None
    """None: a figure to know, not a condition."""
    meaning: str

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return {True: "holds", False: "does not hold", None: "for information"}[self.holds]


def assumptions(result: Recovery) -> list[Assumption]:
    """All lines of the certificate; none where there is none."""
    if result.certificate is None:
        return []
    return [*_about_samples(result, result.certificate), *_about_units(result, result.certificate)]


def notes(result: Recovery) -> list[tuple[str, str]]:
    """What else was seen, as name and text; the names begin with a capital letter."""
    found = list(further_evidence(result))
    if result.certificate is not None:
        certificate = result.certificate
        found.insert(0, ("number of units", certificate.width_evidence))
        found += [("warning", warning) for warning in certificate.warnings]
    return [(name.capitalize(), text) for name, text in found]


def _about_samples(result: Recovery, certificate: Certificate) -> Iterator[Assumption]:
    yield _prediction(result, certificate)
    distinct = min(certificate.samples_fitted, certificate.distinct_inputs) * certificate.outputs
    yield Assumption(
        "Enough samples",
        f"{counted(distinct, 'label')} of different inputs",
        f"{counted(certificate.parameters, 'parameter')} and {SPARE_SAMPLES} to confirm them",
        distinct >= certificate.parameters + SPARE_SAMPLES,
        f"{distinct / max(certificate.parameters, 1):.1f} labels a parameter: with fewer than one, "
        "many networks fit the samples.",
    )
    check = certificate.gaussian
    yield Assumption(
        "Gaussian inputs",
        f"skewness {figure(check.skewness)}, excess kurtosis {figure(check.excess_kurtosis)}, of "
        f"all together {figure(check.radial_kurtosis)}",
        "0, but for chance",
        check.ok,
        f"{check.message} Methods that use moments need it; least squares on samples does not.",
    )
    if certificate.noise:
        yield Assumption(
            "Form of the noise",
            f"excess kurtosis {figure(certificate.residual_kurtosis)}",
            "0 for Gaussian noise",
            None,
            "Large when a few samples stand out, such as outliers.",
        )
    if certificate.label_rounding:
        yield Assumption(
            "Precision of the labels",
            f"rounding of {small(certificate.label_rounding)}",
            "0 in double precision",
            None,
            "The labels are of single precision: no residual can be smaller than their rounding.",
        )


def _prediction(result: Recovery, certificate: Certificate) -> Assumption:
    """The residual against rounding, or against the noise."""
    exact = certificate.noise == 0
    name, size = ("rounding", certificate.rounding) if exact else ("the noise", certificate.noise)
    ratio = certificate.residual / size if size > 0 else math.nan
    return Assumption(
        "What is left is rounding or noise",
        f"residual {small(certificate.residual)}, {small(certificate.relative_residual)} of the "
        "labels' spread",
        f"{figure(ratio)} times {name} ({small(size)})",
        result.status is not Status.FAILED,
        f"On {counted(certificate.samples_held_out, 'sample')} that no fit saw. An exact answer "
        "leaves rounding alone, any other noise alone; where that is not so, the first lines of "
        "this page say why.",
    )


def _about_units(result: Recovery, certificate: Certificate) -> Iterator[Assumption]:
    network = result.network
    if network is None:
        return
    yield Assumption(
        "Independent weights",
        f"condition number {figure(certificate.condition)}",
        "1 at best, infinite if dependent",
        math.isfinite(certificate.condition),
        "Of the weights, rows of norm 1. Methods that use moments need it; the larger it is, the "
        "more samples they take.",
    )
    yield from _each_unit(network, certificate)
    yield Assumption(
        "All parameters are determined",
        f"{counted(certificate.undetermined, 'direction')} left free",
        "0",
        certificate.undetermined == 0,
        "Directions in which all parameters could move together without a change on the samples.",
    )
    yield Assumption(
        "Error bound",
        f"{small(certificate.parameter_error_bound)}, relatively",
        "the smaller, the surer",
        None,
        "How far a unit can be from the truth with such a residual, to first order.",
    )


def _each_unit(network: Network, certificate: Certificate) -> Iterator[Assumption]:
    """What is asked of every unit, of the one that is worst."""
    if certificate.weakest_unit is not None:
        needed = margin_needed(certificate, network.features)
        yield Assumption(
            "Every unit is needed",
            f"unit {certificate.weakest_unit + 1}: {_large(certificate.weakest_margin)} standard "
            f"deviations of {'the noise' if certificate.noise else 'rounding'}",
            f"at least {_large(needed)}",
            certificate.weakest_margin > needed,
            "What the fit would lose without its weakest unit.",
        )
    fewest = fewest_to_confirm(network)
    if len(certificate.rarer_side):
        unit = int(np.argmin(certificate.rarer_side))
        count = int(certificate.rarer_side[unit])
        yield Assumption(
            "Samples on both sides of every kink",
            f"unit {unit + 1}: {counted(count, 'sample')} on the rarer side",
            f"at least {fewest:,}",
            count >= fewest,
            "A unit that hardly ever switches cannot be told from a linear function.",
        )
    if certificate.closest_pair is not None:
        first, second, between = certificate.closest_pair
        yield Assumption(
            "No two units alike",
            f"{counted(between, 'sample')} between the kinks of units {first + 1} and {second + 1}",
            f"at least {fewest:,}",
            between >= fewest,
            "Of the closest pair: samples on which one of the two is on and the other off.",
        )


def _large(value: float) -> str:
    """Three digits at least, in full where that is short."""
    return f"{value:,.0f}" if 100 <= value < 1e6 else figure(value)
