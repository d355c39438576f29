"""Answers from repaired labels are held against those that were given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.certify.own_labels import OwnLabels
from provenet.common.typing import Array
from provenet.fitting.covariance import StandardErrors

X = np.random.default_rng(0).standard_normal((1000, 3))
TRUTH = pn.Network(np.eye(3)[:2], [0.3, -0.4], [1.0, -1.5], 0.7)


def against(network: pn.Network, noise: Array) -> OwnLabels:
    """The truth's labels with noise, beside what a network says of them."""
    left = (TRUTH(X) + noise - network(X))[:, None]
    return OwnLabels(X, X, left, np.ones(1), 0.1, np.abs(left) > 0.5)


def recovered(noise: Array, units: int | None = None) -> pn.Recovery:
    return pn.recover(X, TRUTH(X) + noise, method="arbitrary-noise", units=units, rng=0)


def test_the_output_bias_of_skewed_noise_may_be_off_by_centre_less_mean() -> None:
    """Lognormal noise of mean 0: its centre is some 0.09 away, six errors of a symmetric fit."""
    result = recovered(0.2 * (np.random.default_rng(1).lognormal(0, 1, 1000) - np.exp(0.5)))
    assert result.status is pn.Status.WITHIN_NOISE
    network, errors = result.network, result.standard_errors
    assert isinstance(errors, StandardErrors)
    off = abs(float(network.output_bias) - 0.7)
    assert 0.05 < off < 2 * float(errors.output_bias) < 0.3
    order = np.argsort(-np.abs(TRUTH.output_weights))
    assert np.all(np.abs(network.weights - TRUTH.weights[order]) < 4 * errors.weights + 1e-12)
    assert any("centre" in sentence for sentence in result.ambiguities)


def test_widened_errors_are_those_of_the_fit_where_centre_and_mean_are_one() -> None:
    noise = np.random.default_rng(2).standard_normal(1000)
    errors = replace(StandardErrors.none(TRUTH), output_bias=0.5)
    assert against(TRUTH, noise - noise.mean()).widened(errors).output_bias == pytest.approx(0.5)
    moved = against(TRUTH, noise - noise.mean() + 1.2).widened(errors)
    assert moved.output_bias == pytest.approx(1.3)  # hypot(0.5, 1.2)


@pytest.mark.parametrize("kind", ["size", "side"])
def test_noise_that_depends_on_the_inputs_leaves_a_partial_answer(kind: str) -> None:
    """Its size follows an input; or a third of the labels are those of other inputs."""
    rng = np.random.default_rng(3)
    if kind == "size":
        noise = 0.1 * np.exp(X[:, 0]) * rng.standard_normal(1000)
    else:
        swapped = np.where(rng.random(1000) < 0.33, rng.permutation(TRUTH(X)) - TRUTH(X), 0.0)
        noise = swapped + 0.05 * rng.standard_normal(1000)
    result = recovered(noise, units=2)  # the width is not in question
    assert not result.success
    failed = [check.name for check in result.checks if not check.holds]
    assert "what is left does not depend on the inputs" in failed


def test_a_unit_that_catches_a_few_labels_far_off_is_not_needed() -> None:
    """Twelve labels of a far corner are off by 5: a unit there explains most of their distance."""
    corner = X @ np.ones(3) / np.sqrt(3)
    reach = np.sort(corner)[-12]
    noise = 0.1 * np.random.default_rng(4).standard_normal(1000) + 5.0 * (corner >= reach)
    figment = pn.Network(
        np.vstack([TRUTH.weights, np.ones(3) / np.sqrt(3)]),
        np.append(TRUTH.biases, 0.2 - reach),
        np.append(TRUTH.output_weights, 9.0),
        TRUTH.output_bias,
    )
    own, price = against(figment, noise), 4 * np.log(1000)
    assert own._gain_of_unit(figment, 2) < price
    assert own._gain_of_unit(figment, 0) > 10 * price
    alone = TRUTH.keep(np.array([0]))
    assert against(alone, noise)._gain_of_unit(alone, 0) > price


def test_few_labels_that_differ_are_no_network() -> None:
    labels = np.zeros(200)
    labels[17] = 0.9
    for y in (labels, labels + 3.7, np.column_stack([labels, -labels])):
        assert not pn.recover(X[:200], y, method="arbitrary-noise", rng=0).success
