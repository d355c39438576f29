"""Networks on which methods must fail, or are slow: lower bounds and counterexamples of the papers.

**Two networks that agree on almost all inputs** (BJW19, section 4.4, Lemma 16). With weights of
condition number kappa any method needs a multiple of kappa samples. The networks are

    f_i(x) = (relu(x_1 + i a x_2) + relu(x_1 - i a x_2)) / 2,        i = 1, 2,

with condition numbers 1/a and 1/(2a) once rows have norm 1. (The paper prints `a` for `2a` in the
first row of its second matrix.) Where `|x_1| >= 2 a |x_2|` both units of a network are on or both
are off, and both networks give relu(x_1); everywhere else f_2 > f_1. For standard normal x the
quotient `x_1 / x_2` is a Cauchy variable, so the share of inputs where they differ is

    P(|x_1| < 2 a |x_2|) = (2 / pi) arctan(2 a),        about 4 a / pi for small a

(the paper has Theta(1/a) for Theta(a) here). With probability `(1 - share)^n` no sample falls
there, and no method can tell the two apart.

**Two networks with the same function** (ATV21, Claim 4.8). Where `sum_{i in F} a_i w_i = 0` for a
set F of units, flipping all of them, `(w, b) -> (-w, -b)`, changes the function by the constant
`sum_{i in F} a_i b_i` alone, because `relu(z) - relu(-z) = z`. (The paper has biases 0, where not
even the output bias changes.)

**A bad local minimum of P'**, the objective that has interference alone (GLM17, appendix D). For
units `b*_i = e_i` in d = 4 dimensions with `a = (1, r, r, r)`, `r = 2 + delta`, the rows

    b_1 = b_2 = e_1,    b_3 = e_2,    b_4 = (e_3 + e_4) / sqrt(2)

are a local minimum of `P'(B) = sum_i a_i sum_{j != k} <b*_i, b_j>^2 <b*_i, b_k>^2` on rows of norm
1, with the value 2 (the paper counts a pair once, and has 1) where the truth has 0. Two rows share
the cheapest unit; a third one spreads over two others, and so keeps them away from both. Along the
spheres its Hessian is diagonal: for b_1, b_2 towards e_2 `4 (r - 1)`, towards e_3, e_4 `2 (r - 2)`;
for b_3 towards e_1 8, towards e_3, e_4 `2 r`; for b_4 towards e_1 8, towards e_2 `4 r`, and towards
`e_3 - e_4` 0: b_4 may turn in the plane of e_3 and e_4 and P' does not change. While
`r min(cos^2, sin^2) > 1` of its angle, every other eigenvalue stays positive, so the minimum is an
arc, strict in all directions across it. At r <= 2 none is left.

In general (not in the paper), for orthogonal units, as many as features, P' has a bad minimum if
and only if

    1 / a_min  >  1 / a' + 1 / a'',        a' and a'' the two largest.

The proof, in `p_ji = <b*_i, b_j>^2`, whose rows sum to 1:

1. For row j, unit i costs `a_i sum_{k != j} p_ki`, and at a minimum it lies on its cheapest units
   only: with the others held P' is a quadratic form on the sphere.
2. A row on several units may shift between them, P' does not change, and what it shifts to is a
   minimum too. By 1 two such rows then share no unit.
3. Let P' > 0. Some units carry no row that lies on them alone, or all would carry exactly one.
   None of these is empty, or every row would move there; so by 2 each carries one row, which
   lies on several units and pays nothing: all of its units are of this kind. These rows are fewer
   than their units, so the others are more than theirs, and one of them pays at least a_min.
4. That row does not move to the units l of a row of 3: their loads are at least `a_min / a_l`, and
   more, because by 2 they may shift. The loads of one row sum to 1.

Conversely, two rows on the cheapest unit, one on the two dearest with loads in proportion to
`1 / a_l`, and every other row on a unit of its own are a minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.common.words import check_finite
from provenet.datasets.random import random_network
from provenet.networks.network import Network
from provenet.networks.signs import flipped


def condition_pair(a: float) -> tuple[Network, Network]:
    """The networks f_1 and f_2: weights of condition number 1/a and 1/(2a), for 0 < a <= 1/2."""
    _check_slope(a)

    def network(slope: float) -> Network:
        norm = float(np.hypot(1.0, slope))
        weights = np.array([[1.0, slope], [1.0, -slope]]) / norm
        return Network(weights, output_weights=np.full(2, norm / 2))

    return network(a), network(2 * a)


def differing_share(a: float) -> float:
    """The share of standard normal inputs on which the two networks of `condition_pair` differ."""
    _check_slope(a)
    return float(2 / np.pi * np.arctan(2 * a))


def _check_slope(a: float) -> None:
    if not 0 < a <= 1:
        raise InvalidInput(f"The number a must be above 0 and at most 1, not {a}.")


def sign_ambiguous_network(units: int, features: int, rng: Seed = None) -> tuple[Network, Network]:
    """A random ReLU network, and another with the same function.

    As many units as can be, `features + 1` or all of them, are the set that is flipped: all but one
    are random, and the last one makes their sum of `a_i w_i` zero. It stands anywhere among the
    units, and `signs.flip_sets` names it. No two units are parallel.
    """
    if units < 3 or features < 2:
        raise InvalidInput(
            "Signs of units that are not parallel need three units and two features at least, not "
            f"{units} and {features}."
        )
    rng = np.random.default_rng(rng)
    network = random_network(units, features, rng=rng)
    chosen = rng.permutation(units)[: features + 1]
    last, others = chosen[-1], chosen[:-1]
    W, a = network.weights.copy(), network.output_weights.copy()
    missing = -a[others] @ W[others]
    a[last] = np.linalg.norm(missing)
    W[last] = missing / a[last]
    first = network.replace(weights=W, output_weights=a)
    return first, flipped(first, chosen)


@dataclass(frozen=True, eq=False)
class SpuriousMinimum:
    """A network, and a matrix that is a bad local minimum of its P'."""

    network: Network
    B: Array
    """One unit a row, rows of norm 1; a local minimum, strict but for an arc it lies on."""


def spurious_minimum(delta: float = 0.5) -> SpuriousMinimum:
    """The example of GLM17, appendix D: output weights 1 and three times `2 + delta`."""
    check_finite("delta", delta)
    if delta <= 0:
        raise InvalidInput(
            f"delta must be positive, not {delta!r}: from 0 down the matrix is no local minimum of "
            "P'."
        )
    B = np.zeros((4, 4))
    B[0, 0] = B[1, 0] = B[2, 1] = 1.0
    B[3, 2:] = np.sqrt(0.5)
    B.setflags(write=False)
    return SpuriousMinimum(Network(np.eye(4), output_weights=[1.0, *[2 + delta] * 3]), B)
