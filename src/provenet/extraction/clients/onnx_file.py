"""A model in an ONNX file that is asked: run by onnxruntime, never looked into.

One input (rows, features) and an output (rows,), (rows, 1) or (rows, outputs), in single or double
precision: the one that is named, or the only one of such a kind. A model with a fixed batch of one
row is asked row by row.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray
from provenet.extraction.clients.base import (
    agreed,
    first_line,
    known_features,
    rows_at_once,
    such_as,
)
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import FILE_BATCH

_TYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
}
_LABELS = {"tensor(int64)", "tensor(int32)", "tensor(bool)", "tensor(string)"}
"""What classes may come in, where such an output is named or there is no other."""
_QUIET = 4
"""Only fatal messages are logged."""


class OnnxClient:
    """A session of one thread, and what its input and output look like."""

    kind, known_by_name = "an ONNX model", False

    def __init__(
        self,
        path: Path,
        features: int | None = None,
        outputs: int | None = None,
        output: str | int | None = None,
    ) -> None:
        """Open the model; raises and says what was found if it is of another kind."""
        self.name = str(path)
        self._session = _open(path)
        given = _only_input(self.name, self._session.get_inputs())
        self._row_by_row = _check_input(self.name, given)
        found = self._session.get_outputs()
        answer = _chosen_output(self.name, found, self._row_by_row, output)
        _check_output(self.name, answer, self._row_by_row)
        self._input, self._output = given.name, answer.name
        self.input_dtype = _TYPES[given.type]
        self.answer_dtype: np.dtype[Any] | None = _TYPES.get(answer.type, np.dtype(np.float64))
        told = agreed(self.name, "feature", _size(given), features)
        self.features = known_features(self.name, told)
        width = 1 if len(_shape(answer)) == 1 else _size(answer)
        self.outputs = agreed(self.name, "output", width, outputs)
        self.batch = rows_at_once(FILE_BATCH, self.features)
        self.identity = _digest(path, answer.name if len(found) > 1 else "")

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> AnyArray:
        """The model's output; what the runtime raises is told with the inputs."""
        batches = X[:, None] if self._row_by_row else [X]
        try:
            return np.concatenate(
                [self._session.run([self._output], {self._input: x})[0] for x in batches]
            )
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


def _only_input(name: str, values: list[Any]) -> Any:
    if len(values) != 1:
        raise InvalidInput(
            f"{name} has {_listed('input', values)}; it must have one, so export it with the input "
            "that counts."
        )
    return values[0]


def _chosen_output(name: str, values: list[Any], row_by_row: bool, wanted: str | int | None) -> Any:
    """The output that is named, by name or number, or the only one that can be used."""
    if wanted is None:
        usable = [v for v in values if _is_usable(v, row_by_row)] if len(values) > 1 else values
        if len(usable) != 1:
            raise InvalidInput(
                f"{name} has {_listed('output', values)}; name one, with output= or --output."
            )
        return usable[0]
    by_name = {value.name: value for value in values}
    by_number = {str(i): value for i, value in enumerate(values)}
    found = by_name.get(str(wanted), by_number.get(str(wanted)))
    if found is None:
        raise InvalidInput(f"{name} has no output {wanted!r} but {_listed('output', values)}.")
    return found


def _listed(what: str, values: list[Any]) -> str:
    number = f"{len(values)} {what}{'s' * (len(values) != 1)}"
    return f"{number}: {', '.join(map(_described, values))}"


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


def _is_usable(value: Any, row_by_row: bool) -> bool:
    return value.type in _TYPES and _has_rows(value, row_by_row)


def _has_rows(value: Any, row_by_row: bool) -> bool:
    shape = _shape(value)  # of none at all the answers will tell
    free = not shape or not isinstance(shape[0], int) or (row_by_row and shape[0] == 1)
    return len(shape) < 3 and 0 not in shape and free


def _check_output(name: str, value: Any, row_by_row: bool) -> None:
    classes = value.type in _LABELS and _size(value) in (None, 1)
    if not (_has_rows(value, row_by_row) and (value.type in _TYPES or classes)):
        raise InvalidInput(
            f"The output of {name} is {_described(value)}: it must be (rows,) or (rows, outputs) "
            "in float32 or float64, or one class a row."
        )


def _shape(value: Any) -> list[Any]:
    """Whole numbers, and names or None for axes of any length."""
    return list(value.shape or [])


def _size(value: Any) -> int | None:
    """The second axis, where the file tells."""
    shape = _shape(value)
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None


def _digest(path: Path, output: str) -> str:
    """Of the file, and of the one beside it in which exporters put large weights."""
    digest = hashlib.sha256(path.read_bytes() + output.encode())
    weights = path.with_name(f"{path.name}.data")
    if weights.is_file():
        digest.update(weights.read_bytes())
    return digest.hexdigest()
