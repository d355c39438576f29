"""Is the link that was found the only one by which the labels may have come?

Labels between 0 and 1 may be probabilities, a network's outputs through a logit, or the outputs
themselves. An answer that leaves nothing but rounding, of labels of at least three digits, settles
it: one function is not both. Where more is left, the other link is tried on the same labels, and
both answers are compared as predictors of these by Schwarz's criterion `n log(rss) + p log(n)`: a
difference is twice the logarithm of their odds. That the other answer is no success tells nothing
by itself: its search may have had too little time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.result import Recovery
from provenet.certify.tolerances import SMALL_RESIDUAL, TOLD_APART
from provenet.common.typing import TINY, Array
from provenet.networks.network import Network, probabilities

LOG_ODDS = {
    "logit": "Labels are taken for probabilities: the network's outputs are their log-odds.",
    "softmax": "Labels are taken for probabilities of classes: the network's outputs are their "
    "logarithms, less the mean over the classes.",
}


@dataclass(frozen=True)
class ByLink:
    """A link, and what came out with it."""

    link: str
    result: Recovery

    @property
    def settles(self) -> bool:
        """Whether no other link needs to be tried: no label is off, to the last of many digits."""
        certificate = self.result.certificate
        if certificate is None or not self.result.success:
            return False
        fine = certificate.rounded and certificate.relative_residual <= SMALL_RESIDUAL
        return self.result.status is Status.EXACT or fine


def with_link(result: Recovery, link: str) -> Recovery:
    """The recovery of a network with this link from its outputs before it."""
    if link == "identity" or result.network is None:
        return result
    network = result.network.replace(link=link)
    return replace(result, network=network, message=f"{result.message} {LOG_ODDS[link]}")


def best_by_link(found: list[ByLink], X: Array, y: Array) -> Recovery:
    """The best answer, and whether another link explains the labels as well."""
    criteria = {each.link: _criterion(each.result.network, X, y) for each in found}
    best = max(found, key=lambda each: _worth(each, criteria[each.link]))
    if len(found) == 1:
        return best.result
    other = next(each for each in found if each.link != best.link)
    behind = criteria[other.link] - criteria[best.link]
    told = behind > TOLD_APART
    answer = best.result.with_checks(_check(best, other, behind, told))
    if told or not best.result.success:
        return answer
    both = f"The labels may have come by the link {best.link} or {other.link}: these do not tell."
    return replace(answer, ambiguities=(*answer.ambiguities, both))


def _worth(each: ByLink, criterion: float) -> tuple[bool, float, bool]:
    """What makes one answer better than another; where nothing was found, labels are labels."""
    return each.result.success, -criterion, each.link == "identity"


def _criterion(network: Network | None, X: Array, y: Array) -> float:
    """Schwarz's, of what a network leaves of the labels as they were given."""
    if network is None:
        return np.inf
    rss = float(np.sum((_predicted(network, X, y) - y) ** 2))
    return float(y.size * np.log(rss + TINY) + network.free_parameters * np.log(y.size))


def _predicted(network: Network, X: Array, y: Array) -> Array:
    u = network(X)
    if network.link == "identity":
        return u
    p = probabilities(u, network.link)
    return p if p.shape == y.shape else p[:, 1]


def _check(best: ByLink, other: ByLink, behind: float, told: bool) -> Check:
    return Check(
        "the link is told",
        told,
        f"{best.link}; with {other.link} {other.result.status}, Schwarz's criterion "
        f"{behind:.3g} higher",
        f"more than {TOLD_APART:g} higher",
        f"The labels are explained with the link {best.link}, but with {other.link} as well: take "
        "more samples, labels of more digits or inputs further out, or name the link with link=.",
        Status.PARTIAL,
    )
