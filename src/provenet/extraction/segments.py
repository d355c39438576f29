"""Lines through the inputs, as far as they may be followed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.tolerances import KINK_SCALE, KINKS_IN_BOX, REACH


@dataclass(frozen=True)
class Segment:
    """A line, how far it may be followed, and the distance of a typical kink."""

    origin: Array
    direction: Array
    reach: tuple[float, float]
    scale: float


def random_line(
    box: Box, rng: np.random.Generator, through: Array, towards: Array | None = None
) -> Segment:
    """A line through a point, in a random direction or to another; as long as the box allows."""
    features = len(through)
    direction = rng.standard_normal(features) * box.width
    if towards is not None:
        direction = towards - through
    direction /= np.linalg.norm(direction)
    reach = box.reach(through, direction, REACH * np.sqrt(features))
    scale = min(KINK_SCALE * np.sqrt(features), (reach[1] - reach[0]) / KINKS_IN_BOX)
    return Segment(through, direction, reach, scale)
