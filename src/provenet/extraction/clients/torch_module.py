"""A torch module that is asked: in evaluation mode, without gradients, as it is otherwise.

It runs in the precision and on the device of its parameters, and has its own modes back after every
question. A TorchScript file is such a module once it is read; pickles are not, and are never read.
"""

from __future__ import annotations

import hashlib
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray
from provenet.extraction.clients.base import (
    agreed,
    comes_from,
    first_line,
    known_features,
    picked,
    rows_at_once,
    such_as,
)
from provenet.extraction.clients.callables import named_by
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import FILE_BATCH

_PICKLED, _SCRIPTED = "/data.pkl", "/constants.pkl"
"""Entries of an archive that `torch.save` writes, and of one that `torch.jit.save` writes."""
_PICKLE = b"\x80"
"""Derived: the first byte of a pickle (protocol 2 and later), as older torch wrote them."""


def is_torch_module(model: Any) -> bool:
    """Whether an object is a torch module; torch is not imported to find out."""
    return comes_from(model, "torch") and callable(getattr(model, "named_modules", None))


class TorchClient:
    """A module, with the precision and the device of its parameters."""

    kind, known_by_name = "a torch module", True
    answer_dtype: np.dtype[Any] | None = None

    def __init__(
        self,
        module: Any,
        features: int | None = None,
        outputs: int | None = None,
        output: str | int | None = None,
        name: str | None = None,
    ) -> None:
        """Nothing is asked yet; raises if the module's precision has no numbers here."""
        self._torch = package("torch", "A torch module", "torch")
        self.name = type(module).__name__ if name is None else name
        self._module, self._output = module, output
        told = _first_width(module)
        self.features = known_features(self.name, agreed(self.name, "feature", told, features))
        self.outputs = outputs
        self.input_dtype, self._device = self._home()
        self.batch = rows_at_once(FILE_BATCH, self.features)
        self.identity = named_by(type(module))

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Any:
        """The module's output; what it raises is told with the inputs."""
        try:
            with _evaluated(self._module), self._torch.inference_mode():
                given = self._torch.from_numpy(X.copy()).to(self._device)
                answer = picked(self.name, self._module(given), self._output)
                return answer.detach().cpu().numpy() if hasattr(answer, "detach") else answer
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"{self.name} failed ({first_line(error)}) {such_as(X)}: it must take (rows, "
                f"{self.features}) and answer every input with numbers."
            ) from None

    def _home(self) -> tuple[np.dtype[Any], Any]:
        """Where its parameters are and how precise; single where there are none, as in torch."""
        tensors = [*self._module.parameters(), *self._module.buffers()]
        found = [tensor for tensor in tensors if tensor.dtype.is_floating_point]
        if not found:
            return np.dtype(np.float32), "cpu"
        kinds = {tensor.dtype for tensor in found}
        double = self._torch.float64 in kinds
        if not kinds & {self._torch.float32, self._torch.float64}:
            raise InvalidInput(
                f"{self.name} runs in {found[0].dtype}: give a copy in single or double precision, "
                "copy.deepcopy(module).float()."
            )
        return np.dtype(np.float64 if double else np.float32), found[0].device


@contextmanager
def _evaluated(module: Any) -> Iterator[None]:
    """Evaluation mode, and afterwards again what each part was in."""
    parts = [part for _, part in module.named_modules()]
    modes = [part.training for part in parts]
    if not any(modes):
        yield
        return
    module.eval()
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def _first_width(module: Any) -> int | None:
    """Inputs of the first part with parameters of its own, if that says how many it takes."""
    for _, part in module.named_modules():
        if any(True for _ in part.parameters(recurse=False)):
            width = getattr(part, "in_features", None)
            return width if isinstance(width, int) and width > 0 else None
    return None


# ---------------------------------------------------------------- files


def open_torchscript(
    path: Path, features: int | None, outputs: int | None, output: str | int | None
) -> TorchClient:
    """A TorchScript file, on the processor; raises and says what else a file is."""
    _check_content(path)
    torch = package("torch", path, "torch")
    client = TorchClient(_loaded(torch, path), features, outputs, output, str(path))
    client.kind, client.known_by_name = "a TorchScript model", False
    client.identity = hashlib.sha256(path.read_bytes()).hexdigest()
    return client


def _loaded(torch: Any, path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            for kind in (FutureWarning, DeprecationWarning):  # that torch will drop TorchScript
                warnings.simplefilter("ignore", kind)
            return torch.jit.load(str(path), map_location="cpu").eval()
    except Exception as error:
        raise InvalidInput(
            f"{path} cannot be read as TorchScript ({first_line(error)}): write it with "
            "torch.jit.save, or export the model to ONNX."
        ) from None


def _check_content(path: Path) -> None:
    if _is_pickled(path):
        raise InvalidInput(
            f"{path} was written by torch.save, so it holds a state_dict or a pickled module, not "
            "TorchScript: make the module in Python, load_state_dict(torch.load(path, "
            "weights_only=True)), and give it to provenet.extract, or write it with torch.jit.save."
        )


def _is_pickled(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return file.read(1) == _PICKLE
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    pickled, scripted = (any(n.endswith(end) for n in names) for end in (_PICKLED, _SCRIPTED))
    return pickled and not scripted
