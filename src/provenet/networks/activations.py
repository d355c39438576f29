"""Activations and their Hermite coefficients at any bias.

For a unit vector w, `E[sigma(w.x + b) He_k(x)] = c_k(b) w^(x)k` with
`c_k(b) = E[sigma(g + b) He_k(g)]`, g standard normal. Integration by parts gives
`c_{k+1}(b) = c_k'(b)`, so one closed form for `c_0` yields all others; for ReLU these are ATV21
Lemma 3.5: `c_0 = b Phi(b) + phi(b)`, `c_1 = Phi(b)`, `c_k = (-1)^k phi(b) He_{k-2}(b)`.

Smooth activations are written with the logistic function S, which neither overflows nor cancels:

    tanh'(z) = 4 S(2z) S(-2z)        silu(z) = z S(z)        softplus'(z) = S(z)
    gelu(z) = z Phi(z)               gelu_tanh(z) = z/2 (1 + tanh u) = z S(2u)

with `u = sqrt(2/pi) (z + 0.044715 z^3)` (Hendrycks and Gimpel 2016).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy import special

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.networks.hermite import he, normal_cdf, normal_density, quadrature_coefficient

Coefficients = Callable[[int, Array], Array]


class Symmetry(Enum):
    """What becomes of a unit's value when its sign is reversed."""

    ODD = "odd"
    """`sigma(-z) = 2 sigma(0) - sigma(z)`."""
    MIRROR = "mirror"
    """`sigma(-z) = sigma(z) - (1 + slope) z`; a smooth one, which has no slope: 0."""
    EVEN = "even"
    """`sigma(-z) = sigma(z)`."""
    NONE = "none"
    """Something else."""


@dataclass(frozen=True)
class Activation:
    """A scalar function with what recovery needs to know about it.

    `degree` is the degree of positive homogeneity, `sigma(s z) = s^degree sigma(z)` for s > 0 (any
    number, such as 1.5; None when there is none). `symmetry` is a `Symmetry` or its name. `kinked`
    says that the derivative is not continuous at zero. `coefficients(k, b)` is the closed form of
    `c_k(b)`; without it quadrature serves. `slope` is set for `z if z > 0 else slope * z`.
    `inverse` undoes the function for z > 0, if it is zero for z <= 0 (a *rectified* function, BJW19
    section 9.1). `period` is the least P with `sigma(z + P) = sigma(z)`, if there is one; of an odd
    function it also says that `sigma(z + P/2) = 2 sigma(0) - sigma(z)`.
    """

    name: str
    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    degree: float | None = None
    symmetry: Symmetry = Symmetry.NONE
    kinked: bool = True
    coefficients: Coefficients | None = None
    slope: float | None = None
    inverse: Callable[[Array], Array] | None = None
    period: float | None = None

    def __post_init__(self) -> None:
        """Take a symmetry by its name, too."""
        try:
            object.__setattr__(self, "symmetry", Symmetry(self.symmetry))  # the class is frozen
        except ValueError:
            names = ", ".join(repr(known.value) for known in Symmetry)
            raise InvalidInput(
                f"The symmetry {self.symmetry!r} of the activation {self.name!r} is unknown: use "
                f"one of {names}."
            ) from None
        if self.period is not None and not 0 < self.period < math.inf:
            raise InvalidInput(
                f"The period of the activation {self.name!r} must be positive, not {self.period}."
            )

    @property
    def even(self) -> bool:
        """Whether `sigma(-z) = sigma(z)`."""
        return self.symmetry is Symmetry.EVEN

    @property
    def smooth(self) -> bool:
        """Whether the derivative is continuous."""
        return not self.kinked

    @property
    def family(self) -> str:
        """The name without its parameter: `leaky_relu` of `leaky_relu(0.1)`."""
        return self.name.partition("(")[0]

    def __call__(self, z: Array) -> Array:
        """`sigma(z)`, elementwise."""
        return self.function(z)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Activations of the package are pickled by name, one of the user's own as it is."""
        if is_own(self):
            return super().__reduce_ex__(protocol)
        return get_activation, (self.name,)

    def hermite(self, k: int, b: Array | float, scale: Array | float = 1.0) -> Array:
        """The k-th Hermite coefficient of `sigma(scale . + b)`; `c_k(b)` for scale 1."""
        biases, scales = np.asarray(b, dtype=float), np.asarray(scale, dtype=float)
        if self.coefficients is not None and self.degree is not None:
            return scales**self.degree * self.coefficients(k, biases / scales)
        if self.coefficients is not None and np.all(scales == 1):
            return self.coefficients(k, biases)
        return self.hermite_by_quadrature(k, biases, scales)

    def hermite_by_quadrature(self, k: int, b: Array | float, scale: Array | float = 1.0) -> Array:
        """The same by numerical integration, split at zero.

        There a function has its kink, a derivative of it a jump, or most of its bend: a smooth one
        of large scale is integrated to rounding only so.
        """

        def one(bias: float, size: float) -> float:
            zero = (-bias / size,)
            return quadrature_coefficient(lambda g: self.function(size * g + bias), k, zero)

        return np.asarray(np.vectorize(one, otypes=[float])(b, scale))


