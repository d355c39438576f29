"""When are further searches hopeless? What a few failed ones have in common tells.

- *In one place.* Searches from different starts keep ending at the same network, which explains
  nothing: so would others.
- *In vain.* A network's labels are explained the better the nearer the width comes to its own, so
  that the best of a few failed searches is among the wider ones. Of other labels, and of noise,
  wide networks learn the noise: the best is a narrow one, and it leaves most of what linear
  regression leaves.
- *For want of samples.* How many samples tell noise from further units does not depend on the
  network, so no search can mend that, unless there is no noise. That there is shows as above, or in
  searches that come next to each other: bad luck ends here and there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provenet.certify.certificate import Certificate
from provenet.certify.checks import Check, Claim
from provenet.certify.residual_checks import ENOUGH_TO_SEE_UNITS
from provenet.certify.result import Recovery
from provenet.certify.tolerances import (
    IN_VAIN,
    LONG_IN_VAIN,
    NARROW,
    NEAR_END,
    NEAR_ENDS,
    NO_UNITS,
    SAME_ENDS,
    SAME_RESIDUAL,
)
from provenet.common.words import counted


def is_hopeless(results: Sequence[Recovery]) -> bool:
    """Whether failed searches say that further ones would fail, too."""
    return _in_one_place(results) or _in_vain(results) or _for_want_of_samples(results)


def _in_one_place(results: Sequence[Recovery]) -> bool:
    """Whether searches from different starts keep ending in one place, which explains nothing."""
    units = 0 if results[-1].network is None else results[-1].network.units
    last = results[-(SAME_ENDS if units else NO_UNITS) :]
    found = [result.certificate for result in last if result.certificate is not None]
    if len(found) < (SAME_ENDS if units else NO_UNITS):
        return False
    sizes = [certificate.residual for certificate in found]
    alike = len({certificate.parameters for certificate in found}) == 1
    return alike and max(sizes) <= (1 + SAME_RESIDUAL) * min(sizes)


def _in_vain(results: Sequence[Recovery]) -> bool:
    """Whether many searches explained little of unseen samples, and wider networks no more."""
    found = certificates_of(results)
    if not found:
        return False
    number, share = IN_VAIN if _best_is_narrow(found) else LONG_IN_VAIN
    left = _best(found).relative_residual
    return len(found) >= number and left >= share * found[0].linear_residual


def certificates_of(results: Sequence[Recovery]) -> list[Certificate]:
    """Those that there are."""
    return [result.certificate for result in results if result.certificate is not None]


def _best(found: Sequence[Certificate]) -> Certificate:
    return min(found, key=lambda certificate: certificate.residual)


def _best_is_narrow(found: Sequence[Certificate]) -> bool:
    return is_narrow(_best(found), found)


def is_narrow(best: Certificate, found: Sequence[Certificate]) -> bool:
    """Whether some network has at least twice the parameters of the best, and is no better."""
    return best.parameters <= NARROW * max(certificate.parameters for certificate in found)


def _for_want_of_samples(results: Sequence[Recovery]) -> bool:
    """Whether there is noise, and the best network lacks nothing but samples to tell it."""
    found, short = certificates_of(results), certificates_of([r for r in results if _is_short(r)])
    if not short or _best(found) is not _best(short):
        return False
    best = _best(short)
    limit = (1 + NEAR_END) * best.residual
    near = [c for c in short if c.parameters == best.parameters and c.residual <= limit]
    many = len(found) >= IN_VAIN[0]
    return len(near) >= NEAR_ENDS or (many and _best_is_narrow(found))


def _is_short(result: Recovery) -> bool:
    """Whether more samples are the only thing that is lacking."""
    return [check.name for check in result.checks if not check.holds] == [ENOUGH_TO_SEE_UNITS]


def labels_of_no_network(best: Recovery, results: Sequence[Recovery]) -> Check | None:
    """That no network is behind the labels, where failed searches say so; None where they do not.

    A few searches that found no unit may have had too little time. What a residual leaves of the
    variance is its square.
    """
    certificate = best.certificate
    if best.claim is not Claim.NETWORK or certificate is None:
        return None
    no_units = best.network is not None and best.network.units == 0
    none_shows = no_units and certificate.noise > 0 and len(certificates_of(results)) >= NO_UNITS
    if np.isnan(certificate.linear_residual) or not (none_shows or _in_vain(results)):
        return None
    linear = f"a linear model explains {_explained(certificate.linear_residual)} of their variance"
    if none_shows:
        measured = "no unit stands above the noise"
    else:
        measured = f"unseen labels {_explained(certificate.relative_residual)} explained at best"
    return Check(
        "a network is behind the labels",
        False,
        measured,
        "units that explain the labels to their last digits, or up to noise",
        f"No network explains these labels to their last digits: {linear}, and "
        f"{_beyond_linear(best, results)}. provenet.NetworkRegressor fits a predictor to labels "
        "that no network made; if one did make them, take more samples, or check that the labels "
        "belong to these inputs.",
    )


def _beyond_linear(best: Recovery, results: Sequence[Recovery]) -> str:
    """What units add to a linear model, in words."""
    assert best.certificate is not None and best.network is not None
    if best.network.units == 0:
        return "no unit adds anything that stands above their noise"
    units, share = best.network.units, _explained(best.certificate.relative_residual)
    ended = f"the best of {len(results)} searches, {counted(units, 'unit')}"
    return f"{ended}, {share} of the variance of labels that were not fitted"


def _explained(residual: float) -> str:
    """The share of a variance that is explained, in words."""
    share = 1 - residual**2
    return f"{share:.0%}" if share > 0 else "nothing"
