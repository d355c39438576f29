"""Step 2 for the lowest layer: from approximate directions to the units (GP19, 2.2 and B.5).

What labels say beyond their moments depends on the units:

- `alone`: where one ReLU unit fires alone labels are linear in the inputs, so units are exact to
  machine precision, whether the top is monotone or not;
- `by_least_squares`: smooth units are fitted together with a polynomial above them, exact too;
- `by_union`: units that are silent below a threshold fire on a union of halfspaces, whatever their
  activation and the top;
- `by_bands`: on whether labels of inputs made for it fire in thin bands across a direction, as in
  the paper: any angle, under a monotone top.

The paper's own step 2 is in `step_two`.

`refined` gives what they find, the strongest first, each only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.layer import LayerCandidate
from provenet.certify.statements import Fires, FiresAlone
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.common.words import counted
from provenet.data.sources import MappedSource, Source, StandardisedSource
from provenet.fitting.context import Context
from provenet.lowest_layer.bands.descent import Refinement, descend
from provenet.lowest_layer.bands.queries import QueriedBands
from provenet.lowest_layer.candidates import from_fit, may_explain, parameters_of
from provenet.lowest_layer.directions import Directions
from provenet.lowest_layer.exclusive import exclusive_units
from provenet.lowest_layer.fit import fit_layer
from provenet.lowest_layer.from_bands import from_bands, layer_of
from provenet.lowest_layer.tolerances import (
    ASKED_ANGLE,
    DISTINCT_LABELS,
    MOST_FIRING,
)
from provenet.lowest_layer.unions import HalfspaceSet, learn_union
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.networks.activations import get_activation
from provenet.networks.layered import LayeredNetwork, union
from provenet.networks.network import Network

_STEP = get_activation("step")


def refined(context: Context, start: Directions, silent: float | None) -> Iterator[LayerCandidate]:
    """What the ways for these units and this source find, the strongest first."""
    if silent is None:
        yield from by_least_squares(context, start)
        return
    asks = context.source.queryable
    rectified = context.activation.slope == 0.0
    if rectified:
        yield from alone(context, start, silent)
    if asks:
        yield by_bands(context, start, silent)
        return
    found = fired_union(context, silent)
    if found.success:
        nearer = Directions(found.weights, found.thresholds)
        if rectified:
            yield from alone(context, nearer, silent)
        if context.activation.degree != 0:  # steps have no slope to fit by
            yield from by_least_squares(context, nearer)
    yield by_union(context, found, silent)


# ---------------------------------------------------------------- one unit alone


def alone(context: Context, start: Directions, silent: float) -> Iterator[LayerCandidate]:
    """ReLU units where they fire alone; nothing where no line explains most of these samples."""
    source = StandardisedSource(context.source, context.standardisation)
    X, y = firing_samples(source, silent)
    units = exclusive_units(X, y, start.weights, start.thresholds)
    if not units.exact.all():
        return
    k = len(units.weights)
    layer = Network(units.weights, -units.thresholds, activation=context.activation)
    top = open_top(layer, units.coefficients, silent)
    user = on_user_inputs(top, context.standardisation, np.zeros(k), np.zeros(k))
    yield LayerCandidate(
        network=user.units,
        what=counted(k, "unit"),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=units.explained[user.order],
        way="labels of one unit alone",
        statement=FiresAlone(user.units),
        parameters=parameters_of(user.network),
    )


def firing_samples(source: Source, silent: float) -> tuple[Array, Array]:
    """Samples that fire, with labels less the silent one; as many as fit the limit."""
    inputs, labels, count = [], [], 0
    for block in row_blocks(source.size):
        X, y = source.rows(block.start, block.stop)
        fires = y != silent
        inputs.append(X[fires])
        labels.append(y[fires] - silent)
        count += int(fires.sum())
        if count > MOST_FIRING:
            break
    return np.concatenate(inputs), np.concatenate(labels)


# ---------------------------------------------------------------- units and polynomial at once


def by_least_squares(context: Context, start: Directions) -> Iterator[LayerCandidate]:
    """Units with the polynomial above them; nothing if even fitted labels do not come out."""
    samples = context.problem.samples
    rows = _rare_first(samples.y)
    layer = Network(start.weights, -start.thresholds, activation=context.activation)
    fit = fit_layer(samples.X[rows], samples.y[rows], layer)
    if fit is not None and may_explain(context, fit):
        yield from_fit(context, fit)


def _rare_first(y: Array) -> AnyArray:
    """An order in which samples that are not silent are half of the first, as far as they go."""
    fires = y != np.median(y)
    place = np.where(fires, np.cumsum(fires), np.cumsum(~fires))
    return np.argsort(place, kind="stable")


# ---------------------------------------------------------------- the union on which labels fire


def _fires(silent: float, X: Array, y: Array) -> tuple[Array, Array]:
    """1 for every label that is not the silent one."""
    return X, (y != silent).astype(float)


def fired_union(context: Context, silent: float) -> HalfspaceSet:
    """The halfspaces in one of which an input is where its label is not the silent one."""
    standardised = StandardisedSource(context.source, context.standardisation)
    return learn_union(
        MappedSource(standardised, partial(_fires, silent)),
        context.units,
        rng=context.rng,
        intersection=False,
        hidden=context.hidden_rows,
        stage=context.stage,
    )


def by_union(context: Context, found: HalfspaceSet, silent: float) -> LayerCandidate:
    """Units as the faces of that union."""
    layer = Network(found.weights, -found.thresholds, activation=context.activation)
    user = on_user_inputs(
        open_top(layer, silent=silent),
        context.standardisation,
        found.angle_errors,
        found.threshold_errors,
    )
    # Under a top that is not monotone units are right where what fires is no union.
    findings = (replace(check, otherwise=Status.PARTIAL) for check in found.findings)
    return LayerCandidate(
        network=user.units,
        what=counted(found.units, "unit"),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=found.exclusive[user.order],
        way="the union of halfspaces on which labels fire",
        statement=Fires(
            LayeredNetwork(user.network.layer.replace(activation=_STEP), union),
            found.face_errors(context.standardisation),
            silent,
            either_side=True,
        ),
        parameters=found.weights.size,
        flip_rate=found.flip_rate,
        findings=(*findings, _all_digits(context, silent)),
        notes=found.evidence,
        ambiguities=(_HIDDEN_UNITS,),
    )


_HIDDEN_UNITS = "A unit that fires only where another does is not seen in what fires."


def _all_digits(context: Context, silent: float) -> Check:
    """Labels of continuous units that were rounded move where they seem to fire."""
    y = context.problem.samples.y
    fires = y[y != silent]
    share = len(np.unique(fires)) / max(len(fires), 1)
    return Check(
        "labels have all their digits",
        context.activation.degree == 0 or share > DISTINCT_LABELS,
        f"{100 * share:.3g}% of those that fire are distinct",
        f"more than {100 * DISTINCT_LABELS:.0f}%, of units that are no steps",
        "Labels are rounded, so thresholds are those of the rounded labels: give labels with all "
        "their digits.",
        Status.PARTIAL,
        samples=len(fires),
    )


# ---------------------------------------------------------------- thin bands


def by_bands(context: Context, start: Directions, silent: float) -> LayerCandidate:
    """Every unit by itself, on whether a queried label fires in thin bands (Theorem 5)."""
    source = context.source
    oracle = QueriedBands(source.query, source.features, silent=silent, rng=context.rng)
    # Inputs are made standard normal, so directions are needed in the source's coordinates.
    own, _ = context.standardisation.units_to_user(start.weights, -start.thresholds)
    found = [_one_unit(context, oracle, w) for w in own]
    layer = layer_of(found, context.activation)
    top = open_top(layer, silent=silent)
    return from_bands(found, top, silent + oracle.margin, counted(len(found), "unit"))


def _one_unit(context: Context, oracle: QueriedBands, w: Array) -> Refinement:
    if context.out_of_time:
        raise NoAnswer("The budget was used up before every unit was refined: give budget=.")
    return descend(oracle, w, ASKED_ANGLE, rng=context.rng)
