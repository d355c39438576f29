"""Samples kept with probability proportional to their labels (GP19, appendix B.6).

Where labels are tiny nearly everywhere, as under sigmoid units of high threshold, an oracle may
draw standard normal inputs and keep each with probability proportional to `f(x)`. Plain means over
what it kept are moments of the labels, scaled: `E_kept[h(x)] = E[f(x) h(x)] / E[f]`.
"""

from __future__ import annotations

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array, Seed
from provenet.data.sources.base import Draw, Source
from provenet.data.standardisation import Standardisation


class BiasedSource(Source):
    """Samples whose inputs were standard normal before they were kept by their labels.

    Give the labels if they are known: least squares fits them, and a success is judged on them.
    Inputs alone have moments only (method "lowest-layer"), from which no answer is more than
    partial; their labels read 1.
    """

    fixed = False
    biased = True

    def __init__(self, X: AnyArray, y: AnyArray | None = None) -> None:
        """Inputs (n, features) that were kept and, if known, their labels (n,), all above 0."""
        self.X = np.asarray(X)
        if self.X.ndim != 2 or self.X.size == 0 or not _finite_numbers(self.X):
            raise InvalidInput(
                "Biased inputs must be a matrix (samples, features) of finite numbers."
            )
        self.y = None if y is None else np.asarray(y)
        self.kept_by_labels = self.y is None
        if self.y is not None and not _may_have_kept(self.y, len(self.X)):
            raise InvalidInput(
                "Labels that samples were kept by are one finite number above 0 for each: a label "
                "of 0 or less is never kept; leave them out if they are not known."
            )
        self.size, self.features = self.X.shape

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Inputs, and their labels or ones."""
        return self._at(slice(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` samples at random, no one twice."""
        rows = rng.permutation(self.size)[:n]
        return Draw(*self._at(rows), rows)

    def _at(self, rows: slice | AnyArray) -> tuple[Array, Array]:
        X = np.asarray(self.X[rows], dtype=float)
        return X, np.ones(len(X)) if self.y is None else np.asarray(self.y[rows], dtype=float)

    def standardisation(self) -> Standardisation:
        """None is needed: the inputs were standard normal, and no lower order may be taken off."""
        d = self.features
        spread = 1.0 if self.y is None else float(np.std(self.y))
        return Standardisation(np.zeros(d), np.eye(d), np.zeros(()), spread, np.zeros(d), self.size)


def _finite_numbers(values: AnyArray) -> bool:
    return values.dtype.kind in "fiub" and bool(np.isfinite(values).all())


def _may_have_kept(y: AnyArray, samples: int) -> bool:
    return y.shape == (samples,) and _finite_numbers(y) and bool(np.all(y > 0))


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
    kept_X, kept_y = [], []
    for block in row_blocks(source.size):
        X, y = source.rows(block.start, block.stop)
        keep = generator.random(len(y)) * largest < y
        kept_X.append(X[keep])
        kept_y.append(y[keep])
    return BiasedSource(np.concatenate(kept_X), np.concatenate(kept_y))
