"""`"exponential"`: exponential units on disjoint sets of features (GP19, Theorem 9, appendix D.2).

    f(x) = sum_S c_S prod_{i in S} exp(w_i.x),   w_i in {0, 1}^n with disjoint supports, c_S >= 0

Letters: n features, `S_i` the support of unit i, `C_p` the sum of `c_S exp(|support of S| / 2)`
over the S that hold feature p's unit, `C_pq` the same over those that hold both p's and q's.

*The default* uses that f, and so any function of it, sees a unit's features only through their sum.
Features p and q of one unit then have the same second moments, and

    D_pq = M_pp + M_qq - 2 M_pq + (T_p - T_q)^2,   T = E[l x],  M = E[l (x x^T - I)],  l = log f

is 0. Under the weights `pi_S ~ c_S exp(..)`, which sum to 1 at every x, T and M are the means of
`E_pi[1_p]` and `Cov_pi(1_p, 1_q)`, where `1_p` says whether S holds p's unit, so that

    D_pq = E Var_pi(1_p - 1_q) + (E E_pi[1_p - 1_q])^2 > 0

for two units, unless P holds them only together (then they are one). A feature of no unit is like
a feature with T = M = 0, which joins the comparison. The logarithm has no heavy tail, T and M come
from a regression on all linear and quadratic terms, whose residual is small, and every D_pq has its
standard error: some thousand samples do where moments of f itself ask for a hundred thousand.
Labels that are not all positive (noise) are used as they are: `M_pp + M_qq - 2 M_pq` of f is
`C_p + C_q - 2 C_pq > 0`.

*The paper's objective* (`faithful=True`) is built on `g(z) = exp(-|z|^2/2) E[f exp(z.x)]`, which is
`E[f(x + z)] = sum_S c_S prod_p exp(1/2 + z_p)`. Printed with a penalty, `g - lambda |z|_1 - gamma
|z|_2^2` has no maximum on a single support: with the gamma of Lemma 21 it is convex along every
coordinate that is not small, and for P = sum X_i it is a sum of one function a support, so that all
supports are in a maximum or none. The proofs of Lemmas 21 and 22 hold word for word where |z|_1 is
kept, on `z >= 0, |z|_1 = R` (they move mass from one coordinate to another), and Lemma 23 is then
not needed; lambda is the multiplier of the constraint. Every local maximum there divides R evenly
among the features of one unit if `4 gamma < min (C_p + C_q - 2 C_pq)`, which the moments of order 1
and 2 give. Since g is convex, `z <- projection of grad g(z) / (2 gamma)` never descends. The
strongest unit comes first; its features are then taken out. The weights exp(z.x) of samples vary
the more the longer z is (by exp(|z|^2)), so R is 1 by default. It takes about as many samples as
moments of f do, a hundred times as many as the default: some 1e5 for 4 units of 3 features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

from provenet.exceptions import InvalidInput, NoAnswer
from provenet.layered import LayeredNetwork, Polynomial
from provenet.moments import Sums
from provenet.sources import Source
from provenet.typing import AnyArray, Array

_FALSE_ALARM = 1e-3
"""Chance that any two features of one unit, of all pairs, are taken for different."""
_CLEAR = 2.0
"""By how many standard errors a difference must exceed what chance alone gives."""
_ROUNDING = 1e-9
_FEWEST_SAMPLES = 3
"""Samples for every coefficient of the regression."""
_TOLERANCE = 1e-6
_ITERATIONS = 200
_SETTLED = 1e-7


@dataclass(frozen=True)
class Supports:
    """Disjoint 0/1 weights, and how clearly they showed."""

    weights: Array
    """(units, features), one unit a row, in the order of their first features."""
    alike: float
    """How different the least alike features of one unit are, in standard errors."""
    different: float
    """How different the most alike features of two units are, in standard errors."""
    evidence: str


# ------------------------------------------------- correlations with x and x x^T


@dataclass(frozen=True)
class Correlations:
    """`E[l]`, `T = E[l x]` and `M = E[l (x x^T - I)]` of labels l, with standard errors."""

    mean: float
    linear: Array
    matrix: Array
    linear_errors: Array
    """Of `T_p`."""
    errors: Array
    """Of `M_pq`."""
    linear_difference_errors: Array
    """Of `T_p - T_q`."""
    difference_errors: Array
    """Of `M_pp + M_qq - 2 M_pq`."""
    samples: int | None
    """None: the population."""


@dataclass(frozen=True)
class _Quadratic(Sums):
    """`c + T.x + <M, x x^T - I> / 2`, or sums of a label against the same functions."""

    constant: float
    linear: Array
    matrix: Array

    def __call__(self, X: Array) -> Array:
        quadratic = np.einsum("ni,ni->n", X @ self.matrix, X) - np.trace(self.matrix)
        return np.asarray(self.constant + X @ self.linear + quadratic / 2)

    @classmethod
    def against(cls, X: Array, r: Array) -> _Quadratic:
        total = float(r.sum())
        return cls(total, X.T @ r, (X * r[:, None]).T @ X - total * np.eye(X.shape[1]))

    def scaled(self, s: float) -> _Quadratic:
        return _Quadratic(s * self.constant, s * self.linear, s * self.matrix)

    def size(self) -> float:
        """The mean square of the function on standard normal inputs."""
        return float(
            self.constant**2 + self.linear @ self.linear + np.sum(self.matrix * self.matrix) / 2
        )


def correlations(source: Source, transform: Callable[[Array], Array] | None = None) -> Correlations:
    """By least squares on the linear and quadratic terms: unbiased, and far less variance.

    On standard normal inputs these terms are orthogonal, so the coefficients are the correlations.
    """
    n, p = source.size, source.features
    terms = (p + 1) * (p + 2) // 2
    if n < _FEWEST_SAMPLES * terms:
        raise NoAnswer(
            f"Correlations with all pairs of {p} features need at least "
            f"{_FEWEST_SAMPLES * terms} samples, and there are {n}: take more samples."
        )
    label = (lambda y: y) if transform is None else transform
    fit = _regression(source, label)
    errors = source.total(lambda X, y: _ErrorSums.of(X, label(y) - fit(X)))
    return errors.finish(fit, n, terms)


def _regression(source: Source, label: Callable[[Array], Array]) -> _Quadratic:
    """Conjugate gradients on the normal equations; one pass over the samples an iteration."""
    n = source.size
    nothing = _Quadratic(0.0, np.zeros(source.features), np.zeros((source.features,) * 2))
    fit = nothing
    rest = step = source.total(lambda X, y: _Quadratic.against(X, label(y))).scaled(1 / n)
    size = first = rest.size()
    for _ in range(_ITERATIONS):
        if size <= _TOLERANCE**2 * first:
            return fit
        image = source.total(lambda X, y, v=step: _Quadratic.against(X, v(X))).scaled(1 / n)  # type: ignore[misc]
        along = size / _inner(step, image)
        fit, rest = fit + step.scaled(along), rest + image.scaled(-along)
        size, before = rest.size(), size
        step = rest + step.scaled(size / before)
    raise NoAnswer(
        "The regression on all pairs of features did not settle: the inputs are not standard "
        "normal, or there are too few samples."
    )


def _inner(a: _Quadratic, b: _Quadratic) -> float:
    """The mean of the product of two functions on standard normal inputs."""
    return float(a.constant * b.constant + a.linear @ b.linear + np.sum(a.matrix * b.matrix) / 2)


@dataclass(frozen=True)
class _ErrorSums(Sums):
    """Sums of `r^2 x_p^a x_q^b`, r the residual: what the errors of all coefficients need."""

    square: float
    second: Array
    fourth: Array
    cross11: Array
    cross22: Array
    cross31: Array

    @classmethod
    def of(cls, X: Array, r: Array) -> _ErrorSums:
        w, X2 = r**2, X**2
        wX, wX2 = X * w[:, None], X2 * w[:, None]
        return cls(float(w.sum()), X2.T @ w, (X2**2).T @ w, wX.T @ X, wX2.T @ X2, (wX2 * X).T @ X)

    def finish(self, fit: _Quadratic, n: int, terms: int) -> Correlations:
        """Standard errors; `n - terms` for what the regression itself took out."""
        s2, s4, one = self.second, self.fourth, self.square
        linear_difference = s2[:, None] + s2 - 2 * self.cross11
        fourth_power = s4[:, None] + s4 - 4 * (self.cross31 + self.cross31.T) + 6 * self.cross22
        difference = fourth_power - 4 * linear_difference + 4 * one
        entries = self.cross22.copy()
        np.fill_diagonal(entries, s4 - 2 * s2 + one)
        np.fill_diagonal(difference, 0.0)

        def error(squares: Array) -> Array:
            return np.sqrt(np.maximum(squares, 0.0)) / (n - terms)

        return Correlations(
            fit.constant,
            fit.linear,
            fit.matrix,
            error(s2),
            error(entries),
            error(linear_difference),
            error(difference),
            n,
        )


def exact_correlations(network: LayeredNetwork) -> Correlations:
    """The population's: `E[exp(v.x) He_k(x)] = exp(|v|^2/2) v^(x)k` for every monomial."""
    c, V = exponentials(network)
    p = network.features
    return Correlations(
        float(c.sum()),
        c @ V,
        (V.T * c) @ V,
        *(np.zeros(shape) for shape in ((p,), (p, p), (p, p), (p, p))),
        None,
    )


