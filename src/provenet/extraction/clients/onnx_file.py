"""A model in an ONNX file that is asked: run by onnxruntime, never looked into.

One input (rows, features) and one output (rows,), (rows, 1) or (rows, outputs), in single or double
precision. A model with a fixed batch of one row is asked row by row.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.extraction.clients.base import first_line, rows_at_once, such_as
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import FILE_BATCH

_TYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
}
_QUIET = 4
"""Only fatal messages are logged."""


class OnnxClient:
    """A session of one thread, and what its input and output look like."""

    kind, known_by_name = "an ONNX model", False

    def __init__(self, path: Path, features: int | None = None, outputs: int | None = None) -> None:
        """Open the model; raises and says what was found if it is of another kind."""
        self.name = str(path)
        self._session = _open(path)
        given = _only(self.name, "input", self._session.get_inputs())
        answer = _only(self.name, "output", self._session.get_outputs())
        self._row_by_row = _check_input(self.name, given)
        _check_output(self.name, answer, self._row_by_row)
        self._input = given.name
        self.input_dtype = _TYPES[given.type]
        self.answer_dtype: np.dtype[Any] | None = _TYPES[answer.type]
        self.features = _features(self.name, _agreed(self.name, "feature", _size(given), features))
        found = 1 if len(_shape(answer)) == 1 else _size(answer)
        self.outputs = _agreed(self.name, "output", found, outputs)
        self.batch = rows_at_once(FILE_BATCH, self.features)
        self.identity = _digest(path)

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> AnyArray:
        """The model's output; what the runtime raises is told with the inputs."""
        batches = X[:, None] if self._row_by_row else [X]
        try:
            return np.concatenate([self._session.run(None, {self._input: x})[0] for x in batches])
        except Exception as error:  # onnxruntime's own exceptions have no common base
            raise InvalidInput(
                f"{self.name} failed ({first_line(error)}) {such_as(X)}: it must answer every "
                "input."
            ) from None


def _open(path: Path) -> Any:
    runtime = package("onnxruntime", path, "onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidInput(
            f"{path} cannot be run by onnxruntime ({first_line(error)}): export it again."
        ) from None


def _only(name: str, what: str, values: list[Any]) -> Any:
    if len(values) != 1:
        found = ", ".join(map(_described, values))
        raise InvalidInput(
            f"{name} has {len(values)} {what}s: {found}; it must have one, so export it with the "
            f"{what} that counts."
        )
    return values[0]


def _described(value: Any) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in _shape(value))
    comma = "," * (len(_shape(value)) == 1)
    kinds = {kind: str(dtype) for kind, dtype in _TYPES.items()}
    return f"{value.name} ({sizes}{comma}) {kinds.get(value.type, value.type)}"


def _check_input(name: str, value: Any) -> bool:
    """Whether the model takes one row at a time."""
    shape = _shape(value)
    rows = shape[0] if shape else None
    fits = len(shape) == 2 and (rows == 1 or not isinstance(rows, int)) and shape[1] != 0
    if not fits or value.type not in _TYPES:
        raise InvalidInput(
            f"The input of {name} is {_described(value)}: it must be (rows, features) in float32 "
            "or float64, with any number of rows or one."
        )
    return rows == 1


def _check_output(name: str, value: Any, row_by_row: bool) -> None:
    shape = _shape(value)  # of none at all the answers will tell
    free = not shape or not isinstance(shape[0], int) or (row_by_row and shape[0] == 1)
    fits = len(shape) < 3 and 0 not in shape and free
    if not fits or value.type not in _TYPES:
        raise InvalidInput(
            f"The output of {name} is {_described(value)}: it must be (rows,) or (rows, outputs) "
            "in float32 or float64."
        )


def _shape(value: Any) -> list[Any]:
    """Whole numbers, and names or None for axes of any length."""
    return list(value.shape or [])


def _size(value: Any) -> int | None:
    """The second axis, where the file tells."""
    shape = _shape(value)
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None


def _agreed(name: str, what: str, found: int | None, wanted: int | None) -> int | None:
    if found is not None and wanted is not None and found != wanted:
        raise InvalidInput(
            f"{name} has {found:,} {what}{'s' * (found != 1)}, not {wanted:,}: leave {what}s out."
        )
    return wanted if found is None else found


def _features(name: str, agreed: int | None) -> int:
    if agreed is None:
        raise InvalidInput(f"{name} does not tell its number of features: give features.")
    return agreed


def _digest(path: Path) -> str:
    """Of the file, and of the one beside it in which exporters put large weights."""
    digest = hashlib.sha256(path.read_bytes())
    weights = path.with_name(f"{path.name}.data")
    if weights.is_file():
        digest.update(weights.read_bytes())
    return digest.hexdigest()
