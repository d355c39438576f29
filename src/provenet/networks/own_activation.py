"""Whether an activation of the user's own is what it says of itself.

Its function must be finite everywhere, its derivative the function's, its degree, symmetry and
period true, and an inverse is for a function that is zero below zero. A mistake there is no
exception later on but a wrong slope in every step, so a few values are compared at the door.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.networks.activations import Activation, Symmetry, is_own
from provenet.networks.tolerances import (
    OWN_DIFFERENCE,
    OWN_NEAR_ZERO,
    OWN_PROBES,
    OWN_ROUNDING,
    OWN_SYMMETRY,
)


def check_own_activation(activation: Activation) -> None:
    """Raise for a function and facts about it that contradict each other; ours are not asked."""
    if not is_own(activation):
        return
    name = f"The activation {activation.name!r}"
    _check_derivative(name, activation, -OWN_PROBES, "below")
    _check_derivative(name, activation, OWN_PROBES, "above")
    if activation.smooth:
        _check_derivative(name, activation, OWN_NEAR_ZERO, "near")
    _check_degree(name, activation)
    _check_symmetry(name, activation)
    _check_period(name, activation)
    if activation.inverse is not None:
        _check_inverse(name, activation, activation.inverse)


def _check_derivative(name: str, activation: Activation, z: Array, where: str) -> None:
    """By every difference of values, or by their median: kinks elsewhere are no mistake then."""
    values, slopes = _finite(name, activation, z)
    after, before = activation(z + OWN_DIFFERENCE), activation(z - OWN_DIFFERENCE)
    measured = (np.asarray(after, float) - np.asarray(before, float)) / (2 * OWN_DIFFERENCE)
    size = np.abs(measured) + np.abs(slopes) + np.abs(values)
    allowed = OWN_ROUNDING * size + OWN_DIFFERENCE * np.abs(slopes).max()
    off = np.abs(slopes - measured) - allowed
    if (np.max(off) if activation.smooth else np.median(off)) > 0:
        i = int(np.argmax(off))
        kink = " (kinked=False is for functions without a kink)" if activation.smooth else ""
        raise InvalidInput(
            f"{name} has a derivative that is not its function's {where} zero: at z = {z[i]:.3g} "
            f"it is {slopes[i]:.3g}, and differences of values give {measured[i]:.3g}. Correct one "
            f"of them{kink}."
        )


def _finite(name: str, activation: Activation, z: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        values, slopes = activation(z), activation.derivative(z)
    for what, found in (("values", values), ("slopes", slopes)):
        try:
            bad = np.shape(found) != z.shape or not np.all(np.isfinite(found))
        except TypeError:
            bad = True
        if bad:
            raise InvalidInput(
                f"{name} must give finite {what} for arrays of any z, as from {z.min():.3g} to "
                f"{z.max():.3g}: use np.maximum(z, 0) inside a function that is not defined below "
                "zero."
            )
    return np.asarray(values, float), np.asarray(slopes, float)


def _check_degree(name: str, activation: Activation) -> None:
    """A degree that is told must be true; one of a rectified function must be told.

    Without it the size of a unit's weights would be asked for, which no labels tell.
    """
    if activation.degree is not None:
        for side in (-OWN_PROBES, OWN_PROBES):
            doubled = np.asarray(activation(2 * side), dtype=float)
            expected = 2.0**activation.degree * np.asarray(activation(side), dtype=float)
            if not np.allclose(doubled, expected, rtol=OWN_ROUNDING, atol=0):
                raise InvalidInput(
                    f"{name} is not positively homogeneous of degree {activation.degree:g}: at "
                    f"z = {2 * side[0]:.3g} it is {doubled[0]:.3g}, not {expected[0]:.3g}. Correct "
                    "degree=, or leave it out."
                )
    elif activation.inverse is not None:
        values = np.asarray(activation(OWN_PROBES), dtype=float)
        doubled = np.asarray(activation(2 * OWN_PROBES), dtype=float)
        with np.errstate(all="ignore"):
            powers = np.log2(doubled / values)
        if np.allclose(powers, powers[0], rtol=0, atol=OWN_ROUNDING):
            raise InvalidInput(
                f"{name} is positively homogeneous of degree {powers[0]:.4g} and does not say so: "
                f"give degree={powers[0]:.4g}, without which the scale of its units is open."
            )


def _check_symmetry(name: str, activation: Activation) -> None:
    z, symmetry = OWN_PROBES, activation.symmetry
    value, zero = activation(z), activation(np.zeros(1))
    expected = {
        Symmetry.ODD: 2 * zero - value,
        Symmetry.MIRROR: value - (1 + (activation.slope or 0.0)) * z,
        Symmetry.EVEN: value,
    }
    if symmetry is not Symmetry.NONE:
        problem = f"{name} has not the symmetry {symmetry.value!r}", "symmetry="
        _check_values(problem, activation, -z, expected[symmetry])


def _check_period(name: str, activation: Activation) -> None:
    """A whole one changes nothing; half a one reverses an odd function."""
    period, z = activation.period, np.append(-OWN_PROBES, OWN_PROBES)
    if period is None:
        return
    problem = f"{name} has not the period {period:.6g}", "period="
    _check_values(problem, activation, z + period, activation(z))
    if activation.symmetry is Symmetry.ODD:
        problem = f"{problem[0]} of an odd function, half of which reverses it", "period="
        reversed_ = 2 * activation(np.zeros(1)) - activation(z)
        _check_values(problem, activation, z + period / 2, reversed_)


def _check_values(
    problem: tuple[str, str], activation: Activation, z: Array, expected: Array
) -> None:
    """What is not so, and the field to correct, if the values at z are not those expected."""
    found = np.asarray(activation(z), dtype=float)
    off = np.abs(found - expected)
    if np.max(off) > OWN_SYMMETRY * np.max(np.abs(found) + np.abs(expected)):
        i = int(np.argmax(off))
        raise InvalidInput(
            f"{problem[0]}: at z = {z[i]:.3g} it is {found[i]:.6g}, not {expected[i]:.6g}. Correct "
            f"{problem[1]}, or leave it out."
        )


def _check_inverse(name: str, activation: Activation, inverse: Callable[[Array], Array]) -> None:
    if np.any(activation(-OWN_PROBES) != 0):
        raise InvalidInput(
            f"{name} has an inverse and is not zero below zero: leave out inverse=, which is for "
            "rectified functions, or rectify it with np.maximum(z, 0)."
        )
    with np.errstate(all="ignore"):
        back = np.asarray(inverse(activation(OWN_PROBES)), dtype=float)
    if not np.allclose(back, OWN_PROBES, rtol=OWN_ROUNDING, atol=0):
        raise InvalidInput(
            f"{name} has an inverse that does not undo it: inverse(function({OWN_PROBES[0]:.3g})) "
            f"is {back.flat[0]:.3g}. Correct one of them."
        )
