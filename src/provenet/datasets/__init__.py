"""Random networks and samples from them, and the papers' hard instances and counterexamples."""

from provenet.datasets.condition_pair import condition_pair, differing_share
from provenet.datasets.random import random_network, sample
from provenet.datasets.separability import (
    Separability,
    is_separable,
    relu_separability,
    reversible,
    separating_network,
)

__all__ = [
    "Separability",
    "condition_pair",
    "differing_share",
    "is_separable",
    "random_network",
    "relu_separability",
    "reversible",
    "sample",
    "separating_network",
]