def exponentials(network: LayeredNetwork) -> tuple[Array, Array]:
    """`E[f(x + z)] = sum_S c_S exp(v_S.z)` of exponential units under a polynomial: c and V."""
    if network.layer.activation.name != "exp" or not isinstance(network.top, Polynomial):
        raise InvalidInput(
            "The exact form is known for exp units under a Polynomial only: give samples instead."
        )
    monomials = list(network.top.terms)
    V = np.array([network.layer.weights[list(m)].sum(axis=0) for m in monomials])
    b = np.array([network.layer.biases[list(m)].sum() for m in monomials])
    c = np.array([network.top.terms[m] for m in monomials])
    return c * np.exp(b + np.sum(V**2, axis=1) / 2), V


# ------------------------------------------------- features that are alike


def all_positive(source: Source) -> bool:
    """Whether every label has a logarithm."""
    return bool(source.total(lambda X, y: int(np.sum(y <= 0))) == 0)


def differences(c: Correlations, *, of_logarithms: bool) -> tuple[Array, Array]:
    """`D_pq` and its standard error, (features + 1, features + 1).

    The last row and column stand for a feature of no unit. `(T_p - T_q)^2` counts for logarithms.
    """
    M, T = _bordered(c.matrix), np.append(c.linear, 0.0)
    errors = _bordered(c.difference_errors, np.diag(c.errors))
    D = np.diag(M)[:, None] + np.diag(M) - 2 * M
    if of_logarithms:
        first = T[:, None] - T
        first_errors = _bordered(c.linear_difference_errors, c.linear_errors)
        D = D + first**2
        errors = np.hypot(errors, 2 * first * first_errors) + first_errors**2
    return D, np.maximum(errors, _ROUNDING * np.abs(D).max(initial=1e-300))


