"""`"gradient-search"`: units of any threshold under a top without linear terms (GP19, 3 and C.1).

`f(x) = P(u(w_1.x - t_1), ..., u(w_k.x - t_k))`, x Gaussian, u a step or a ReLU. A unit shows in the
means of f on the hyperplanes `z.x = s` of standardised inputs: at its own direction and threshold
they jump (step) or bend (ReLU) by

    E[dP/dX_i | w_i.x = t_i]                                             (Theorem 7, Corollary 1)

and nowhere else. *The condition is that this does not vanish*; where it does by symmetry, as under
parity of steps through the origin, the face still shows from a slight tilt. All directions have to
be looked at, about `(1 / resolution)^(features - 1)` of them: the theorem is about the number of
samples, not about time, and four features are the most that is accepted.

`faces.search` finds the units; here their top is fitted (appendix E), without the samples that are
to judge both.

*The paper's search* (`faithful=True`, `faces.papers_search`): plain differences of bands in every
direction of a net, and no top. Products and parity of two steps in 2 and 3 features come out of
20,000 samples to 2 degrees, where the default has 0.8; ReLUs, whose second differences are far
noisier, take 2e5 and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.layer import LayerCandidate
from provenet.certify.statements import FaceErrors, Predicts
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import ArraySource, Source, StandardisedSource
from provenet.fitting.context import Context
from provenet.lowest_layer.candidates import parameters_of
from provenet.lowest_layer.faces.layer import FaceLayer, with_polish, with_top
from provenet.lowest_layer.faces.model import SURE, WIDTH, control_terms
from provenet.lowest_layer.faces.papers_search import papers_faces
from provenet.lowest_layer.faces.search import NET_STEP, FaceUnits, find_faces, order_of
from provenet.lowest_layer.faces.thin_bands import CANDIDATE, SIGNIFICANT, net_size
from provenet.lowest_layer.user_layer import UserLayer, on_user_inputs, open_top
from provenet.methods.tolerances import FEWEST_A_TERM, FEWEST_SEARCHED, MOST_SEARCHED_FEATURES


def gradient_search(context: Context) -> Iterator[LayerCandidate]:
    """The units with their top: ReLUs polished by least squares first, then as faces show them.

    The paper's search gives units alone, or what `refine` makes of them.
    """
    order, features = order_of(context.activation), context.source.features
    check_features(features, order)
    fitted = _not_held_out(context)
    directions = net_size(features, NET_STEP[order])
    searched = f"{counted(directions, 'direction')} of {counted(features, 'feature')}"
    with context.stage("search", searched):
        faces = _searched(context, fitted)
    if faces.units == 0:
        raise NoAnswer(_why_nothing(context, faces, directions, fitted.size, order))
    if context.faithful and not context.refine:
        yield _candidate(context, FaceLayer(faces, context.activation), fitted)
        return
    with context.stage("top", f"on {counted(faces.units, 'unit')}"):
        layer = with_top(faces, context.activation, fitted, context.rng)
    if order == 2 and context.refine and layer.top is not None:
        with context.stage("refine"):
            polished = with_polish(layer, fitted)
        yield _candidate(context, polished, fitted)
        if context.faithful:
            return
    yield _candidate(context, layer, fitted)


def _searched(context: Context, fitted: Source) -> FaceUnits:
    """What the paper's search finds, or ours."""
    find = papers_faces if context.faithful else partial(find_faces, ask=_ask(context))
    return find(
        fitted,
        context.activation,
        units=context.units,
        deadline=context.problem.deadline,
        progress=lambda done: context.progress("search", done, ""),
        rng=context.rng,
    )


def check_features(features: int, order: int) -> None:
    """Refuse more features than can be searched, and say what the search would cost."""
    if features > MOST_SEARCHED_FEATURES:
        raise NoAnswer(
            f'{features} features are too many for method="gradient-search": it looks at every '
            "direction, so its time grows exponentially with the features, here "
            f"{net_size(features, NET_STEP[order]):.0e} directions. Use at most "
            f'{MOST_SEARCHED_FEATURES} features, or method="lowest-layer" or "halfspaces" if '
            'thresholds are high, or "expand-prune" if the top is a sum.'
        )


def _not_held_out(context: Context) -> Source:
    """The samples but for those that are to judge the answer, standardised."""
    X, y = context.source.rows(0, context.source.size)
    kept = np.ones(len(y), dtype=bool)
    kept[context.hidden_rows] = False
    least = max(FEWEST_SEARCHED, FEWEST_A_TERM * control_terms(context.source.features))
    if kept.sum() < least:
        raise NoAnswer(
            f"{kept.sum()} samples to fit are too few to see a face in thin bands: at least "
            f"{least} are needed, and more where faces are faint."
        )
    return StandardisedSource(ArraySource(X[kept], y[kept]), context.standardisation)


