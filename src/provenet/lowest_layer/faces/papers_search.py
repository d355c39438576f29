"""The search of GP19, section 3 and C.1, as printed: every direction of a net, and nothing else.

`C_2(f, z, s)`, for ReLUs `C_3`, is the difference of the labels in thin bands on both sides of
`z.x = s`. At a unit it is `phi(t) E[Q_i | w_i.x = t]` whatever the width eps of the bands, and at
an angle of eps_2 from all of them at most `eps d^O(1) / eps_2` (Lemmas 8 and 19; here both are
divided by phi). So:

1. its local maxima over a net of directions and all offsets, where they stand above the noise;
2. each climbed in bands half as wide again and again, as the proof of Theorem 7 chooses eps by the
   accuracy eps_2 that is asked, as far as the samples carry;
3. those that stand above the noise in thinner bands too, and stayed as high, are units. What a
   smooth function adds falls as eps; the line is drawn at its root.

No polynomial is taken off, no unit subtracted, nothing fitted: units whose faces cross each other's
bands blur them. Which of (w, t) and (-w, -t) a ReLU is, a kink does not show.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import Seed
from provenet.data.passes import working_time
from provenet.data.sources import Source
from provenet.lowest_layer.faces.model import WIDTH, Unit
from provenet.lowest_layer.faces.orientation import oriented_steps
from provenet.lowest_layer.faces.search import NET_STEP, FaceUnits, order_of
from provenet.lowest_layer.faces.sharpen import distinct
from provenet.lowest_layer.faces.thin_bands import (
    PLAIN,
    SIGNIFICANT,
    Labels,
    Peak,
    scan,
    sphere_net,
    thinner_and_thinner,
)
from provenet.lowest_layer.faces.tolerances import CANDIDATES_A_ROUND
from provenet.networks.activations import Activation


def papers_faces(
    source: Source,
    activation: Activation,
    *,
    units: int | None = None,
    deadline: float = np.inf,
    progress: Callable[[float], None] = lambda fraction: None,
    rng: Seed = None,
) -> FaceUnits:
    """Units whose faces show in plain differences of bands, on standard normal inputs.

    At most `units` of them, the clearest; errors are the width of the bands that still show them.
    """
    order = order_of(activation)
    X, y = source.rows(0, source.size)
    data = Labels(X, y, float(np.var(y)), statistic=PLAIN)
    Z = np.random.default_rng(rng).permutation(sphere_net(X.shape[1], NET_STEP[order]))

    def look(fraction: float) -> bool:
        progress(fraction)
        return working_time() <= deadline

    peaks, looked = scan(data, Z, NET_STEP[order], order, WIDTH[order], look)
    found = [
        unit for peak in peaks[: CANDIDATES_A_ROUND[order]] for unit in _face(data, peak, order)
    ]
    found = distinct(
        sorted(found, key=lambda unit: -unit.significance), WIDTH[order], NET_STEP[order]
    )
    return _face_units(found[:units], peaks, X.shape[1], order, looked, looked == len(Z))


def _face(data: Labels, start: Peak, order: int) -> list[Unit]:
    """The unit near a maximum of the net; none if it falls with the width of the bands."""
    levels = thinner_and_thinner(data, start, order, WIDTH[order], NET_STEP[order] / 2)
    sharp = next((p for p in reversed(levels[1:]) if p.significance > SIGNIFICANT), None)
    first = levels[0]
    if sharp is None or sharp.height / first.height < (sharp.h / first.h) ** 0.5:
        return []
    return [Unit(sharp, sharp.h, sharp.h, first.significance)]


def _face_units(
    found: list[Unit], peaks: list[Peak], features: int, order: int, looked: int, complete: bool
) -> FaceUnits:
    W = np.array([unit.w for unit in found]).reshape(-1, features)
    T = np.array([unit.t for unit in found])
    heights = np.array([unit.peak.height for unit in found])
    errors = np.array([unit.threshold_error for unit in found])
    sign, oriented = np.ones(len(found)), np.zeros(len(found), dtype=bool)
    if order == 1:
        sign, oriented = oriented_steps(T, errors, heights)
    return FaceUnits(
        weights=W * sign[:, None],
        thresholds=T * sign,
        heights=heights * (sign if order == 1 else 1.0),
        significances=np.array([unit.significance for unit in found]),
        angle_errors=np.array([unit.angle_error for unit in found]),
        threshold_errors=errors,
        oriented=oriented,
        unexplained=np.nan,
        strongest=max((peak.significance for peak in peaks), default=0.0),
        directions=looked,
        queries=0,
        complete=complete,
    )
