"""What a fit lowers: the sum of squares, or the deviance of class labels.

A model's values F, one column an output, are labels (`SQUARES`), the log-odds of class 1
(`LOGISTIC`, labels 0 and 1) or the classes' scores (`SOFTMAX`, labels with a one in the column of
the class). The deviance is twice the negative log-likelihood, and stands where the sum of squares
stands for noise of size one: with

    r = half the gradient of the deviance by F       F - y,   p - y,    p - y
    R^T R = the Fisher information of F              1,       p(1-p),   diag(p) - p p^T

Gauss and Newton's step `(J^T J) s = J^T r` becomes Fisher's scoring `(J^T R^T R J) s = J^T r`, and
everything that is built on it stays as it is. For softmax `R = diag(sqrt(p)) - sqrt(p) p^T`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import expit

from provenet.common.typing import Array


class Loss(Protocol):
    """Values F and labels Y are (samples, outputs)."""

    @property
    def link(self) -> str:
        """How values become what labels are the mean of: a name of `networks.network`."""

    def deviance(self, F: Array, Y: Array) -> Array:
        """(samples,)."""

    def excess(self, F: Array, Y: Array) -> Array:
        """r, (samples, outputs)."""

    def root(self, F: Array) -> Array:
        """R, (samples, outputs, outputs)."""

    def weights(self, F: Array) -> Array:
        """One number a sample in place of the Fisher information, (samples, 1)."""


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


class _OneOfItsKind:
    """There is one object of each loss, also after a journey to another process."""

    name: str

    def __reduce__(self) -> str:
        return self.name


class _Squares(_OneOfItsKind):
    name = "SQUARES"
    link = "identity"

    def deviance(self, F: Array, Y: Array) -> Array:
        return np.asarray(np.sum((F - Y) ** 2, axis=1))

    def excess(self, F: Array, Y: Array) -> Array:
        return np.asarray(F - Y)

    def root(self, F: Array) -> Array:
        return np.broadcast_to(np.eye(F.shape[1]), (len(F), F.shape[1], F.shape[1]))

    def weights(self, F: Array) -> Array:
        return np.ones((len(F), 1))


class _Logistic(_OneOfItsKind):
    name = "LOGISTIC"
    link = "logit"

    def deviance(self, F: Array, Y: Array) -> Array:
        return np.asarray(2 * np.sum(np.logaddexp(0, F) - Y * F, axis=1))

    def excess(self, F: Array, Y: Array) -> Array:
        return np.asarray(expit(F) - Y)

    def root(self, F: Array) -> Array:
        return np.asarray(np.sqrt(self.weights(F))[:, :, None])

    def weights(self, F: Array) -> Array:
        return np.asarray(expit(F) * expit(-F))


def _log_softmax(F: Array) -> Array:
    """As scipy has it, without what it does for other libraries' arrays: small ones are many."""
    F = F - F.max(axis=1, keepdims=True)
    return np.asarray(F - np.log(np.exp(F).sum(axis=1, keepdims=True)))


class _Softmax(_OneOfItsKind):
    name = "SOFTMAX"
    link = "softmax"

    def deviance(self, F: Array, Y: Array) -> Array:
        return np.asarray(-2 * np.sum(Y * _log_softmax(F), axis=1))

    def excess(self, F: Array, Y: Array) -> Array:
        return np.asarray(np.exp(_log_softmax(F)) - Y)

    def root(self, F: Array) -> Array:
        p = np.exp(_log_softmax(F))
        s = np.sqrt(p)
        return np.asarray(s[:, :, None] * (np.eye(F.shape[1]) - p[:, None, :]))

    def weights(self, F: Array) -> Array:
        """The mean of the eigenvalues of the information that are not zero."""
        p = np.exp(_log_softmax(F))
        return np.asarray((1 - np.sum(p**2, axis=1)) / (F.shape[1] - 1))[:, None]


SQUARES: Loss = _Squares()
LOGISTIC: Loss = _Logistic()
SOFTMAX: Loss = _Softmax()
