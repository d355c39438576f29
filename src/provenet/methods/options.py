"""The options that only some methods have, each said once.

A method lists those that it takes (`Method.options`). The front door, the command line, the
estimators and the documentation follow from that: what an option means, what is checked of it, and
which methods have it. What every recovery has (units, activation, noise, seed, budget, checkpoint)
is the door's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.words import check_finite, check_flag, check_whole
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class Option:
    """An option that some methods have, and others do not."""

    name: str
    kind: type[bool] | type[int] | type[float] | type[str]
    """What the command line reads."""
    default: Any
    """The value that is the same as not to give it."""
    help: str
    """What it means, as a sentence."""
    check: Callable[[str, Any], None]
    """Raises for a value that cannot be used, given the name and the value."""

    def is_given(self, value: Any) -> bool:
        """Whether a value is any other than the default."""
        return value is not self.default and (np.ndim(value) > 0 or value != self.default)


def _unless_left_out(check: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """A check of an option that may be None."""
    return lambda name, value: None if value is None else check(name, value)


def _check_order(name: str, value: Any) -> None:
    check_whole(name, value, 1)


def _left_to_the_method(name: str, value: Any) -> None:
    """Which values there are depends on the method (`Method.check_objective`)."""


def landscape_objective(value: Any, activation: Activation) -> None:
    """Raise unless it is one of GLM17's, and sees units of this activation."""
    from provenet.landscape.objectives import OBJECTIVES, check_activation  # takes long to import

    _check_known(value, tuple(OBJECTIVES))
    check_activation(activation, value)


def layer_objective(value: Any, activation: Activation) -> None:
    """Raise unless it is one of GP19's; whether it sees the units depends on their threshold."""
    _check_known(value, ("one-by-one", "simultaneous"))


def _check_known(value: Any, names: tuple[str, ...]) -> None:
    known = ("auto", *names)
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"The objective {value!r} is unknown: use one of {', '.join(known)}.")


FAITHFUL = Option(
    "faithful", bool, False, "Run the paper's algorithm, and nothing after it.", check=check_flag
)
REFINE = Option(
    "refine",
    bool,
    None,
    "Whether to finish with least squares on the samples; if left out, unless faithful.",
    check=_unless_left_out(check_flag),
)
OBJECTIVE = Option(
    "objective",
    str,
    "auto",
    "What is minimised: G, F, f2f4, abs, l2, ... (landscape); one-by-one, simultaneous (lowest "
    "layers); chosen if left out.",
    check=_left_to_the_method,
)
THRESHOLD = Option(
    "threshold",
    float,
    None,
    "Units fire where w.x exceeds it; estimated if left out.",
    check=_unless_left_out(check_finite),
)
ORDER = Option(
    "order",
    int,
    None,
    "ATV21's l, moments up to 2l + 2; by the number of units if left out.",
    check=_unless_left_out(_check_order),
)

OPTIONS = {option.name: option for option in (FAITHFUL, REFINE, OBJECTIVE, THRESHOLD, ORDER)}
"""All of them, by name."""
