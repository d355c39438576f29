"""A network that class labels were fitted by: settled, and measured.

The order is that of numbers (`evidence`): the most likely network of the samples that were fitted;
a look at those that no fit saw; a last fit of all; then everything is measured of the network that
is returned. The deviance stands in place of the residual. If the network's probabilities p are
right, a label's deviance has a mean and a variance that p tells:

    E = -2 sum_k p_k log p_k,      V = 4 sum_k p_k (log p_k)^2 - E^2

so unseen labels tell whether they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
)
from provenet.common.typing import TINY, Array
from provenet.data.sources import StandardisedSource
from provenet.fitting.context import Context
from provenet.fitting.covariance import StandardErrors, covariance
from provenet.fitting.final_fit import Polished, most_likely, refined
from provenet.fitting.least_squares import Fit
from provenet.fitting.losses import Loss
from provenet.fitting.model import Parameters
from provenet.networks.canonical import apply_symmetry, conventional_symmetry, unit_order
from provenet.networks.network import Network, probabilities


@dataclass(frozen=True)
class ClassCandidate:
    """A method's own answer: the model of a search, and why it has that many units."""

    parameters: Parameters
    width_evidence: str
    loss: Loss


@dataclass(frozen=True)
class ClassDetails:
    """What a classifier's probabilities are worth."""

    error: float
    """Mean log-loss of labels that no fit saw."""
    expected: float
    """What it would be if the probabilities were right."""
    informative: float
    """How many coin flips tell as much as the labels fitted: the sum of 4 p (1 - p)."""
    separated: bool
    """Whether no label fitted is on the wrong side: then the scale of the log-odds is open."""
    criterion: float
    """Schwarz's criterion, deviance and price of the parameters, by which answers compare."""
    dependent: bool
    """Whether the labels depend on the inputs at all, beyond what chance gives as many
    parameters (chi squared)."""

    def facts(self) -> Iterator[tuple[str, str]]:
        """For those who print."""
        yield (
            "log-loss",
            f"{self.error:.4g} a label that no fit saw; {self.expected:.4g} if the probabilities "
            "are right",
        )
        yield "information", f"that of {self.informative:,.0f} coin flips"


@dataclass(frozen=True)
class UnseenLabels:
    """How the probabilities do on labels that no fit saw."""

    log_loss: float
    expected: float
    sigmas: float
    """By how many standard errors the two differ, what the fit costs taken into account."""
    samples: int


@dataclass(frozen=True)
class ClassEvidence:
    """A classifier in the user's coordinates with everything that was measured of it."""

    network: Network
    own: Fit
    """The same on standardised inputs."""
    certificate: Certificate
    standard_errors: StandardErrors
    unseen: UnseenLabels
    details: ClassDetails
    ambiguities: tuple[str, ...]


def gather_classes(context: Context, candidate: ClassCandidate) -> ClassEvidence:
    """Settle the network, and measure it."""
    loss, standardisation = context.problem.loss, context.standardisation
    found = most_likely(context, candidate.parameters)
    unseen = _look_at_unseen(context, found)
    everything = StandardisedSource(context.source, standardisation)
    last = refined(context, everything, found.network)
    own = last.parameters.network(found.network.activation).replace(link=loss.link)
    own = _in_order(context, own)
    user = standardisation.network_to_user(own).normalised()
    known = covariance(everything, own, standardisation, loss=loss)
    labels = class_matrix(context.drawn.y)
    p = probabilities(own(context.drawn.X), loss.link)
    price = user.free_parameters * np.log(context.source.size)
    details = ClassDetails(
        unseen.log_loss,
        unseen.expected,
        informative_labels(p),
        _is_separated(p, labels),
        last.rss + price,
        _is_dependent(p, labels, user.free_parameters),
    )
    return ClassEvidence(
        user,
        last,
        _certificate(context, candidate, user, p, labels, known.rank_deficiency),
        known.standard_errors(1.0),
        unseen,
        details,
        found.ambiguities,
    )


