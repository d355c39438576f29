"""The examples run: a small version of each."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from provenet.datasets import differing_share

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_lower_bound_grows_with_the_condition(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    example = runpy.run_path(str(EXAMPLES / "lower_bound.py"))
    values = [0.5, 0.125]
    rows = list(example["measure"](values, 301, 1, np.random.default_rng(0)))
    for a, differ, recover in rows:
        # The median of a geometric waiting time; that of 301 draws is within a quarter, or one.
        expected = np.log(0.5) / np.log1p(-differing_share(a))
        assert abs(differ - expected) <= max(1.0, 0.25 * expected)
        assert recover > differ
    picture = tmp_path / "bound.png"
    example["draw"](plt, rows, picture)
    plt.close("all")
    assert picture.stat().st_size > 10_000
