"""Samples drawn with probability proportional to the label (GP19, appendix B.6).

Where labels are tiny nearly everywhere, as under sigmoid units of high threshold, an oracle may
return inputs x kept with probability proportional to `f(x)`. Their plain moments are those of the
labels, scaled: `E_biased[He_k(x)] = E[f(x) He_k(x)] / E[f]`.
"""

from __future__ import annotations

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array, Seed
from provenet.data.sources.base import Draw, Source
from provenet.data.standardisation import Standardisation


class BiasedSource(Source):
    """Inputs that were standard normal before they were kept by their labels; every label is 1.

    The labels carry no news, so nothing can be fitted to them: this serves methods that need no
    more than moments.
    """

    fixed = False
    kept_by_labels = True

    def __init__(self, X: AnyArray) -> None:
        """Inputs (n, features)."""
        self.X = np.asarray(X)
        if self.X.ndim != 2 or self.X.size == 0 or not np.isfinite(self.X).all():
            raise InvalidInput(
                "Biased inputs must be a matrix (samples, features) of finite numbers."
            )
        self.size, self.features = self.X.shape

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Inputs, and ones."""
        return np.asarray(self.X[start:stop], dtype=float), np.ones(stop - start)

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` inputs at random, no one twice."""
        rows = rng.permutation(self.size)[:n]
        return Draw(np.asarray(self.X[rows], dtype=float), np.ones(len(rows)), rows)

    def standardisation(self) -> Standardisation:
        """None is needed: the inputs were standard normal, and no lower order may be taken off."""
        d = self.features
        return Standardisation(np.zeros(d), np.eye(d), np.zeros(()), 1.0, np.zeros(d), self.size)


def biased(source: Source, *, rng: Seed = None) -> BiasedSource:
    """Of a source's samples those kept with probability proportional to their labels.

    Two passes: one for the largest label, one to keep. Labels must not be negative.
    """
    generator = np.random.default_rng(rng)
    blocks = [source.rows(b.start, b.stop)[1] for b in row_blocks(source.size)]
    largest = max(float(y.max()) for y in blocks)
    if min(float(y.min()) for y in blocks) < 0 or largest <= 0:
        raise InvalidInput(
            "Samples can be kept by labels that are at least 0, and some above it: take others, or "
            "use all samples as they are."
        )
    kept = []
    for block in row_blocks(source.size):
        X, y = source.rows(block.start, block.stop)
        kept.append(X[generator.random(len(y)) * largest < y])
    return BiasedSource(np.concatenate(kept))