def _step_coefficients(k: int, b: Array) -> Array:
    """Coefficients of the 0/1 step: `Phi`, then the derivatives of `phi`."""
    if k == 0:
        return normal_cdf(b)
    return np.asarray((-1) ** (k - 1) * normal_density(b) * he(k - 1, b))


def _power_coefficients(degree: int) -> Coefficients:
    """Coefficients of `relu(z)^p`: `c_k^p = p c_(k-1)^(p-1)`, the derivative of the power.

    The means `m_p = E relu(g + b)^p` obey `m_p = b m_(p-1) + (p-1) m_(p-2)` by parts, with
    `m_0 = Phi(b)` and `m_1 = b Phi(b) + phi(b)`.
    """

    def coefficients(k: int, b: Array) -> Array:
        shared = min(k, degree)
        factor, power = math.perm(degree, shared), degree - shared
        if power == 0:
            return factor * _step_coefficients(k - shared, b)
        below = normal_cdf(b)
        mean = b * below + normal_density(b)
        for p in range(2, power + 1):
            below, mean = mean, b * mean + (p - 1) * below
        return factor * mean

    return coefficients


def _relu(z: Array) -> Array:
    return np.maximum(z, 0.0)


def _step(z: Array) -> Array:
    return (z > 0).astype(float)


def _power(degree: int, inverse: Callable[[Array], Array]) -> Activation:
    return Activation(
        f"relu{degree}",
        lambda z: _relu(z) ** degree,
        lambda z: degree * _relu(z) ** (degree - 1),
        degree=degree,
        coefficients=_power_coefficients(degree),
        inverse=inverse,
    )


def leaky_relu(slope: float) -> Activation:
    """`z` for z > 0 and `slope * z` below: `(1 - slope) relu(z) + slope z`."""
    slope, rectified = float(slope), _power_coefficients(1)
    if not (np.isfinite(slope) and slope < 1):
        raise InvalidInput(f"The slope of a leaky ReLU must be less than 1, not {slope}.")

    def coefficients(k: int, b: Array) -> Array:
        linear = b if k == 0 else np.full_like(b, float(k == 1))
        return (1 - slope) * rectified(k, b) + slope * linear

    return Activation(
        f"leaky_relu({slope!r})",
        lambda z: np.where(z > 0, z, slope * z),
        lambda z: np.where(z > 0, 1.0, slope),
        degree=1,
        symmetry=Symmetry.MIRROR,
        coefficients=coefficients,
        slope=slope,
    )


GELU_CUBIC = 0.044715
"""The factor of z^3 in `gelu_tanh`, as Hendrycks and Gimpel write it."""


def _logistic_slope(z: Array) -> Array:
    return np.asarray(special.expit(z) * special.expit(-z))


def _gelu_tanh_argument(z: Array) -> Array:
    """`2u`, so that `gelu_tanh(z) = z S(2u)`."""
    return np.asarray(math.sqrt(8 / math.pi) * z * (1 + GELU_CUBIC * z * z))


def _gelu_tanh_slope(z: Array) -> Array:
    u = _gelu_tanh_argument(z)
    inner = math.sqrt(8 / math.pi) * (1 + 3 * GELU_CUBIC * z * z)
    return np.asarray(special.expit(u) + z * inner * _logistic_slope(u))


