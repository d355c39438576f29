"""What a search for units needs to know of their activation.

*The form that is fitted.* Where reversing a unit's sign changes its value by something linear
(absolute values; ReLU, softplus, SiLU, GELU: `sigma(-z) = sigma(z) - z`), a free linear part makes
a unit and its opposite the same thing, and no sign is in the way. Odd units (tanh) are their own
opposites with the output weight reversed: they need none. Units without symmetry (ELU) get one all
the same, and their opposites are tried.

*Norms.* For units that are not positively homogeneous the norm of w counts. While others are
missing it runs away: to a kink, where its gradient vanishes, or to nothing, where the unit is
linear. So it is capped while searching, and units at the cap or nearly linear are put back before
others are exchanged (`calmed`).

*Zero.* A few smooth units too many fit another smooth unit to some 1e-10; only less than that is
nothing.

*Several layers* are searched as they are, whatever the activation: no linear part passes by the
layers, and signs are settled by pruning (`search.layers`). A fit that leaves little has all its
units, and others in their way: it is pruned before it gets to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.search.tolerances import (
    BROUGHT_BACK,
    LARGEST_NORM,
    LAYERED_NEAR_ZERO,
    LAYERED_ZERO,
    LITTLE,
    NEAR_ZERO,
    NORMS,
    SMOOTH_NEAR_ZERO,
    SMOOTH_ZERO,
    ZERO,
)
from provenet.networks.activations import ABS, Activation, Symmetry


@dataclass(frozen=True)
class Policy:
    """How units of an activation are searched for."""

    linear: bool
    """Whether the model has a free linear part."""
    zero: float
    """Of the labels' spread: a residual below it counts as zero."""
    near_zero: float
    """Below it a fit is on its way to zero."""
    homogeneous: bool
    """Whether a unit's norm is a convention; else it counts."""
    mirrored: bool
    """Whether a unit and its opposite are different things, so that both are tried."""
    crawls: bool
    """Whether fits near zero hardly get there while they have units too many."""
    little: float = 0.0
    """Of the labels' spread: pruning goes on below it, though each unit less leaves more."""

    @property
    def largest(self) -> float:
        """The largest norm of a unit's weights while it is searched for."""
        return np.inf if self.homogeneous else LARGEST_NORM

    def random_norms(self, units: int, rng: np.random.Generator) -> Array:
        """Norms of new units."""
        if self.homogeneous:
            return np.ones(units)
        low, high = np.log(NORMS)
        return np.exp(rng.uniform(low, high, units))

    def norms_brought_back(self, units: int, rng: np.random.Generator) -> Array:
        """Norms of units whose own ran away."""
        return rng.uniform(*BROUGHT_BACK, units)


def fitted_form(activation: Activation, layers: int = 1) -> Activation:
    """The activation of the model that is fitted in place of another."""
    return ABS if activation.slope is not None and layers == 1 else activation


@cache
def policy_of(activation: Activation, layers: int = 1) -> Policy:
    """How a model of this activation, and so many hidden layers, is searched."""
    homogeneous = activation.degree is not None
    kinked, without = activation.slope is not None, activation.symmetry is Symmetry.NONE
    if layers > 1:
        return Policy(
            linear=False,
            zero=LAYERED_ZERO,
            near_zero=LAYERED_NEAR_ZERO,
            homogeneous=homogeneous,
            mirrored=False,
            crawls=True,
            little=LITTLE,
        )
    return Policy(
        linear=kinked or activation.symmetry is Symmetry.MIRROR or (without and not homogeneous),
        zero=ZERO if kinked else SMOOTH_ZERO,
        near_zero=NEAR_ZERO if kinked else SMOOTH_NEAR_ZERO,
        homogeneous=homogeneous,
        mirrored=without,
        crawls=not homogeneous,
    )
