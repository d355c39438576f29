"""Whether inputs look Gaussian: statistics beside SciPy's, in blocks of samples and of inputs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import provenet as pn
from provenet.moments import gaussianity
from provenet.moments.gaussianity import check_gaussian

SAMPLES = 20_000


@pytest.mark.parametrize("numbers", [2**22, 3 * SAMPLES, 1])
def test_statistics_are_those_of_scipy(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many inputs are looked at together; samples are more than one block."""
    monkeypatch.setattr(gaussianity, "_NUMBERS_AT_ONCE", numbers)
    X = np.random.default_rng(0).standard_normal((SAMPLES, 5))
    X[:, 3] = np.expm1(X[:, 3])
    found = check_gaussian(X, pn.ArraySource(X, X[:, 0]).standardisation())
    assert not found.ok
    assert found.skewness == pytest.approx(np.abs(stats.skew(X)).max())
    assert found.excess_kurtosis == pytest.approx(np.abs(stats.kurtosis(X)).max())
    centred = X - X.mean(axis=0)
    squares = np.sum(centred * np.linalg.solve(np.cov(X.T), centred.T).T, axis=1)
    radial = np.mean(squares**2) / np.mean(squares) ** 2 * 5 / 7 - 1
    assert found.radial_kurtosis == pytest.approx(radial)


def test_normal_inputs_look_normal() -> None:
    X = 2.0 + np.random.default_rng(1).standard_normal((SAMPLES, 5)) * np.arange(1, 6)
    assert check_gaussian(X, pn.ArraySource(X, X[:, 0]).standardisation()).ok