def _smooth(
    name: str,
    symmetry: Symmetry,
    function: Callable[[Array], Array],
    derivative: Callable[[Array], Array],
    **more: Any,
) -> Activation:
    return Activation(name, function, derivative, symmetry=symmetry, kinked=False, **more)


RELU = Activation(
    "relu",
    _relu,
    _step,
    degree=1,
    symmetry=Symmetry.MIRROR,
    coefficients=_power_coefficients(1),
    slope=0.0,
    inverse=lambda h: h,
)
ABS = replace(
    leaky_relu(-1.0), name="abs", function=np.abs, derivative=np.sign, symmetry=Symmetry.EVEN
)
LEAKY_RELU = replace(leaky_relu(0.01), name="leaky_relu")
"""In a network: slope 0.01. In `recover`: the slope is found."""

_ODD, _MIRROR, _NONE = Symmetry.ODD, Symmetry.MIRROR, Symmetry.NONE
_BY_NAME = {
    a.name: a
    for a in (
        RELU,
        _power(2, np.sqrt),
        _power(3, np.cbrt),
        Activation("step", _step, np.zeros_like, degree=0, coefficients=_step_coefficients),
        _smooth("sigmoid", _ODD, special.expit, _logistic_slope),
        _smooth("exp", _NONE, np.exp, np.exp, coefficients=lambda k, b: np.exp(b + 0.5)),
        ABS,
        LEAKY_RELU,
        _smooth("tanh", _ODD, np.tanh, lambda z: 4 * _logistic_slope(2 * z)),
        _smooth("erf", _ODD, special.erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z)),
        _smooth(
            "gelu",
            _MIRROR,
            lambda z: z * normal_cdf(z),
            lambda z: normal_cdf(z) + z * normal_density(z),
        ),
        _smooth(
            "gelu_tanh",
            _MIRROR,
            lambda z: z * special.expit(_gelu_tanh_argument(z)),
            _gelu_tanh_slope,
        ),
        _smooth(
            "silu",
            _MIRROR,
            lambda z: z * special.expit(z),
            lambda z: special.expit(z) * (1 + z * special.expit(-z)),
        ),
        _smooth("softplus", _MIRROR, lambda z: np.logaddexp(0.0, z), special.expit),
        _smooth(
            "elu",
            _NONE,
            lambda z: _relu(z) + np.expm1(np.minimum(z, 0.0)),
            lambda z: np.exp(np.minimum(z, 0.0)),
        ),
        _smooth("sin", _ODD, np.sin, np.cos, period=2 * math.pi),
    )
}
NAMES = tuple(_BY_NAME)
"""The names of all activations of the package."""


def is_own(activation: Activation) -> bool:
    """Whether an activation is of the user's making, and not one of the package."""
    leaky = activation.slope is not None and activation.name == f"leaky_relu({activation.slope!r})"
    return not (leaky or _BY_NAME.get(activation.name) is activation)


def get_activation(activation: str | Activation | Any) -> Activation:
    """The activation of that name, or the object itself if it is one."""
    if isinstance(activation, Activation):
        return activation
    name = activation if isinstance(activation, str) else ""
    if leaky := re.fullmatch(r"leaky_relu\(([^()]+)\)", name):
        try:
            slope = float(leaky[1])
        except ValueError:
            raise InvalidInput(
                f"The slope of a leaky ReLU must be a number, not {leaky[1]!r}."
            ) from None
        return leaky_relu(slope)
    if name not in _BY_NAME:
        raise InvalidInput(
            f"The activation {activation!r} is unknown: use one of {', '.join(_BY_NAME)}, "
            "or a provenet.Activation of your own."
        )
    return _BY_NAME[name]


# ---- Activations of the user's own


