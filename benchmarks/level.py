"""Level and power of the judge: true networks refused, and departures from a network found.

    python benchmarks/level.py --seeds 300 --out level.json       # all cells
    python benchmarks/level.py --seeds 16 --noise Gaussian Laplace --departure none product

A cell is a kind of noise (size 0.1, mean zero) and a departure. Labels are those of a random ReLU
network of 4 units in 5 features, 500 samples, with the departure and the noise added; `pn.recover`
is given the width. The share printed is that of results which are not a success: with no departure
the level, else the power. Seeds begin at 70000.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from common import markdown_head, markdown_row

Array = np.ndarray[Any, np.dtype[np.float64]]
Rng = np.random.Generator
FEATURES, UNITS, SAMPLES, SIZE = 5, 4, 500, 0.1


def serial(rng: Rng, X: Array) -> Array:
    """An autoregression of coefficient 0.5."""
    e: Array = np.sqrt(0.75) * rng.standard_normal(len(X))
    for i in range(1, len(e)):
        e[i] += 0.5 * e[i - 1]
    return e


NOISES: dict[str, Callable[[Rng, Array], Array]] = {
    "Gaussian": lambda rng, X: rng.standard_normal(len(X)),
    "Laplace": lambda rng, X: rng.laplace(size=len(X)) / np.sqrt(2),
    "Student t5": lambda rng, X: rng.standard_t(5, len(X)) / np.sqrt(5 / 3),
    "Student t3": lambda rng, X: rng.standard_t(3, len(X)) / np.sqrt(3),
    "exponential": lambda rng, X: rng.exponential(size=len(X)) - 1,
    "uniform": lambda rng, X: rng.uniform(-np.sqrt(3), np.sqrt(3), len(X)),
    "two values": lambda rng, X: rng.choice([-1.0, 1.0], len(X)),
    "uneven": lambda rng, X: np.abs(X[:, 0]) * rng.standard_normal(len(X)),
    "uneven, skewed": lambda rng, X: np.abs(X[:, 0]) * (rng.exponential(size=len(X)) - 1),
    "serial": serial,
}
"""Of variance one."""


def a_unit(X: Array) -> Array:
    return np.asarray(0.15 * np.maximum(X @ np.full(X.shape[1], X.shape[1] ** -0.5), 0))


def deeper(X: Array) -> Array:
    """A unit of a second layer."""
    h: Array = np.maximum(X[:, :2], 0)
    return np.asarray(0.2 * np.maximum(h[:, 0] - h[:, 1], 0))


DEPARTURES: dict[str, Callable[[Array, Array], Array]] = {
    "none": lambda X, y: y,
    "a missing unit": lambda X, y: y + a_unit(X),
    "a product": lambda X, y: y + 0.05 * X[:, 0] * X[:, 1],
    "a sine": lambda X, y: y + 0.06 * np.sin(3 * X[:, 0]),
    "a jump": lambda X, y: y + 0.1 * (X[:, 0] > 0),
    "clipping": lambda X, y: np.maximum(y, np.quantile(y, 0.1)),
    "a deeper layer": lambda X, y: y + deeper(X),
    "another activation": lambda X, y: y + 0.1 * np.tanh(3 * X[:, 0]) ** 2,
}
"""What becomes of the network's values."""


def refused(cell: tuple[str, str], seed: int) -> bool:
    """Whether the result of one problem is no success."""
    noise, departure = cell
    rng = np.random.default_rng([seed, 1])
    net = pn.random_network(UNITS, FEATURES, rng=seed)
    X = rng.standard_normal((SAMPLES, FEATURES))
    y = DEPARTURES[departure](X, net(X)) + SIZE * NOISES[noise](rng, X)
    return not pn.recover(X, y, units=UNITS, rng=seed).success


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--noise", nargs="*", default=list(NOISES))
    parser.add_argument("--departure", nargs="*", default=list(DEPARTURES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    shares: dict[str, dict[str, float]] = {}
    print(markdown_head(("noise", *args.departure)))
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for noise in args.noise:
            shares[noise] = {}
            for departure in args.departure:
                found = pool.map(
                    partial(refused, (noise, departure)), range(70_000, 70_000 + args.seeds)
                )
                shares[noise][departure] = float(np.mean(list(found)))
            print(markdown_row((noise, *(f"{s:.1%}" for s in shares[noise].values()))), flush=True)
    if args.out:
        content = {"date": date.today().isoformat(), "seeds": args.seeds, "refused": shares}
        args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
