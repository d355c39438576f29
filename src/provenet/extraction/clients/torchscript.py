"""A model in a TorchScript file that is asked; it runs in the precision of its parameters."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.extraction.clients.base import first_line, rows_at_once, such_as
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import FILE_BATCH


class TorchScriptClient:
    """The loaded module, in evaluation mode, on the processor."""

    kind, known_by_name = "a TorchScript model", False
    answer_dtype: np.dtype[Any] | None = None

    def __init__(self, path: Path, features: int, outputs: int | None = None) -> None:
        """Load the file; raises if torch is missing or the file is of another kind."""
        self._torch = package("torch", path, "torch")
        self.name, self.features, self.outputs = str(path), features, outputs
        self._module = self._load(path)
        self.input_dtype = self._precision()
        self.batch = rows_at_once(FILE_BATCH, features)
        self.identity = hashlib.sha256(path.read_bytes()).hexdigest()

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Any:
        """The module's output; what it raises is told with the inputs."""
        try:
            with self._torch.inference_mode():
                return self._module(self._torch.from_numpy(X.copy())).numpy()
        except Exception as error:
            raise InvalidInput(
                f"{self.name} failed ({first_line(error)}) {such_as(X)}: it must take (rows, "
                f"{self.features}) and answer every input with numbers."
            ) from None

    def _load(self, path: Path) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # that torch will drop TorchScript
                return self._torch.jit.load(str(path), map_location="cpu").eval()
        except Exception as error:
            raise InvalidInput(
                f"{path} cannot be read as TorchScript ({first_line(error)}): write it with "
                "torch.jit.save, or export the model to ONNX."
            ) from None

    def _precision(self) -> np.dtype[Any]:
        """That of the parameters; single where there are none, as everywhere in torch."""
        tensors = (*self._module.parameters(), *self._module.buffers())
        double = any(tensor.dtype == self._torch.float64 for tensor in tensors)
        return np.dtype(np.float64 if double else np.float32)
