"""When is an answer beyond doubt? With noise: when independent searches end at the same network.

Without noise a residual of zero on unseen samples speaks for itself. With noise and few samples a
parameter, many different networks may explain the samples equally well, and none of them need be
the one that made them. Least squares has one best network when the samples do come from a network:
then searches from different starts meet there. Searches that end in different places say that
the samples come from something else, or are too few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from provenet.certify.result import Recovery, Status
from provenet.networks.matching import match_units

_MANY_SAMPLES_A_PARAMETER = 30
_MOST_SEARCHES = 6
_CLOSE = 2.0
"""Standard errors by which two searches that agree may differ."""


def is_beyond_doubt(best: Recovery, results: Sequence[Recovery]) -> bool:
    """Whether no further search is needed."""
    certificate = best.certificate
    if best.status is Status.FAILED or certificate is None:
        return False
    if certificate.noise == 0 or certificate.rounded:
        return True
    if best.success and (
        certificate.labels_fitted >= _MANY_SAMPLES_A_PARAMETER * certificate.parameters
    ):
        return True
    if any(agree(best, other) for other in results if other is not best):
        return True
    return best.status is Status.PARTIAL and len(results) >= _MOST_SEARCHES


def agree(first: Recovery, second: Recovery) -> bool:
    """Whether two recoveries found the same network, up to a fraction of the noise."""
    a, b, errors = first.network, second.network, first.standard_errors
    if a is None or b is None or errors is None or a.units != b.units:
        return False
    if (a.linear is None) != (b.linear is None) or second.status is Status.FAILED:
        return False
    if a.linear is not None:  # signs of units are a convention then, so only widths compare
        return True
    mine, theirs = match_units(a, b)
    pairs = (
        (a.weights[mine], b.weights[theirs], errors.weights[mine]),
        (a.biases[mine], b.biases[theirs], errors.biases[mine]),
        (
            a.output_weights[..., mine],
            b.output_weights[..., theirs],
            errors.output_weights[..., mine],
        ),
    )
    return all(bool(np.all(np.abs(x - y) <= _CLOSE * error)) for x, y, error in pairs)


def unconfirmed(best: Recovery, searches: int) -> Recovery:
    """The same answer, no longer called a success."""
    if searches > 1:
        message = (
            f"{searches} searches ended in different networks that all explain the samples up to "
            "noise; this is the simplest. The samples do not determine the network, or come from "
            "something else: take more samples."
        )
    else:
        message = (
            "The samples are explained up to noise, but time ran out before a second search could "
            "confirm the network: give more time with budget=, or take more samples."
        )
    return replace(best, status=Status.PARTIAL, message=message)
