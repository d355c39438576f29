"""Which conditions a network meets, and how strongly (ATV21, sections 3 to 5)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import integrate, stats

import provenet as pn
from helpers import is_a_sentence
from provenet.cli.identify import show_identifiability
from provenet.common.typing import Array
from provenet.datasets import sign_ambiguous_network
from provenet.methods.applicability import judge_methods, normalised_rows
from provenet.methods.identifiability import (
    Identifiability,
    identifiability,
    independent_powers,
    samples_until_seen,
)
from provenet.methods.tolerances import MARGIN
from provenet.networks.hermite import he


def unit_rows(seed: int, units: int, features: int) -> Array:
    return pn.random_network(units, features, rng=seed).weights


def applicable(network: pn.Network) -> set[str]:
    return {verdict.name for verdict in judge_methods(network) if verdict.applies}


def test_independent_weights() -> None:
    network = pn.random_network(5, 10, rng=0)
    scaled = network.replace(weights=network.weights * np.arange(1, 6)[:, None])
    report = identifiability(scaled)  # the norm of a unit is a convention
    singular = np.linalg.svd(network.weights, compute_uv=False)
    assert report.smallest_singular_value == pytest.approx(singular[-1], rel=1e-12)
    assert report.condition == pytest.approx(singular[0] / singular[-1], rel=1e-12)
    assert report.order == 1 and report.power_singular_values == (report.smallest_singular_value,)
    assert report.identifiable is True and report.resolved == (0, 1, 2, 3, 4)
    assert not report.parallel and not report.flips.sets


@pytest.mark.parametrize(
    ("units", "features", "order"), [(5, 5, 1), (8, 6, 2), (6, 3, 2), (7, 3, 3), (4, 2, 3)]
)
def test_smallest_order_and_its_singular_value(units: int, features: int, order: int) -> None:
    """General units need the smallest l with room for them: `binomial(d + l - 1, l)`."""
    U = unit_rows(0, units, features)
    found, values = independent_powers(U)
    assert found == order == len(values)
    powers = U
    for k, value in enumerate(values, start=1):
        if k > 1:
            powers = np.einsum("ui,uj->uij", powers, U).reshape(units, -1)
        dense = np.linalg.svd(powers, compute_uv=False)
        least = dense[units - 1] if len(dense) >= units else 0.0
        # From eigenvalues of the Gram matrix: half of the digits.
        assert value == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize(
    ("units", "features", "order"), [(5, 5, 2), (4, 5, 1), (20, 6, 2), (21, 6, 3), (9, 4, 2)]
)
def test_the_order_that_serves_once_weights_are_perturbed(
    units: int, features: int, order: int
) -> None:
    """Corollary 3.3 takes 0.99 of the room; units of one direction have no order as they are."""
    network = pn.random_network(units, features, rng=0)
    W = np.tile(network.weights[0], (units, 1))
    report = identifiability(network.replace(weights=W, biases=np.linspace(-1, 1, units)))
    assert report.order is None and report.perturbed_order == order
    assert f"tau^{order}" in str(report)
    noise = np.random.default_rng(0).standard_normal(W.shape) / np.sqrt(features)
    found, values = independent_powers(normalised_rows(W + 0.5 * noise))
    assert found is not None and found <= order and values[-1] > 1e-4


def test_a_single_feature_has_no_order_to_perturb_to() -> None:
    report = identifiability(pn.Network([[1.0], [1.0]], [0.0, 1.0]))
    assert report.perturbed_order is None and "parallel" in str(report)


def test_parallel_units() -> None:
    W = unit_rows(1, 5, 6).copy()
    W[3] = -2 * W[0]
    W[4] = W[1] + 0.01 * W[2]
    report = identifiability(pn.Network(W, [0.5, 0.0, 0.3, 1.0, 0.2]))
    exact, near = report.parallel
    assert (exact.first, exact.second) == (0, 3) and exact.cosine == pytest.approx(-1, abs=1e-14)
    assert exact.kink_distance == pytest.approx(1.0) and not exact.same_kink
    assert (near.first, near.second) == (1, 4) and 0.99 < near.cosine < 1
    assert report.order is None and report.smallest_singular_value < 1e-12
    assert "overcomplete" not in applicable(pn.Network(W)) and "expand-prune" in applicable(
        pn.Network(W)
    )


def test_the_same_kink_twice() -> None:
    W = unit_rows(1, 3, 6).copy()
    W[2] = W[0]
    b = np.array([0.5, 0.0, 0.5])
    assert identifiability(pn.Network(W, b)).identifiable is False
    W[2], b[2] = -W[0], -0.5
    report = identifiability(pn.Network(W, b, [1.0, 1.0, 2.0]))
    assert report.parallel[0].same_kink and report.identifiable is None


def test_signs_that_no_samples_tell() -> None:
    first, second = sign_ambiguous_network(6, 4, rng=0)
    reports = [identifiability(network) for network in (first, second)]
    assert reports[0].flips == reports[1].flips and len(reports[0].flips.sets[0]) == 5
    assert reports[0].identifiable is False
    assert "flipped together" in str(reports[0])


def test_a_linear_term_leaves_signs_open() -> None:
    network = pn.random_network(3, 5, rng=0).replace(linear=np.ones(5))
    assert identifiability(network).identifiable is False
    assert identifiability(network.replace(activation="abs")).identifiable is True


def test_units_without_effect() -> None:
    network = pn.random_network(4, 5, rng=0)
    W, a = network.weights.copy(), network.output_weights.copy()
    W[1], a[2] = 0.0, 0.0
    report = identifiability(network.replace(weights=W, output_weights=a), 10**6)
    assert report.inert == (1, 2) and report.identifiable is False
    assert report.resolved == (0, 3) and math.isinf(report.samples_needed[1])
    with pytest.raises(pn.InvalidInput) as error:
        identifiability(network.replace(output_weights=np.zeros(4)))
    is_a_sentence(error, "nothing to identify")


def test_the_rule_of_the_group_by_hand() -> None:
    """One unit, b = 2: `c_2 = phi(2)`, `c_3 = -2 phi(2)`, `c_4 = 3 phi(2)`; s_k by quadrature."""
    a, d = 1.5, 7
    network = pn.Network(np.eye(d)[:1], [2.0], [a])
    phi = math.exp(-2) / math.sqrt(2 * math.pi)

    def mean(function: Callable[[float], float]) -> float:
        density = stats.norm.pdf
        return float(integrate.quad(lambda x: function(x) * density(x), -2, 12, epsabs=1e-13)[0])

    def left(k: int) -> float:
        """What the orders below k do not explain; the unit is zero below -2."""
        explained = sum(
            mean(lambda x, j=j: a * (x + 2) * float(he(j, x))) ** 2 / math.factorial(j)
            for j in range(k)
        )
        return mean(lambda x: (a * (x + 2)) ** 2) - explained

    second = left(2) * (d + 1) / (a * phi) ** 2
    third = left(3) * 2 * (d + 2) / (2 * a * phi) ** 2
    fourth = left(4) * 6 * (d + 3) / (3 * a * phi) ** 2
    expected = MARGIN**2 * max(second, min(third, fourth))
    assert samples_until_seen(network)[0] == pytest.approx(expected, rel=1e-8)


def test_large_biases_need_more_samples_and_output_weights_fewer() -> None:
    W = np.eye(6)
    needed = samples_until_seen(pn.Network(W, [0.5, 1.5, 2.0, 2.5, 3.0, 4.0]))
    assert np.all(np.diff(needed) > 0) and needed[-1] > 1e6
    heavier = samples_until_seen(pn.Network(W, [0.5, 1.5, 2.0, 2.5, 3.0, 4.0], [1, 1, 1, 1, 1, 9]))
    assert heavier[-1] < needed[-1] / 10


@pytest.mark.parametrize(("bias", "found"), [(1.0, True), (3.0, False)])
def test_moments_find_the_units_of_the_group_alone(bias: float, found: bool) -> None:
    """At least three times the samples the rule asks for, and a tenth of them at most."""
    network = pn.random_network(5, 10, rng=0)
    biases = network.biases.copy()
    biases[0] = bias
    network = network.replace(biases=biases)
    samples = 20_000
    needed = samples_until_seen(network)[0]
    assert needed < samples / 3 if found else needed > 10 * samples
    assert (0 in identifiability(network, samples).resolved) is found
    result = pn.recover(
        *pn.sample(network, samples, rng=1), method="biased-relu", refine=False, rng=0
    )
    assert result.network is not None
    cosine = float(np.abs(result.network.weights @ network.weights[0]).max())
    assert cosine > 0.98 if found else cosine < 0.9


def test_several_outputs() -> None:
    network = pn.random_network(4, 6, outputs=5, rng=0)
    report = identifiability(network, 1000)
    assert report.outputs == 5 and report.identifiable is True
    assert {"lifting", "rectified", "expand-prune"} <= applicable(network)
    assert not {"biased-relu", "landscape"} & applicable(network)
    # A copy of every output shows a unit no better: labels that are the same add nothing.
    one = pn.random_network(4, 6, rng=0)
    twice = one.replace(output_weights=np.vstack([one.output_weights] * 2), output_bias=[0, 0])
    single = twice.replace(
        output_weights=np.vstack([one.output_weights, np.zeros(4)]), output_bias=[0, 0]
    )
    np.testing.assert_allclose(samples_until_seen(twice), samples_until_seen(single), rtol=1e-9)


def test_which_methods_apply() -> None:
    plain = pn.random_network(3, 3, rng=0)
    assert {"auto", "expand-prune", "biased-relu"} <= applicable(plain)
    zero = plain.replace(biases=np.zeros(3), output_weights=np.ones(3))
    assert "landscape" in applicable(zero) and "landscape" not in applicable(plain)
    dependent, _ = sign_ambiguous_network(3, 5, rng=0)
    assert "overcomplete" in applicable(dependent) and "biased-relu" not in applicable(dependent)
    wide = pn.random_network(5, 3, rng=0)
    assert "expand-prune" in applicable(wide) and "biased-relu" not in applicable(wide)
    vector = pn.random_network(3, 4, outputs=3, bias_scale=0.0, rng=0)
    assert {"symmetric-inputs", "rank-deficient", "arbitrary-inputs"} <= applicable(vector)
    biased = vector.replace(biases=np.ones(3))
    assert {"rank-deficient", "arbitrary-inputs"} <= applicable(biased)
    assert "symmetric-inputs" not in applicable(biased) and "ica" not in applicable(vector)
    assert "ica" in applicable(vector.replace(weights=np.eye(4)[:3]))
    binary = pn.Network([[1, 1, 0, 0], [0, 0, 1, 1]], activation="exp")
    assert {"exponential", "binary-cliques"} <= applicable(binary)
    high = pn.Network(np.eye(3), [-3.0, -2.5, -3.0])
    assert "lowest-layer" in applicable(high)


def promised(network: pn.Network, samples: int) -> set[str]:
    """The methods that are named for so many samples."""
    return {
        verdict.name for verdict in identifiability(network, samples).methods if verdict.applies
    }


def test_methods_are_named_that_then_succeed() -> None:
    """Every one that is named for a number of samples recovers the network from so many.

    With `several` outputs, and from enough samples for moments, other methods join the search.
    """
    one, several = pn.random_network(3, 6, rng=0), pn.random_network(3, 6, outputs=4, rng=0)
    moments = {"biased-relu", "rectified", "regression"}
    expected = {
        (one, 50): set(),
        (one, 150): {"auto", "expand-prune", "overcomplete"},
        (one, 3000): {"auto", "expand-prune", "overcomplete", *moments},
        (several, 70): {"auto", "expand-prune", "lifting"},
        (several, 2000): {
            *("auto", "expand-prune", "lifting"),
            *("rectified", "rank-deficient", "arbitrary-noise"),
        },
    }
    for (network, samples), names in expected.items():
        assert promised(network, samples) == names, samples
        X, y = pn.sample(network, samples, rng=1)
        for name in names:
            assert pn.recover(X, y, method=name, rng=2).success, (name, samples)


def test_what_a_network_is_not_is_no_reason_to_name_a_method() -> None:
    network = pn.random_network(3, 6, rng=0)
    assert not {"deep", "likelihood"} & applicable(network)
    assert "likelihood" in applicable(network.replace(link="logit"))
    reasons = {v.name: v.reason for v in identifiability(network, 150).methods}
    assert (
        reasons["biased-relu"].endswith("and there are 150") and "about" in reasons["biased-relu"]
    )
    few = pn.random_network(3, 4, outputs=4, rng=0)
    assert "arbitrary-inputs" in promised(few, 60) and "arbitrary-inputs" not in promised(few, 61)


def test_every_method_has_a_verdict() -> None:
    for network in (pn.random_network(3, 4, rng=0), pn.random_network(3, 4, outputs=2, rng=0)):
        verdicts = judge_methods(network)
        assert [verdict.name for verdict in verdicts] == list(pn.METHODS)
        assert all(verdict.applies == (verdict.reason == "") for verdict in verdicts)


@given(st.permutations(range(5)))
def test_the_order_of_units_does_not_matter(order: list[int]) -> None:
    network = pn.random_network(5, 3, rng=0)
    one, other = identifiability(network), identifiability(network.keep(np.array(order)))
    assert one.order == other.order
    np.testing.assert_allclose(np.array(one.samples_needed)[order], other.samples_needed, rtol=1e-9)


def test_report_is_readable() -> None:
    text = str(identifiability(pn.random_network(5, 10, rng=0), 10_000))
    for word in (
        "10 features",
        "5 relu units",
        "s_min(W)",
        "l = 1",
        "10,000 samples",
        "biased-relu",
    ):
        assert word in text
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("outputs", [None, 2])
def test_command_line(outputs: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    network = pn.random_network(3, 4, outputs=outputs, rng=0)
    show_identifiability(Console(width=60), network, 5000, json=False)
    text = capsys.readouterr().out
    assert "determines all" in text and "signs" in text
    show_identifiability(Console(), network, 5000, json=True)
    values = json.loads(capsys.readouterr().out)
    assert values["identifiable"] is True and values["samples"] == 5000
    assert values["flips"] == {"sets": [], "complete": True}
    assert {method["name"] for method in values["methods"]} == set(pn.METHODS)


def test_sigmoid_units_are_not_judged() -> None:
    report: Identifiability = identifiability(pn.random_network(3, 4, activation="sigmoid", rng=0))
    assert report.identifiable is None and "not judged" in str(report)


def test_bad_sample_count() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        identifiability(pn.random_network(2, 2, rng=0), 0)
    is_a_sentence(error, "at least 1")
