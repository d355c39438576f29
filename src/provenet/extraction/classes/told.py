"""Whether a model answers with classes, and with which: two values, or two rows of them."""

from __future__ import annotations

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.classes.tolerances import CLASS_POINTS, WIDTHS
from provenet.extraction.oracle import Oracle

_NUMBERS_OF_CLASSES = (-1.0, 0.0, 1.0, 2.0)
"""What one class alone must be for another to be looked for: other constants are no classes."""


def two_classes(first: Array, oracle: Oracle, box: Box, rng: np.random.Generator) -> Array | None:
    """The two answers there are, rows of numbers, the second for positive outputs; else None.

    The `first` answers are known. A model that answers with names has classes, also where only one
    of them is met.
    """
    seen = np.unique(first, axis=0)
    for width in WIDTHS:
        if len(seen) > 2:
            return None
        inputs = box.nearest(box.centre + width * (box.sample(CLASS_POINTS, rng) - box.centre))
        answers = oracle.ask(inputs).reshape(len(inputs), -1)
        seen = np.unique(np.vstack([seen, answers]), axis=0)
        if len(seen) == 2 or not (oracle.class_names or np.isin(seen, _NUMBERS_OF_CLASSES).all()):
            break
    if len(seen) == 1 and oracle.class_names:
        return np.vstack([seen - 1, seen])
    return _ordered(seen, oracle) if len(seen) == 2 else None


def _ordered(seen: Array, oracle: Oracle) -> Array:
    """Of one column by its value, or its name; of several by the last."""
    if oracle.class_names:
        keys = [oracle.class_names[int(row[0])] for row in seen]
        return np.asarray(seen[np.argsort(np.array(keys, dtype=str))])
    return np.asarray(seen[np.argsort(seen[:, -1], kind="stable")])


def named(answer: Array, oracle: Oracle) -> str:
    """A class in a message."""
    if oracle.class_names and 0 <= int(answer[0]) < len(oracle.class_names):
        return repr(str(oracle.class_names[int(answer[0])]))
    return ", ".join(f"{value:g}" for value in answer)


def check_numbers(oracle: Oracle) -> None:
    """Raise where answers are names, of which nothing but two classes can be read."""
    if oracle.class_names:
        names = ", ".join(map(repr, oracle.class_names))
        raise InvalidInput(
            f"{oracle.name} answers with names of classes ({names}): two classes and a link that "
            'is "auto" or "logit" are needed. Ask for probabilities, or for one class against the '
            "others."
        )
