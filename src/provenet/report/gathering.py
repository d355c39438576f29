"""What the pictures of a report need beyond the recovery itself, computed from its samples.

All of it comes from one bounded draw of samples, so that a report costs seconds however many there
are; only the spectrum is read from all samples where these are few enough.

*Held out.* With noise an answer is fitted to all samples in the end, those included that were held
out while it was judged. So a tenth of the draw is set aside here, least squares is run again on the
rest, and that network predicts the tenth.

*Error against samples.* Least squares on growing parts of the draw, each time from the answer moved
by a thousandth: it comes back only if that many samples determine it. Against the truth standard
errors e of the answer, which was fitted to N samples, let expect `e sqrt(N / n)` from n of them;
against the answer itself `e sqrt(N / n - 1)`, as the n are a part of the N.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.asked import METHOD as TRACED
from provenet.certify.checks import Claim, Status
from provenet.certify.class_labels import ClassDetails
from provenet.certify.result import Recovery
from provenet.common.typing import AnyArray, Array, Seed
from provenet.data.passes import one_blas_thread
from provenet.data.sources import ArraySource, LinkedSource, Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.least_squares import Ended, refine
from provenet.fitting.model import Parameters
from provenet.moments.hermite import MomentRequest, estimate_moments
from provenet.moments.subspace import Span, numerical_rank, span_of_units, stacked_noise_edge
from provenet.networks.canonical import parameter_error
from provenet.networks.network import DeepNetwork, Network
from provenet.report.layers import Layered
from provenet.report.tolerances import (
    CURVE_FITS,
    LABELS_A_PARAMETER,
    LEAST_OUTPUT_NOISE,
    MOST_DRAWN,
    MOST_HELD_OUT_SHOWN,
    REFIT_ROWS_A_PARAMETER,
    REFIT_STEPS,
    SMALLEST_PART,
    START_MOVED,
)

_MOST_NUMBERS = 20_000_000
"""Samples times features up to which the spectrum is read from all samples."""
_MOST_PRODUCTS = 2e9
"""Samples times squared parameters of the largest refit; but some samples a parameter it has."""
_SECONDS = 8.0
"""After which no further step of a refit is begun."""


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the second Hermite moment `T_2` and the noise that they carry."""

    span: Span
    """Its rank is the number of eigenvalues above the noise."""
    samples: int


@dataclass(frozen=True)
class HeldOut:
    """Samples to predict, and what predicts them."""

    predict: Callable[[Array], Array]
    X: Array
    y: Array
    unseen: bool
    """Whether `predict` was made without these samples."""


@dataclass(frozen=True)
class ClassesSeen:
    """Of each label and class: how likely it was said to be, and whether it was this one."""

    probabilities: Array
    happened: Array
    labels: int


@dataclass(frozen=True)
class ErrorCurve:
    """Largest error of a unit after refits on so many samples."""

    samples: AnyArray
    errors: Array
    expected: Array | None
    """What the standard errors let expect; None without noise."""
    against_truth: bool


@dataclass(frozen=True)
class ReportData:
    """All that a page shows beside the recovery; what could not be computed is None."""

    samples: int
    features: int
    outputs: int | None
    spectrum: Spectrum | None
    held_out: HeldOut | None
    curve: ErrorCurve | None
    truth: Network | None
    shares: Array | None = None
    """Of the variance of predictions, what hangs on each input: see `_shares`."""
    classes: ClassesSeen | None = None
    """Of labels that are classes, in place of what is left of them."""


def gather(
    result: Recovery,
    source: Source | None = None,
    *,
    truth: Network | None = None,
    rng: Seed = None,
) -> ReportData:
    """Read from the samples what the pictures of this recovery show.

    A source that makes its own samples is asked for as many more as it has, at most 20,000. Without
    one the random points that a model was asked are the samples.
    """
    given = source is not None
    if source is None:
        if result.asked is None:
            return _without_samples(result, truth)
        source = ArraySource(result.asked.X, result.asked.y)
    if isinstance(result.details, ClassDetails):
        return _of_classes(result, source, truth, np.random.default_rng(rng))
    if given and result.network is not None and result.network.link != "identity":
        source = LinkedSource(source, result.network.link)
    result, known = replace(result, network=_before_link(result.network)), _before_link(truth)
    generator = np.random.default_rng(rng)
    with one_blas_thread():
        some = source.draw(min(source.size, MOST_DRAWN), generator)
        drawn = ArraySource(some.X, some.y)
        refit = _refit(result, drawn, generator)
        return ReportData(
            samples=source.size,
            features=source.features,
            outputs=source.outputs,
            spectrum=_spectrum(source, drawn) if given and _by_moments(result) else None,
            held_out=_held_out(result, source, drawn, refit),
            curve=_error_curve(result, source, drawn, known, refit),
            truth=truth,
            shares=_shares(result, drawn.X[:MOST_HELD_OUT_SHOWN], generator),
        )


