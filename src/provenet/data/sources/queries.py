"""A function that may be asked: it draws its own Gaussian inputs and counts its queries."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.data.sources.base import Draw, Source
from provenet.data.sources.designs import get_design


class QuerySource(Source):
    """`samples` standard normal inputs and a function's answers to them.

    Inputs are made anew from the seed whenever they are needed; answers are kept (8 bytes an
    output), so no input is ever asked twice however many passes an algorithm makes. `draw` makes
    further inputs. `queries` counts every answer the function gave.
    """

    fixed = False
    may_be_asked = True

    def __init__(
        self,
        function: Callable[[Array], Array],
        features: int,
        samples: int = 100_000,
        *,
        outputs: int | None = None,
        design: str = "independent",
        rng: Seed = None,
    ) -> None:
        """Nothing is asked until samples are needed; `outputs` only if answers are vectors.

        `design` says how the inputs are drawn, by a name of `sources.designs`.
        """
        if features < 1 or samples < 1:
            raise InvalidInput("A queried function needs at least one feature and one sample.")
        self.function, self.features, self.size = function, features, samples
        self.outputs = outputs
        self.design = get_design(design, features)
        self.queries = 0
        self._lock = Lock()
        self._entropy = int(np.random.default_rng(rng).integers(2**63))
        self._answers = np.full((samples, *self.label_shape), np.nan)

    def ask(self, X: Array) -> Array:
        """The function's answers to the rows of `X`, checked and counted."""
        with self._lock:  # sums run on several threads; the function need not be safe for that
            y = _as_numbers(self.function(X))
            self.queries += len(X)
        if y.shape != (len(X), *self.label_shape):
            raise InvalidInput(
                f"The queried function answered {len(X)} inputs with shape {y.shape}: it must "
                f"return shape {(len(X), *self.label_shape)} (outputs= says how many outputs)."
            )
        if not np.isfinite(y).all():
            bad = int(np.argmin(np.isfinite(y.reshape(len(y), -1)).all(axis=1)))
            raise InvalidInput(
                f"The queried function answered {y[bad]} to the input {X[bad].tolist()}: "
                "it must be finite for every input."
            )
        return y

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Inputs made from the seed, answers from memory or from the function."""
        length = self.design.block_rows(self.features)
        first, last = start // length, -(-stop // length)
        X = np.concatenate([self._inputs(block, length) for block in range(first, last)])
        X = X[start - first * length : stop - first * length]
        new = np.isnan(self._answers[start:stop].reshape(stop - start, -1)[:, 0])
        if new.any():
            self._answers[start:stop][new] = self.ask(X[new])
        return X, self._answers[start:stop].copy()

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` fresh inputs and their answers; independent ones, whatever the design.

        They are fitted exactly, which no design helps, or judge what was fitted, and all tests that
        do so count independent samples.
        """
        X = rng.standard_normal((n, self.features))
        return Draw(X, np.concatenate([self.ask(X[rows]) for rows in row_blocks(n)]))

    def _inputs(self, block: int, length: int) -> Array:
        return self.design.make(self._entropy, block, length, self.features)


def _as_numbers(answers: Any) -> Array:
    """A function's answers as real numbers."""
    try:
        array = np.asarray(answers)
        numbers = array.astype(float) if array.dtype.kind in "fiubO" else None
        if array.shape == () and array.item() is None:
            numbers = None
    except (TypeError, ValueError, RuntimeError):  # torch refuses with the last
        numbers = None
    if numbers is None:
        raise InvalidInput(
            f"The queried function must answer with real numbers, not {_in_words(answers)}: return "
            "one number for each row of X, as an array of floats."
        )
    return numbers


def _in_words(answers: Any) -> str:
    """What the first answer is, told by its type."""
    first = answers
    while isinstance(first, (list, tuple, np.ndarray)) and len(first) > 0:
        first = first[0]
    if isinstance(first, (int, float)):
        return "rows of different lengths"
    return "None" if first is None else f"values of {type(first).__name__}"