def class_matrix(y: Array) -> Array:
    """Labels with a one in the column of the class."""
    return np.column_stack([1 - y, y]) if y.ndim == 1 else y


def informative_labels(p: Array) -> float:
    """How many labels of probabilities all alike tell as much."""
    classes = p.shape[1]
    return float(np.sum(1 - np.sum(p**2, axis=1)) * classes / (classes - 1))


def _is_separated(p: Array, labels: Array) -> bool:
    own = np.sum(p * labels, axis=1)
    others = np.max(np.where(labels > 0, -1.0, p), axis=1)
    return bool(np.all(own > others))


def _is_dependent(p: Array, labels: Array, parameters: int) -> bool:
    """Whether the classes' shares alone explain the labels significantly worse."""
    shares = np.maximum(labels.mean(axis=0), TINY)
    own = np.maximum(np.sum(p * labels, axis=1), TINY)
    gained = 2 * float(np.log(own).sum() - len(labels) * np.sum(shares * np.log(shares)))
    spare = max(parameters - labels.shape[1] + 1, 1)
    return bool(chi2.sf(gained, spare) < 1e-4)


def _in_order(context: Context, network: Network) -> Network:
    """The units turned, and in the order, as the user's canonical form has them."""
    own = network.normalised()
    own = apply_symmetry(own, *conventional_symmetry(context.standardisation.network_to_user(own)))
    user = context.standardisation.network_to_user(own).normalised()
    return own.keep(unit_order(user))


def _look_at_unseen(context: Context, found: Polished) -> UnseenLabels:
    """The deviance of held-out labels against what their probabilities make of it."""
    held, loss = context.held_out, context.problem.loss
    user = context.standardisation.network_to_user(found.network)
    values, labels = user(held.X), class_matrix(held.y)
    deviance = _deviance(loss, values, held.y)
    p = np.maximum(probabilities(values, loss.link), TINY)
    expected = -2 * np.sum(p * np.log(p), axis=1)
    variance = 4 * np.sum(p * np.log(p) ** 2, axis=1) - expected**2
    overfitted = len(labels) * user.free_parameters / context.problem.samples.size
    difference = float(deviance.sum() - expected.sum())
    cost = np.clip(difference, 0.0, overfitted)
    sigmas = abs(difference - cost) / np.sqrt(float(variance.sum()) + 2 * overfitted + TINY)
    return UnseenLabels(
        float(deviance.mean()) / 2,
        float(expected.mean()) / 2,
        float(sigmas),
        held.size if context.unseen else 0,
    )


def _deviance(loss: Loss, values: Array, y: Array) -> Array:
    return loss.deviance(values.reshape(len(values), -1), y.reshape(len(y), -1))


def _certificate(
    context: Context,
    candidate: ClassCandidate,
    user: Network,
    p: Array,
    labels: Array,
    undetermined: int,
) -> Certificate:
    """Of 0 and 1 noise is what their probabilities leave of them."""
    held = context.held_out
    unseen = probabilities(user(held.X), user.link) - class_matrix(held.y)
    residual = float(np.sqrt(np.mean(unseen**2)))
    return Certificate(
        residual=residual,
        relative_residual=residual / context.spread,
        rounding=0.0,
        noise=float(np.sqrt(np.mean((p - labels) ** 2))),
        label_rounding=0.0,
        label_precision="",
        rounded=False,
        outputs=1,
        samples_fitted=context.problem.samples.size,
        distinct_inputs=len(context.inputs),
        samples_held_out=held.size if context.unseen else 0,
        samples_refitted=context.source.size,
        parameters=user.free_parameters,
        condition=condition_number(user),
        parameter_error_bound=float("nan"),
        undetermined=undetermined,
        weakest_unit=None,
        weakest_margin=float("nan"),
        closest_pair=closest_pair(user, context.inputs),
        residual_kurtosis=0.0,
        rarer_side=rarer_side(user, context.inputs),
        width_evidence=candidate.width_evidence,
        gaussian=context.gaussian,
        warnings=() if context.gaussian.ok else (context.gaussian.message,),
    )
