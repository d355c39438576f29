"""One layer above the known ones: lines until its rows explain what there is to explain.

After every line it is asked whether the rows are the last hidden layer; whether a few of its units
are missing, so that lines between explained and unexplained answers meet them; or whether all
gradients are sums over them, so that the next layer can be looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.aiming import alone
from provenet.extraction.layers.cells import descended, random_sums
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.rows import Always, Row
from provenet.extraction.layers.stage import Stage
from provenet.extraction.layers.surfaces import (
    Surface,
    agreeing,
    signs_from,
    surface_through,
)
from provenet.extraction.layers.told_signs import told_signs
from provenet.extraction.layers.tolerances import (
    ALWAYS_FROM,
    DESCENT,
    DESCENT_STEPS,
    EXTREMES,
    FEW_ANSWERS,
    FILL_ALL_FROM,
    FILL_FROM,
    FURTHER_EVERY,
    FURTHER_FROM,
    GUIDED,
    LATE,
    LEAST_LINES,
    MOST_ANSWERS,
    MOST_LINES,
    MOST_OPEN_SIGNS,
    MOST_SURFACES,
    OPEN_A_LINE,
    OPEN_ABOVE,
    PATIENCE,
    PROBES,
    QUICK_ANSWERS,
    QUIET_LINES,
    REST_ASKED,
    SCALES,
    SETTLE_AGAIN,
    SETTLE_GAIN,
    SURFACES_FROM,
    SURFACES_TO_AGREE,
)
from provenet.extraction.layers.top import Top, TopFit, last_layer
from provenet.extraction.layers.values import rest_of_answers, told_by_values
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import FAR_OUT
from provenet.networks.network import DeepNetwork

Settle = Callable[[Top, list[Row]], DeepNetwork | None]
"""The network of a top, measured as well as can be; None if it does not explain everything."""


@dataclass(frozen=True)
class LayerOutcome:
    """The whole network; or the layer's rows and their signs; or why there is neither."""

    network: DeepNetwork | None = None
    signs: Array | None = None
    rows: list[Row] = field(default_factory=list)
    above: list[Row] = field(default_factory=list)
    """Rows of the layer above that were found on the way."""
    note: str = ""


def find_layer(stage: Stage, settle: Settle, *, last: bool) -> LayerOutcome:
    """The rows of a layer with their signs, or the network if it is the last hidden one.

    `last` where it is known to be.
    """
    search = _LayerSearch(stage, settle, last)
    for segment in stage.choice.segments():
        found = search.follow(segment)
        if found is not None:
            return found
        if stage.traced >= MOST_LINES:
            break
    return LayerOutcome(note=search.note)