def check_own_activation(activation: Activation) -> None:
    """Raise where an activation of the user's own contradicts its declared properties.

    Its function must be finite everywhere, its derivative the function's, its degree, symmetry and
    period true, and its inverse undo it above zero, where a rectified function has one. A mistake
    there would raise nothing later: it would be a wrong slope in every step. So values are compared
    at some points, as far as standard inputs and weights usually reach.
    """
    if not is_own(activation):
        return
    sigma, z = activation, np.geomspace(0.05, 5.0, 25)
    name, both = f"The activation {sigma.name!r}", np.append(-z, z)
    _check_derivative(sigma, name, -z, "below")
    _check_derivative(sigma, name, z, "above")
    if sigma.smooth:
        _check_derivative(sigma, name, np.array([-1e-2, -1e-3, 0.0, 1e-3, 1e-2]), "near")
    claims: list[tuple[str, str, Array, Array, Any]] = []  # field, problem, z, sigma(z), expected
    odd = sigma.symmetry is Symmetry.ODD
    centre = 2 * sigma(np.zeros(1)) if odd else 0.0
    if (degree := sigma.degree) is not None:
        problem = f"is not positively homogeneous of degree {degree:g}"
        claims += [("degree", problem, 2 * both, sigma(2 * both), 2.0**degree * sigma(both))]
    if sigma.symmetry is not Symmetry.NONE:
        change = (1 + (sigma.slope or 0.0)) * z * (sigma.symmetry is Symmetry.MIRROR)
        reflected = centre - sigma(z) if odd else sigma(z) - change
        problem = f"has not the symmetry {sigma.symmetry.value!r}"
        claims += [("symmetry", problem, -z, sigma(-z), reflected)]
    if (P := sigma.period) is not None:
        problem, half = f"has not the period {P:.6g}", both + P / 2
        claims += [("period", problem, both + P, sigma(both + P), sigma(both))]
        problem += " of an odd function, half of which reverses it"
        claims += [("period", problem, half, sigma(half), centre - sigma(both))] if odd else []
    if sigma.inverse is not None:
        with np.errstate(all="ignore"):
            back, powers = sigma.inverse(sigma(z)), np.log2(sigma(2 * z) / sigma(z))
        claims += [
            ("inverse", "has an inverse and is not zero below zero", -z, sigma(-z), 0 * z),
            ("inverse", "has an inverse that does not undo it", z, back, z),
        ]
    for field, problem, at, values, expected in claims:
        found, wanted = np.asarray(values, dtype=float), np.asarray(expected, dtype=float)
        error = np.abs(found - wanted)
        # A relative 1e-9 is above the rounding of a function's evaluation.
        if not np.max(error) <= 1e-9 * np.max(np.abs(found) + np.abs(wanted)):
            i = int(np.argmax(error))
            raise InvalidInput(
                f"{name} {problem}: at z = {at[i]:.3g} it is {found[i]:.6g}, not "
                f"{wanted[i]:.6g}. Correct {field}=, or leave it out."
            )
    homogeneous = sigma.inverse is not None and np.allclose(powers, powers[0], rtol=0, atol=1e-4)
    if homogeneous and sigma.degree is None:
        raise InvalidInput(
            f"{name} is positively homogeneous of degree {powers[0]:.4g} and does not say so: "
            f"give degree={powers[0]:.4g}, without which the scale of its units is open."
        )


def _check_derivative(sigma: Activation, name: str, z: Array, where: str) -> None:
    """Compare with differences of values: all of them, or their median, as kinks are no mistake."""

    def finite(what: str, function: Callable[[Array], Array], at: Array) -> Array:
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(at), dtype=float)
        except TypeError:
            found = np.zeros(0)
        if found.shape != at.shape or not np.all(np.isfinite(found)):
            raise InvalidInput(
                f"{name} must give finite {what} for arrays of any z, as from {z.min():.3g} to "
                f"{z.max():.3g}: use np.maximum(z, 0) inside a function that is not defined below "
                "zero."
            )
        return found

    values, slopes = finite("values", sigma.function, z), finite("slopes", sigma.derivative, z)
    step = 1e-5  # near eps^(1/3), where truncation equals rounding: an error of some 1e-10
    differences = np.subtract(sigma(z + step), sigma(z - step), dtype=float) / (2 * step)
    allowed = 1e-4 * (np.abs(differences) + np.abs(slopes) + np.abs(values))
    excess = np.abs(slopes - differences) - allowed - step * np.abs(slopes).max()
    if (np.max(excess) if sigma.smooth else np.median(excess)) > 0:
        i = int(np.argmax(excess))
        kink = " (kinked=False is for functions without a kink)" if sigma.smooth else ""
        raise InvalidInput(
            f"{name} has a derivative that is not its function's {where} zero: at z = {z[i]:.3g} "
            f"it is {slopes[i]:.3g}, and differences of values give {differences[i]:.3g}. Correct "
            f"one of them{kink}."
        )
