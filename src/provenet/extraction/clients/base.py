"""What an oracle needs of whoever is asked, and the words that messages about it share."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from provenet.common.typing import AnyArray
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import SHOWN_NUMBERS


class Client(Protocol):
    """Somebody who answers rows of inputs."""

    name: str
    """In messages."""
    kind: str
    """In messages about files: `an ONNX model`."""
    identity: str
    """The same in every run that asks the same model."""
    known_by_name: bool
    """Whether the identity is only a name, behind which another model may be by now."""
    features: int
    outputs: int | None
    """How many numbers an answer has; None until the first answer tells."""
    input_dtype: np.dtype[Any]
    answer_dtype: np.dtype[Any] | None
    """Precision of the answers; None until the first answer tells."""
    batch: int
    """How many rows to ask at once, at most; it may become smaller."""

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Any:
        """Something like an array, one answer a row; the oracle checks it.

        Raises `BatchTooLarge` after it has made `batch` smaller, `Unreachable`, and `TooLate` where
        it would have to wait for longer than until the deadline.
        """


class BatchTooLarge(Exception):
    """So many rows are not taken at once: ask again with the batch that the client has now."""


class TooLate(Exception):
    """No further try ends by the deadline."""


class Unreachable(Exception):
    """Nobody answered, however often it was tried."""

    def __init__(self, times: int, reason: str) -> None:
        """How often it was tried, and what happened the last time."""
        super().__init__(f"failed {times} times ({reason})")
        self.times, self.reason = times, reason


def rows_at_once(most: tuple[int, int], features: int) -> int:
    """A batch of about so many numbers, and of so many rows at most."""
    numbers, rows = most
    return max(1, min(rows, numbers // features))


def shown(x: AnyArray) -> str:
    """An input or an answer in a message: the first numbers of it."""
    values = np.ravel(x)
    numbers = [f"{value:.6g}" for value in values[:SHOWN_NUMBERS].tolist()]
    rest = [f"... ({values.size:,} numbers)"] * (values.size > SHOWN_NUMBERS)
    return f"[{', '.join([*numbers, *rest])}]"


def such_as(X: AnyArray) -> str:
    """The inputs of a batch in a message: `for the input [1]`, `for inputs such as [1]`."""
    return f"for {'the input' if len(X) == 1 else 'inputs such as'} {shown(X[0])}"


def counted_queries(number: int) -> str:
    """`1 query`, `2 queries`."""
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def first_line(text: object, most: int = 200) -> str:
    """The first line that says something, without a full stop at its end."""
    lines = (line.strip() for line in str(text).splitlines())
    return next(filter(None, lines), "no message")[:most].rstrip(". ")
