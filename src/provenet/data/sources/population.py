"""The population of a known network: infinite data, its moments exact (ATV21, Lemma 3.5)."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Seed
from provenet.data.sources.queries import QuerySource
from provenet.data.standardisation import Standardisation
from provenet.networks.network import Network


class PopulationSource(QuerySource):
    """All of `x ~ N(0, I)`, `y = network(x)`: moments in closed form, samples as many as asked."""

    def __init__(self, network: Network, samples: int = 100_000, *, rng: Seed = None) -> None:
        """`samples` is how many rows a sum that is not a moment runs over."""
        network = network.as_one_layer("PopulationSource")
        super().__init__(network, network.features, samples, outputs=network.outputs, rng=rng)
        self.network = self.population = network.canonical()

    def standardisation(self) -> Standardisation:
        """Standard normal inputs; the labels' spread is estimated, it only sets a scale."""
        d = self.features
        a, b, W = self.network.output_weights, self.network.biases, self.network.weights
        norm = np.linalg.norm(W, axis=1)
        zeroth, first = (self.network.activation.hermite(k, b, norm) for k in (0, 1))
        T0 = np.asarray((a * zeroth).sum(axis=-1) + self.network.output_bias)
        T1 = (a * first) @ (W / norm[:, None])
        if self.network.linear is not None:
            T1 = T1 + self.network.linear
        _, y = self.rows(0, min(self.size, 10_000))
        spread = float(np.sqrt(np.mean(y.var(axis=0))))
        return Standardisation(np.zeros(d), np.eye(d), T0, spread, T1, None)
