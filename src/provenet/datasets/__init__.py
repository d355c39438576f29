"""Random networks and samples from them, and the papers' hard instances and counterexamples."""

from provenet.datasets.random import random_network, sample

__all__ = ["random_network", "sample"]
