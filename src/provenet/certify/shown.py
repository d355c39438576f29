"""Which weights of a deep network the points that were asked can speak of.

A weight from unit i to unit j of the next layer shows at a point where i is on, j is on, and the
outputs depend on j: there an error d of it moves an output by `d h_i |dy/dz_j|`. Where the points
asked hold no such place, no answer would be another if the weight were: it is not determined by
them. (The first layer's weights show wherever their unit does.)
"""

from __future__ import annotations

import numpy as np

from provenet.certify.answered import AGREES
from provenet.certify.tolerances import SHOWN_AT_ONCE, WEIGHT_SHOWS
from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.networks.network import Network
from provenet.networks.piecewise import inputs_of_units, slopes


class WeightsShown:
    """How clearly the weights between hidden layers show at points, and where they do so best.

    For each layer from the second on `clearly[k][j, i]` is how many times the error allowed an
    error of `WEIGHT_SHOWS` makes at best; `where` is that point's row. The rows of a unit that is
    small beside the outputs need only show as clearly as it does itself.
    """

    def __init__(self, network: Network, X: Array, allowed: Array) -> None:
        """Look at the rows of X; an output may be off by `allowed`, or `AGREES` of its value."""
        pairs = [(len(W), W.shape[1]) for W, _ in network.affine_maps[1:-1]]
        self.clearly = [np.zeros(pair) for pair in pairs]
        self.where = [np.zeros(pair, dtype=int) for pair in pairs]
        own = [np.zeros(pair[0]) for pair in pairs]
        largest = max((a * b for a, b in pairs), default=1)
        for rows in row_blocks(len(X), max(1, SHOWN_AT_ONCE // max(largest, 1))):
            z = inputs_of_units(network, X[rows])
            by_units = slopes(network, z)
            y = network(X[rows]).reshape(len(z[0]), -1)
            off = np.maximum(allowed, AGREES * np.abs(y))[:, :, None]
            for k in range(len(pairs)):
                worth = np.max(np.abs(by_units[k + 1]) / off, axis=1) * (z[k + 1] > 0)
                own[k] = np.maximum(own[k], (worth * z[k + 1]).max(axis=0, initial=0.0))
                self._look(k, rows.start, worth, np.maximum(z[k], 0.0))
        for k, (W, _) in enumerate(network.affine_maps[1:-1]):
            size = np.linalg.norm(W, axis=1) * WEIGHT_SHOWS
            beside = np.minimum(1.0, AGREES * own[k])
            self.clearly[k] *= (size / np.maximum(beside, np.finfo(float).tiny))[:, None]

    def _look(self, k: int, start: int, worth: Array, below: Array) -> None:
        seen = worth[:, :, None] * below[:, None, :]
        best = seen.argmax(axis=0)
        value = np.take_along_axis(seen, best[None], axis=0)[0]
        better = value > self.clearly[k]
        self.clearly[k] = np.where(better, value, self.clearly[k])
        self.where[k] = np.where(better, start + best, self.where[k])

    @property
    def hidden(self) -> list[AnyArray]:
        """For each layer from the second on, (units, units below): weights that never show."""
        return [clearly < 1.0 for clearly in self.clearly]

    @property
    def number_hidden(self) -> int:
        """How many weights never show."""
        return sum(int(hidden.sum()) for hidden in self.hidden)


def showing(shown: WeightsShown, others: WeightsShown) -> AnyArray:
    """Rows of other points at which weights show best that do not show so far."""
    chosen = [
        where[hidden & (clearly >= 1.0)]
        for hidden, clearly, where in zip(shown.hidden, others.clearly, others.where, strict=True)
    ]
    return np.unique(np.concatenate([np.empty(0, dtype=int), *chosen]))
