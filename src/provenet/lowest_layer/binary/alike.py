"""Features that act on the labels through their sum alone, found by their second moments.

Letters of GP19, appendix D.2: `T = E[l x]` and `M = E[l (x x^T - I)]` of labels l. If l, or any
function of it, sees some features only through their sum, two of them have the same second moments:

    D_pq = M_pp + M_qq - 2 M_pq (+ (T_p - T_q)^2 for logarithms) = 0.

For exponential units `f = sum_S c_S prod_{i in S} exp(w_i.x)` on disjoint sets of features, with
weights `pi_S ~ c_S exp(..)` that sum to 1 at every x, T and M of `l = log f` are the means of
`E_pi[1_p]` and `Cov_pi(1_p, 1_q)`, where `1_p` says whether S holds p's unit, so that

    D_pq = E Var_pi(1_p - 1_q) + (E E_pi[1_p - 1_q])^2 > 0

for two units, unless P holds them only together (then they are one). A feature of no unit is like a
feature with T = M = 0, which joins the comparison. Labels that are not all positive (noise) are
used as they are: `M_pp + M_qq - 2 M_pq` of f is `C_p + C_q - 2 C_pq > 0`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.lowest_layer.binary.correlations import Correlations, correlations, correlations_of
from provenet.networks.layered import LayeredNetwork

_FALSE_ALARM = 1e-3
"""Chance that any two features of one unit, of all pairs, are taken for different."""
CLEAR = 2.0
"""By how many standard errors a difference must exceed what chance alone gives."""
ROUNDING = 1e-7
"""Differences below this fraction of the largest are none."""


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
    return D, np.maximum(errors, ROUNDING * np.abs(D).max(initial=1e-300))


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
    asked = level + CLEAR
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
