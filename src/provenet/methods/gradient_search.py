"""`"gradient-search"`: units of any threshold under a top without linear terms (GP19, 3 and C.1).

`f(x) = P(u(w_1.x - t_1), ..., u(w_k.x - t_k))`, x Gaussian, u a step or a ReLU. A unit shows in the
means of f on the hyperplanes `z.x = s` of standardised inputs: at its own direction and threshold
they jump (step) or bend (ReLU) by

    E[dP/dX_i | w_i.x = t_i]                                             (Theorem 7, Corollary 1)

and nowhere else. *The condition is that this does not vanish*; where it does by symmetry, as under
parity of steps through the origin, the face still shows from a slight tilt. All directions have to
be looked at, about `(1 / resolution)^(features - 1)` of them: the theorem is about the number of
samples, not about time, and four features are the most that is accepted.

`face_search` finds the units; here their top is fitted (appendix E), and both are judged on samples
that neither saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import bdtrc
from scipy.stats import mannwhitneyu

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import ArraySource, Source, StandardisedSource
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.lowest_layer.faces.layer import (
    TOP_DEGREE,
    FaceLayer,
    with_polish,
    with_top,
)
from provenet.lowest_layer.faces.model import WIDTH, control_terms
from provenet.lowest_layer.faces.search import NET_STEP, Faces, find_faces, order_of
from provenet.lowest_layer.faces.thin_bands import CANDIDATE, SIGNIFICANT, hermite_rows, net_size
from provenet.lowest_layer.user_layer import UserLayer, on_user_inputs, open_top

MOST_FEATURES = 4

_FEWEST = 500
_FEWEST_A_TERM = 10
_EXACT = 1e-9
"""Standard errors of an exact unit."""
_ROUNDING = 1e-7
_TEST_DEGREE = 4
_NOT_CHANCE = 5.0
"""Standard errors. What is left may correlate with any of up to 70 polynomials."""
_MORE_THAN_NOISE = 1.1
_NEIGHBOURS = 8
_NEIGHBOURS_AMONG = 50_000
_MOST_TESTED = 200_000
_WIDTHS = 0.5 ** np.arange(3, 9)
_FEWEST_WITHIN = 10
_MOST_OF_IT = 0.95
_NO_NOISE = 1e-6
"""A chance. There are up to 6 units, 6 widths and 2 tests."""
_TIMES_CHANCE, _MOSTLY_LARGER = 1.5, 0.6


def gradient_search(workspace: Workspace) -> Iterator[Recovery]:
    """One answer, judged by itself."""
    order, features = order_of(workspace.activation), workspace.source.features
    check_features(features, order)
    fitted = _not_held_out(workspace)
    directions = net_size(features, NET_STEP[order])
    searched = f"{counted(directions, 'direction')} of {counted(features, 'feature')}"
    with workspace.stage("search", searched):
        faces = find_faces(
            fitted,
            workspace.activation,
            units=workspace.units,
            deadline=workspace.problem.deadline,
            progress=lambda done: workspace.progress("search", done, ""),
            rng=workspace.rng,
            ask=_ask(workspace),
        )
    if faces.units == 0:
        raise NoAnswer(_why_nothing(faces, directions, fitted.size, order))
    with workspace.stage("top", f"on {counted(faces.units, 'unit')}"):
        layer = with_top(faces, workspace.activation, fitted, workspace.rng)
        result = _judged(workspace, layer, fitted)
        if order == 2 and workspace.refine and layer.top is not None:
            polished = _judged(workspace, with_polish(layer, fitted), fitted)
            result = polished if polished.success else result
    yield result


def check_features(features: int, order: int) -> None:
    """Refuse more features than can be searched, and say what the search would cost."""
    if features > MOST_FEATURES:
        raise NoAnswer(
            f'{features} features are too many for method="gradient-search": it looks at every '
            "direction, so its time grows exponentially with the features, here "
            f"{net_size(features, NET_STEP[order]):.0e} directions. Use at most {MOST_FEATURES} "
            'features, or method="lowest-layer" or "halfspaces" if thresholds are high, or '
            '"expand-prune" if the top is a sum.'
        )


def _not_held_out(workspace: Workspace) -> Source:
    """The samples but for those that are to judge the answer, standardised."""
    X, y = workspace.source.rows(0, workspace.source.size)
    kept = np.ones(len(y), dtype=bool)
    kept[workspace.held_out_rows] = False
    least = max(_FEWEST, _FEWEST_A_TERM * control_terms(workspace.source.features))
    if kept.sum() < least:
        raise NoAnswer(
            f"{kept.sum()} samples to fit are too few to see a face in thin bands: at least "
            f"{least} are needed, and more where faces are faint."
        )
    return StandardisedSource(ArraySource(X[kept], y[kept]), workspace.standardisation)


def _ask(workspace: Workspace) -> Callable[[Array], Array] | None:
    """The function behind the samples, of standardised inputs, if it may be asked."""
    source: Source = workspace.source
    if not (source.may_be_asked and workspace.refine):
        return None
    return lambda X: source.ask(workspace.standardisation.undo(X))


def _why_nothing(faces: Faces, directions: int, samples: int, order: int) -> str:
    kind = "jump" if order == 1 else "kink"
    if not faces.complete:
        return (
            f"The budget was used up with {faces.directions} of "
            f"{counted(directions, 'direction')} looked at and no {kind} found: time grows "
            "exponentially with the features, so give more with budget=, or fewer features or "
            "samples."
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


# ---------------------------------------------------------------- the verdict


def _judged(workspace: Workspace, layer: FaceLayer, fitted: Source) -> Recovery:
    """The answer with what samples that were not fitted say to it."""
    X = workspace.standardisation.apply(workspace.held_out.X)
    clear = layer.clear(X)
    X, y = X[clear], workspace.held_out.y[clear]
    rest = layer.rest(X, y)
    to_rounding = rest is not None and bool(np.all(np.abs(rest) < _ROUNDING * workspace.spread))
    objection = _objection(workspace, layer, X, rest, fitted)
    user = on_user_inputs(
        layer.layered or open_top(layer.network),
        workspace.standardisation,
        layer.faces.angle_errors,
        layer.faces.threshold_errors,
    )
    worst = max(user.angle_errors.max(), user.threshold_errors.max())
    exact = bool(worst < _EXACT) and to_rounding and not objection
    status = Status.EXACT if exact else Status.PARTIAL if objection else Status.WITHIN_NOISE
    h = WIDTH[order_of(workspace.activation)]
    return Recovery(
        network=user.units,
        status=status,
        message=_message(user, exact, objection, to_rounding, len(X)),
        method="gradient-search",
        ambiguities=_ambiguities(layer),
        layer=LayerEvidence(
            user.angle_errors,
            user.threshold_errors,
            layer.within(fitted.rows(0, fitted.size)[0], h).sum(axis=0)[user.order],
            exact,
            "faces in thin bands" + (", then questions" if layer.faces.queries else ""),
        ),
        layered=None if layer.top is None else user.network,
    )


def _objection(
    workspace: Workspace, layer: FaceLayer, X: Array, rest: Array | None, fitted: Source
) -> str:
    """What speaks against the answer, in words; empty if nothing does."""
    faces = layer.faces
    if workspace.units is not None and faces.units < workspace.units:
        missing = workspace.units - faces.units
        show = "the other shows" if missing == 1 else f"the {missing} others show"
        return f"{workspace.units} units were asked for: {show} no face in these samples."
    if not faces.complete:
        return "The budget was used up, so there may be more: give more time with budget=."
    if rest is None or len(rest) == 0:
        return "No top was fitted, so no sample that was not fitted confirms them."
    size = float(np.sqrt(np.mean(rest**2)))
    if size < _ROUNDING * workspace.spread:
        return ""
    why = (
        "a unit whose face does not show is missing, the top is no polynomial of degree "
        f"{TOP_DEGREE} or less, or the labels are a smooth function that looks like faces."
    )
    if workspace.noise is not None and size > _MORE_THAN_NOISE * workspace.noise:
        return (
            f"Their best polynomial leaves {size:.2g} of the labels unexplained where "
            f"noise={workspace.noise:.2g} was given: {why}"
        )
    fitted_X, fitted_rest = _fitted_rest(layer, fitted)
    off = structure(X, rest, fitted_X, fitted_rest)
    if off > _NOT_CHANCE:
        return (
            "What their best polynomial leaves of the labels is no noise, by "
            f"{off:.1f} standard errors: {why}"
        )
    distances = np.abs(np.concatenate([X, fitted_X]) @ faces.weights.T - faces.thresholds)
    spiked = [at_the_face(d, np.concatenate([rest, fitted_rest])) for d in distances.T]
    if any(spiked):
        return (
            "What their best polynomial leaves of the labels is no noise, as it is larger at the "
            f"face of unit {spiked.index(True)} than beside it: this unit may stand for two that "
            "are too close to each other to be told apart. Take more samples."
        )
    return ""


def _fitted_rest(layer: FaceLayer, fitted: Source) -> tuple[Array, Array]:
    """Fitted samples on which the units' values are sure, and what is left of their labels."""
    X, y = fitted.rows(0, min(fitted.size, _MOST_TESTED))
    clear = layer.clear(X)
    rest = layer.rest(X[clear], y[clear])
    assert rest is not None  # what was held out has been predicted
    return X[clear], rest


