"""Section 6 of GLM17 at other sizes: what `faithful=True` costs and finds.

As many orthogonal units as features, output weights 1, a million samples. The batch and the
steps are those of `provenet.landscape.stochastic.plan`, and the paper's own at 50 features. Seconds
are of processor time, for the whole of `recover`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

import provenet as pn
from figures import Figure, Row, by, column, finish
from provenet.landscape.outcome import LandscapeDetails
from provenet.networks.canonical import permutation_error

OBJECTIVES = ("l2", "f2f4", "abs", "G", "F")
BUDGET = 1200.0
"""Seconds: ample, also where other work takes most of a core."""
SAMPLES, QUICK_SAMPLES = 1_000_000, 50_000


def measure(quick: bool) -> Iterator[Row]:
    """A row a recovery."""
    sizes = (4,) if quick else (6, 10, 20)
    for features, name in product(sizes, OBJECTIVES):
        for seed in range(1 if quick or features == max(sizes) else 3):
            yield one(name, features, QUICK_SAMPLES if quick else SAMPLES, seed)


def one(name: str, features: int, samples: int, seed: int) -> Row:
    """One recovery by the paper's stochastic descent."""
    rng = np.random.default_rng([seed, 1])
    truth = pn.Network(np.linalg.qr(rng.standard_normal((features, features)))[0])
    X, y = pn.sample(truth, samples, rng=np.random.default_rng([seed, 2]))
    begun = time.process_time()
    found = pn.recover(
        X,
        y,
        units=features,
        method="landscape",
        objective=name,
        faithful=True,
        budget=BUDGET,
        rng=seed,
    )
    row: Row = {"objective": name, "features": features, "seed": seed, "status": str(found.status)}
    row["seconds"] = round(time.process_time() - begun, 2)
    if found.network is None or not isinstance(found.details, LandscapeDetails):
        return row | {"steps": 0, "samples": 0, "error": None, "parameters": None}
    descent = found.details.landscape.descent
    return row | {
        "steps": descent.steps,
        "samples": descent.path[-1].samples,
        "error": permutation_error(found.network.weights, truth.weights),
        "parameters": pn.parameter_error(found.network, truth),
    }


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Seconds and errors against features, an objective a colour."""
    left, right = picture.subplots(1, 2)
    for i, (name, own) in enumerate(by(rows, "objective").items()):
        groups = by(own, "features")
        for axes, key in ((left, "seconds"), (right, "error")):
            values = [np.nanmedian(column(group, key)) for group in groups.values()]
            axes.plot(list(groups), values, "-", color=f"C{i}", lw=1, label=name)
            axes.plot(
                column(own, "features"), column(own, key), "o", ms=4, color=f"C{i}", alpha=0.6
            )
    finish(left, "features, units", "processor seconds", "the whole of recover", log="xy")
    finish(right, "features, units", "e(Q)", "a point a seed, medians joined", log="xy")
    right.set_ylim(bottom=max(1e-10, right.get_ylim()[0]))
    for axes in (left, right):
        sizes = list(by(rows, "features"))
        axes.set_xticks(sizes, sizes)
        axes.minorticks_off()


FIGURES = (
    Figure(
        "sizes",
        "GLM17, section 6, at other sizes: faithful=True on a million samples",
        measure,
        draw,
        width=11.0,
    ),
)