def _ask(context: Context) -> Callable[[Array], Array] | None:
    """The function behind the samples, of standardised inputs, if it may be asked."""
    source: Source = context.source
    if not (source.queryable and context.refine):
        return None
    return lambda X: source.query(context.standardisation.undo(X))


def _why_nothing(
    context: Context, faces: FaceUnits, directions: int, samples: int, order: int
) -> str:
    kind = "jump" if order == 1 else "kink"
    if not faces.complete:
        return (
            f"The budget was used up with {faces.directions} of "
            f"{counted(directions, 'direction')} looked at and no {kind} found: time grows "
            "exponentially with the features, so give more with budget=, or fewer features or "
            "samples."
        )
    if context.faithful:
        return (
            f"No {kind} shows in plain differences of bands of {samples} samples: the strongest "
            f"place, of {max(faces.strongest, CANDIDATE):.1f} standard errors at most, fades in "
            "thinner bands. Take more samples, or leave faithful out."
        )
    if faces.strongest > SIGNIFICANT:
        return (
            f"The labels have no {kind} across any hyperplane: the strongest place, of "
            f"{faces.strongest:.1f} standard errors, fades in thinner bands as a smooth function "
            "does. Look at activation=; more samples show fainter faces."
        )
    reached = max(faces.strongest, CANDIDATE)
    return (
        f"No {kind} stands above the sampling error of {samples} samples: the strongest place "
        f"reaches {reached:.1f} standard errors at most, as chance does, and {SIGNIFICANT:.0f} are "
        f"asked. If there is a face, at least {samples * (SIGNIFICANT / reached) ** 2:.0e} samples "
        "would be needed."
    )


# ---------------------------------------------------------------- the candidate


def _candidate(context: Context, layer: FaceLayer, fitted: Source) -> LayerCandidate:
    """The units on the user's inputs, with what they say of labels if they have a top."""
    user = on_user_inputs(
        layer.layered or open_top(layer.network),
        context.standardisation,
        layer.faces.angle_errors,
        layer.faces.threshold_errors,
    )
    h = WIDTH[order_of(context.activation)]
    return LayerCandidate(
        network=user.units,
        what=f"{counted(user.network.units, 'unit')}, found by faces",
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=layer.within(fitted.rows(0, fitted.size)[0], h).sum(axis=0)[user.order],
        way="faces in thin bands" + (", then questions" if layer.faces.queries else ""),
        statement=None if layer.top is None else _statement(context, layer, user),
        layered=None if layer.top is None else user.network,
        unrefined=_unrefined(layer) if context.faithful and layer.top is None else "",
        parameters=parameters_of(user.network),
        shows_apart=True,
        findings=(_all_directions(layer.faces),),
        ambiguities=_ambiguities(layer),
    )


def _unrefined(layer: FaceLayer) -> str:
    worst = float(np.degrees(layer.faces.angle_errors.max()))
    return (
        f"{counted(layer.faces.units, 'unit')} from plain differences of bands, directions within "
        f"about {worst:.2g} degrees, the width of the thinnest bands that show them; this is not "
        "refined."
    )


def _statement(context: Context, layer: FaceLayer, user: UserLayer) -> Predicts:
    """All labels; of steps those on which the units' values are sure."""
    if not layer.steps:
        return Predicts(user.network)
    faces = layer.faces
    errors = FaceErrors(
        faces.weights,
        faces.thresholds,
        faces.angle_errors,
        faces.threshold_errors,
        context.standardisation,
    )
    return Predicts(user.network, errors, np.sqrt(2) * SURE)  # the two errors may add up


def _all_directions(faces: FaceUnits) -> Check:
    return Check(
        "all directions were looked at",
        faces.complete,
        f"{faces.directions:,} looks",
        "all of the net",
        "The budget was used up, so there may be more: give more time with budget=.",
        Status.PARTIAL,
    )


def _ambiguities(layer: FaceLayer) -> tuple[str, ...]:
    if layer.steps:
        return (
            "A step and its complement serve equally well under another top: of (w, t) and "
            "(-w, -t) on standardised inputs the one with t > 0 is given, where t is not near 0.",
        )
    unknown = int(np.sum(~layer.faces.oriented))
    return (f"Of {counted(unknown, 'unit')} (w, t) is not told from (-w, -t).",) if unknown else ()
