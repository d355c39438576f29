"""What an oracle needs of whoever is asked, and the words that messages about it share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from provenet.common.exceptions import InvalidInput
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


def comes_from(model: Any, *packages: str) -> bool:
    """Whether an object's class, or one that it extends, is of such a package."""
    homes = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    return not homes.isdisjoint(packages)


def agreed(name: str, what: str, found: int | None, wanted: int | None) -> int | None:
    """What a model tells and what is wanted of it, as far as one of them is known."""
    if found is not None and wanted is not None and found != wanted:
        raise InvalidInput(
            f"{name} has {found:,} {what}{'s' * (found != 1)}, not {wanted:,}: leave {what}s out."
        )
    return wanted if found is None else found


def known_features(name: str, found: int | None) -> int:
    """Their number; raises where nothing tells it."""
    if found is None:
        raise InvalidInput(f"{name} does not tell its number of features: give features.")
    return found


def picked(name: str, answer: Any, output: str | int | None) -> Any:
    """One of several outputs that come by name or in a row; one array alone is all there is."""
    names = _names_of_outputs(answer)
    if output is None:
        if len(names) > 1:
            raise InvalidInput(f"{name} answers with {_outputs(names)}: name one with output=.")
        return answer[names[0]] if names else answer
    number = int(output) if str(output).isdecimal() else -1
    if output not in names and not 0 <= number < len(names):
        raise InvalidInput(f"{name} has no output {output!r}: it answers with {_outputs(names)}.")
    return answer[output if output in names else names[number]]


def _names_of_outputs(answer: Any) -> list[Any]:
    """Names or numbers of outputs; none of an array, or of what will become one."""
    if isinstance(answer, Mapping):
        return list(answer)
    is_row = isinstance(answer, (tuple, list)) and any(hasattr(part, "shape") for part in answer)
    return list(range(len(answer))) if is_row and np.ndim(answer[0]) else []


def _outputs(names: list[Any]) -> str:
    found = ", ".join(map(str, names))
    return f"{len(names)} outputs ({found})" if names else "one array"


def first_line(text: object, most: int = 200) -> str:
    """The first line that says something, without a full stop at its end."""
    lines = (line.strip() for line in str(text).splitlines())
    return next(filter(None, lines), "no message")[:most].rstrip(". ")
