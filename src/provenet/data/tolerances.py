"""The numbers of this room: how much is read, kept and held at once, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script).
"""

from __future__ import annotations

MOST_BYTES_IN_MEMORY = 2**31
"""Bytes of samples, as float64, that a method may hold at once. A convention: with the copies that
such methods make this is some 8 GB, what an ordinary machine has."""
