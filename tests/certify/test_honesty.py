"""Problems built to fool the certificate: it must never call a wrong answer a success."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.certify.candidate import Candidate
from provenet.certify.conclude import conclude
from provenet.fitting.context import Options, prepare


def network_of(truth, seed=0, n=800, budget=3.0, **options):
    X, y = pn.sample(truth, n, rng=seed)
    return pn.recover(X, y, rng=seed, budget=budget, **options)


A_LOOK = 0.002
"""Seconds that pass with every look at the clock: a budget of 1 is 500 looks on any machine."""


@pytest.mark.parametrize(("n", "seeds", "least", "budget"), [(80, 3, 0, 1.0), (160, 6, 3, 3.0)])
def test_too_few_samples(n, seeds, least, budget, clock):
    """61 parameters: at 80 samples nothing can be certain, at 160 many draws are.

    Who never claims anything is honest too: of the first 20 seeds 14 are found at 160 samples.
    """
    clock.tick, right = A_LOOK, 0
    for seed in range(seeds):
        truth = pn.random_network(5, 10, bias_scale=1.5, rng=seed).canonical()
        result = network_of(truth, seed=seed + 50, n=n, budget=budget)
        if result.success:
            assert pn.parameter_error(result.network, truth) < 1e-8, seed
            right += 1
    assert right >= least


@pytest.mark.parametrize("angle", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_nearly_parallel_units(angle, sign, clock):
    clock.tick = A_LOOK
    base = pn.random_network(3, 6, rng=1)
    weights = base.weights.copy()
    weights[1] = weights[0] + angle * np.random.default_rng(0).standard_normal(6)
    biases = np.full(3, 0.2)
    truth = pn.Network(weights, biases, [1.0, sign * 0.8, 0.6]).canonical()
    X, y = pn.sample(truth, 600, rng=2)
    result = pn.recover(X, y, rng=0, budget=3.0)
    if result.success and result.network.units == 3:
        assert pn.parameter_error(result.network, truth) < 1e-6
    elif result.success:
        # Fewer units can be right only if no sample, seen or unseen, tells the two apart.
        fresh, labels = pn.sample(truth, 600, rng=3)
        between = np.mean(np.abs(result.network(fresh) - labels) > 1e-9)
        assert between < 0.01
    if angle == 0.1:  # hundreds of samples tell these apart
        assert result.status == "exact" and result.network.units == 3


def test_a_unit_that_never_fires_is_not_invented():
    base = pn.random_network(3, 6, rng=2)
    biases = np.array([0.1, -0.4, -9.0])
    result = network_of(base.replace(biases=biases), units=3)
    assert result.status == "partial"
    assert result.network.units == 2


def test_a_unit_that_fires_on_a_handful_of_samples_is_not_called_exact():
    base = pn.random_network(3, 6, rng=2)
    truth = base.replace(biases=np.array([0.1, -0.4, -2.75]))
    X, y = pn.sample(truth, 800, rng=0)
    fires = np.sum(X @ base.weights[2] > 2.75)
    assert 0 < fires < 7  # fewer than the unit's own parameters
    result = pn.recover(X, y, rng=0, budget=3.0)
    assert result.status in ("partial", "failed")


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.tanh(2 * z),
        lambda z: np.square(z),
        lambda z: np.maximum(z, 0) ** 2,
        lambda z: 1 / (1 + np.exp(-3 * z)),
        np.sin,
    ],
    ids=["tanh", "square", "relu2", "sigmoid", "sin"],
)
def test_another_activation(function, clock):
    clock.tick = 10 * A_LOOK
    base = pn.random_network(3, 5, rng=4)
    X, _ = pn.sample(base, 600, rng=5)
    y = function(X @ base.weights.T + base.biases) @ base.output_weights
    assert not pn.recover(X, y, rng=0, budget=1.0).success


def test_heavy_tailed_inputs_warn_but_do_not_stop():
    truth = pn.random_network(4, 6, rng=6).canonical()
    X = np.random.default_rng(7).standard_t(2.5, (1500, 6))
    result = pn.recover(X, truth(X), rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < 1e-8
    assert not result.certificate.gaussian.ok
    assert result.certificate.warnings


def test_pure_noise_is_no_network():
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((500, 5)), rng.standard_normal(500)
    result = pn.recover(X, y, rng=0, budget=1.0)
    assert result.status == "failed"


def test_a_linear_function_has_no_units():
    X = np.random.default_rng(9).standard_normal((200, 4))
    result = pn.recover(X, X @ np.arange(4.0) + 1.0, rng=0, budget=1.0)
    assert result.status == "partial"
    assert result.network.units == 0
    assert np.allclose(result.network.linear, np.arange(4.0))


def test_a_budget_that_runs_out_is_not_a_success(clock):
    """Ten looks at the clock: the first width grows."""
    clock.tick = A_LOOK
    truth = pn.random_network(12, 20, bias_scale=1.5, rng=10)
    result = network_of(truth, n=1200, budget=10 * A_LOOK)
    assert not result.success
    assert result.message


@pytest.mark.parametrize("seed", range(11, 17))
def test_rounded_labels_are_noise_not_exactness(seed):
    """Their rounding is no Gaussian noise: units that would explain some of it are not taken."""
    truth = pn.random_network(3, 5, rng=seed).canonical()
    X, y = pn.sample(truth, 600, rng=12)
    result = pn.recover(X, y.astype(np.float32), rng=0)
    assert result.status == "within noise" and "single precision" in result.message
    # float32 keeps 24 bits: relative rounding 2^-25 / sqrt(3) or so of labels of size one.
    assert 1e-9 < result.certificate.noise < 1e-6
    assert pn.parameter_error(result.network, truth) < 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_labels_in_steps_may_be_exact(seed):
    """Whole inputs and whole weights make whole labels: nothing was rounded."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 6, (600, 4)).astype(float)
    W = rng.integers(-3, 4, (3, 4)) + 4 * np.eye(3, 4)
    truth = pn.Network(W, rng.integers(-2, 3, 3), [1.0, -2.0, 3.0], 1.0)
    result = pn.recover(X, truth(X), rng=0)
    assert result.status == "exact" and result.certificate.label_precision == ""
    assert pn.parameter_error(result.network, truth) < 1e-12