def _bordered(A: Array, border: Array | None = None) -> Array:
    side = np.zeros(len(A)) if border is None else border
    return np.block([[A, side[:, None]], [side[None, :], np.zeros((1, 1))]])


def chance_level(pairs: int) -> float:
    """Standard errors that chance alone will not exceed in any of so many pairs."""
    return float(norm.isf(_FALSE_ALARM / max(pairs, 1)))


def alike_features(D: Array, errors: Array, samples: int | None) -> tuple[Array, float, float]:
    """0/1 rows of features that do not differ, and how (un)alike features in and between rows are.

    The last row of D is the feature of no unit: those like it are left out.
    """
    z = np.abs(D) / errors
    rows, columns = np.triu_indices(len(z), 1)
    level = chance_level(len(rows))
    unclear = (z > level) & (z < level + _CLEAR)
    if unclear.any():
        _say_unclear(z, unclear, level, samples)
    same = z <= level
    _, label = connected_components(same, directed=False)
    together = label[:, None] == label
    if np.any(together & ~same):
        _say_broken(together & ~same, samples)
    if np.all(together[-1]):
        raise NoAnswer(
            "No feature has an effect on the labels above its sampling error: take more samples, "
            "or look whether the labels depend on these features at all."
        )
    kinds = [k for k in dict.fromkeys(label) if k != label[-1]]
    weights = np.array([label[:-1] == k for k in kinds], dtype=float)
    inside, upper = z[rows, columns], together[rows, columns]
    alike = inside[upper].max(initial=0.0)
    return weights, float(alike), float(inside[~upper].min(initial=np.inf))


