"""The population of a known network: infinite data, its moments exact (ATV21, Lemma 3.5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.moments import MomentRequest, Moments, Standardisation, population_moments
from provenet.networks import Network
from provenet.sources.queries import QuerySource
from provenet.typing import Seed


class PopulationSource(QuerySource):
    """All of `x ~ N(0, I)`, `y = network(x)`: moments in closed form, samples as many as asked."""

    def __init__(self, network: Network, samples: int = 100_000, *, rng: Seed = None) -> None:
        """`samples` is how many rows a sum that is not a moment runs over."""
        super().__init__(network, network.features, samples, outputs=network.outputs, rng=rng)
        self.network = network.canonical()

    def moments(self, request: MomentRequest) -> Moments:
        """The moments without sampling error."""
        return population_moments(self.network, request)

    def standardisation(self) -> Standardisation:
        """Standard normal inputs; the labels' spread is estimated, it only sets a scale."""
        d = self.features
        nothing = np.zeros(self.label_shape)
        plain = Standardisation(
            np.zeros(d), np.eye(d), nothing, 0.0, np.zeros((*self.label_shape, d)), None
        )
        T0, T1 = self.moments(MomentRequest(plain, order=1)).tensors
        _, y = self.rows(0, min(self.size, 10_000))
        spread = float(np.sqrt(np.mean(y.var(axis=0))))
        return replace(plain, label_mean=T0, linear=T1, label_spread=spread)
