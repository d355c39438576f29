"""When one search is enough, and when two must agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import provenet as pn
from provenet.certify.agreement import (
    agree,
    is_settled,
    labels_of_no_network,
    searches_agree,
)
from provenet.certify.checks import Check
from provenet.certify.residual_checks import ENOUGH_TO_SEE_UNITS
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


def failed_at(result: Recovery, left: float, units: int = 3) -> Recovery:
    """A failed search that leaves so much, where linear regression leaves half of the spread."""
    assert result.certificate is not None
    certificate = replace(
        result.certificate,
        residual=left,
        relative_residual=left,
        linear_residual=0.5,
        noise=left,
        parameters=units,
    )
    return replace(result, status=pn.Status.FAILED, certificate=certificate)


def test_searches_that_beat_no_linear_model_end(exact: Recovery) -> None:
    """Six at three quarters of what it leaves, twelve at half; one that is better goes on."""
    poor = [failed_at(exact, 0.4 + 0.01 * i, units=i) for i in range(6)]
    fair = [failed_at(exact, 0.26 + 0.01 * i, units=i) for i in range(12)]
    assert not is_settled(poor[0], poor[:5]) and is_settled(poor[0], poor)
    assert not is_settled(fair[0], fair[:11]) and is_settled(fair[0], fair)
    better = failed_at(exact, 0.2)
    assert not is_settled(better, [*fair, better])


def lacking(result: Recovery, *names: str) -> Recovery:
    """A result in whose checks these, and no others, fail."""
    return replace(result, checks=tuple(Check(name, False, "", "", "") for name in names))


def test_searches_that_meet_where_samples_are_lacking_end(exact: Recovery) -> None:
    """Three within two percent, the best among them: noise. Bad luck ends here and there."""
    met = [lacking(failed_at(exact, 0.1 * left), ENOUGH_TO_SEE_UNITS) for left in (1, 1.01, 1.015)]
    assert is_settled(met[0], met) and not is_settled(met[0], met[:2])
    apart = [met[0], met[1], lacking(failed_at(exact, 0.11), ENOUGH_TO_SEE_UNITS)]
    wider = [met[0], met[1], lacking(failed_at(exact, 0.1, units=9), ENOUGH_TO_SEE_UNITS)]
    unseen = [met[0], met[1], lacking(failed_at(exact, 0.1), ENOUGH_TO_SEE_UNITS, "another")]
    assert not any(is_settled(met[0], found) for found in (apart, wider, unseen))
    better = lacking(failed_at(exact, 0.05), "another")
    assert not is_settled(better, [*met, better])


def test_labels_of_no_network_are_told_as_such(exact: Recovery) -> None:
    poor = [failed_at(exact, 0.4 + 0.01 * i, units=i) for i in range(6)]
    assert labels_of_no_network(poor[0], poor[:5]) is None
    check = labels_of_no_network(poor[0], poor)
    assert check is not None and not check.holds
    told = poor[0].refuted_by(check)
    assert told.status == "failed" and told.checks[0] is check
    assert "a linear model explains 75%" in told.message  # 1 - 0.5^2
    assert "the best of 6 searches, 3 units, 84%" in told.message  # 1 - 0.4^2
    assert "NetworkRegressor" in told.message


def test_diabetes_is_no_networks() -> None:
    """Real labels: no unit stands above their noise, and no figure is printed that is not there."""
    X, y = load_diabetes(return_X_y=True)
    result = pn.recover(X, y, rng=0)
    assert result.status == "failed" and "a linear model explains 51%" in result.message
    text = str(result)
    assert "nan" not in text and "error bound" not in text
