"""Random networks and samples from them, and the papers' hard instances and counterexamples."""

from provenet.datasets.condition_pair import condition_pair, differing_share
from provenet.datasets.layered import conditioned_rows, random_layered
from provenet.datasets.random import random_network, sample
from provenet.datasets.separability import (
    Separability,
    is_separable,
    relu_separability,
    reversible,
    separating_network,
)
from provenet.datasets.sign_ambiguous import sign_ambiguous_network
from provenet.datasets.spurious_minimum import SpuriousMinimum, spurious_minimum

__all__ = [
    "Separability",
    "SpuriousMinimum",
    "condition_pair",
    "conditioned_rows",
    "differing_share",
    "is_separable",
    "random_layered",
    "random_network",
    "relu_separability",
    "reversible",
    "sample",
    "separating_network",
    "sign_ambiguous_network",
    "spurious_minimum",
]
