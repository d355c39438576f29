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
`E[f(x + z)] = sum_S c_S prod_p exp(1/2 + z_p)`. With the penalty as printed, `g - lambda |z|_1 -
gamma |z|_2^2` has no maximum on a single support: for P = sum X_i it is a sum of one function a
support, so equally strong supports are all in a maximum or none, and in Lemma 21's range of gamma
it is convex along the lemma's coordinates of all units but the weakest. But the proofs of Lemmas 21
and 22 only move mass from one coordinate to another, so they hold word for word where |z|_1 cannot
change, on `z >= 0, |z|_1 = R`; Lemma 23 is then not needed, and lambda is the constraint's
multiplier. There every local maximum divides R evenly among the features of one unit if
`4 gamma < C_p + C_q - 2 C_pq` for features p of that unit and q of others, which the second moments
give. The way to `projection of grad g(z) / (2 gamma)` leads uphill, all of it for a convex g. The
strongest unit comes first; its features are then taken out. The mass is even only to the error of
grad g over 2 gamma, and the weights exp(z.x) add to that error, so R is small: even so 3 units of 2
features take 4e5 samples and 4 units of 3 features 1e6 (more than that under products), where the
default takes two thousand.
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
_ROUNDING = 1e-7
"""Differences below this fraction of the largest are none."""
_FEWEST_SAMPLES = 3
"""Samples for every coefficient of the regression."""
_TOLERANCE = 1e-11
_ITERATIONS = 200
_HALVINGS = 30
_SETTLED = 1e-7
_GAMMA = 0.2
"""Lemma 21 allows 1/4."""
_EVEN = 0.25


@dataclass(frozen=True)
class Supports:
    """Disjoint 0/1 weights."""

    weights: Array
    """(units, features), one unit a row, in the order of their first features."""
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
    errors = source.total(
        lambda X, y: _ErrorSums.of(X, (label(y) - fit(X)) / np.sqrt(1 - _leverage(X, n)))
    )
    return errors.finish(fit, n, terms)


def _leverage(X: Array, n: int) -> Array:
    """How much of its own residual each sample hides by pulling the fit, at most 0.9."""
    s, p = np.einsum("ni,ni->n", X, X), X.shape[1]
    return np.asarray(np.minimum((1 + s + (s**2 - 2 * s + p) / 2) / n, 0.9))


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
    none, nowhere = np.zeros(network.features), np.zeros((network.features,) * 2)
    mean, linear, matrix = float(c.sum()), c @ V, (V.T * c) @ V
    return Correlations(mean, linear, matrix, none, nowhere, nowhere, nowhere, None)


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


@dataclass(frozen=True)
class Alike:
    """Features in classes: those of one class act on the labels through their sum alone."""

    weights: Array
    """(classes, features), 0/1, in the order of their first features; some are in no class."""
    inside: float
    """How different the least alike features of one class are, in standard errors."""
    between: float
    """How different the most alike features of two classes are, in standard errors."""
    logarithms: bool

    @property
    def evidence(self) -> str:
        """Why these classes."""
        what = "log f" if self.logarithms else "f"
        unused = int(np.sum(self.weights.sum(axis=0) == 0))
        return (
            f"{len(self.weights)} sets of features whose second moments with {what} are alike: at "
            f"most {self.inside:.1f} standard errors apart, {self.between:.3g} or more between "
            f"sets; {unused} features have no effect."
        )


def alike_features(data: Source | LayeredNetwork) -> Alike:
    """Classes of features, from logarithms of labels where they are all positive."""
    if isinstance(data, LayeredNetwork) or not all_positive(data):
        return classes(correlations_of(data), logarithms=False)
    return classes(correlations(data, np.log), logarithms=True)


def all_positive(source: Source) -> bool:
    """Whether every label has a logarithm."""
    return source.total(lambda X, y: int(np.sum(y <= 0))) == 0


def differences(c: Correlations, *, logarithms: bool) -> tuple[Array, Array]:
    """`D_pq` and its standard error, (features + 1, features + 1).

    The last row and column stand for a feature of no unit. `(T_p - T_q)^2` counts for logarithms.
    """
    M, T = _bordered(c.matrix, np.zeros(len(c.linear))), np.append(c.linear, 0.0)
    D = np.diag(M)[:, None] + np.diag(M) - 2 * M
    errors = _bordered(c.difference_errors, np.diag(c.errors))
    if logarithms:
        first = T[:, None] - T
        first_errors = _bordered(c.linear_difference_errors, c.linear_errors)
        D = D + first**2
        errors = np.hypot(errors, 2 * first * first_errors) + first_errors**2
    return D, np.maximum(errors, _ROUNDING * np.abs(D).max(initial=1e-300))


