"""Do labels end where their noise would go on?

Labels may be cut off at a limit, noise and all (measurements that saturate, prices that do not fall
below zero), or samples kept by their labels (those above a threshold alone). Next to the limit the
noise that is left is one-sided there, and least squares bends the network towards its mean: often
too little for residuals to show, and by many standard errors of the parameters.

What shows is that labels end. Were noise the same everywhere, any residual could have met any
prediction: of n labels as many as

    E = sum_i P(v_i + r < the smallest label),    r any of the residuals, v the predictions,

would lie below the smallest. The smallest label of n is such that E is about 1, and more than t
with a chance of exp(-t). Noise that is smaller where predictions are low makes E large as well; so
the same is asked of the residuals of the lowest predictions alone, turned round, since at a limit
the other side of the noise is there. Skewed noise would pass for a limit by that, but not by all
residuals. What a fit may be off by is allowed for: noise that has limits itself ends sharply.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.tolerances import FEWEST_AT_THE_END, LABELS_BEYOND, OFF_AT_THE_END
from provenet.common.typing import Array


def ends_like_noise(y: Array, predicted: Array, found: str) -> Check:
    """Whether labels end as noise does, on both ends of every output; `found` begins the advice."""
    columns = list(zip(y.reshape(len(y), -1).T, predicted.reshape(len(y), -1).T, strict=True))
    ends = [_LastLabel.lowest(*column) for column in columns]
    ends += [_LastLabel.lowest(-own, -values).turned() for own, values in columns]
    worst = max(ends, key=lambda end: end.beyond)
    return Check(
        "labels end as noise does",
        worst.beyond <= LABELS_BEYOND,
        f"{worst.beyond:.2g} would lie beyond {worst.label:.6g}",
        f"at most {LABELS_BEYOND:g}",
        f"{found}, but no label lies beyond {worst.label:.6g}, where noise would put some "
        f"{worst.beyond:.0f}: labels were cut off there, or samples left out by their labels, and "
        "either moves the network. Take all samples, with labels as they were.",
        Status.PARTIAL,
        len(y),
    )


class _LastLabel(NamedTuple):
    """The outermost label of an output, and how many noise would put beyond it."""

    label: float
    beyond: float

    def turned(self) -> _LastLabel:
        """Of labels with the other sign."""
        return _LastLabel(-self.label, self.beyond)

    @classmethod
    def lowest(cls, y: Array, predicted: Array) -> _LastLabel:
        """The smallest label."""
        left, smallest = y - predicted, float(y.min())
        limit = smallest - OFF_AT_THE_END * float(np.std(left))
        chances = _share_below(left, limit - predicted)
        order = np.argsort(predicted)
        half = int(np.searchsorted(np.cumsum(chances[order]), chances.sum() / 2)) + 1
        near = order[: max(FEWEST_AT_THE_END, half)]
        turned_round = _share_below(-left[near], limit - predicted[near])
        return cls(smallest, float(min(chances.sum(), turned_round.sum())))


def _share_below(values: Array, limits: Array) -> Array:
    """For each limit, which part of the values lies below it."""
    return np.searchsorted(np.sort(values), limits, side="left") / len(values)