@dataclass
class _LayerSearch:
    """What is known while lines are followed."""

    stage: Stage
    settle: Settle
    last: bool
    guided: Iterator[Segment] = field(default_factory=lambda: iter(()))
    """Lines that are worth more than any others."""
    counts: list[int] = field(default_factory=list)
    """Rows accepted after each line."""
    note: str = "no unit was found"
    share: float = 0.0
    """Largest of the answers that were explained: with most of them, this is the last layer."""
    tried: float = np.inf
    """Error of the rows with which the whole network did not explain everything."""
    tops: int = 0
    """How often the rows explained everything."""
    lost: set[Row] = field(default_factory=set)
    """Kinks whose surface could not be followed: walks ask nothing, so no budget would end them."""
    followed_above: int = 0
    """Units above which that was tried."""
    nearly: TopFit | None = None
    """The last fit that explained most answers."""
    loud: list[Array] = field(default_factory=list)
    """Where f was not silent though it must be if no unit is missing."""
    signs_told: bool = False
    """Whether gradients tell the signs of all rows."""
    explained: bool = False
    """Whether rows that are confirmed explain all gradients: then the others are not needed."""

    def follow(self, segment: Segment) -> LayerOutcome | None:
        """One line, and what can be said after it."""
        stage = self.stage
        guided = segment if self._stale else next(self.guided, segment)
        stage.follow(guided, few=self.explained)
        if stage.known.layers or not stage.frame.box.unlimited:
            self._complete()
        rows = stage.accepted
        self.counts.append(len(rows))
        if stage.traced < LEAST_LINES or not rows:
            return None
        answers = stage.frame.answers()
        fit = self._top(rows, *answers)
        if fit.share > MOST_ANSWERS and not all(row.cols.all() for row in rows):
            rows = stage.widened(told_by_values(stage.known, rows, fit, *answers))
            fit = self._top(rows, *answers)
        self.nearly = fit if fit.share > MOST_ANSWERS else self.nearly
        self.note = f"{fit.share:.0%} of the answers are explained by these"
        if fit.top is not None:
            return self._with_top(fit.top, rows)
        self.share = max(self.share, fit.share)
        all_were_asked = len(fit.explained) == len(answers[0])
        if all_were_asked and (self.last or self.share > MOST_ANSWERS):
            self.guided = self._between(answers[0], fit.explained)
            if self._stale and not fit.explained.all() and all(row.cols.all() for row in rows):
                self._from_rest(rows, fit, *answers)
            return None
        return self._below_others(rows, fit)

    def _from_rest(self, rows: list[Row], fit: TopFit, U: Array, Y: Array) -> None:
        """A unit that is missing, from answers that are not explained; more of them if none is."""
        stage, rng = self.stage, self.stage.rng
        row = rest_of_answers(stage.known, rows, fit, U, Y)
        if row is not None:
            stage.propose(row)
            return
        off, number = U[~fit.explained], REST_ASKED * (stage.known.units + 1)
        far = rng.choice(SCALES, number)[:, None] * rng.standard_normal((number, U.shape[1]))
        stage.frame(stage.frame.inside(off[rng.integers(len(off), size=number)] + far))

    def _below_others(self, rows: list[Row], fit: TopFit) -> LayerOutcome | None:
        """What can be said if there are layers above: rows may be those of deeper units then.

        The rows that are confirmed may be all there are; late, those that could not be count, too.
        """
        stage = self.stage
        if stage.known.layers:
            stage.confirm()
            rows = stage.confirmed
            self.counts[-1] = len(rows)
        self.explained = False
        found = self._told(rows, fit)
        late = stage.traced >= FILL_ALL_FROM and not self.explained
        if found is None and late and len(rows) < len(stage.accepted):
            rows = stage.accepted
            found = self._told(rows, fit)
        if found is None and (stage.known.layers or self._quiet):
            stage.confirm()  # in the first layer one more line may show what is missing
        return found

    def _told(self, rows: list[Row], fit: TopFit) -> LayerOutcome | None:
        """The signs of rows, if these are all of the layer."""
        if not rows:
            return None
        self.signs_told = False
        found = self._by_gradients(rows)
        wide = not self.signs_told and self._signs_need_surfaces(rows, fit)
        return self._by_surfaces(rows) if wide else found

    def _complete(self) -> None:
        """Make rows of candidates, and rows whole."""
        stage = self.stage
        stage.look_at_candidates()
        stage.merge()
        if stage.traced >= FILL_FROM and stage.known.layers and not self.explained:
            stage.measure_open(OPEN_A_LINE)
            if self._quiet and self.share <= FEW_ANSWERS:
                stage.walk_from_open()
            stage.look_at_candidates()
            stage.merge()
            stage.fill(every=stage.traced >= FILL_ALL_FROM)

    # ------------------------------------------------------------ the last hidden layer

    def _top(self, rows: list[Row], U: Array, Y: Array) -> TopFit:
        """The fit of the rows as the last hidden layer, on some answers if it explains few."""
        if not self.last and len(U) > QUICK_ANSWERS:
            some = self.stage.rng.permutation(len(U))[:QUICK_ANSWERS]
            fit = self._fitted(rows, U[some], Y[some])
            if fit.share <= FEW_ANSWERS:
                return fit
        return self._fitted(rows, U, Y)

    def _fitted(self, rows: list[Row], U: Array, Y: Array) -> TopFit:
        v = np.array([row.v / np.linalg.norm(row.v[:-1]) for row in rows])
        R, b = v[:, :-1], v[:, -1]
        error = max(self.stage.unsure_below, *(row.error for row in rows))
        span, check_time = self.stage.span_of_slopes(R), self.stage.frame.check_time
        if span is None:
            data = self.stage.known, R, b, U, Y, error
            starts = [None] if self.nearly is None else [self.nearly, None]
            fits = (last_layer(*data, before, check_time) for before in starts)
            return max(fits, key=lambda fit: fit.share)
        within = R @ span.T, b, U @ span.T
        fit = last_layer(KnownLayers(len(span)), *within, Y, error, between=check_time)
        return fit.by_inputs(span)

    def _with_top(self, top: Top, rows: list[Row]) -> LayerOutcome | None:
        """The network, unless a unit or a weight may still be found or answers refute it."""
        rows = [rows[int(i)] for i in top.kept]
        self.tops += 1
        late = self.tops >= PATIENCE
        if top.always_on and not late:
            self.note = f"{top.always_on} of its units are not seen to switch"
            self.guided = self._towards(top.W[-top.always_on :])
            return None
        if not all(row.cols.all() for row in rows) and not late:
            self.note = "weights between units that are seldom on together are missing"
            return None
        error = max(row.error for row in rows)
        if error > SETTLE_GAIN * self.tried or self._refuted(top):
            self.note = "its rows are not known well enough"
            self.tried *= SETTLE_AGAIN
            return None
        self.tried = error
        network = self.settle(top, rows)
        if network is None:
            self.note = "its rows are not known well enough"
        return None if network is None else LayerOutcome(network)

    def _refuted(self, top: Top) -> bool:
        """Whether random points, near and far, are answered otherwise; they guide if they are."""
        stage, d = self.stage, self.stage.known.coordinates
        scales = (*SCALES, *FAR_OUT)
        U = np.vstack([s * stage.rng.standard_normal((PROBES, d)) for s in scales])
        U = stage.frame.inside(np.vstack([U, self._alone(), self._extremes()]))
        Y = stage.frame(U)
        H = stage.known.h(U)
        values = np.maximum(H @ top.W.T + top.b, 0.0) @ top.A.T + top.c
        size = np.maximum(np.abs(Y), np.median(np.abs(Y)))
        good = (np.abs(values - Y) <= top.allowed * size).all(axis=1)
        if good.all():
            return False
        self.guided = self._between(U, good)
        return True

    def _alone(self) -> Array:
        """Where units of the known layers are on alone: a unit that is missing shows there."""
        known, d = self.stage.known, self.stage.known.coordinates
        if not known.layers:
            return np.empty((0, d))
        weights = [*(layer.W for layer in known.layers), np.eye(known.units)]
        biases = [*(layer.b for layer in known.layers), None]
        far = max(FAR_OUT) * self.stage.rng.standard_normal((DESCENT, d))
        return alone(DeepNetwork(weights, biases, outputs=known.units), far)

    def _between(self, U: Array, explained: AnyArray) -> Iterator[Segment]:
        """Lines from answers that are not explained to some that are: kinks lie between."""
        off, good = U[~explained], U[explained]
        if len(good) == 0:
            return
        for u in off[self.stage.rng.permutation(len(off))[:GUIDED]]:
            near = good[int(np.argmin(np.linalg.norm(good - u, axis=1)))]
            for v in (near, good[int(self.stage.rng.integers(len(good)))]):
                segment = self.stage.choice.between(u - 0.2 * (v - u), v + 0.2 * (v - u))
                if segment is not None:
                    yield segment

    def _towards(self, rows: Array) -> Iterator[Segment]:
        """Lines to where units that never switched are smallest, and largest."""
        for r in rows:
            for sign in (1.0, -1.0):
                u = self._lowest(sign * r)
                start = 0.1 * self.stage.rng.standard_normal(len(u))
                segment = self.stage.choice.between(start, u)
                if segment is not None:
                    yield segment

    def _lowest(self, r: Array) -> Array:
        """A point far out where r.h is small."""
        known, rng = self.stage.known, self.stage.rng
        U = np.vstack([s * rng.standard_normal((DESCENT, known.coordinates)) for s in SCALES])
        U = descended(known, U, np.broadcast_to(r, (len(U), len(r))))
        return np.asarray(U[int(np.argmin(known.h(U) @ r))])

    def _extremes(self) -> Array:
        """Where random sums of the units below are small: one that is seldom on may be there."""
        known, rng = self.stage.known, self.stage.rng
        if not known.layers:
            return np.empty((0, known.coordinates))
        U = rng.standard_normal((EXTREMES, known.coordinates))
        R = random_sums(EXTREMES, known.units, rng)
        near = descended(known, U, R, DESCENT_STEPS // 2)
        return np.vstack([near, descended(known, U, R)])

    # ------------------------------------------------------------ a layer with more above it

    def _by_gradients(self, rows: list[Row]) -> LayerOutcome | None:
        """The signs that explain all gradients, here and elsewhere."""
        stage = self.stage
        own = bool(stage.known.layers) and stage.traced >= FURTHER_FROM
        further = own and self._quiet and stage.traced % FURTHER_EVERY == 0
        told = told_signs(stage, rows, further=further)
        rows, signs = told.rows, told.found
        self.signs_told = bool(signs.voted.all())
        left = f"{signs.unexplained} of {signs.asked} gradients are not explained by these"
        self.note = (
            left if told.refuted else "gradients do not tell whether these are all, and how signed"
        )
        if told.refuted and signs.explained > MOST_ANSWERS * signs.asked:  # few units are missing
            self.guided = self._between(signs.places, signs.good)
        if not told.told:
            return None
        never = [row.v[:-1] for row in rows if row.always is not Always.NOT]
        sure = all(row.always is not Always.SEEMS for row in rows)
        if never and (not sure or stage.traced < ALWAYS_FROM):
            self.note = f"{len(never)} of its units are not seen to switch"
            self.guided = self._towards(np.array(never))
            return None
        self.explained = all(row.confirmed for row in rows)
        if stage.known.layers and not self._quiet:
            return None
        if stage.open_share < OPEN_ABOVE:
            self.note = "few kinks are left for a layer above, and answers are unexplained"
            return None
        if not all(row.cols.all() for row in rows) and stage.traced < LATE:
            return None
        seldom = np.vstack([self._alone(), self._extremes(), *self.loud])
        elsewhere = stage.silence(rows, signs.signs, seldom)
        if not elsewhere.silent.all():
            self.loud.append(elsewhere.U[~elsewhere.silent])
            self.note = "units of it are missing"
            self.guided = self._between(elsewhere.U, elsewhere.silent)
            return None
        return LayerOutcome(signs=signs.signs, rows=stage.sharpened(rows))

    @property
    def _stale(self) -> bool:
        """Whether guided lines tell nothing: every second one is another then."""
        return self._quiet and len(self.counts) > QUIET_LINES and self.stage.traced % 2 == 0

    @property
    def _quiet(self) -> bool:
        """Whether the last lines told no further row."""
        return len(set(self.counts[-QUIET_LINES:])) == 1

    def _signs_need_surfaces(self, rows: list[Row], fit: TopFit) -> bool:
        """Whether there are more units than dimensions, and no more are found."""
        stage = self.stage
        wide = not any(int(piece.on.sum()) >= len(rows) for piece in stage.pieces)
        if stage.known.layers and len(rows) <= MOST_OPEN_SIGNS:
            return False  # gradients tell so few
        few = fit.share < FEW_ANSWERS
        return wide and self._quiet and few and stage.traced >= SURFACES_FROM

    def _by_surfaces(self, rows: list[Row]) -> LayerOutcome | None:
        """The signs that surfaces of the layer above agree on."""
        stage = self.stage
        v = np.array([row.v / np.linalg.norm(row.v[:-1]) for row in rows])
        R, b = v[:, :-1], v[:, -1]
        if len(rows) != self.followed_above:
            self.lost, self.followed_above = set(), len(rows)
        others = [
            row
            for row in stage.rows
            if not row.accepted and row.cols.all() and row not in self.lost
        ]
        found = list[Surface]()
        for kink in sorted(others, key=lambda row: row.error)[:MOST_SURFACES]:
            surface = surface_through(stage.frame, stage.known, R, b, kink, stage.rng)
            if surface is None:
                self.lost.add(kink)
                continue
            found.append(surface)
            sigma = signs_from(found, R)
            if sigma is None:
                continue
            agree = agreeing(found, R, sigma)
            if agree.sum() >= SURFACES_TO_AGREE:
                above = [f.row(b, sigma) for f, good in zip(found, agree, strict=True) if good]
                return LayerOutcome(signs=sigma, rows=rows, above=above)
        self.note = "their signs could not be told"
        return None
