"""How a classifier's outputs become probabilities, and what of the outputs that leaves open.

A network's values `net(X)` are its outputs u before the link:

    identity    u itself; such a network has no probabilities
    logit       p = 1 / (1 + exp(-u)), the probability of class 1; several outputs have one each
    softmax     p_k = exp(u_k) / sum_j exp(u_j), one output a class

The logit is the log-odds, which p determines. Softmax leaves a function open that is added to all
outputs alike. By convention the outputs sum to zero at every input: `A`, c and a linear term have
columns that sum to zero over the classes (`centred`). Then u is log p less its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array

if TYPE_CHECKING:
    from provenet.networks.any_network import AnyNetwork

LINKS = ("identity", "logit", "softmax")


class Probabilities:
    """The half of a network that makes a classifier of it."""

    def predict_proba(self: AnyNetwork, X: Any) -> Array:
        """Probabilities of the classes, (n, classes), for a network with a link.

        A logit of one output has two columns, of class 0 and of class 1; of several outputs, which
        are as many questions, it has one column each: that of yes.
        """
        if self.link == "identity":
            raise InvalidInput(
                "A network with the link 'identity' has no probabilities: give it one with "
                "network.replace(link='logit') or 'softmax'."
            )
        return probabilities(self(X), self.link)


def checked_link(link: Any, outputs: int | None) -> str:
    """The link, if a network with these outputs may have it."""
    if link not in LINKS:
        raise InvalidInput(f"The network's link must be one of {', '.join(LINKS)}, not {link!r}.")
    if link == "softmax" and (outputs or 1) < 2:
        raise InvalidInput(
            "The network's link 'softmax' needs one output a class, at least two: use 'logit' for "
            "two classes and one output."
        )
    return str(link)


def probabilities(u: Array, link: str) -> Array:
    """What outputs (n,) or (n, outputs) mean under a link that is not the identity."""
    if link == "softmax":
        return np.asarray(softmax(u, axis=1))
    if u.ndim == 2 and u.shape[1] > 1:
        return np.asarray(expit(u))
    z = u.reshape(-1, 1)
    return np.hstack([expit(-z), expit(z)])


def centred(array: Array | float, link: str) -> Array | float:
    """Of softmax, an array whose first axis is the outputs, less its mean over them."""
    if link != "softmax":
        return array
    full = np.asarray(array, dtype=float)
    return np.asarray(full - full.mean(axis=0)) if full.ndim else 0.0


def free_outputs(outputs: int | None, link: str) -> int:
    """How many numbers a unit has in the outputs that the function determines."""
    return (outputs or 1) - (link == "softmax")


def centred_map(weights: Sequence[Array], link: str) -> tuple[Array, ...]:
    """The last of these arrays centred, for layers from the inputs on."""
    *below, last = weights
    return (*below, np.asarray(centred(last, link)))
