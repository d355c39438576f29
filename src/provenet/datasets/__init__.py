"""Random networks and samples from them, and the papers' hard instances and counterexamples."""

from provenet.datasets.hard_instances import (
    SpuriousMinimum,
    condition_pair,
    differing_share,
    sign_ambiguous_network,
    spurious_minimum,
)
from provenet.datasets.random import conditioned_rows, random_layered, random_network, sample

__all__ = [
    "SpuriousMinimum",
    "condition_pair",
    "conditioned_rows",
    "differing_share",
    "random_layered",
    "random_network",
    "sample",
    "sign_ambiguous_network",
    "spurious_minimum",
]