@pytest.mark.parametrize("step", [1.0, 0.01])
@pytest.mark.parametrize("seed", range(2))  # 30 were run at each step: a success in all, none wrong
def test_labels_in_steps_are_intervals(seed, step):
    """The step is found, the units are right, and every parameter is within five stated errors."""
    base = pn.random_network(3, 5, rng=1000 + seed)
    truth = base.replace(output_weights=3 * base.output_weights, output_bias=0.3).canonical()
    X = np.random.default_rng(seed).standard_normal((600, 5))
    result = pn.recover(X, np.round(truth(X) / step) * step, rng=0)
    assert result.success and f"rounded to {step:g}" in result.message
    assert result.certificate.rounded and result.network.units == 3
    errors, network = result.standard_errors, result.network.canonical()
    for name in ("weights", "biases", "output_weights"):
        off = getattr(network, name) - getattr(truth, name)
        assert np.all(np.abs(off) < 5 * getattr(errors, name)), name
    assert any("output bias" in words for words in result.ambiguities)  # cut off or rounded


def network_with_a_close_pair(angle, sign, seed, features=5):
    """Three units and a fourth whose kink lies a small angle off the first one's."""
    rng = np.random.default_rng([seed, 7])
    base = pn.random_network(3, features, rng=rng)
    w = base.weights[0]
    aside = rng.standard_normal(features)
    aside -= aside @ w * w
    near = np.cos(angle) * w + np.sin(angle) * aside / np.linalg.norm(aside)
    network = pn.Network(
        np.vstack([base.weights, near]),
        np.append(base.biases, base.biases[0]),
        np.append(base.output_weights, sign * base.output_weights[0]),
    )
    return network, rng


