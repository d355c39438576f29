"""A checksum of samples that is a sum over them, so that it is had in the pass that reads them.

The bits of a row's numbers, as whole numbers modulo 2^64, are multiplied by odd numbers, one for
each column, added up, mixed (a bijection that is not linear), and added up over rows. So it does
not depend on blocks, threads or machines. Multiplying by an odd number and mixing lose nothing: if
one number of one sample has changed, by however little, the checksum has changed for certain. If
many have changed, chance leaves it as it was once in 2^64. Rows in another order have the same.
It is no defence against someone who wants to deceive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.sums import Sums
from provenet.data.tolerances import CHECKSUM_MULTIPLIER, CHECKSUM_SEED, CHECKSUM_SHIFTS


def checksum(X: Array, y: Array) -> AnyArray:
    """The checksum of samples, one whole number modulo 2^64 as an array, so that it adds up."""
    mixed = _weighed(X) + _weighed(y.reshape(len(y), -1), first=X.shape[1])
    before, after = (np.uint64(shift) for shift in CHECKSUM_SHIFTS)
    mixed ^= mixed >> before
    mixed *= np.uint64(CHECKSUM_MULTIPLIER)
    mixed ^= mixed >> after
    return np.atleast_1d(mixed.sum(dtype=np.uint64))


def _weighed(rows: Array, first: int = 0) -> AnyArray:
    """The sum of every row's bits times the odd numbers of its columns, from `first` on."""
    odd = _odd_numbers(first + rows.shape[1])[first:]
    return np.asarray(np.einsum("ij,j->i", rows.view(np.uint64), odd))


@cache
def _odd_numbers(count: int) -> AnyArray:
    rng = np.random.Generator(np.random.PCG64(CHECKSUM_SEED))
    return rng.integers(2**64, size=count, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True)
class Checked(Sums):
    """A sum over samples, and the checksum of these."""

    total: Any
    checksum: AnyArray


@dataclass(frozen=True)
class WithChecksum:
    """A term that also takes the checksum of the samples that it is given."""

    term: Any

    def __call__(self, X: Array, y: Array) -> Checked:
        """The term and the checksum of the same samples."""
        return Checked(self.term(X, y), checksum(X, y))
