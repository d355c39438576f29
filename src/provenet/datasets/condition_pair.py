"""Two networks that agree on almost all inputs: a lower bound on the number of samples.

BJW19, section 4.4, Lemma 16. With weights of condition number kappa any method needs a multiple of
kappa samples. The two networks have two features, two units and one output,

    f_i(x) = (relu(x_1 + i a x_2) + relu(x_1 - i a x_2)) / 2,        i = 1, 2,

with rows of norm 1 the weights `(1, +-i a) / sqrt(1 + (i a)^2)` and output weights
`sqrt(1 + (i a)^2) / 2`, so the condition numbers are 1/a and 1/(2a) for i a <= 1. (The paper prints
`a` for `2a` in the first row of its second matrix.)

Where `|x_1| >= 2 a |x_2|` both units of a network are on or both are off, in both networks, and
both give relu(x_1): nothing of a shows. Everywhere else f_2 > f_1:

- `|x_1| <= a |x_2|`:  one unit of each is on, `f_i = (x_1 + i a |x_2|) / 2`, and they differ by
  `a |x_2| / 2`;
- in between, `f_2 - f_1 = (2 a |x_2| - |x_1|) / 2`.

For standard normal x the quotient `x_1 / x_2` is a Cauchy variable, so the share of inputs where
they differ is

    P(|x_1| < 2 a |x_2|) = (2 / pi) arctan(2 a),        about 4 a / pi for small a

(the paper has Theta(1/a) for Theta(a) here). As long as no sample falls there, which happens with
probability `(1 - share)^n`, the samples are the same and no method can tell the two apart.
"""

from __future__ import annotations

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.networks.network import Network


def condition_pair(a: float) -> tuple[Network, Network]:
    """The networks f_1 and f_2: weights of condition number 1/a and 1/(2a), for 0 < a <= 1/2."""
    _check(a)
    return _network(a), _network(2 * a)


def differing_share(a: float) -> float:
    """The share of standard normal inputs on which the two networks of `condition_pair` differ."""
    _check(a)
    return float(2 / np.pi * np.arctan(2 * a))


def _network(slope: float) -> Network:
    norm = float(np.hypot(1.0, slope))
    weights = np.array([[1.0, slope], [1.0, -slope]]) / norm
    return Network(weights, output_weights=np.full(2, norm / 2))


def _check(a: float) -> None:
    if not 0 < a <= 1:
        raise InvalidInput(f"The number a must be above 0 and at most 1, not {a}.")
