"""Taking symmetric tensors apart into the units that made them."""

from provenet.decomposition.jennrich import jennrich
from provenet.decomposition.joint_diagonalisation import congruence
from provenet.decomposition.moment_fit import MomentFit, fit_moments
from provenet.decomposition.power import power_directions

__all__ = ["MomentFit", "congruence", "fit_moments", "jennrich", "power_directions"]
