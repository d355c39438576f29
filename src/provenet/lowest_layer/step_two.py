"""Step 2 as the paper has it: Algorithm 1 for every unit (GP19, Theorem 5; Theorem 6 for unions).

By questions where the source may be asked, else on its samples (`bands.random_search`). Labels fire
above a level; those of an intersection are turned over first, since its complement is a union.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import MappedSource, StandardisedSource
from provenet.data.standardisation import Standardisation
from provenet.fitting.context import Context
from provenet.lowest_layer.bands.descent import Refinement
from provenet.lowest_layer.bands.near import near_samples
from provenet.lowest_layer.bands.queries import QueriedBands, SampleBands, estimate_tan_alpha
from provenet.lowest_layer.bands.random_search import random_search, search_samples
from provenet.lowest_layer.bands.tolerances import BAND_WIDTHS, FIRST_BANDS
from provenet.lowest_layer.step_one import StepOne
from provenet.lowest_layer.tolerances import ASKED_OF_PAPER


@dataclass(frozen=True)
class Searched:
    """What Algorithm 1 made of every unit, and on which inputs."""

    units: list[Refinement]
    standardisation: Standardisation | None
    """None where directions are those of the user's inputs: the source was asked."""


def step_two(context: Context, start: StepOne, level: float, *, turned: bool = False) -> Searched:
    """Algorithm 1 from the directions of step 1; labels fire above `level`.

    `turned`: they fire below it. Raises `NoAnswer` where one of the units cannot be refined.
    """
    sign, W = -1.0 if turned else 1.0, start.units.weights
    if context.source.queryable:
        source = context.source
        oracle = QueriedBands(
            partial(_turned_answers, sign, source.query),
            source.features,
            silent=sign * level,
            rng=context.rng,
        )
        # Inputs are made standard normal, so directions are needed in the source's coordinates.
        search: Callable[[Array, float], Refinement] = partial(_by_questions, context, oracle)
        W, own = W @ context.standardisation.whiten, None
    else:
        own = context.standardisation
        samples = MappedSource(
            StandardisedSource(context.source, own), partial(_turned_samples, sign)
        )
        search = partial(_on_samples, context, samples, sign * level)
    with context.stage("step 2", f"Algorithm 1 for {counted(len(W), 'unit')}"):
        return Searched(list(_each_unit(context, search, W, start.angle_errors)), own)


def _each_unit(
    context: Context, search: Callable[[Array, float], Refinement], W: Array, errors: Array
) -> Iterator[Refinement]:
    for i, (w, error) in enumerate(zip(W, errors, strict=True)):
        if context.out_of_time:
            raise NoAnswer(
                "The budget was used up before every unit was refined: give more with budget=."
            )
        try:
            yield search(w, float(error))
        except NoAnswer as why:
            raise NoAnswer(f"Step 2 ended at unit {i}. {why}") from why


def _turned_answers(sign: float, ask: Callable[[Array], Array], X: Array) -> Array:
    return sign * ask(X)


def _turned_samples(sign: float, X: Array, y: Array) -> tuple[Array, Array]:
    return X, sign * y


def _by_questions(context: Context, oracle: QueriedBands, w: Array, error: float) -> Refinement:
    return random_search(
        oracle, w, ASKED_OF_PAPER, stop=lambda: context.out_of_time, rng=context.rng
    )


def _on_samples(
    context: Context, samples: MappedSource, level: float, w: Array, error: float
) -> Refinement:
    """Bands of the first look are as wide as the angle that step 1 states."""
    eps = float(np.clip(BAND_WIDTHS * error, *FIRST_BANDS))
    first = estimate_tan_alpha(SampleBands(samples, silent=level), w, eps, rng=context.rng)
    width = max(first.tan_alpha, eps / BAND_WIDTHS)
    halves = near_samples(samples, level, w, first.offset, width, context.hidden_rows)
    return search_samples(
        halves,
        w,
        BAND_WIDTHS * width,
        ASKED_OF_PAPER,
        stop=lambda: context.out_of_time,
        rng=context.rng,
    )