def _named(p: int, features: int) -> str:
    return f"feature {p}" if p < features else "a feature without effect"


def _say_unclear(z: Array, unclear: AnyArray, level: float, samples: int | None) -> None:
    p, q = np.unravel_index(np.argmin(np.where(unclear, z, np.inf)), z.shape)
    asked = level + _CLEAR
    more = "" if samples is None else f" about {samples * (asked / z[p, q]) ** 2:.1e} samples"
    raise NoAnswer(
        f"Whether {_named(int(min(p, q)), len(z) - 1)} and {_named(int(max(p, q)), len(z) - 1)} "
        f"belong together is unclear: they differ by {z[p, q]:.1f} standard errors, between the "
        f"{level:.1f} that chance may give and the {asked:.1f} asked for:{more} would settle it."
    )


def _say_broken(broken: AnyArray, samples: int | None) -> None:
    p, q = np.argwhere(broken)[0]
    raise NoAnswer(
        f"{_named(int(p), len(broken) - 1).capitalize()} and {_named(int(q), len(broken) - 1)} "
        "differ, and yet both are like a third: the units do not have disjoint 0/1 weights, or "
        f"{samples or 'these'} samples are too few to see a weak unit."
    )


# ------------------------------------------------- the paper's objective


class Transform(Protocol):
    """`g(z) = E[f(x + z)]`."""

    def gradient(self, z: Array) -> Array:
        """Of g at z."""


@dataclass(frozen=True)
class ExactTransform:
    """g of a known network: `sum_S c_S exp(v_S.z)`."""

    coefficients: Array
    exponents: Array

    def gradient(self, z: Array) -> Array:
        """Of g at z."""
        return np.asarray((self.coefficients * np.exp(self.exponents @ z)) @ self.exponents)


@dataclass(frozen=True)
class SampleTransform:
    """g from samples: the mean of `f(x) exp(z.x - |z|^2/2)`."""

    source: Source

    def gradient(self, z: Array) -> Array:
        """Of g at z."""

        def term(X: Array, y: Array) -> Array:
            return np.asarray((X - z).T @ (y * np.exp(X @ z - z @ z / 2)))

        return self.source.total(term) / self.source.size


def simplex_projection(v: Array, total: float) -> Array:
    """The nearest point with `z >= 0` and `sum z = total`."""
    falling = np.sort(v)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(v) + 1)
    return np.asarray(np.maximum(v - shift[np.flatnonzero(falling > shift)[-1]], 0.0))


def ascend(transform: Transform, start: Array, free: AnyArray, gamma: float) -> Array:
    """A local maximum of `g - gamma |z|^2` with the |z|_1 of the start, on the free features."""
    z, total = start, float(start.sum())
    for _ in range(_ITERATIONS):
        moved = np.zeros_like(z)
        moved[free] = simplex_projection(transform.gradient(z)[free] / (2 * gamma), total)
        if np.abs(moved - z).max() <= _SETTLED * total:
            return moved
        z = moved
    raise NoAnswer(
        f"The ascent of g did not settle in {_ITERATIONS} steps: the sampling error of g is too "
        "large for its maxima to show; take more samples, or leave faithful out."
    )


