"""`"even"`: even activations without thresholds, orthonormal weights (GP19, Theorem 10).

    f(x) = sum_S c_S prod_{i in S} u(w_i.x),   u(-a) = u(a),   w_i orthonormal (appendix D.3)

Letters: `u_k = E[u h_k]`, `C_i` the sum of `c_S u_0^(|S|-1)` over the S that hold i, `C_ij` that of
`c_S u_0^(|S|-2)` over those that hold i and j. For a unit vector z with coordinates `z_i = w_i.z`

    E[f h_4(z.x)] = sum_i alpha_i z_i^4 + sum_{i<j} gamma_ij z_i^2 z_j^2,
    alpha_i = u_4 C_i,   gamma_ij = sqrt(6) u_2^2 C_ij                       (ERRATA, GP19 19)

has its maxima among the w_i if `alpha_i + alpha_j > gamma_ij` for every pair (its minima, with both
sides negated, where the alpha are negative, as for abs). With Hermite moments,
`alpha_i = T_4(w_i, w_i, w_i, w_i) / sqrt(24)` and `gamma_ij = sqrt(3/2) T_4(w_i, w_i, w_j, w_j)`.

*The paper's way* (`faithful=True`): maxima one by one, each orthogonal to those found, and the
condition checked; the units without a polynomial.

*The default* goes on from there. In the coordinates of the w_i every entry of T_2 and T_4 with an
odd index vanishes, so the rotation that makes them vanish is fitted by least squares. From it least
squares on the labels (`fit_layer`) finds the layer and its polynomial to machine precision; pairs
of units that were taken for their mixtures are turned back. The condition is then not needed, and
known exactly. |S| may be anything: the h_4 moments do not see products of more than two beyond
`C_i` and `C_ij`, and least squares has products of as many units as samples (two a parameter) and
time (400 parameters above degree 3) allow: all of 8 units, up to 3 of 10. Powers of a unit, which
the theorem does not have, go to degree 3.

Signs of the w_i cannot be told: u is even. Cost: T_4 inside the span of the units, from T_2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, factorial, sqrt

import numpy as np
from scipy.linalg import expm

from provenet.certify.checks import Check, Status
from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.lowest_layer.candidates import from_fit, may_explain
from provenet.lowest_layer.fit import LayerFit, affordable_tops, degree_of, fit_layer
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.methods.tolerances import (
    AT_NOISE,
    EVEN_ASCENT_STEPS,
    EVEN_ATTEMPTS,
    EVEN_SETTLED,
    EVEN_STARTS,
    LARGEST_TURN,
    ORTHONORMAL_SIGMAS,
    ROTATION_STEPS,
    VANISHING_COEFFICIENT,
)
from provenet.moments.hermite import MomentRequest, estimate_moments
from provenet.moments.subspace import Span, span_of_units
from provenet.networks.activations import Activation
from provenet.networks.layered import LayeredNetwork, Polynomial
from provenet.networks.network import Network

_CLEARLY = 10.0
"""Gain of log likelihood with which a turned pair is better."""
_LARGEST_SLACK = 0.2
"""Norms and products of weights that are further off are not those of orthonormal ones."""


def even(context: Context) -> Iterator[LayerCandidate]:
    """Least squares from the moments' rotation, if it explains labels; then the moments alone.

    The paper's maxima stand alone, or are where least squares goes on from.
    """
    u = Coefficients.of(context.activation)
    moments = _moments(context, u)
    with context.stage("decompose"):
        sign = u.sign(moments)
        start = maxima(sign * moments.T4, context.rng)
        Q = start if context.faithful else fit_rotation(moments, start)
    if context.refine:
        with context.stage("refine"):
            fit = _refined(context, moments, Q)
        if fit is not None and may_explain(context, fit):
            yield _by_least_squares(context, fit)
            if context.faithful:
                return
    yield _by_moments(context, moments, Q, sign)


def _by_least_squares(context: Context, fit: LayerFit) -> LayerCandidate:
    """A fit; if its weights are not orthonormal, nothing says that they are the weights."""
    found = from_fit(context, fit, _notes, _AMBIGUITIES)
    off, slack = _orthonormality(fit, context.source.size)
    orthonormal = Check(
        "weights are orthonormal on standardised inputs",
        off < slack,
        f"off by {off:.2g}",
        f"less than {slack:.2g}",
        _OTHER_WEIGHTS,
        Status.PARTIAL,
    )
    unknown = np.full(len(found.samples), np.nan)
    errors = found.angle_errors if orthonormal.holds else unknown
    return replace(found, angle_errors=errors, findings=(orthonormal,))


# ------------------------------------------------- moments


@dataclass(frozen=True)
class Coefficients:
    """`E[u He_2]` and `E[u He_4]` of an even activation."""

    two: float
    four: float

    @classmethod
    def of(cls, u: Activation) -> Coefficients:
        """Those of an activation, if it has the fourth."""
        zero, two, four = (float(u.hermite(k, 0.0)) for k in (0, 2, 4))
        size = max(abs(zero), abs(two), abs(four))
        if abs(four) <= VANISHING_COEFFICIENT * size:
            raise NoAnswer(
                f"The fourth Hermite coefficient of {u.name} vanishes: E[f h_4(z.x)] does not show "
                "its units."
            )
        return cls(0.0 if abs(two) <= VANISHING_COEFFICIENT * size else two, four)

    def sign(self, moments: EvenMoments) -> float:
        """+1 if most alpha are positive, so that units are maxima, else -1."""
        total = np.einsum("iijj->", moments.T4)
        if self.two:
            total = self.four / self.two * np.trace(moments.T2)
        return 1.0 if total >= 0 else -1.0


@dataclass(frozen=True)
class EvenMoments:
    """T_2 and T_4 in an orthonormal basis of the span of the units.

    An entry has the error `sigma sqrt(m!)`, m! the product over how often each index occurs.
    """

    T2: Array
    T4: Array
    sigma2: float
    sigma4: float
    basis: Array
    """(dimensions of the span, features), orthonormal rows."""


def _moments(context: Context, u: Coefficients) -> EvenMoments:
    source, standardisation = context.source, context.standardisation
    with context.stage("moments", "order 2"):
        full = estimate_moments(source, MomentRequest(standardisation, order=2))
    span = _span(context, span_of_units(full.tensors[2], full.errors[2], context.units), u)
    with context.stage("moments", f"order 4 in {span.rank} dimensions"):
        fourth = estimate_moments(
            source, MomentRequest(standardisation, 4, span.basis, span.quadratic)
        )
    k, d = span.basis.shape
    # Errors are root mean squares over all entries, of which distinct ones are fewer.
    sigma2 = full.errors[2] * sqrt(d / (d + 1))
    sigma4 = fourth.errors[4] * sqrt(k**4 / (24 * comb(k + 3, 4)))
    return EvenMoments(span.quadratic, fourth.tensors[4], sigma2, sigma4, span.basis)


def _span(context: Context, span: Span, u: Coefficients) -> Span:
    """The units' span, if it shows."""
    d = context.source.features
    if u.two == 0 and context.units != d:
        raise NoAnswer(
            "The activation's second Hermite coefficient vanishes, so the span of the units does "
            f"not show: only as many units as features can be found (units={d})."
        )
    if span.rank == 0:
        raise NoAnswer(
            "No unit stands above the sampling error of the second moments: take more samples."
        )
    return span


