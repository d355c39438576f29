"""What is said of units that bands told."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.certify.layer import LayerCandidate
from provenet.lowest_layer.bands.descent import BandEvidence, Refinement
from provenet.lowest_layer.from_bands import from_bands, layer_of
from provenet.lowest_layer.user_layer import open_top
from provenet.networks.activations import get_activation


def unit(angle: float, strength: float) -> Refinement:
    """One at an angle in a plane, known to a hundredth."""
    evidence = BandEvidence(0.0, 1.0, 0.01, 0.5, strength, one_unit=True)
    direction = np.array([np.cos(angle), np.sin(angle)])
    return Refinement(direction, 2.0, 0.01, 0.001, 0.01, "reached", 500, 0, (), evidence)


def candidate(*units: Refinement) -> LayerCandidate:
    layer = layer_of(units, get_activation("step"))
    return from_bands(units, open_top(layer), 0.0, "units")


@pytest.mark.parametrize(
    ("strength", "printed"), [(np.nan, "strength not measured"), (0.98, "strength 0.98")]
)
def test_a_strength_that_was_not_measured_is_no_number(strength: float, printed: str) -> None:
    (first, *_) = candidate(unit(0.0, strength)).findings
    assert first.figure == f"shares differ by 0.01, {printed}"


def test_units_that_came_out_as_one_are_both_told_so() -> None:
    found = candidate(unit(1.0, 1.0), unit(0.0, 1.0), unit(0.05, 1.0)).findings
    apart = [check for check in found if "apart" in check.name]
    # Twice 0.01, times ten, is 0.2: the two at 0 and 0.05 are one, the one at 1 is not.
    alike = [i for i, check in enumerate(apart) if not check.holds]
    assert len(alike) == 2 and len(apart) == 3
    for i, j in (alike, alike[::-1]):
        assert apart[i].measured == f"as unit {j}"
        assert apart[i].advice.startswith(f"Units {i} and {j} came out as one")
