"""The search for faces of step and ReLU units (GP19, 3 and C.1), on standard normal inputs.

1. *Control.* A polynomial of the inputs is fitted and taken off the labels (`faces.model`). It has
   no faces, so all faces stay; the labels vary less, those of ReLUs several times less.
2. *Scan.* The statistic of `thin_bands` at all offsets of each direction of a net. Claim 5 links
   the net to the bands: a face is seen from an angle of about their width. Peaks above the noise
   are candidates. A face whose mean vanishes by symmetry shows from a slight tilt.
3. *Sharpen.* Steps: climb to the peak in ever thinner bands as long as it stands above the noise,
   then make a Newton step (`faces.tilts`). ReLUs: least squares (`faces.fit`).
4. *Again*, on the labels less what the units so far explain, until nothing new shows or nothing is
   left. Samples that may be on either side of a jump are left out.
5. *Evidence.* Each unit's statistic on labels from which the other units are taken off, weighted by
   the height that the face has in the model. It must stand above its noise and stay as high in
   thinner bands: that of smooth functions does not.

A function that may be asked is asked in the bands about each unit: Newton steps in bands of about
the width of the last error reach any angle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array, Seed
from provenet.data.passes import working_time
from provenet.data.sources import Source
from provenet.lowest_layer.faces.model import WIDTH, Controlled, Unit
from provenet.lowest_layer.faces.orientation import orientation_of_relus, oriented_steps
from provenet.lowest_layer.faces.sharpen import (
    Ask,
    all_asked,
    distinct,
    sharpened,
    standing_relus,
    standing_steps,
)
from provenet.lowest_layer.faces.thin_bands import Labels, Peak, climb, scan, sphere_net
from provenet.lowest_layer.faces.tolerances import (
    CANDIDATES_A_ROUND,
    FACE_ASKED_ANGLE,
    SAME_ANGLE,
    SEARCH_PATIENCE,
    SEARCH_ROUNDS,
)
from provenet.networks.activations import Activation, get_activation

NET_STEP = {1: 0.25, 2: 0.3}
"""Angle between neighbours in the net, by order."""

_SCAN_SHARE = 0.7
"""The part of the time left that a scan may take."""
_WEAKEST = 0.25
"""Candidates for least squares, of the strongest."""


@dataclass(frozen=True)
class FaceUnits:
    """Units found by their faces, the clearest first."""

    weights: Array
    """Rows of norm 1."""
    thresholds: Array
    heights: Array
    """`E[dP/dX_i | w_i.x = t_i]` as measured."""
    significances: Array
    """By how many standard errors each stands out."""
    angle_errors: Array
    """Standard errors of the directions, radians."""
    threshold_errors: Array
    oriented: AnyArray
    """Whether (w, t) could be told from (-w, -t); for steps, whether t is clearly above 0."""
    unexplained: float
    """Share of the labels' variance that the units and a polynomial of the inputs leave over."""
    strongest: float
    """Standard errors of the strongest place of the first scan, 0 if none was a candidate."""
    directions: int
    """How many directions were looked at."""
    queries: int
    """How many further questions were asked."""
    complete: bool
    """Whether the search came to its end before the deadline."""

    @property
    def units(self) -> int:
        """How many units were found."""
        return len(self.weights)

    def keep(self, units: AnyArray) -> FaceUnits:
        """Some of the units, in this order."""
        each = (
            "weights",
            "thresholds",
            "heights",
            "significances",
            "angle_errors",
            "threshold_errors",
            "oriented",
        )
        return replace(self, **{name: getattr(self, name)[units] for name in each})


class _Clock:
    """The deadline, and how much is done."""

    def __init__(self, deadline: float, progress: Callable[[float], None] | None) -> None:
        self.deadline, self.progress, self.done = deadline, progress, 0.0

    def over(self) -> bool:
        return working_time() > self.deadline

    def scan_part(self, round_: int) -> Callable[[float], bool]:
        """Tells of progress within a round's scan, and whether time for it is left."""
        now = working_time()
        until = now + _SCAN_SHARE * (self.deadline - now)
        low, high = 1 - 0.5**round_, 1 - 0.5 ** (round_ + 1)

        def look(fraction: float) -> bool:
            self.tell(low + fraction * (high - low))
            return working_time() <= until

        return look

    def tell(self, fraction: float) -> None:
        self.done = max(self.done, fraction)
        if self.progress is not None:
            self.progress(self.done)


