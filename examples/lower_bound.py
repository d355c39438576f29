"""How many samples does it take to learn an ill-conditioned network?

BJW19, Lemma 16: the two networks of `provenet.datasets.condition_pair(a)` agree on all but a share
of about 4a/pi of Gaussian inputs, so no method can tell them apart from much fewer than 1/a
samples. This script measures, for several a,

- how many samples it takes until one falls where the two networks differ: before that even someone
  who knows both networks can only guess;
- how many samples `provenet.recover` needs to find the weights of the first one exactly.

Both grow like 1/a, the condition number of the weights. Run it:

    python examples/lower_bound.py --quick --output lower_bound.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.datasets.condition_pair import condition_pair, differing_share

GROWTH = 1.4
"""Factor between one number of samples that is tried and the next."""
SECONDS = 1.0
"""Time that a single recovery may take."""


def samples_to_differ(a: float, rng: np.random.Generator) -> int:
    """How many Gaussian inputs until the two networks give different values."""
    first, second = condition_pair(a)
    block = int(4 / differing_share(a))
    seen = 0
    while True:
        X = rng.standard_normal((block, 2))
        size = np.abs(X).sum(axis=1)
        differ = np.abs(first(X) - second(X)) > 1e-12 * size  # beyond rounding
        if differ.any():
            return seen + int(np.argmax(differ)) + 1
        seen += block


def samples_to_recover(a: float, rng: np.random.Generator) -> int | None:
    """The first of growing numbers of samples from which the first network is recovered exactly."""
    truth, _ = condition_pair(a)
    most = int(100 / differing_share(a))
    X, y = pn.sample(truth, most, rng=rng)
    n = max(16.0, 2 / differing_share(a))  # hardly any sample shows a before that
    while n <= most:
        found = pn.recover(X[: int(n)], y[: int(n)], units=2, budget=SECONDS, rng=rng)
        right = found.network is not None and pn.parameter_error(found.network, truth) < 1e-6
        if found.success and right:
            return int(n)
        n *= GROWTH
    return None


def measure(
    values: list[float], trials: int, recoveries: int, rng: np.random.Generator
) -> Iterator[tuple[float, float, float]]:
    """For each a: the median number of samples until the two differ, and until recovery."""
    for a in values:
        differ = np.median([samples_to_differ(a, rng) for _ in range(trials)])
        found = [samples_to_recover(a, rng) for _ in range(recoveries)]
        reached = [n for n in found if n is not None]
        # Where a recovery failed at every number the median of the others would flatter it.
        recover = float(np.median(reached)) if len(reached) == recoveries else np.nan
        yield a, float(differ), recover


def draw(plt: Any, rows: list[tuple[float, float, float]], output: Path) -> None:
    """Both numbers against 1/a, with the line that the closed form predicts."""
    a, differ, recover = np.array(rows).T
    condition = 1 / a
    fine = np.geomspace(condition.min(), condition.max(), 100)
    share = np.array([differing_share(1 / c) for c in fine])
    figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    axes.loglog(
        fine,
        np.log(0.5) / np.log1p(-share),
        "k--",
        lw=1,
        label="closed form: log(1/2) / log(1 - share)",
    )
    axes.loglog(
        condition, differ, "o", color="tab:blue", label="until the two networks differ on one"
    )
    axes.loglog(condition, recover, "s", color="tab:orange", label="until provenet recovers one")
    axes.loglog(fine, fine, ":", color="gray", lw=1, label="1/a")
    axes.set_xticks(condition, labels=[f"{c:.0f}" for c in condition])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("1/a, the condition number of the weights")
    axes.set_ylabel("samples (median)")
    axes.set_title("Samples needed to learn an ill-conditioned network (BJW19, Lemma 16)", size=10)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)


def main() -> int:
    """Measure, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Samples needed against 1/a (BJW19, Lemma 16).")
    parser.add_argument("--quick", action="store_true", help="fewer points, less than a minute")
    parser.add_argument("--output", type=Path, default=Path("lower_bound.png"), help="the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    last, trials, recoveries = (6, 101, 3) if options.quick else (10, 1001, 11)
    values = [2.0**-i for i in range(1, last + 1)]
    rows = []
    for row in measure(values, trials, recoveries, np.random.default_rng(options.seed)):
        rows.append(row)
        sys.stdout.write(
            "1/a = {:5.0f}: differ {:6.0f}, recovered {:6.0f}\n".format(1 / row[0], *row[1:])
        )
    draw(plt, rows, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