# ------------------------------------------------- maxima of E[f h_4(z.x)], one by one


def maxima(T4: Array, rng: np.random.Generator) -> Array:
    """Unit vectors (rows): local maxima of `T_4(z, z, z, z)`, each orthogonal to those before."""
    k = len(T4)
    found = np.empty((0, k))
    while len(found) < k:  # with none found yet all directions are outside
        outside = np.linalg.svd(found, full_matrices=True)[2][len(found) :]
        inside = _rotated4(T4, outside)
        Z = _ascent(inside, rng.standard_normal((EVEN_STARTS, len(outside))))
        values = np.einsum("abcd,sa,sb,sc,sd->s", inside, Z, Z, Z, Z, optimize=True)
        found = np.vstack([found, Z[np.argmax(values)] @ outside])
    return found


def _ascent(T4: Array, Z: Array) -> Array:
    """Where the shifted power method leads from the rows of Z (Kolda and Mayo, 2014)."""
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    for _ in range(EVEN_ASCENT_STEPS):
        H = np.einsum("abcd,sc,sd->sab", T4, Z, Z, optimize=True)
        shift = np.maximum(-3 * np.linalg.eigvalsh(H)[:, :1], 0.0)
        moved = np.einsum("sab,sb->sa", H, Z) + (shift + 1e-300) * Z
        moved = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        settled = np.abs(moved - Z).max() < EVEN_SETTLED
        Z = moved
        if settled:
            break
    return np.asarray(Z)