def order_of(activation: Activation) -> int:
    """Which derivative of delta shows a unit: 1 for a jump, 2 for a kink."""
    if activation.name == "step":
        return 1
    if activation.name == "relu":
        return 2
    raise NoAnswer(
        'method="gradient-search" looks for the jumps of step units and the kinks of ReLU units, '
        f'and {activation.name} units have other faces or none: give activation="step" or "relu".'
    )


def _new_units(
    labels: Labels, known: list[Unit], peaks: list[Peak], order: int, clock: _Clock
) -> list[Unit]:
    """Units near the strongest candidates, one of those within a step of the net.

    Two that are really so close are told apart in a later round, when one of them is known.
    """
    new: list[Unit] = []
    h, step = WIDTH[order], NET_STEP[order]
    for peak in peaks[: CANDIDATES_A_ROUND[order]]:
        if clock.over() or (order == 2 and peak.significance < _WEAKEST * peaks[0].significance):
            break
        unit = (
            sharpened(labels, peak, h, step / 2)
            if order == 1
            else Unit(climb(labels, peak, order, h, step / 2))
        )
        if unit is not None and not any(unit.same_as(other, h) for other in known):
            new.append(unit)
    return distinct(new, h, step if order == 1 else SAME_ANGLE)


def find_faces(
    source: Source,
    activation: str | Activation = "step",
    *,
    units: int | None = None,
    angle: float = FACE_ASKED_ANGLE,
    deadline: float = np.inf,
    progress: Callable[[float], None] | None = None,
    rng: Seed = None,
    ask: Ask | None = None,
) -> FaceUnits:
    """Units whose faces show in the labels of a source with standard normal inputs.

    At most `units` of them. `deadline` is a time of `time.monotonic`: what was found until then is
    returned, with `complete` False. If the source can be asked (`QuerySource`, or `ask` given),
    directions are sharpened by further questions until their error is `angle`. All samples are held
    in memory.
    """
    activation = get_activation(activation)
    order, rng = order_of(activation), np.random.default_rng(rng)
    clock = _Clock(deadline, progress)
    X, y = source.rows(0, source.size)
    found, looked, strongest, complete = _search(X, y, order, clock, rng)
    found = sorted(found, key=lambda unit: -unit.significance)[:units]
    if ask is None and source.queryable:
        ask = source.query
    queries = 0
    if ask is not None:
        found, queries = all_asked(ask, found, order, angle, clock.over, rng)
    W = np.array([unit.w for unit in found]).reshape(-1, X.shape[1])
    T = np.array([unit.t for unit in found])
    heights = np.array([unit.peak.height for unit in found])
    errors = np.array([unit.threshold_error for unit in found])
    sign, oriented = (
        oriented_steps(T, errors, heights)
        if order == 1
        else orientation_of_relus(X, y, W, T, activation)
    )
    complete = complete and not clock.over()
    clock.tell(1.0)
    return FaceUnits(
        weights=W * sign[:, None],
        thresholds=T * sign,
        heights=heights * (sign if order == 1 else 1.0),
        significances=np.array([unit.significance for unit in found]),
        angle_errors=np.array([unit.angle_error for unit in found]),
        threshold_errors=errors,
        oriented=oriented,
        unexplained=Controlled(X, y, found, order).unexplained,
        strongest=strongest,
        directions=looked,
        queries=queries,
        complete=complete,
    )


def _search(
    X: Array, y: Array, order: int, clock: _Clock, rng: np.random.Generator
) -> tuple[list[Unit], int, float, bool]:
    """The units, how many directions were looked at, the strongest place, whether it is all."""
    # In random order, so that any part of the net is spread over all directions.
    Z = rng.permutation(sphere_net(X.shape[1], NET_STEP[order]))
    standing: list[Unit] = []
    data = Controlled(X, y, standing, order)
    in_vain = looked = 0
    strongest = 0.0
    for round_ in range(SEARCH_ROUNDS):
        look = clock.scan_part(round_)
        peaks, seen = scan(data.labels, Z, NET_STEP[order], order, WIDTH[order], look)
        looked = max(looked, seen)
        strongest = strongest or max((peak.significance for peak in peaks), default=0.0)
        new = _new_units(data.labels, data.units, peaks, order, clock)
        if not new:
            return standing, looked, strongest, seen == len(Z)
        sharpen = standing_steps if order == 1 else standing_relus
        before = len(standing)
        standing, data = sharpen(X, y, data.units + new, clock.over)
        in_vain = 0 if len(standing) > before else in_vain + 1
        if data.explained or in_vain == SEARCH_PATIENCE or clock.over():
            return standing, looked, strongest, seen == len(Z)
    return standing, looked, strongest, False