def _bordered(A: Array, border: Array) -> Array:
    return np.block([[A, border[:, None]], [border[None, :], np.zeros((1, 1))]])


def chance_level(pairs: int) -> float:
    """Standard errors that chance alone will not exceed in any of so many pairs."""
    return float(norm.isf(_FALSE_ALARM / max(pairs, 1)))


def classes(c: Correlations, *, logarithms: bool) -> Alike:
    """Features that do not differ, every other pair clearly so."""
    D, errors = differences(c, logarithms=logarithms)
    z = np.abs(D) / errors
    pairs = np.triu_indices(len(z), 1)
    level = chance_level(len(pairs[0]))
    _refuse_unclear(z, level, c.samples)
    same = z <= level
    _, kind = connected_components(same, directed=False)
    together = kind[:, None] == kind
    _refuse_broken(together & ~same)
    kinds = [k for k in dict.fromkeys(kind) if k != kind[-1]]
    if not kinds:
        raise NoAnswer(
            "No feature has an effect on the labels above its sampling error: take more samples, "
            "or look whether the labels depend on these features at all."
        )
    weights = np.array([kind[:-1] == k for k in kinds], dtype=float)
    inside = z[pairs][together[pairs]].max(initial=0.0)
    between = z[pairs][~together[pairs]].min(initial=np.inf)
    return Alike(weights, float(inside), float(between), logarithms)


def _named(p: int, features: int) -> str:
    return f"feature {p}" if p < features else "a feature without effect"


def _refuse_unclear(z: Array, level: float, samples: int | None) -> None:
    asked = level + _CLEAR
    unclear = np.where((z > level) & (z < asked), z, np.inf)
    p, q = np.unravel_index(np.argmin(unclear), z.shape)
    if not np.isfinite(unclear[p, q]):
        return
    way_out = (
        "" if samples is None else f": {samples * (1.2 * asked / z[p, q]) ** 2:.1e} samples may do"
    )
    raise NoAnswer(
        f"Whether {_named(int(p), len(z) - 1)} and {_named(int(q), len(z) - 1)} belong to one unit "
        f"is unclear: they differ by {z[p, q]:.1f} standard errors, more than the {level:.1f} that "
        f"chance may give and less than the {asked:.1f} asked for{way_out}."
    )


def _refuse_broken(broken: AnyArray) -> None:
    if not broken.any():
        return
    p, q = np.argwhere(broken)[0]
    raise NoAnswer(
        f"Of {_named(int(p), len(broken) - 1)} and {_named(int(q), len(broken) - 1)}, which "
        "clearly differ, neither can be told from a third: the weights are not disjoint 0/1 "
        "vectors, or samples are too few to see a weak unit; take more samples."
    )


# ------------------------------------------------- the paper's objective


class Transform(Protocol):
    """`g(z) = E[f(x + z)]`."""

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""


@dataclass(frozen=True)
class ExactTransform:
    """g of a known network: `sum_S c_S exp(v_S.z)`."""

    coefficients: Array
    exponents: Array

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""
        terms = self.coefficients * np.exp(self.exponents @ z)
        return float(terms.sum()), np.asarray(terms @ self.exponents)


@dataclass(frozen=True)
class SampleTransform:
    """g from samples: the mean of `f(x) exp(z.x - |z|^2/2)`."""

    source: Source

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""

        def term(X: Array, y: Array) -> Array:
            weighted = y * np.exp(X @ z - z @ z / 2)
            return np.append((X - z).T @ weighted, weighted.sum())

        mean = self.source.total(term) / self.source.size
        return float(mean[-1]), mean[:-1]


def simplex_projection(v: Array, total: float) -> Array:
    """The nearest point with `z >= 0` and `sum z = total`."""
    falling = np.sort(v)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(v) + 1)
    return np.asarray(np.maximum(v - shift[np.flatnonzero(falling > shift)[-1]], 0.0))


def ascend(transform: Transform, start: Array, free: AnyArray, gamma: float) -> Array:
    """A local maximum of `h = g - gamma |z|^2` with the |z|_1 of the start, on free features."""
    z, total = start, float(start.sum())
    g, slope = transform.at(z)
    for _ in range(_ITERATIONS):
        step = np.zeros_like(z)
        step[free] = simplex_projection(slope[free] / (2 * gamma), total) - z[free]
        rise = float((slope - 2 * gamma * z) @ step)
        if np.abs(step).max() <= _SETTLED * total:
            return z
        for halvings in range(_HALVINGS):
            moved = z + step / 2**halvings
            g_moved, slope_moved = transform.at(moved)
            gain = g_moved - g - gamma * (moved @ moved - z @ z)
            if gain >= 1e-4 * rise / 2**halvings:
                break
        else:
            return z  # nothing left to gain but rounding
        z, g, slope = moved, g_moved, slope_moved
    raise NoAnswer(
        f"The ascent of g did not settle in {_ITERATIONS} steps: the sampling error of g is too "
        "large for its maxima to show; take more samples, or leave faithful out."
    )


