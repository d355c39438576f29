"""Long arrays, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

_ROWS_AT_ONCE = 8192


def row_blocks(n: int, rows: int = _ROWS_AT_ONCE) -> Iterator[slice]:
    """Slices that cover `range(n)` in blocks of at most `rows`."""
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))