def structure(X: Array, rest: Array, fitted: Array, others: Array) -> float:
    """By how many standard errors what is left of the labels depends on the inputs.

    That of all samples on polynomials; that at X on what is left at the nearest fitted samples.
    """
    if len(others) < _NEIGHBOURS:
        return 0.0
    nearest = cKDTree(fitted[:_NEIGHBOURS_AMONG]).query(X, k=_NEIGHBOURS)[1]
    all_rest = np.concatenate([rest, others])
    return max(
        correlation(others[nearest].mean(axis=1)[None], rest),
        correlation(hermite_rows(np.concatenate([X, fitted]), _TEST_DEGREE), all_rest),
    )


def at_the_face(distance: Array, rest: Array) -> bool:
    """Whether residuals are larger within some width of a face than farther, up to four widths.

    Two units at a small angle differ from one in a thin wedge only. Noise of any law does not know
    of the face; one whose size depends on the inputs hardly changes in so narrow a band.
    """
    return any(_larger_within(distance, np.abs(rest), h) for h in _WIDTHS)


def _larger_within(distance: Array, size: Array, h: float) -> bool:
    zone = distance < 4 * h
    size, within = size[zone], distance[zone] < h
    if min(within.sum(), (~within).sum()) < _FEWEST_WITHIN:
        return False
    # Of the largest, that make most of the squares, so many or more would be within by chance.
    order = np.argsort(-size)
    squares = np.cumsum(size[order] ** 2)
    largest = within[order[: 1 + np.searchsorted(squares, _MOST_OF_IT * squares[-1])]]
    k, share = int(largest.sum()), float(within.mean())
    if k > _TIMES_CHANCE * share * len(largest) and bdtrc(k - 1, len(largest), share) < _NO_NOISE:
        return True
    ranks = mannwhitneyu(size[within], size[~within], alternative="greater")
    larger = ranks.statistic / (within.sum() * (~within).sum())
    return bool(larger > _MOSTLY_LARGER and ranks.pvalue < _NO_NOISE)


