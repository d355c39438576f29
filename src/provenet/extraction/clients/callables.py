"""A Python function that is asked: (n, features) -> (n,) or (n, outputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.data.checkpoint import Nameless, fingerprint
from provenet.extraction.clients.base import first_line, picked, rows_at_once, such_as
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import FUNCTION_BATCH
from provenet.networks.network import Network


class CallableClient:
    """Hands the function copies of the inputs, so that it may do with them what it likes."""

    name, kind = "f", "a Python function"
    answer_dtype: np.dtype[Any] | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        features: int,
        outputs: int | None = None,
        output: str | int | None = None,
    ) -> None:
        """Nothing is asked yet."""
        self.function, self.features, self.outputs = function, features, outputs
        self._output = output
        self.input_dtype = np.dtype(np.float64)
        self.batch = rows_at_once(FUNCTION_BATCH, features)
        self.identity = _identity(function)
        self.known_by_name = not isinstance(function, Network)

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Any:
        """What the function returns; what it raises is told with the inputs."""
        try:
            answer = self.function(X.copy())
        except Exception as error:
            raise InvalidInput(
                f"{self.name} raised {type(error).__name__}: {first_line(error)} {such_as(X)}: it "
                "must answer every input; low= and high= limit the inputs."
            ) from error
        return picked(self.name, answer, self._output)


def _identity(function: Callable[[Any], Any]) -> str:
    """A digest of an object's parts where it has any; of anything else only the name is known."""
    try:
        return fingerprint(function)
    except Nameless:
        named = function if hasattr(function, "__qualname__") else type(function)
        return named_by(named)


def named_by(thing: Any) -> str:
    """The identity of what is only known by the name of its class."""
    return fingerprint(f"{thing.__module__}.{thing.__qualname__}")