def _of_classes(
    result: Recovery, source: Source, truth: Network | None, rng: np.random.Generator
) -> ReportData:
    """Class labels have probabilities in place of values, and leave no residuals."""
    some = source.draw(min(source.size, MOST_DRAWN), rng)
    shares, seen = None, None
    if result.network is not None:
        p = result.network.predict_proba(some.X)
        said = p[:, 1] if some.y.ndim == 1 else p  # of two classes the second says all
        seen = ClassesSeen(said.ravel(), some.y.ravel(), len(p))
        shares = _shares(result, some.X[:MOST_HELD_OUT_SHOWN], rng)
    return ReportData(
        source.size, source.features, source.outputs, None, None, None, truth, shares, seen
    )


def _before_link(network: Network | None) -> Network | None:
    return None if network is None else network.replace(link="identity")


def _without_samples(result: Recovery, truth: Network | None) -> ReportData:
    known = result.network if truth is None else truth
    features, outputs = (0, None) if known is None else (known.features, known.outputs)
    return ReportData(0, features, outputs, None, None, None, truth)


def _standardisation(source: Source) -> Standardisation | None:
    """None where inputs are constant or dependent."""
    try:
        found = source.standardisation()
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found.whiten).all() and found.label_spread > 0 else None


# ---------------------------------------------------------------- spectrum


_BY_MOMENTS = (
    *("biased-relu", "rectified", "overcomplete", "regression"),
    *("landscape", "lowest-layer", "symmetric-inputs", "sparse-noise"),
)
"""Methods that read their units off the second moment."""


def _by_moments(result: Recovery) -> bool:
    """Whether its spectrum was used."""
    return result.method in _BY_MOMENTS


def _spectrum(source: Source, drawn: ArraySource) -> Spectrum | None:
    few = source.size * source.features * (source.outputs or 1) <= _MOST_NUMBERS
    used = source if source.fixed and few else drawn
    standardisation = _standardisation(used)
    if standardisation is None:
        return None
    moments = estimate_moments(used, MomentRequest(standardisation, order=2))
    T2, error = moments.tensors[2], moments.errors[2]
    span = span_of_units(T2, error) if T2.ndim == 2 else _stacked(T2, error, drawn.y)
    usable = np.isfinite(span.eigenvalues).all() and bool(np.any(span.eigenvalues))
    return Spectrum(span, used.size) if usable else None


def _stacked(T2: Array, error: float, y: Array) -> Span:
    """Singular values of the moments of several outputs side by side."""
    d = T2.shape[1]
    left, sizes, _ = np.linalg.svd(T2.transpose(1, 0, 2).reshape(d, -1), full_matrices=False)
    labels = np.linalg.svd(y - y.mean(axis=0), compute_uv=False)
    edge = stacked_noise_edge(error, d, labels)
    rank = min(int(np.sum(sizes > edge)), numerical_rank(sizes))
    return Span(left[:, :rank].T, sizes, edge)


# ---------------------------------------------------------------- refits


@dataclass(frozen=True)
class _PartialRefit:
    """Least squares from the answer, on parts of the draw."""

    network: Network
    standardisation: Standardisation
    scale: Array | float
    """By which outputs are divided, so that a noisy one does not spoil the others."""
    spread: float
    rng: np.random.Generator
    deadline: float

    def affordable(self, rows: int) -> int:
        """As many rows as a refit may have."""
        p = self.network.free_parameters
        return int(min(rows, max(_MOST_PRODUCTS / p**2, REFIT_ROWS_A_PARAMETER * p)))

    def growing(self, most: int) -> list[int]:
        """Numbers of samples, from as few as may determine the network to `most`."""
        fewest = LABELS_A_PARAMETER * self.network.free_parameters / (self.network.outputs or 1)
        first = np.ceil(max(fewest, SMALLEST_PART * most))
        return [
            int(n) for n in np.unique(np.geomspace(first, max(first, most), CURVE_FITS).round())
        ]

    def on(self, X: Array, y: Array) -> Network | None:
        """The network fitted to these samples; None if they are too few or time is over."""
        enough = y.size >= LABELS_A_PARAMETER * self.network.free_parameters
        if not enough or time.monotonic() > self.deadline:
            return None
        source = ArraySource(self.standardisation.apply(X), y / self.scale)
        try:
            fit = refine(
                source,
                self._start(),
                self.network.activation,
                spread=self.spread,
                iterations=REFIT_STEPS,
                tolerance=1e-8,
                damping=1e-6,
                deadline=self.deadline,
            )
        except np.linalg.LinAlgError:  # too few samples on one side of a kink
            return None
        return None if fit.ended is Ended.OUT_OF_TIME else self._finished(fit.parameters)

    def _start(self) -> Parameters:
        """The answer on standardised inputs, every parameter moved a little."""
        start = self._own_parameters().normalised(self.network.activation)
        moved = (
            layer * (1 + START_MOVED * self.rng.standard_normal(layer.shape))
            for layer in start.layers
        )
        return replace(start.with_layers(tuple(moved)), beta=start.beta / self.scale)

    def _own_parameters(self) -> Parameters:
        """Of the answer on standardised inputs."""
        if isinstance(self.network, DeepNetwork):
            return Parameters.of(self.standardisation.network_from_user(self.network))
        return Parameters.of(self.standardisation.network_from_user(self.network))

    def _finished(self, parameters: Parameters) -> Network:
        own = replace(parameters, beta=parameters.beta * self.scale)
        activation = self.network.activation
        if isinstance(self.network, DeepNetwork):
            return self.standardisation.network_to_user(own.deep_network(activation)).canonical()
        return self.standardisation.network_to_user(own.network(activation)).canonical()


