"""Two different networks with the same function (ATV21, Claim 4.8).

Where `sum_{i in F} a_i w_i = 0` for a set F of units, flipping all of them, `(w, b) -> (-w, -b)`,
changes the function by the constant `sum_{i in F} a_i b_i` alone, because
`relu(z) - relu(-z) = z`. So the weights of F are dependent, and no samples tell which of the two
networks made them. (The paper has biases 0, where not even the output bias changes.)
"""

from __future__ import annotations

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Seed
from provenet.datasets.random import random_network
from provenet.networks.network import Network
from provenet.networks.signs import flipped


def sign_ambiguous_network(units: int, features: int, rng: Seed = None) -> tuple[Network, Network]:
    """A random ReLU network, and another with the same function.

    As many units as can be, `features + 1` or all of them, are the set that is flipped: all but one
    are random, and the last one makes their sum of `a_i w_i` zero. It stands anywhere among the
    units, and `networks.signs.flip_sets` names it. No two units are parallel.
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