def _rotated4(T4: Array, Q: Array) -> Array:
    """T_4 in the coordinates of the rows of Q."""
    return np.asarray(np.einsum("abcd,ia,jb,kc,ld->ijkl", T4, Q, Q, Q, Q, optimize=True))


# ------------------------------------------------- the rotation that fits all moments


def turns(moments: EvenMoments, Q: Array) -> tuple[Array, Array]:
    """The angle by which every pair is to be turned so that odd entries vanish, and its precision.

    Gauss-Newton: turning `q_i` towards `q_j` by theta adds theta times a slope to odd entries. At
    the answer the normal equations have one angle a pair each.
    """
    t2, t4 = Q @ moments.T2 @ Q.T, _rotated4(moments.T4, Q)
    four, pairs = np.einsum("iiii->i", t4), np.einsum("iijj->ij", t4)
    others = ~np.eye(len(Q), dtype=bool)
    towards = np.diag(t2) - np.diag(t2)[:, None]
    once = 3 * pairs - four[:, None]
    twice = (pairs[:, None, :] - pairs[:, :, None]) * (others[:, :, None] & others[:, None, :])
    sigma2, sigma4 = moments.sigma2, moments.sigma4
    precision = towards**2 / sigma2**2
    precision += (once**2 + once.T**2 + 3 * np.sum(twice**2, axis=0)) / (6 * sigma4**2)
    iiij, kkij = np.einsum("iiij->ij", t4), np.einsum("kkij->kij", t4)
    pull = towards * t2 / sigma2**2
    pull += (once * iiij - (once * iiij).T + 3 * np.sum(twice * kkij, axis=0)) / (6 * sigma4**2)
    angle = -pull / np.where(precision > 0, precision, 1.0)
    return angle * others, precision


def fit_rotation(moments: EvenMoments, Q: Array) -> Array:
    """Orthonormal rows near Q in whose coordinates odd entries vanish as well as they can."""
    for _ in range(ROTATION_STEPS):
        angle, _ = turns(moments, Q)
        largest = max(float(np.abs(angle).max(initial=0.0)), 1e-300)
        Q = expm(angle * min(1.0, LARGEST_TURN / largest)) @ Q
        if largest < EVEN_SETTLED:
            break
    return np.asarray(Q)


def _by_moments(context: Context, moments: EvenMoments, Q: Array, sign: float) -> LayerCandidate:
    """The units as the moments show them: their error is known if they are what is assumed."""
    errors = _moment_errors(moments, Q)
    layer = Network(Q @ moments.basis, np.zeros(len(Q)), activation=context.activation)
    user = on_user_inputs(open_top(layer), context.standardisation, errors, np.zeros(len(Q)))
    worst = min(float(np.degrees(errors.max())), 90.0)
    broken = broken_conditions(*_alpha_gamma(moments, Q), sign)
    units = counted(len(Q), "unit")
    return LayerCandidate(
        network=user.units,
        what=units,
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.full(len(Q), context.source.size),
        way="maxima of E[f h_4(z.x)]",
        unrefined=(
            f"{units} from moments, directions within about {worst:.2g} degrees if weights are "
            "orthonormal and Theorem 10's condition holds; "
            + (_stuck(context, layer) if context.refine else "this is not refined.")
        ),
        notes=(_told(broken, "by the estimated moments"),),
    )


