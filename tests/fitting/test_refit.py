"""Standard errors from all samples: those of the matrix, or bounds where it would be too large."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting import refit
from provenet.fitting.refit import covariance_of_all
from provenet.fitting.workspace import Wishes, Workspace, prepare

TRUTH = pn.random_network(6, 5, bias_scale=1.0, rng=0)
ONE = np.ones(())


def workspace_of(samples: int, deadline: float = np.inf) -> tuple[Workspace, pn.Network]:
    """Samples of the network with noise; its inputs are nearly standardised ones."""
    source = ArraySource(*pn.sample(TRUTH, samples, noise=0.1, rng=1))
    space = prepare(
        source,
        Wishes(),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=deadline,
    )
    return space, TRUTH


def test_so_many_parameters_have_bounds_of_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    space, network = workspace_of(3000)
    exact = covariance_of_all(space, network, ONE)
    monkeypatch.setattr(refit, "LARGEST_COVARIANCE", 10)
    bound = covariance_of_all(space, network, ONE)
    assert bound.bounds and not exact.bounds
    own, upper = exact.standard_errors(0.1), bound.standard_errors(0.1)
    for name in ("weights", "biases", "output_weights"):
        # Within 1.2 of a bound, as in test_covariance, and the bound is from 9 of 10 samples.
        assert np.all(getattr(own, name) < 1.2 * getattr(upper, name))
        assert np.all(getattr(upper, name) < 30 * getattr(own, name))


def test_where_time_is_over_fewer_parameters_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit, "DENSE_LIMIT", 10)
    assert not covariance_of_all(*workspace_of(3000), ONE).bounds
    assert covariance_of_all(*workspace_of(3000, deadline=0.0), ONE).bounds
