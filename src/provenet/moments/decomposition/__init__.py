"""Taking symmetric tensors apart into the units that made them."""

from provenet.moments.decomposition.jennrich import jennrich
from provenet.moments.decomposition.joint_diagonalisation import congruence
from provenet.moments.decomposition.moment_fit import MomentFit, fit_moments
from provenet.moments.decomposition.power import power_directions

__all__ = ["MomentFit", "congruence", "fit_moments", "jennrich", "power_directions"]