def correlation(H: Array, rest: Array) -> float:
    """The largest of the rows' correlations with residuals, in standard errors."""
    size = np.sqrt(H**2 @ rest**2)
    return float(np.max(np.abs(H @ rest) / np.maximum(size, np.finfo(float).tiny)))


def _message(user: UserLayer, exact: bool, objection: str, to_rounding: bool, held: int) -> str:
    k = user.network.units
    units = f"{counted(k, 'unit')} {'is' if k == 1 else 'are'}"
    errors = (
        f"{np.degrees(user.angle_errors.max()):.1g} degrees in direction and "
        f"{user.threshold_errors.max():.1g} in threshold"
    )
    if objection:
        return f"{units} found by faces, up to sampling errors of {errors}. {objection}"
    confirmed = "to rounding" if to_rounding else "up to what looks like noise"
    predicted = (
        f"with a polynomial top {held} samples that were not fitted are predicted {confirmed}"
    )
    found = "recovered exactly, with errors" if exact else "found by faces, with standard errors"
    return f"{units} {found} of at most {errors}; {predicted}."


def _ambiguities(layer: FaceLayer) -> tuple[str, ...]:
    if layer.steps:
        return (
            "A step and its complement serve equally well under another top: of (w, t) and "
            "(-w, -t) on standardised inputs the one with t > 0 is given, where t is not near 0.",
        )
    unknown = int(np.sum(~layer.faces.oriented))
    return (f"Of {counted(unknown, 'unit')} (w, t) is not told from (-w, -t).",) if unknown else ()
