"""What is measured of a network with one hidden layer, before anything is said of it.

The order is: look at the samples that no fit saw; with noise fit once more, on all samples; measure
the network that comes out, which is the one returned. Every field of the certificate speaks of that
network, its units in their final order, but for the residual on unseen samples: with noise these
judged the fit before the last one, and were used in the last. (They judged it twice where the
search went on, which chose units on all samples: the answer before, and the fit of these units to
the others.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
    unresolved_units,
    weakest_unit,
)
from provenet.certify.noise_checks import no_outliers
from provenet.certify.tolerances import (
    HEAVY_TAILS,
    ROUNDING_MARGIN,
    SAMPLES_A_PARAMETER,
    SPARE_ON_A_PIECE,
    UNREFINED,
    VISIBLE,
)
from provenet.common.typing import AnyArray, Array
from provenet.data.labels import LabelPrecision
from provenet.fitting.context import Context
from provenet.fitting.covariance import (
    Covariance,
    StandardErrors,
    covariance,
    covariance_of_exact,
    in_user_coordinates,
)
from provenet.fitting.final_fit import (
    Polished,
    covariance_of_all,
    held_out_test,
    refit_on_all,
)
from provenet.fitting.least_squares import Ended
from provenet.fitting.residuals import (
    RobustErrors,
    residual_on,
    robust_errors,
    rounding_level,
    scale_outputs,
)
from provenet.fitting.rounded_labels import (
    IntervalFit,
    explained_by_rounding,
    fit_rounded_labels,
)
from provenet.fitting.search.alternatives import Comparison
from provenet.networks.canonical import apply_symmetry, conventional_symmetry, unit_order
from provenet.networks.network import Network


@dataclass(frozen=True)
class Unseen:
    """How samples that no fit saw are predicted, before they are used."""

    residual: float
    """Root mean square."""
    rounding: float
    """What floating point alone would leave."""
    samples: int
    fitted: float
    """Root mean square residual of the samples that were fitted."""
    exact: bool
    """Whether both are rounding."""
    limit: float
    """What noise leaves at most, but for chance."""
    excess: float | None
    """By how much the residual exceeds what noise explains; None if it does not."""


@dataclass(frozen=True)
class Evidence:
    """A network in the user's coordinates with everything that was measured of it."""

    network: Network
    own: Network
    """The same on standardised inputs and the labels that were fitted, units in the same order."""
    certificate: Certificate
    standard_errors: StandardErrors
    unresolved: AnyArray
    """Units that the samples do not pin down."""
    unseen: Unseen
    ended: Ended
    """How the last fit ended."""
    ambiguities: tuple[str, ...]
    """Signs that are open."""
    remarks: tuple[str, ...] = ()
    """What else is known less well than it looks."""
    last_round: Comparison | None = None
    """The last rivals of an answer that was searched on from."""
    uneven: bool = False
    """Whether the size of the noise depends on the inputs."""

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.unseen.exact


@dataclass(frozen=True)
class _Settled:
    """The network that is returned, on standardised inputs, and how sure its parameters are."""

    network: Network
    noise: float
    covariance: Covariance
    errors: StandardErrors
    bound: float
    """How far the residual lets a unit be from the truth."""
    refitted: int
    """Samples of the fit that came after the unseen ones were looked at; 0 if there was none."""
    ended: Ended
    """How that fit ended, or the one before it."""
    rounded: bool = False
    """Whether the labels' own rounding explains each of them."""
    remarks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is to be said of the errors."""
    uneven: bool = False
    """Whether the size of the noise depends on the inputs."""


def gather(
    context: Context,
    candidate: Candidate,
    polished: Polished,
    last_round: Comparison | None = None,
) -> Evidence:
    """Settle the network, and measure it on the samples that it was fitted to."""
    problem, samples = context.problem, context.problem.samples
    unseen = look_at_unseen(context, polished.network, polished.rss)
    settled = _settle(context, candidate, polished, unseen)
    own = settled.network
    user = context.standardisation.network_to_user(own).normalised()
    sides = rarer_side(user, context.inputs)
    weakest, margin, without = weakest_unit(samples, own, max(settled.noise, unseen.rounding))
    kurtosis = residual_kurtosis(samples, own)
    certificate = Certificate(
        residual=unseen.residual,
        relative_residual=unseen.residual / context.spread,
        rounding=unseen.rounding,
        noise=settled.noise,
        label_rounding=0.0 if unseen.exact else context.precision.rms,
        label_precision="" if unseen.exact else context.precision.words,
        rounded=settled.rounded,
        outputs=problem.outputs,
        samples_fitted=samples.size,
        distinct_inputs=len(context.inputs),
        samples_held_out=unseen.samples,
        samples_refitted=settled.refitted,
        parameters=user.free_parameters,
        condition=condition_number(user),
        parameter_error_bound=settled.bound,
        undetermined=settled.covariance.rank_deficiency,
        weakest_unit=weakest,
        weakest_margin=margin,
        closest_pair=closest_pair(user, context.inputs),
        residual_kurtosis=kurtosis,
        rarer_side=sides,
        width_evidence=_width_evidence(candidate, without / context.spread),
        gaussian=context.gaussian,
        own_residual=_own_residual(context, candidate),
        linear_residual=context.standardisation.linear_residual,
        warnings=(
            *(() if context.gaussian.ok else (context.gaussian.message,)),
            *settled.warnings,
            *(() if unseen.exact or kurtosis <= HEAVY_TAILS else (_TAILS.format(kurtosis),)),
        ),
    )
    unresolved = unresolved_units(user, settled.errors, sides, fewest_to_confirm(user))
    shown, errors = _restored(candidate, user, settled.errors)
    return Evidence(
        shown,
        own,
        certificate,
        errors,
        unresolved,
        unseen,
        settled.ended,
        polished.ambiguities,
        settled.remarks,
        last_round,
        settled.uneven,
    )


def _own_residual(context: Context, candidate: Candidate) -> float | None:
    """What a paper's own answer leaves of the labels fitted, if least squares goes on from it."""
    if not (context.faithful and context.refine):
        return None
    return residual_on(context.problem.samples, candidate.network) / context.spread


