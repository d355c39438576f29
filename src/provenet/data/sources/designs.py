"""Gaussian inputs for a function that may be asked: one by one, or by design.

Those of a design depend on each other, but every single one is standard normal, so every mean over
them stays unbiased; what changes is its error.

*antithetic*: pairs x, -x. Of the labels only the even part `(f(x) + f(-x)) / 2` is left in moments
of even order, and only the odd part in those of odd order. The noise of the other part is gone; but
a pair counts as one sample of its own part, and what a ReLU adds to a linear function is even for
the most part.

*orthogonal*: groups of `features` inputs `x_i = l_i q_i` with orthonormal directions q_i (Haar: QR
of a Gaussian matrix, its signs put right) and independent lengths `l_i ~ chi(features)`.

*orthogonal-antithetic*: the same, each input followed by its opposite.

*sobol*: scrambled Sobol points through the normal quantile function: they fill every coordinate,
and pairs of coordinates, far more evenly than chance does.

The errors that a moment pass states assume independent samples. With pairs x, -x that of `T_2` is
too small by up to a fifth and that of `T_1` twice too large; with Sobol points all are too large,
at 10 features those of `T_1` and `T_2` 3.7 and 2.2 times. Such an error decides how many units are
seen in `T_2`, not whether an answer is right: certificates rest on draws, which are independent.
`benchmarks/designs.py` measures both.

Inputs are made anew from the seed, a block at a time; no group reaches over the end of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.tolerances import DESIGN_BLOCK

_NET = 2**20
"""Sobol points of one scrambling: a power of two, and few enough to reach any of them at once."""
_HALF_A_CELL = 2.0**-31
"""Sobol points are multiples of 2^-30 from 0 on; in the middle of their cells none is infinite."""


@dataclass(frozen=True)
class InputDesign:
    """How inputs are made."""

    group: Callable[[int], int]
    """How many inputs depend on each other, by the number of features."""
    make: Callable[[int, int, int, int], Array]
    """`make(entropy, block, rows, features)`: the inputs of a block."""

    def block_rows(self, features: int) -> int:
        """Inputs a block: whole groups, about 4096 inputs, or one group if that is more."""
        group = self.group(features)
        return group * max(1, DESIGN_BLOCK // group)


def get_design(name: str, features: int) -> InputDesign:
    """A design by its name."""
    if name not in DESIGNS:
        names = ", ".join(f'"{known}"' for known in DESIGNS)
        raise InvalidInput(f"There is no design {name!r} of inputs: use one of {names}.")
    if name == "sobol" and features > (most := scipy.stats.qmc.Sobol.MAXDIM):
        raise InvalidInput(
            f'The design "sobol" has at most {most} features: use "independent" for {features}.'
        )
    return DESIGNS[name]


def _independent(entropy: int, block: int, rows: int, features: int) -> Array:
    return np.random.default_rng([entropy, block]).standard_normal((rows, features))


def _orthogonal(entropy: int, block: int, rows: int, features: int) -> Array:
    rng = np.random.default_rng([entropy, block])
    groups = rows // features
    Q, R = np.linalg.qr(rng.standard_normal((groups, features, features)))
    Q *= np.sign(np.einsum("gii->gi", R))[:, None, :]  # without this Q is not Haar
    lengths = np.sqrt(rng.chisquare(features, (groups, 1, features)))
    return np.ascontiguousarray(np.swapaxes(Q * lengths, 1, 2)).reshape(rows, features)


def _sobol(entropy: int, block: int, rows: int, features: int) -> Array:
    net, start = divmod(block * rows, _NET)
    points = scipy.stats.qmc.Sobol(features, seed=np.random.default_rng([entropy, net]))
    if start:
        points.fast_forward(start)
    return np.asarray(scipy.special.ndtri(points.random(rows) + _HALF_A_CELL))


def _with_opposites(make: Callable[[int, int, int, int], Array]) -> Callable[..., Array]:
    """Half as many inputs, each followed by its opposite."""

    def made(entropy: int, block: int, rows: int, features: int) -> Array:
        X = make(entropy, block, rows // 2, features)
        return np.stack([X, -X], axis=1).reshape(rows, features)

    return made


DESIGNS = {
    "independent": InputDesign(lambda features: 1, _independent),
    "antithetic": InputDesign(lambda features: 2, _with_opposites(_independent)),
    "orthogonal": InputDesign(lambda features: features, _orthogonal),
    "orthogonal-antithetic": InputDesign(
        lambda features: 2 * features, _with_opposites(_orthogonal)
    ),
    "sobol": InputDesign(lambda features: 1, _sobol),
}
