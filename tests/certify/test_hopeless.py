"""When failed searches say that others would fail, too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sklearn.datasets import load_diabetes

import provenet as pn
from helpers import failed_at
from provenet.certify.checks import Check
from provenet.certify.hopeless import is_hopeless, labels_of_no_network
from provenet.certify.residual_checks import ENOUGH_TO_SEE_UNITS
from provenet.certify.result import Recovery


@pytest.fixture(scope="module")
def exact() -> Recovery:
    X, y = pn.sample(pn.random_network(3, 5, rng=0), 300, rng=1)
    return pn.recover(X, y, rng=0)


def test_searches_in_vain_end(exact: Recovery) -> None:
    """Six where the best network is a narrow one, 24 where it is wide; a better one goes on.

    Linear regression leaves 0.5.
    """
    narrow = [failed_at(exact, 0.21 + 0.01 * i, units=i + 1) for i in range(6)]
    wide = [failed_at(exact, 0.26 + 0.01 * i, units=30 - i) for i in range(24)]
    assert not is_hopeless(narrow[:5]) and is_hopeless(narrow)
    assert not is_hopeless(wide[:23]) and is_hopeless(wide)
    better = failed_at(exact, 0.19, units=1)
    assert not is_hopeless([*narrow, *wide[:10], better])
    better = failed_at(exact, 0.24, units=30)
    assert not is_hopeless([*wide, better])


def lacking(result: Recovery, *names: str) -> Recovery:
    """A result in whose checks these, and no others, fail."""
    return replace(result, checks=tuple(Check(name, False, "", "", "") for name in names))


def test_searches_that_meet_where_samples_are_lacking_end(exact: Recovery) -> None:
    """Three within two percent, the best among them: noise. Bad luck ends here and there."""
    met = [lacking(failed_at(exact, 0.1 * left), ENOUGH_TO_SEE_UNITS) for left in (1, 1.01, 1.015)]
    assert is_hopeless(met) and not is_hopeless(met[:2])
    apart = [met[0], met[1], lacking(failed_at(exact, 0.11), ENOUGH_TO_SEE_UNITS)]
    wider = [met[0], met[1], lacking(failed_at(exact, 0.1, units=9), ENOUGH_TO_SEE_UNITS)]
    unseen = [met[0], met[1], lacking(failed_at(exact, 0.1), ENOUGH_TO_SEE_UNITS, "another")]
    assert not any(is_hopeless(found) for found in (apart, wider, unseen))
    better = lacking(failed_at(exact, 0.05), "another")
    assert not is_hopeless([*met, better])
    learned = [lacking(failed_at(exact, 0.12 + 0.01 * i, units=9), "another") for i in range(5)]
    assert is_hopeless([met[0], *learned]) and not is_hopeless([met[0], *learned[:4]])


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
