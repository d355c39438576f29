"""The numbers of this room: how much is read, kept and held at once, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script).
"""

from __future__ import annotations

MOST_BYTES_IN_MEMORY = 2**31
"""Bytes of samples, as float64, that a method may hold at once. A convention: a few
copies of so much still fit an ordinary machine."""
