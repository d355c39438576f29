"""The numbers of this room: how much is read, kept and held at once, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script).
"""

from __future__ import annotations

import numpy as np

TINY = 1e-300
"""Keeps a denominator from 0. Derived: far below any number that samples give, above underflow."""
DEPENDENT = 1e-10
"""What is left of a column after the others, over its own size, that is rounding: 4.5e5 eps, a
convention."""
SHORTEST = 1e-9
"""Seconds: floor of a time that a rate is divided by. Derived: the resolution of the clock."""

MOST_PERMUTED = 10**6
"""Rows up to which a draw permutes them all: 8 MB of numbers, some hundredths of a second. A
convention."""
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

ROWS_AT_ONCE = 4096
"""Convention: samples of a block of a pass: 3 MB at 100 features, near what a processor's cache
holds, and enough for fast matrix products."""
CENTRED_AT_ONCE = 2**23
"""Convention: numbers of inputs that are centred at a time, in a copy of 64 megabytes."""
CENTRED_TOGETHER = 64
"""Measured (benchmarks/moments.py): samples from which a mean is taken off as one
long row. Of a few numbers each, they take three times as long one by one."""
STRETCH_BYTES = 2**25
"""Convention: bytes of samples, at least, from one place where a pass is told and checkpointed to
the next: 32 MB are quickly added up again."""
SUMS_MERGED_AT_ONCE = 8
"""Convention: sums that one task of Dask adds up: few to hold, and a thousand chunks take four
rounds."""
DESIGN_BLOCK = 4096
"""Convention: inputs of a block of a design, about, in whole groups: as many as a block of a pass
has."""

CSV_LINES_AT_ONCE = 16384
"""Convention: lines of text that are parsed together: some megabytes."""
CSV_LOOKS, CSV_LOOK_BYTES = 16, 2**16
"""Convention: pieces of a file, evenly spaced, and bytes of each, from which its number of lines is
estimated: a megabyte in all."""
NPZ_BLOCK_BYTES = 2**23
"""Convention: bytes of an archive's members that are read at once: 8 MB."""
PARQUET_ROWS_AT_ONCE = 2**15
"""Convention: rows of a table that are read at once: 26 MB at 100 columns of doubles."""

CHECKED_PLACES, ROWS_A_PLACE = 64, 2
"""Convention: places, evenly spaced, and rows of each, by which a checkpoint tells other data
before all that it covers is read and compared."""
CHECKSUM_SEED, CHECKSUM_MULTIPLIER, CHECKSUM_SHIFTS = 20261117, 0x9E3779B97F4A7C15, (32, 29)
"""Convention: the odd numbers of a checksum's columns are random ones of this seed; mixing is by an
odd multiplier (2^64 over the golden ratio) between shifts of about half of the bits."""
ACTIVATION_PROBES = np.linspace(-3.0, 3.0, 25)
"""Convention: where an activation and its slope are evaluated to be known again: on both sides of
zero, as far as standard inputs usually reach."""
NO_MEMORY_LIMIT = 2**63
"""Derived: bytes, more than any machine has, for where the system tells no limit."""
MALLOC_KEEPS = 2**26, 2**25
"""Derived: free bytes up to which memory is kept, and those from which an array is mapped by itself
(the most that glibc takes): a block's arrays are smaller."""
MALLOC_MAPS_FROM = 2**17
"""Derived: where glibc begins to map arrays by themselves, its documented default."""
MALLOC_LEARNS = 2**25 - 2**16
"""Derived: bytes of the largest array, with its head, from which glibc learns how much to keep."""

FEWEST_STEPPED = 8
"""Convention: different labels, or labels that repeat others, from which steps are recognised: a
few numbers are always multiples of something."""
MOST_DIGITS = 9
"""Convention: significant digits up to which labels count as rounded: single precision has seven,
double sixteen."""
SAME_STEP = 4.0
"""Convention: roundings of the largest label by which a multiple of a step may be off."""
COARSE = 1e4
"""Convention: times these roundings that a step has at least: labels of double precision are
multiples of their last bit, and a step found by chance is not much larger."""
CLEARLY_COARSER = 1.1
"""Convention: times coarser that digits must be than steps to be what labels were rounded to."""
NARROW_GAPS = 64
"""Convention: differences of neighbours, the smallest, from which a step is found: wide ones are so
many steps that digits are lost."""

SUM_OF_PROBABILITIES = 1e-3
"""Convention: by how much the probabilities of a row may miss 1: ten of them, rounded to four
digits, do by half of it."""
ROUNDED_PROBABILITY = 2.0
"""Convention: roundings by which a probability may be off, to both sides together: of itself and of
the exponential."""
LEAST_TOLD = 1e3
"""Convention: labels known this much worse than the best one are left out: of logits in double
precision, those beyond 7 or so, which are known to 1e-13. All others can be fitted to the last
digits with one weight."""
COARSELY_TOLD = 20.0
"""Convention: the same for labels of few digits, whose widths count: logits beyond 4 or so are left
out, unless more than half of them are. One weight for all would let the worst rule the search."""
MOST_NAMES = 12
"""Convention: names of columns that a message lists."""
