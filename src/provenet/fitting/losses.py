"""What a fit lowers: the sum of squares, or the deviance of class labels.

A model's values F, one column an output, are labels (`SQUARES`), the log-odds of class 1
(`LOGISTIC`, labels 0 and 1) or the classes' scores (`SOFTMAX`, labels with a one in the column of
the class). The deviance is twice the negative log-likelihood, and stands where the sum of squares
stands for noise of size one: with

    r = half the gradient of the deviance by F       F - y,   p - y,    p - y
    W = R^T R, the Fisher information of F           1,       p(1-p),   diag(p) - p p^T

Gauss and Newton's step `(J^T J) s = J^T r` becomes Fisher's scoring `(J^T W J) s = J^T r`, and
everything that is built on it stays as it is. For softmax `R = diag(sqrt(p)) - sqrt(p) p^T`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from provenet.common.typing import Array


@dataclass(frozen=True)
class Loss:
    """Values F and labels Y are (samples, outputs)."""

    name: str
    """Of the one object of its kind, also in another process."""
    link: str
    """How values become what labels are the mean of: a name of `networks.network`."""
    deviance: Callable[[Array, Array], Array]
    """(samples,)."""
    excess: Callable[[Array, Array], Array]
    """r, (samples, outputs)."""
    root: Callable[[Array], Array | None]
    """R, (samples, outputs, outputs); None where it is the identity."""
    weights: Callable[[Array], Array]
    """One number a sample in place of W, (samples, 1)."""

    def __reduce__(self) -> str:
        """By name."""
        return self.name

    def weighted(self, F: Array, change: Array) -> Array:
        """W times a change of the values."""
        root = self.root(F)
        if root is None:
            return change
        return np.asarray(np.einsum("nkp,nkq,nq->np", root, root, change))


def loss_of_classes(y: Array) -> Loss | None:
    """The loss of labels 0 and 1, or of rows with a single one among zeros; None for any others."""
    if not np.isin(y, (0.0, 1.0)).all():
        return None
    if y.ndim == 1:
        return LOGISTIC
    return SOFTMAX if y.shape[1] > 1 and (y.sum(axis=1) == 1).all() else None


def working_labels(loss: Loss, F: Array, Y: Array) -> tuple[Array, Array]:
    """Roots of weights w, and labels whose least squares in `sqrt(w) F` is a step of scoring."""
    if loss is SQUARES:  # the labels as they are, to the last digit
        return loss.weights(F), Y
    # A sample that a model is all but sure of, and wrongly, would outweigh all others.
    root = np.sqrt(np.maximum(loss.weights(F), 1e-3))
    return root, root * F - loss.excess(F, Y) / root


def _log_softmax(F: Array) -> Array:
    """As scipy has it, without what it does for other libraries' arrays: small ones are many."""
    F = F - F.max(axis=1, keepdims=True)
    return np.asarray(F - np.log(np.exp(F).sum(axis=1, keepdims=True)))


def _softmax_root(F: Array) -> Array:
    p = np.exp(_log_softmax(F))
    return np.asarray(np.sqrt(p)[:, :, None] * (np.eye(F.shape[1]) - p[:, None, :]))


def _softmax_weights(F: Array) -> Array:
    """The mean of the eigenvalues of W that are not zero."""
    p = np.exp(_log_softmax(F))
    return np.asarray((1 - np.sum(p**2, axis=1)) / (F.shape[1] - 1))[:, None]


SQUARES = Loss(
    "SQUARES",
    "identity",
    deviance=lambda F, Y: np.asarray(np.sum((F - Y) ** 2, axis=1)),
    excess=lambda F, Y: np.asarray(F - Y),
    root=lambda F: None,
    weights=lambda F: np.ones((len(F), 1)),
)
LOGISTIC = Loss(
    "LOGISTIC",
    "logit",
    deviance=lambda F, Y: np.asarray(2 * np.sum(np.logaddexp(0, F) - Y * F, axis=1)),
    excess=lambda F, Y: np.asarray(expit(F) - Y),
    root=lambda F: np.sqrt(expit(F) * expit(-F))[:, :, None],
    weights=lambda F: np.asarray(expit(F) * expit(-F)),
)
SOFTMAX = Loss(
    "SOFTMAX",
    "softmax",
    deviance=lambda F, Y: np.asarray(-2 * np.sum(Y * _log_softmax(F), axis=1)),
    excess=lambda F, Y: np.asarray(np.exp(_log_softmax(F)) - Y),
    root=_softmax_root,
    weights=_softmax_weights,
)
