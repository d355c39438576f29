"""Objectives whose minima are the network (GLM17), and ways to reach and to certify them."""

from provenet.landscape.constants import Constants
from provenet.landscape.linear_layer import output_weights
from provenet.landscape.losses import squared_loss
from provenet.landscape.newton import Descent, Step, minimise
from provenet.landscape.objective import Objective, Theorem
from provenet.landscape.objectives import OBJECTIVES, objective, sample_objective
from provenet.landscape.second_order import SecondOrder, second_order
from provenet.landscape.stochastic import Schedule, descend

__all__ = [
    "OBJECTIVES",
    "Constants",
    "Descent",
    "Objective",
    "Schedule",
    "SecondOrder",
    "Step",
    "Theorem",
    "descend",
    "minimise",
    "objective",
    "output_weights",
    "sample_objective",
    "second_order",
    "squared_loss",
]