def _refit(result: Recovery, drawn: ArraySource, rng: np.random.Generator) -> _PartialRefit | None:
    """None where plain least squares on the samples is not what made the network."""
    network, standardisation = result.network, _standardisation(drawn)
    plain = result.certificate is not None and result.corrupted is None and result.layer is None
    if network is None or network.units == 0 or standardisation is None or not plain:
        return None
    scale: Array | float = 1.0
    if network.outputs is not None and result.status is not Status.EXACT:
        squares = np.mean((network(drawn.X) - drawn.y) ** 2, axis=0)
        scale = np.sqrt(np.maximum(squares, LEAST_OUTPUT_NOISE**2 * np.max(squares) + 1e-300))
    spread = standardisation.label_spread / float(np.min(scale))
    return _PartialRefit(network, standardisation, scale, spread, rng, time.monotonic() + _SECONDS)


def _held_out(
    result: Recovery, source: Source, drawn: ArraySource, refit: _PartialRefit | None
) -> HeldOut | None:
    predict = _predictor(result)
    if predict is None:
        return None
    part = 1 if _never_fitted(result) else 10
    held = max(1, min(drawn.size // part, MOST_HELD_OUT_SHOWN))
    X, y = drawn.X[:held], drawn.y[:held]
    if not source.fixed or _never_fitted(result):
        return HeldOut(predict, X, y, unseen=True)
    last = held if refit is None else held + refit.affordable(drawn.size - held)
    fitted = None if refit is None else refit.on(drawn.X[held:last], drawn.y[held:last])
    return HeldOut(fitted or predict, X, y, unseen=fitted is not None)


def _shares(result: Recovery, X: Array, rng: np.random.Generator) -> Array | None:
    """How far predictions move when the values of one input change places among the samples.

    Half of the mean square of that over the variance of predictions: Sobol's total index where
    inputs are independent.
    """
    predict = _predictor(result)
    if predict is None or len(X) < 2:
        return None
    values = predict(X).reshape(len(X), -1)
    whole = float(np.mean(np.var(values, axis=0)))
    if not 0 < whole < np.inf:
        return None
    shares = np.empty(X.shape[1])
    for k in range(X.shape[1]):
        other = X.copy()
        other[:, k] = X[rng.permutation(len(X)), k]
        shares[k] = np.mean((predict(other).reshape(len(X), -1) - values) ** 2) / (2 * whole)
    return shares


def _never_fitted(result: Recovery) -> bool:
    """Whether the points asked served only to refute what other questions told."""
    return result.method == TRACED


def _predictor(result: Recovery) -> Callable[[Array], Array] | None:
    """What predicts labels: of a layer, only where its top is known."""
    return result.layered if result.claim is Claim.LAYER else result.network


def _error_curve(
    result: Recovery,
    source: Source,
    drawn: ArraySource,
    truth: Network | None,
    refit: _PartialRefit | None,
) -> ErrorCurve | None:
    if refit is None or not result.success:
        return None
    right = truth is not None and np.isfinite(parameter_error(refit.network, truth))
    goal = truth if truth is not None and right else refit.network
    most = refit.affordable(drawn.size)
    counts = refit.growing(most)
    if not right and most == source.size and result.status is not Status.EXACT:
        counts.pop()  # the answer itself
    fits = {n: refit.on(drawn.X[:n], drawn.y[:n]) for n in counts}
    errors = {n: parameter_error(fit, goal) for n, fit in fits.items() if fit is not None}
    if len(errors) < 2:
        return None
    samples = np.array(list(errors))
    known = result.standard_errors
    spreads = None if known is None else Layered.of_errors(known, refit.network)
    expected = _expected(spreads, source.size, samples, right)
    return ErrorCurve(samples, np.array(list(errors.values())), expected, right)


def _expected(spreads: Layered | None, size: int, samples: AnyArray, right: bool) -> Array | None:
    """The largest error of a unit that its standard errors let expect, for so many samples."""
    if spreads is None:
        return None
    largest = max(float(np.max(layer.sizes, initial=0.0)) for layer in spreads.layers)
    if not 0 < largest < np.inf:
        return None
    return np.asarray(largest * np.sqrt(np.maximum(size / samples - (0 if right else 1), 0.0)))
