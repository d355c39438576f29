"""When one search is enough, and when two must agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from helpers import failed_at
from provenet.certify.agreement import (
    agree,
    is_settled,
    searches_agree,
)
from provenet.certify.result import Recovery


@pytest.fixture(scope="module", params=["tanh", "relu"])
def exact(request: pytest.FixtureRequest) -> Recovery:
    truth = pn.random_network(3, 5, activation=request.param, rng=0)
    X, y = pn.sample(truth, 300, rng=1)
    return pn.recover(X, y, activation=request.param, rng=0)


def known_to(result: Recovery, bound: float) -> Recovery:
    assert result.certificate is not None
    return replace(result, certificate=replace(result.certificate, parameter_error_bound=bound))


def test_exact_units_that_are_well_known_need_one_search(exact: Recovery) -> None:
    assert exact.status == "exact" and is_settled(exact, [exact])
    assert not list(searches_agree(exact, [exact]))


def test_smooth_units_that_rounding_hardly_pins_down_need_two(exact: Recovery) -> None:
    assert exact.network is not None
    loose = known_to(exact, 1e-8)
    if not exact.network.activation.smooth:
        assert is_settled(loose, [loose])  # kinks speak for themselves
        return
    assert not is_settled(loose, [loose])
    (check,) = searches_agree(loose, [loose])
    assert not check.holds and "exactly" in check.advice
    other = known_to(exact, 1e-8)
    assert is_settled(loose, [loose, other])
    (check,) = searches_agree(loose, [loose, other])
    assert check.holds


def test_kinks_that_leave_hardly_anything_need_one_search(exact: Recovery) -> None:
    """As single precision does; smooth units may be others, and in more noise units hide."""
    assert exact.network is not None
    for left, enough in ((1e-6, exact.network.activation.kinked), (1e-2, False)):
        noisy = replace(failed_at(exact, left), status=pn.Status.WITHIN_NOISE)
        assert noisy.certificate is not None
        many = noisy.certificate.samples_fitted
        few = replace(noisy, certificate=replace(noisy.certificate, parameters=many))
        assert is_settled(few, [few]) is enough


def test_exact_networks_agree_to_half_of_their_digits(exact: Recovery) -> None:
    assert exact.network is not None
    weights = exact.network.weights
    off = np.zeros_like(weights)
    off[0, 1] = 1.0
    near = replace(exact, network=exact.network.replace(weights=weights + 1e-9 * off))
    far = replace(exact, network=exact.network.replace(weights=weights + 1e-5 * off))
    assert agree(exact, near) and not agree(exact, far)


def test_a_partial_answer_that_leaves_nothing_is_looked_at_twice(exact: Recovery) -> None:
    """Units out of reach stay there; a unit too many does not come again."""
    partial = replace(exact, status=pn.Status.PARTIAL)
    assert not is_settled(partial, [partial]) and is_settled(partial, [partial, partial])
    assert is_settled(exact, [partial, exact])


def test_partial_answers_among_which_wide_ones_learn_noise_end_sooner(exact: Recovery) -> None:
    def partial(units: int, left: float) -> Recovery:
        found = replace(failed_at(exact, left, units), status=pn.Status.PARTIAL)
        return replace(found, network=None)  # none agrees with another

    best = partial(10, 0.1)
    wide, alike = partial(20, 0.11), partial(19, 0.11)
    assert is_settled(best, [best, wide, alike, alike])
    assert not is_settled(best, [best, wide, alike])
    assert not is_settled(best, [best, *[alike] * 4]) and is_settled(best, [best, *[alike] * 5])