def _moment_errors(moments: EvenMoments, Q: Array) -> Array:
    """Radians: turns inside the span, and those of the span itself."""
    _, precision = turns(moments, Q)
    others = ~np.eye(len(Q), dtype=bool)
    variance = np.where(others, 1 / np.maximum(precision, 1e-300), 0.0)
    k, d = moments.basis.shape
    outside = moments.sigma2 * sqrt(d - k) / np.abs(np.diag(moments.T2)).min()
    return np.asarray(np.sqrt(np.sum(variance, axis=1) + outside**2))


_AMBIGUITIES = (
    "Units are even: the sign of their weights is open. Other weights that are not orthonormal may "
    "give the same function.",
)
_OTHER_WEIGHTS = (
    "Units and a polynomial explain the labels, but their weights are not orthonormal on "
    "standardised inputs, as Theorem 10 asks: other weights may explain them as well."
)


def _stuck(context: Context, layer: Network) -> str:
    """What least squares tried in vain, which ends where samples or time do."""
    tops = affordable_tops(layer, context.problem.samples.size, layer.units)
    reached = max((degree_of(monomials) for monomials in tops), default=0)
    if reached == 0:
        return "samples are too few for least squares: take more."
    more = f" (there may be products of up to {layer.units})" if reached < layer.units else ""
    return (
        f"least squares from there with products of up to {reached} units{more} does not explain "
        "the labels: take more samples, give units=, or look whether labels have thresholds or the "
        "top is no polynomial."
    )


# ------------------------------------------------- the labels themselves


def _refined(context: Context, moments: EvenMoments, Q: Array) -> LayerFit | None:
    """Least squares from a rotation; the paper's is not searched around."""
    if context.faithful:
        return _least_squares(context, Q @ moments.basis)
    return _fitted(context, moments, Q)


def _fitted(context: Context, moments: EvenMoments, Q: Array) -> LayerFit | None:
    """Least squares from the moments' rotation; pairs are turned until labels come out.

    Where the condition fails maxima are `(w_i +- w_j) / sqrt(2)`, and least squares has local
    minima there too, in which such units are too short.
    """
    best = _least_squares(context, Q @ moments.basis)
    if best is None:
        return None
    tries = _pairs_turned(best)
    for attempt in range(EVEN_ATTEMPTS):
        at_noise = context.noise and best.residual < AT_NOISE * context.noise
        answers = best.explains or at_noise
        if (answers and _orthonormal(best, context.source.size)) or context.out_of_time:
            break
        context.progress("refine", attempt / EVEN_ATTEMPTS, "another start")
        fit = _least_squares(context, next(tries, _rotated(Q, context.rng) @ moments.basis))
        if fit is None or (fit.explains and not _orthonormal(fit, context.source.size)):
            continue
        if (fit.explains and best.explains) or _is_likelier(fit, best):
            best, tries = fit, _pairs_turned(fit)
    return best


def _is_likelier(fit: LayerFit, best: LayerFit) -> bool:
    """Whether a fit is clearly better, as labels with Gaussian noise would have it."""
    gain = np.log(max(best.residual, 1e-300) / max(fit.residual, 1e-300))
    return bool(min(fit.samples, best.samples) * gain > _CLEARLY)


def _orthonormal(fit: LayerFit, samples: int) -> bool:
    off, slack = _orthonormality(fit, samples)
    return off < slack