def by_objective(transform: Transform, c: Correlations, reach: float) -> Supports:
    """Supports as local maxima on `|z|_1 = reach`, the strongest unit first."""
    gamma = _gamma(c)
    noise = chance_level(len(c.linear)) * c.linear_errors
    used = c.linear > np.maximum(noise, _ROUNDING * np.abs(c.linear).max())
    free = np.ones(len(used), dtype=bool)
    found: list[AnyArray] = []
    clearest = 1.0
    while np.any(free & used):
        start = np.zeros(len(used))
        start[np.argmax(np.where(free, c.linear, -np.inf))] = reach
        z = ascend(transform, start, free, gamma)
        support = z > z.max() / 2
        clearest = min(clearest, _evenness(z, support))
        found.append(support)
        free &= ~support
    return _supports(found, clearest, gamma, reach)


def _gamma(c: Correlations) -> float:
    """Half of what Lemma 21 allows: `4 gamma < min (C_p + C_q - 2 C_pq)` over pairs of units."""
    D = c.linear[:, None] + c.linear - 2 * c.matrix
    errors = np.hypot(c.difference_errors, c.linear_difference_errors)
    errors = np.maximum(errors, _ROUNDING * np.abs(D).max(initial=1e-300))
    apart = D[(chance_level(D.size // 2) + _CLEAR) * errors < D]
    if len(apart) == 0:
        return float(np.max(c.linear)) / 8  # one unit
    return float(apart.min()) / 8


def _evenness(z: Array, support: AnyArray) -> float:
    """How far from the limit of one half the mass of every feature is, 1 at best."""
    share = z / z.max()
    inside = 2 * share[support].min() - 1
    return float(min(inside, 1 - 2 * share[~support].max(initial=0.0)))


def _supports(found: list[AnyArray], clearest: float, gamma: float, reach: float) -> Supports:
    if not found:
        raise NoAnswer(
            "No E[f x_p] stands above its sampling error: take more samples, or look whether the "
            "labels depend on these features at all."
        )
    if clearest < 0.25:
        raise NoAnswer(
            "A maximum of g does not divide its mass evenly among some features and leave the "
            "others without (Lemmas 21 and 22): the weights are not disjoint 0/1 vectors, a "
            "coefficient of P is negative, or samples are too few; leave faithful out."
        )
    weights = np.array(sorted(found, key=lambda s: int(np.argmax(s))), dtype=float)
    evidence = (
        f"{len(weights)} local maxima of g(z) - gamma |z|^2 on |z|_1 = {reach:g} with gamma = "
        f"{gamma:.3g}; every feature's mass is {clearest:.0%} of the way from the limit to its "
        "ideal or nearer."
    )
    return Supports(weights, 1 - clearest, clearest, evidence)


# ------------------------------------------------- the recipe


def exponential(
    data: Source | LayeredNetwork, *, faithful: bool = False, reach: float = 1.0
) -> Supports:
    """The supports of exponential units, from standard normal samples or a network's population."""
    exact = isinstance(data, LayeredNetwork)
    if faithful:
        transform: Transform
        transform = ExactTransform(*exponentials(data)) if exact else SampleTransform(data)
        c = exact_correlations(data) if exact else correlations(data)
        return by_objective(transform, c, reach)
    logarithms = not exact and all_positive(data)
    if exact:
        c = exact_correlations(data)
    else:
        c = correlations(data, np.log if logarithms else None)
    D, errors = differences(c, of_logarithms=logarithms)
    weights, alike, different = alike_features(D, errors, c.samples)
    return Supports(weights, alike, different, _evidence(weights, alike, different, logarithms))


def _evidence(weights: Array, alike: float, different: float, logarithms: bool) -> str:
    what = "log f" if logarithms else "f"
    unused = int(np.sum(weights.sum(axis=0) == 0))
    return (
        f"{len(weights)} sets of features whose second moments with {what} are alike (at most "
        f"{alike:.1f} standard errors apart, {different:.1f} or more between sets); "
        f"{unused} features have no effect."
    )