def by_objective(transform: Transform, c: Correlations, reach: float) -> Supports:
    """Supports as local maxima on `|z|_1 = reach`, the strongest unit first."""
    noise = chance_level(len(c.linear)) * c.linear_errors
    used = c.linear > np.maximum(noise, _ROUNDING * np.abs(c.linear).max())
    if not used.any():
        raise NoAnswer(
            "No E[f x_p] stands above its sampling error: take more samples, or look whether the "
            "labels depend on these features at all."
        )
    free = np.ones(len(used), dtype=bool)
    found: list[AnyArray] = []
    evenness = 1.0
    while np.any(free & used):
        gamma = _gamma(c, int(np.argmax(np.where(free, c.linear, -np.inf))))
        start = np.zeros(len(used))
        start[free] = simplex_projection(c.linear[free] / (2 * gamma), reach)
        z = ascend(transform, start, free, gamma)
        support = z > z.max() / 2
        evenness = min(evenness, _evenness(z, support))
        found.append(support)
        free &= ~support
    _refuse_uneven(evenness)
    weights = np.array(sorted(found, key=lambda s: int(np.argmax(s))), dtype=float)
    _refuse_contradicted(c, weights)
    evidence = (
        f"{len(weights)} local maxima of g(z) - gamma |z|^2 on |z|_1 = {reach:g}, each with its "
        f"mass on some features evenly (evenness {evenness:.2f} of 1)."
    )
    return Supports(weights, evidence)


def _gamma(c: Correlations, p: int) -> float:
    """Within Lemma 21's range for the unit of feature p: `4 gamma < C_p + C_q - 2 C_pq`."""
    D, errors = differences(c, logarithms=False)
    D, errors = D[p, :-1], errors[p, :-1]
    apart = D[D / errors > chance_level(len(D)) + _CLEAR]
    return _GAMMA * float(apart.min() if len(apart) else max(c.matrix[p, p], errors[p]))


def _evenness(z: Array, support: AnyArray) -> float:
    """How far the mass of every feature is from the limit of one half, 1 at best."""
    share = z / z.max()
    inside = 2 * share[support].min() - 1
    return float(min(inside, 1 - 2 * share[~support].max(initial=0.0)))


def _refuse_uneven(evenness: float) -> None:
    if evenness < _EVEN:
        raise NoAnswer(
            "A maximum of g does not divide its mass evenly among some features and leave the "
            f"others without (Lemmas 21 and 22; evenness {evenness:.2f}, {_EVEN} is asked for): "
            "the weights are not disjoint 0/1 vectors, a coefficient of P is negative, or samples "
            "are too few; leave faithful out."
        )


def _refuse_contradicted(c: Correlations, weights: Array) -> None:
    """Maxima of a noisy g may look even by chance; the second moments must not gainsay them."""
    D, errors = differences(c, logarithms=False)
    used = np.flatnonzero(weights.sum(axis=0))
    z = (np.abs(D) / errors)[np.ix_(used, used)]
    unlike = z > chance_level(len(used) * (len(used) - 1) // 2)
    together = (weights.T @ weights)[np.ix_(used, used)] > 0
    if np.any(unlike == together):
        raise NoAnswer(
            f"The maxima of g would be {len(weights)} units, but the second moments do not tell "
            "their features apart, or tell features of one apart: the sampling error of g is too "
            "large; take more samples, or leave faithful out."
        )


# ------------------------------------------------- the recipe


def exponential(
    data: Source | LayeredNetwork, *, faithful: bool = False, reach: float = 0.5
) -> Supports:
    """The supports of exponential units, from standard normal samples or a network's population.

    `reach` is the R of the paper's objective, for `faithful=True` only.
    """
    if faithful:
        transform: Transform
        if isinstance(data, LayeredNetwork):
            transform = ExactTransform(*exponentials(data))
        else:
            transform = SampleTransform(data)
        return by_objective(transform, correlations_of(data), reach)
    alike = alike_features(data)
    return Supports(alike.weights, alike.evidence)


def correlations_of(data: Source | LayeredNetwork) -> Correlations:
    """Of the labels: exact for a network's population."""
    return exact_correlations(data) if isinstance(data, LayeredNetwork) else correlations(data)