@pytest.mark.parametrize(("angle", "sign", "seed"), [(0.03, -1, 3), (0.02, 1, 11), (0.02, 1, 2)])
def test_a_wedge_that_only_a_few_samples_lie_in(angle, sign, seed):
    """As many samples between two kinks as parameters: everything fits, nothing is confirmed."""
    truth, rng = network_with_a_close_pair(angle, sign, seed)
    X = rng.standard_normal((600, 5))
    result = pn.recover(X, truth(X), rng=seed, budget=3.0)
    if result.success:
        assert pn.parameter_error(result.network, truth) < 1e-8


@pytest.mark.parametrize("seed", [0, 4, 5])
def test_a_close_pair_under_noise_is_found_or_missed_but_not_taken_for_one(seed):
    truth, rng = network_with_a_close_pair(0.03, 1, seed)
    X = rng.standard_normal((3000, 5))
    y = truth(X)
    result = pn.recover(X, y + 1e-3 * y.std() * rng.standard_normal(3000), rng=seed, budget=5.0)
    assert not result.success or result.network.units == 4


@pytest.mark.parametrize("seed", [4, 5])
def test_signs_that_noise_hides_are_named(seed):
    """relu(z + b1) + relu(-z + b2) is, up to a constant, the same with both signs reversed."""
    rng = np.random.default_rng([seed, 8])
    base = pn.random_network(3, 5, rng=rng)
    truth = pn.Network(
        np.vstack([base.weights, -base.weights[0]]),
        np.append(base.biases, rng.uniform(-1, 1)),
        np.append(base.output_weights, base.output_weights[0]),
    )
    X = rng.standard_normal((1500, 5))
    y = truth(X)
    result = pn.recover(X, y + 0.05 * y.std() * rng.standard_normal(1500), rng=seed, budget=60.0)
    assert result.status == "partial"
    assert any("opposite sign" in text for text in result.ambiguities)


