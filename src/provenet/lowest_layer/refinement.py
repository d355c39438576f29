"""Step 2 for the lowest layer: from approximate directions to the units (GP19, 2.2 and B.5).

What labels say beyond their moments depends on the units:

- `alone`: where one ReLU unit fires alone labels are linear in the inputs, so units are exact to
  machine precision, whether the top is monotone or not;
- `by_least_squares`: smooth units are fitted together with a polynomial above them, exact too;
- `by_union`: units that are silent below a threshold fire on a union of halfspaces, whatever their
  activation and the top;
- `by_bands`: the paper's way, on whether labels of inputs made for it fire in thin bands across a
  direction: any angle, under a monotone top (`faithful=True`: Algorithms 1 and 2).

Each returns a recovery, or None where it has nothing to say.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.blocks import row_blocks
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.sources import MappedSource, Source, StandardisedSource
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.bands.descent import Refinement, descend, random_search
from provenet.lowest_layer.bands.queries import QueriedBands
from provenet.lowest_layer.directions import Directions
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.lowest_layer.exclusive import Exclusive, exclusive_units
from provenet.lowest_layer.fit import fit_layer
from provenet.lowest_layer.outcome import from_fit
from provenet.lowest_layer.unions import HalfspaceSet, learn_union
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.networks.network import Network

METHOD = "lowest-layer"
ASKED_ANGLE = 1e-6
"""Radians to which a queried source is refined."""
_ASKED_OF_PAPER = 1e-2
"""The same by Algorithm 1, whose queries are tens of millions already at this angle."""
_MOST_FIRING = 400_000
_ROUNDING = 1e-8
_FIRES_CLEARLY = 1e-9
_SAME_UNIT = 10.0
_DISTINCT = 0.5
"""Share of distinct ones among labels that fire, of continuous units, at least."""


def refined(workspace: Workspace, start: Directions, silent: float | None) -> Recovery | None:
    """The strongest way for these units and this source; None if no way leads on."""
    activation = workspace.activation
    if silent is None:
        return by_least_squares(workspace, start)
    if workspace.faithful:
        if not workspace.source.may_be_asked:
            raise NoAnswer(
                "Algorithm 1 asks for labels of inputs of its own choice, tens of millions of "
                "them: give a QuerySource, or leave faithful out."
            )
        return by_bands(workspace, start, silent)
    rectified = activation.slope == 0.0
    found = alone(workspace, start, silent) if rectified else None
    if found is not None and found.success:
        return found
    if workspace.source.may_be_asked:
        return by_bands(workspace, start, silent)
    union = fired_union(workspace, silent)
    if union.success:
        nearer = Directions(union.weights, union.thresholds)
        found = alone(workspace, nearer, silent) if rectified else None
        if found is None and activation.degree != 0:  # steps have no slope to fit by
            found = by_least_squares(workspace, nearer)
        if found is not None and found.success:
            return found
    return by_union(workspace, union, silent)


# ---------------------------------------------------------------- one unit alone


def alone(workspace: Workspace, start: Directions, silent: float) -> Recovery | None:
    """ReLU units where they fire alone; None where no line explains most of these samples."""
    source = StandardisedSource(workspace.source, workspace.standardisation)
    X, y = firing_samples(source, silent)
    units = exclusive_units(X, y, start.weights, start.thresholds)
    return _exact(workspace, units, silent) if units.exact.all() else None


def firing_samples(source: Source, silent: float) -> tuple[Array, Array]:
    """Samples that fire, with labels less the silent one; as many as fit the limit."""
    inputs, labels, count = [], [], 0
    for block in row_blocks(source.size):
        X, y = source.rows(block.start, block.stop)
        fires = y != silent
        inputs.append(X[fires])
        labels.append(y[fires] - silent)
        count += int(fires.sum())
        if count > _MOST_FIRING:
            break
    return np.concatenate(inputs), np.concatenate(labels)


def _exact(workspace: Workspace, units: Exclusive, silent: float) -> Recovery:
    """Judge exact units on all samples: each is fitted on a few thousand at most."""
    source = StandardisedSource(workspace.source, workspace.standardisation)
    scale = workspace.spread
    wrong, count = source.total(lambda X, y: contradictions(units, X, y - silent, scale))
    k = len(units.weights)
    layer = Network(units.weights, -units.thresholds, activation=workspace.activation)
    top = open_top(layer, units.coefficients, silent)
    user = on_user_inputs(top, workspace.standardisation, np.zeros(k), np.zeros(k))
    evidence = LayerEvidence(
        user.angle_errors,
        user.threshold_errors,
        units.explained[user.order],
        wrong == 0,
        "labels of one unit alone",
    )
    words, size = counted(k, "unit"), source.size
    if wrong:
        status = Status.PARTIAL
        message = (
            f"{words} explain the samples on which they fire alone to rounding, but {wrong} of "
            f"all {size} samples contradict them: a unit is missing that fires too rarely to be "
            "found, or labels are not those of a lowest layer of ReLU units. Give units=, or more "
            "samples."
        )
    else:
        status = Status.EXACT
        message = (
            f"{words} of the lowest layer to machine precision: every one of {size} samples fires "
            f"where they do, and the {count} on which one fires alone are predicted exactly. What "
            "lies above them is open: learn_top fits it."
        )
    return Recovery(user.units, status, message, METHOD, layer=evidence)


def contradictions(units: Exclusive, X: Array, y: Array, scale: float) -> AnyArray:
    """How many samples contradict the units, and on how many a single unit fires.

    A sample within rounding of a threshold may be taken either way.
    """
    margins = X @ units.weights.T - units.thresholds
    fires = margins > _FIRES_CLEARLY
    count = fires.sum(axis=1)
    unclear = np.any(np.abs(margins) <= _FIRES_CLEARLY, axis=1)
    predicted = np.maximum(margins, 0.0) @ units.coefficients
    off = np.abs(predicted - y) > _ROUNDING * (np.abs(y) + scale)
    wrong = ((count == 0) & (y != 0)) | ((count == 1) & off)
    return np.array([np.sum(wrong & ~unclear), np.sum(count == 1)])


# ---------------------------------------------------------------- units and polynomial at once


def by_least_squares(workspace: Workspace, start: Directions) -> Recovery | None:
    """Units with the polynomial above them; None if unseen labels do not come out."""
    samples = workspace.problem.samples
    rows = _rare_first(samples.y)
    layer = Network(start.weights, -start.thresholds, activation=workspace.activation)
    fit = fit_layer(samples.X[rows], samples.y[rows], layer)
    if fit is None:
        return None
    found = from_fit(workspace, fit, METHOD)
    return found if found.success else None


def _rare_first(y: Array) -> AnyArray:
    """An order in which samples that are not silent are half of the first, as far as they go."""
    fires = y != np.median(y)
    place = np.where(fires, np.cumsum(fires), np.cumsum(~fires))
    return np.argsort(place, kind="stable")


# ---------------------------------------------------------------- the union on which labels fire


def _fires(silent: float, X: Array, y: Array) -> tuple[Array, Array]:
    """1 for every label that is not the silent one."""
    return X, (y != silent).astype(float)


def fired_union(workspace: Workspace, silent: float) -> HalfspaceSet:
    """The halfspaces in one of which an input is where its label is not the silent one."""
    standardised = StandardisedSource(workspace.source, workspace.standardisation)
    source = MappedSource(standardised, partial(_fires, silent))
    return learn_union(
        source, workspace.units, rng=workspace.rng, intersection=False, stage=workspace.stage
    )


def by_union(workspace: Workspace, found: HalfspaceSet, silent: float) -> Recovery:
    """Units as the faces of that union."""
    layer = Network(found.weights, -found.thresholds, activation=workspace.activation)
    user = on_user_inputs(
        open_top(layer, silent=silent),
        workspace.standardisation,
        found.angle_errors,
        found.threshold_errors,
    )
    problems = (*found.problems, *_rounded(workspace, silent))
    status = Status.PARTIAL if problems else Status.WITHIN_NOISE
    evidence = LayerEvidence(
        user.angle_errors,
        user.threshold_errors,
        found.exclusive[user.order],
        False,
        "the union of halfspaces on which labels fire",
        found.evidence,
    )
    worst = np.degrees(float(user.angle_errors.max()))
    message = " ".join(problems) or (
        f"{counted(found.units, 'unit')}, each direction within about {worst:.2g} degrees: labels "
        "fire where one of them does, and nowhere else. What lies above them is open: learn_top "
        "fits it."
    )
    return Recovery(
        user.units, status, message, METHOD, ambiguities=(_HIDDEN_UNITS,), layer=evidence
    )


_HIDDEN_UNITS = "A unit that fires only where another does is not seen in what fires."


def _rounded(workspace: Workspace, silent: float) -> tuple[str, ...]:
    """Whether labels of continuous units were rounded, which moves where they seem to fire."""
    y = workspace.problem.samples.y
    fires = y[y != silent]
    if workspace.activation.degree == 0 or len(np.unique(fires)) > _DISTINCT * len(fires):
        return ()
    return (
        "Labels are rounded, so thresholds are those of the rounded labels: give labels with all "
        "their digits.",
    )


# ---------------------------------------------------------------- thin bands


def by_bands(workspace: Workspace, start: Directions, silent: float) -> Recovery:
    """Every unit by itself, on whether a queried label fires in thin bands (Theorem 5)."""
    source = workspace.source
    oracle = QueriedBands(source.ask, source.features, silent=silent, rng=workspace.rng)
    # Inputs are made standard normal, so directions are needed in the source's coordinates.
    own, _ = workspace.standardisation.units_to_user(start.weights, -start.thresholds)
    found = [_one_unit(workspace, oracle, w) for w in own]
    W, t = np.array([r.direction for r in found]), np.array([r.threshold for r in found])
    evidence = LayerEvidence(
        np.array([r.angle for r in found]),
        np.array([r.threshold_error for r in found]),
        np.array([r.queries for r in found]),
        False,
        "thin bands across each direction",
        tuple(r.evidence.message for r in found if not r.evidence.one_unit),
    )
    problem = _problem(found)
    return Recovery(
        network=Network(W, -t, np.ones(len(W)), silent, workspace.activation),
        status=Status.PARTIAL if problem else Status.WITHIN_NOISE,
        message=problem or _reached(found),
        method=METHOD,
        layer=evidence,
    )


def _one_unit(workspace: Workspace, oracle: QueriedBands, w: Array) -> Refinement:
    if workspace.out_of_time:
        raise NoAnswer("The budget was used up before every unit was refined: give budget=.")
    if workspace.faithful:
        return random_search(oracle, w, _ASKED_OF_PAPER, rng=workspace.rng)
    return descend(oracle, w, ASKED_ANGLE, rng=workspace.rng)


def _problem(found: list[Refinement]) -> str:
    """What stands against the units, in one sentence."""
    for i, r in enumerate(found):
        if not r.evidence.one_unit:
            return f"Unit {i}: {r.evidence.message}"
        near = [j for j in range(i) if _same(r, found[j])]
        if near:
            return (
                f"Units {near[0]} and {i} came out as one: two units are too close to each other "
                "to separate, or one was missed by the moments. Take more samples."
            )
        if r.reason in ("stuck", "steps"):
            return (
                f"Unit {i} ended at an angle of {r.angle:.1e} without reaching the asked one: take "
                "more samples, or start nearer."
            )
    return ""


def _same(a: Refinement, b: Refinement) -> bool:
    apart = float(np.linalg.norm(a.direction - b.direction))
    return apart < _SAME_UNIT * (a.angle + b.angle)


def _reached(found: list[Refinement]) -> str:
    worst = max(r.angle for r in found)
    queries = max(r.queries for r in found)
    asked = f" after {queries:,} queries a unit at most" if queries else ""
    return (
        f"{counted(len(found), 'unit')}, each direction within {worst:.1e} rad{asked}, by the "
        "label's sign in thin bands. What lies above them is open: learn_top fits it."
    )