def fewest_to_confirm(network: Network) -> int:
    """Samples a linear piece of the function needs: its parameters, and two to confirm them."""
    return network.features + SPARE_ON_A_PIECE


def _width_evidence(candidate: Candidate, without: float) -> str:
    if not np.isfinite(without):
        return candidate.width_evidence
    return (
        f"{candidate.width_evidence} Without its weakest unit the residual would be "
        f"{without:.2g} of the labels' spread."
    )


def _restored(
    candidate: Candidate, user: Network, errors: StandardErrors
) -> tuple[Network, StandardErrors]:
    """In the user's outputs, where those that were fitted are mixtures of them."""
    repaired = candidate.repaired
    if repaired is None or repaired.restore is None:
        return user, errors
    return repaired.restore(user, errors)


def _order(context: Context, candidate: Candidate, own: Network) -> AnyArray:
    """The order in which the user's canonical form has the units of a normalised network."""
    user = context.standardisation.network_to_user(own).normalised()
    repaired = candidate.repaired
    if repaired is not None and repaired.restore is not None:
        user = repaired.restore(user, StandardErrors.none(user))[0].normalised()
    return unit_order(user)


def _in_order(context: Context, candidate: Candidate, network: Network) -> Network:
    """The network on standardised inputs with its units as the user's canonical form has them.

    Turned like those, too, so that errors are those of the signs that are shown.
    """
    own = network.normalised()
    own = apply_symmetry(own, *conventional_symmetry(context.standardisation.network_to_user(own)))
    return own.keep(_order(context, candidate, own))


# ---------------------------------------------------------------- samples that no fit saw


def look_at_unseen(context: Context, own: Network, rss: float) -> Unseen:
    """What is left of held-out labels, against rounding and against what is left of fitted ones.

    Of a network on standardised inputs that leaves so much of the samples fitted.
    """
    network = context.standardisation.network_to_user(own)
    by_output, samples = _unseen_residuals(context, network)
    roundings = rounding_level(network, context.held_out.X)
    allowed = ROUNDING_MARGIN * roundings
    if not context.refine:
        allowed = np.maximum(allowed, UNREFINED * context.spread)
    fitted = float(np.sqrt(rss / context.problem.samples.labels))
    exact = bool(
        np.all(np.isfinite(roundings))
        and fitted <= _root_mean_square(allowed)
        and np.all(by_output <= allowed)
    )
    tested = held_out_test(context, own, rss)
    return Unseen(
        _root_mean_square(by_output),
        _root_mean_square(roundings),
        samples if context.unseen else 0,
        fitted,
        exact,
        tested.limit,
        None if exact else tested.excess,
    )


def _unseen_residuals(context: Context, network: Network) -> tuple[Array, int]:
    """Residual, an output, on samples not fitted: those held out, or all the others there are."""
    source, samples = context.source, context.problem.samples
    held_out = context.held_out
    squares = partial(_squares, network)
    if source.size <= samples.size + held_out.size or not source.fixed:
        return np.sqrt(held_out.total(squares) / held_out.size), held_out.size
    fitted = squares(context.standardisation.undo(samples.X), samples.y)
    unseen = source.size - samples.size
    return np.sqrt(np.maximum(source.total(squares) - fitted, 0.0) / unseen), unseen


def _squares(network: Network, X: Array, y: Array) -> Array:
    return np.asarray(np.sum((network(X) - y) ** 2, axis=0))


