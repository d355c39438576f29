"""The numbers of this room: how much is read, kept and held at once, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script).
"""

from __future__ import annotations

TINY = 1e-300
"""Keeps a denominator from 0. Derived: far below any number that samples give, above underflow."""
DEPENDENT = 1e-10
"""What is left of a column after the others, over its own size, that is rounding: 4.5e5 eps, a
convention."""
SHORTEST = 1e-9
"""Seconds: floor of a time that a rate is divided by. Derived: the resolution of the clock."""

MOST_PERMUTED = 10**7
"""Rows up to which a draw permutes them all: 80 MB of numbers, a convention."""
PICKED_AT_ONCE = 1000
"""Rows that a draw copies before it lets go of the mapped file behind them. A convention."""
BAND_BYTES = 2**20
"""Of a dataset that are read at once. A convention."""
NEAR_BYTES = 2**16
"""Rows closer than this are read in one slice: a read costs as much as that many bytes. A
convention."""
KEPT_BYTES, MOST_KEPT = 2**26, 8
"""Bytes and number of the bands of a dataset that stay in memory. A convention."""
ZARR_CHUNK_BYTES = 2**22
"""Of a chunk that is written. A convention."""
PARQUET_BUFFER_BYTES, PARQUET_GROUP_ROWS = 2**20, 2**17
"""Bytes read ahead, and rows of a group that is written. A convention."""

MOST_BYTES_IN_MEMORY = 2**31
"""Bytes of samples, as float64, that a method may hold at once. A convention: a few
copies of so much still fit an ordinary machine."""