def _orthonormality(fit: LayerFit, samples: int) -> tuple[float, float]:
    """How far weights are from orthonormal, and how far samples that standardise let them be.

    Otherwise the same labels may have several networks: `cos a + cos b = 2 cos p cos m` and
    `cos a cos b = cos^2 p + cos^2 m - 1` for `p, m = (a +- b) / 2`.
    """
    W = fit.network.layer.weights
    if fit.network.layer.activation.degree is not None:
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
    off = float(np.abs(W @ W.T - np.eye(len(W))).max())
    slack = ORTHONORMAL_SIGMAS / sqrt(samples) + ORTHONORMAL_SIGMAS * float(fit.angle_errors.max())
    return off, min(slack, _LARGEST_SLACK)


def _rotated(Q: Array, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal(Q.shape))[0] @ Q


def _least_squares(context: Context, W: Array) -> LayerFit | None:
    samples = context.problem.samples
    layer = Network(W, np.zeros(len(W)), activation=context.activation)
    return fit_layer(samples.X, samples.y, layer, degree=len(W))


def _pairs_turned(fit: LayerFit) -> Iterator[Array]:
    """Orthonormal weights near a fit, two units turned by 45 degrees: first those too short."""
    W = fit.network.layer.weights
    U, _, V = np.linalg.svd(W, full_matrices=False)
    norms = np.linalg.norm(W, axis=1)
    for i, j in sorted(combinations(range(len(W)), 2), key=lambda ij: norms[list(ij)].sum()):
        turned = U @ V
        turned[[i, j]] = np.array([[1, 1], [1, -1]]) @ turned[[i, j]] / sqrt(2)
        yield turned


# ------------------------------------------------- the condition


def _alpha_gamma(moments: EvenMoments, Q: Array) -> tuple[Array, Array]:
    t4 = _rotated4(moments.T4, Q)
    return np.einsum("iiii->i", t4) / sqrt(24), sqrt(1.5) * np.einsum("iijj->ij", t4)


def strengths(P: Polynomial, zero: float) -> tuple[Array, Array]:
    """`C_i` and `C_ij` of a polynomial of units with `u_0 = zero`, which has no powers."""
    C, CC = np.zeros(P.units), np.zeros((P.units, P.units))
    for monomial, c in P.terms.items():
        for i in monomial:
            C[i] += c * zero ** (len(monomial) - 1)
        for i, j in combinations(monomial, 2):
            CC[i, j] += c * zero ** (len(monomial) - 2)
            CC[j, i] = CC[i, j]
    return C, CC


def broken_conditions(alpha: Array, gamma: Array, sign: float) -> list[tuple[int, int, float]]:
    """Pairs with `alpha_i + alpha_j <= gamma_ij` (negated for minima), and the difference."""
    pairs = combinations(range(len(alpha)), 2)
    values = ((i, j, sign * float(alpha[i] + alpha[j] - gamma[i, j])) for i, j in pairs)
    return [broken for broken in values if broken[2] <= 0]


def _notes(found: LayeredNetwork) -> tuple[str, ...]:
    """Theorem 10's condition by the polynomial that was found."""
    u, top = found.layer.activation, found.top
    zero, two, four = (float(u.hermite(k, 0.0)) / sqrt(factorial(k)) for k in (0, 2, 4))
    if not isinstance(top, Polynomial) or any(len(set(m)) < len(m) for m in top.terms):
        return ("The polynomial has powers of a unit, of which Theorem 10 does not speak.",)
    C, CC = strengths(top, zero)
    alpha, gamma = four * C, sqrt(6) * two**2 * CC
    sign = 1.0 if alpha.sum() >= 0 else -1.0
    return (_told(broken_conditions(alpha, gamma, sign), "by the polynomial found"),)


def _told(broken: list[tuple[int, int, float]], how: str) -> str:
    if not broken:
        return f"Theorem 10's condition alpha_i + alpha_j > gamma_ij holds for every pair, {how}."
    i, j, value = min(broken, key=lambda pair: pair[2])
    return (
        f"Theorem 10's condition alpha_i + alpha_j > gamma_ij fails for {len(broken)} pairs {how}, "
        f"most for units {i} and {j} (by {-value:.2g})."
    )
