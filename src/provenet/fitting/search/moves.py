"""How a search moves among models: one protocol for one hidden layer and for several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.layers import SeveralLayers
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.units import OneLayer


class Moves(Protocol):
    """Starting points of least squares: fresh ones, and from a model to others of any width."""

    def start(self, problem: Problem, units: int, rng: np.random.Generator) -> Parameters:
        """A random model of so many units in all, its output weights unknown."""

    def grown(
        self, problem: Problem, parameters: Parameters, add: int, rng: np.random.Generator
    ) -> Parameters:
        """With further units."""

    def swapped(
        self, problem: Problem, parameters: Parameters, failures: int, rng: np.random.Generator
    ) -> Parameters:
        """With new units in place of a few of the least useful; the more failures, the wider the
        choice."""

    def narrower(self, problem: Problem, fit: Fit) -> Iterator[Parameters]:
        """With fewer units, the most promising first."""


_ONE, _SEVERAL = OneLayer(), SeveralLayers()


def moves_of(problem: Problem) -> Moves:
    """Those of the model that is searched."""
    return _ONE if problem.layers == 1 else _SEVERAL