def _root_mean_square(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


# ---------------------------------------------------------------- the network that is returned


def _settle(context: Context, candidate: Candidate, polished: Polished, unseen: Unseen) -> _Settled:
    """With noise the fit on all samples, if what is left may be noise; else the fit as it is."""
    rounded = explained_by_rounding(context, max(unseen.residual, unseen.fitted))
    samples = context.problem.samples
    alike = no_outliers(samples.y - polished.network(samples.X), "").holds
    noisy = not unseen.exact and (rounded or (unseen.excess is None and alike))
    if noisy and context.refine and polished.network.units:
        fit = fit_rounded_labels(context, polished.network) if rounded else None
        if fit is not None:
            return _refitted_inside(context, candidate, polished, fit)
        return _refitted(context, candidate, polished)
    return _as_it_is(context, _in_order(context, candidate, polished.network), polished, unseen)


def too_few_to_tell(context: Context, network: Network) -> bool:
    """Whether labels cannot tell noise from units, so that no rival says anything, and no error."""
    n = context.problem.samples.labels
    price = network.parameters_a_unit * np.log(n)
    return bool(n < SAMPLES_A_PARAMETER * network.free_parameters or price > VISIBLE * n)


def _refitted(context: Context, candidate: Candidate, polished: Polished) -> _Settled:
    fit = refit_on_all(context, polished.network)
    network = _in_order(context, candidate, fit.network)
    found = covariance_of_all(context, network, fit.scale)
    user = context.standardisation.network_to_user(network).normalised()
    sure = RobustErrors(found.standard_errors(fit.noise))
    if not too_few_to_tell(context, network):
        sure = robust_errors(context, network, fit.scale, sure.errors)
    return _Settled(
        network,
        fit.pooled_noise,
        found,
        sure.errors.scaled(fit.scale),
        found.error_bound(scale_outputs(user, 1 / fit.scale), fit.noise),
        context.source.size,
        fit.ended,
        warnings=(*sure.warnings, *((_BOUNDS,) if found.bounds else ())),
        uneven=sure.uneven,
    )


_BOUNDS = (
    "Standard errors are upper bounds, perhaps many times too wide: for so many parameters, or in "
    "the time that was left, the matrix that gives them is too large."
)


def _refitted_inside(
    context: Context, candidate: Candidate, polished: Polished, fit: IntervalFit
) -> _Settled:
    """The network inside the intervals of labels that were rounded."""
    activation, standardisation = polished.network.activation, context.standardisation
    own = fit.parameters.network(activation)
    fit = fit.in_order(_order(context, candidate, own.normalised()))
    network = fit.parameters.network(activation)
    plain = covariance(context.drawn, network, standardisation)
    found = in_user_coordinates(fit.covariance, fit.parameters, activation, standardisation)
    found = replace(found, rank_deficiency=plain.rank_deficiency)
    user = standardisation.network_to_user(network).normalised()
    precision = context.precision
    return _Settled(
        network.normalised(),
        precision.rms * float(np.sqrt(1 + (0.0 if fit.inside else 12 * fit.noise**2))),
        found,
        _or_cut_off(found.standard_errors(1.0), precision),
        found.error_bound(user, 1.0),
        context.drawn.size,
        fit.ended,
        fit.inside,
        (_CUT_OFF.format(precision.words),) if precision.cut_off else (),
    )


_TAILS = (
    "The residuals have heavy tails (excess kurtosis {:.2g}). If some labels are simply wrong, "
    'method="sparse-noise" or "arbitrary-noise" is more precise.'
)

_CUT_OFF = (
    "Labels are {}, to the nearest or cut off: they do not tell, so the output bias is known to "
    "half a step only."
)


def _or_cut_off(errors: StandardErrors, precision: LabelPrecision) -> StandardErrors:
    """With an output bias that may be half a step off."""
    if not precision.cut_off:
        return errors
    half = np.max(precision.widths, axis=0) / 2
    bias = np.hypot(errors.output_bias, half)
    return replace(errors, output_bias=float(bias) if np.ndim(bias) == 0 else bias)


def _as_it_is(context: Context, network: Network, polished: Polished, unseen: Unseen) -> _Settled:
    labels = context.problem.samples.labels
    spare = max(labels - network.free_parameters, 1)
    noise = 0.0 if unseen.exact else float(np.sqrt(polished.rss / spare))
    found = _covariance_of_fit(context, network, unseen.exact)
    size = np.sqrt(labels) * max(unseen.fitted, unseen.rounding) if unseen.exact else noise
    user = context.standardisation.network_to_user(network).normalised()
    return _Settled(
        network,
        noise,
        found,
        found.standard_errors(noise),
        found.error_bound(user, size),
        0,
        polished.ended,
    )


def _covariance_of_fit(context: Context, network: Network, exact: bool) -> Covariance:
    """From as many samples as the width needs; from all of them if those leave anything open.

    An exact answer needs only a bound, which is far cheaper for many parameters.
    """
    problem = context.problem
    estimate = covariance_of_exact if exact else covariance
    part = problem.for_width(network.units)
    found = estimate(part.samples, network, context.standardisation)
    if part is problem:
        return found
    if found.rank_deficiency:
        return estimate(problem.samples, network, context.standardisation)
    return found.times(part.samples.size / problem.samples.size)