def test_repeated_inputs_confirm_nothing():
    """Eleven different inputs, each many times, with labels that no small network made."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((11, 3))[rng.permutation(np.repeat(np.arange(11), 12))]
    y = X @ [1.0, -2.0, 0.5] + np.sin(7 * X[:, 0])
    assert not pn.recover(X, y, rng=0, budget=1.0).success


@pytest.mark.parametrize("activation", ["abs", "leaky_relu(0.1)"])
@pytest.mark.parametrize("outputs", [None, 3])
def test_another_slope_below_zero_is_named(activation, outputs):
    truth = pn.random_network(4, 6, outputs=outputs, activation=activation, rng=2)
    X, y = pn.sample(truth, 800, rng=3)
    result = pn.recover(X, y, rng=4)
    assert result.status == "partial" and "leaky_relu" in result.message


# ---------------------------------------------------------------- several outputs


def several(truth, n=1500, seed=3, **options):
    X = np.random.default_rng(seed).standard_normal((n, truth.features))
    return pn.recover(X, truth(X), rng=4, **options)


@pytest.mark.parametrize("angle", [1e-2, 1e-4])
def test_two_units_that_no_samples_lie_between_are_not_exact(angle):
    base = pn.random_network(4, 6, outputs=3, rng=0)
    W, b = base.weights.copy(), base.biases.copy()
    aside = np.linalg.qr(np.column_stack([W[0], np.ones(6)]))[0][:, 1]
    W[1], b[1] = np.cos(angle) * W[0] + np.sin(angle) * aside, b[0]
    result = several(base.replace(weights=W, biases=b), budget=20.0)
    assert result.status == "partial" and "too few to tell the two apart" in result.message


def test_a_unit_that_never_fires_is_not_invented_and_one_that_always_does_is_not_hidden():
    base = pn.random_network(4, 6, outputs=3, rng=0)
    dead = several(base.replace(biases=[base.biases[0], -8.0, *base.biases[2:]]))
    assert dead.status == "exact" and dead.network.units == 3
    always = several(base.replace(biases=[base.biases[0], 8.0, *base.biases[2:]]))
    assert always.status == "partial" and always.network.linear is not None


@pytest.mark.parametrize("activation", ["relu2", "sigmoid", "exp"])
def test_the_wrong_activation_with_several_outputs_is_no_success(activation):
    truth = pn.random_network(4, 6, outputs=3, activation=activation, rng=0)
    assert not several(truth, budget=1.0).success


def test_a_deep_network_with_several_outputs_is_no_success():
    first = pn.random_network(4, 6, outputs=4, rng=0)
    second = pn.random_network(3, 4, outputs=3, rng=1)
    X = np.random.default_rng(2).standard_normal((1500, 6))
    assert not pn.recover(X, second(first(X)), rng=3, budget=1.0).success


def test_an_output_a_million_times_smaller_is_checked_like_the_others():
    base = pn.random_network(4, 6, outputs=3, rng=0)
    small = base.replace(output_weights=base.output_weights * [[1.0], [1e-7], [1.0]])
    result = several(small)
    assert result.status == "exact" and pn.parameter_error(result.network, small) < 1e-10
    # The small output is no longer of this network: the sum over outputs would hardly show it.
    X = np.random.default_rng(3).standard_normal((1500, 6))
    Y = small(X)
    Y[:, 1] += 1e-9 * np.sin(3 * X[:, 0])
    spoilt = pn.recover(X, Y, rng=4, budget=1.0)
    assert spoilt.status != "exact"


@pytest.mark.parametrize("seed", [2, 3])
def test_one_unit_split_in_two_is_not_two(seed):
    """Refitting output weights alone says that both halves are needed; refining one says not."""
    truth = pn.random_network(3, 6, outputs=3, rng=seed)
    source = pn.ArraySource(*pn.sample(truth, 3000, noise=0.3, rng=seed + 100))
    standardisation = source.standardisation()
    context = prepare(
        source,
        Options(units=4),
        standardisation,
        rng=np.random.default_rng(seed),
        progress=lambda *_: None,
        deadline=np.inf,
    )
    own = standardisation.network_from_user(truth)
    aside = np.random.default_rng(seed + 5).standard_normal(6)
    aside *= 0.15 * np.linalg.norm(own.weights[0]) / np.linalg.norm(aside)
    halves = own.keep(np.array([0, 1, 2, 0]))
    W, A = halves.weights.copy(), halves.output_weights.copy()
    W[0] += aside
    W[3] -= aside
    A[:, [0, 3]] /= 2
    split = Candidate(halves.replace(weights=W, output_weights=A), "Split by hand.")
    result = conclude(context, split, "by hand")
    assert result.status == "partial" and result.network.units == 3


@pytest.mark.parametrize("decimals", [3, 4])
def test_units_that_may_be_reversed_together_are_named_where_labels_are_rounded(
    decimals: int,
) -> None:
    """`relu(z) - relu(z + 0.1)` is the same function with both units reversed.

    No noise is left to try rivals on, and rounding itself prefers one of the two.
    """
    drawn = pn.random_network(2, 4, rng=3)
    W, b, a = drawn.weights, drawn.biases, 100 * drawn.output_weights
    hidden = pn.Network(np.vstack([W, W[:1]]), [*b, b[0] + 0.1], [*a, -a[0]], 0.3)
    X = np.random.default_rng(1).standard_normal((1000, 4))
    result = pn.recover(X, np.round(hidden(X), decimals), rng=2)
    assert result.status == "partial"
    assert any("opposite sign" in words for words in result.ambiguities)
