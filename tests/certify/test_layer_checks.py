"""Each question to a lowest layer fails on a problem built to break it, and holds on the truth."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.certify.checks import Check, Claim, Status
from provenet.certify.conclude import conclude
from provenet.certify.layer import LayerCandidate
from provenet.certify.residual_form import NOT_CHANCE, Residuals, along_units
from provenet.certify.result import Recovery
from provenet.certify.statements import FaceErrors, Fires, FiresAlone, Predicts, Statement
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context, Options, prepare
from provenet.networks.layered import LayeredNetwork, Polynomial, intersection, lowest_layer, union
from provenet.networks.network import Network

W, T = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]), np.array([0.8, 0.5])
SMALL = np.full(2, 1e-3)


def inputs(n: int = 4000, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 3))


def layered(activation: str = "relu") -> LayeredNetwork:
    terms = {(): 0.5, (0,): 1.0, (1,): -2.0, (0, 1): 0.7}
    return LayeredNetwork(lowest_layer(W, T, activation), Polynomial(2, terms))


def prepared(X: Array, y: Array, **options: object) -> Context:
    source = ArraySource(X, y)
    return prepare(
        source,
        Options(**options),  # type: ignore[arg-type]
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda stage, fraction, message: None,
        deadline=time.monotonic() + 600,
    )


def candidate(statement: Statement | None, network: Network | None = None) -> LayerCandidate:
    """Two units whose errors are rounding."""
    return LayerCandidate(
        network=Network(W, -T) if network is None else network,
        what="2 units",
        angle_errors=np.full(2, 1e-12),
        threshold_errors=np.full(2, 1e-12),
        samples=np.full(2, 100),
        way="by hand",
        statement=statement,
        parameters=12,
    )


def asked(
    X: Array, y: Array, found: LayerCandidate, **options: object
) -> tuple[Recovery, dict[str, Check]]:
    result = conclude(prepared(X, y, **options), found, "by hand")
    assert result.claim is Claim.LAYER and result.method == "by hand"
    return result, {check.name: check for check in result.checks}


def failed(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if not check.holds}


# ------------------------------------------------- labels as numbers


def test_the_truth_is_exact() -> None:
    X, truth = inputs(), layered()
    result, checks = asked(X, truth(X), candidate(Predicts(truth)), units=2)
    assert result.status is Status.EXACT and result.layer.exact and not failed(checks)
    assert "every label of 4000 samples" in result.message


def test_every_sample_is_asked_not_only_those_held_out() -> None:
    """One label of 30,000, which is hardly ever drawn: found all the same."""
    X, truth = inputs(30_000), layered()
    y = truth(X)
    context = prepared(X, y)
    drawn = np.concatenate([context.held_out.X, context.fitted_samples.X])
    other = int(np.flatnonzero(~np.isin(X[:, 0].round(9), drawn[:, 0].round(9)))[0])
    y[other] += 1e-3
    result, checks = asked(X, y, candidate(Predicts(truth)))
    assert result.status is Status.PARTIAL
    assert failed(checks) == {"every label comes out to the last digits", "every label comes out"}
    assert "not 1 of all 30000" in result.message and not result.layer.exact


def test_labels_of_single_precision_are_not_exact() -> None:
    X, truth = inputs(), layered()
    single = truth(X).astype(np.float32).astype(float)
    result, checks = asked(X, single, candidate(Predicts(truth)))
    assert result.status is Status.WITHIN_NOISE
    assert failed(checks) == {"every label comes out to the last digits"}


def test_units_that_are_known_roughly_are_not_exact() -> None:
    X, truth = inputs(), layered()
    rough = replace(candidate(Predicts(truth)), angle_errors=np.full(2, 1e-3))
    result, checks = asked(X, truth(X), rough)
    assert result.status is Status.WITHIN_NOISE
    assert failed(checks) == {"rounding leaves the units known"}


@pytest.mark.parametrize("given", [None, 0.1, 0.05, 0.3])
@pytest.mark.parametrize("shows_apart", [False, True])
def test_noise_must_be_as_large_as_was_given(given: float | None, shows_apart: bool) -> None:
    """Units that show by themselves may leave noise of unknown size, and less than was given."""
    X, truth = inputs(), layered()
    y = truth(X) + 0.1 * np.random.default_rng(1).standard_normal(len(X))
    found = replace(candidate(Predicts(truth)), shows_apart=shows_apart)
    result, checks = asked(X, y, found, noise=given)
    right = given in (None, 0.1, 0.3) if shows_apart else given == 0.1
    assert result.status is (Status.WITHIN_NOISE if right else Status.PARTIAL)
    assert ("what is left is as large as the noise" in failed(checks)) is not right


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("what is left does not depend on the inputs", lambda X: 0.3 * X[:, 0] * X[:, 1]),
        (
            "what is left is no larger at a face",
            lambda X: 5.0 * (np.abs(X[:, 0] - 0.8) < 0.02) * np.sign(np.sin(1e4 * X[:, 2])),
        ),
    ],
    ids=["form", "spikes"],
)
def test_what_is_left_and_knows_of_inputs_or_units_is_no_noise(name: str, left: object) -> None:
    X, truth = inputs(20_000), layered()
    noise = 0.1 * np.random.default_rng(1).standard_normal(len(X))
    found = replace(candidate(Predicts(truth)), shows_apart=True)
    _, honest = asked(X, truth(X) + noise, found)
    assert honest[name].holds
    result, checks = asked(X, truth(X) + noise + left(X), found)  # type: ignore[operator]
    assert result.status is Status.PARTIAL and name in failed(checks)
    assert "no noise" in checks[name].advice


def test_fitted_labels_that_are_not_explained_are_no_noise() -> None:
    """Held-out labels happen to have the noise given; those fitted have far more."""
    X, truth = inputs(), layered()
    y = truth(X) + 0.1 * np.random.default_rng(1).standard_normal(len(X))
    context = prepared(X, y, noise=0.1)
    noise = np.random.default_rng(2).standard_normal(len(X))
    rest = ~np.isin(X[:, 0], context.held_out.X[:, 0])
    y[rest] += 0.3 * noise[rest]
    _, checks = asked(X, y, candidate(Predicts(truth)), noise=0.1)
    assert "what is left of fitted labels is as large" in failed(checks)


def test_parameters_that_are_not_determined() -> None:
    X, truth = inputs(), layered()
    result, checks = asked(
        X, truth(X), replace(candidate(Predicts(truth)), determined=False), units=2
    )
    assert result.status is Status.PARTIAL and failed(checks) == {"all parameters are determined"}


def test_a_unit_that_no_sample_reaches() -> None:
    X = inputs()
    layer = lowest_layer(W, [0.8, 9.0])
    truth = LayeredNetwork(layer, Polynomial(2, {(0,): 1.0, (1,): 1.0}))
    result, checks = asked(X, truth(X), candidate(Predicts(truth), layer))
    assert result.status is Status.PARTIAL and failed(checks) == {
        "every unit has samples of its own"
    }
    assert "Unit 1 has 0 samples of its own" in result.message


@pytest.mark.parametrize("wanted", [1, 3])
def test_another_number_of_units_than_asked_for(wanted: int) -> None:
    X, truth = inputs(), layered()
    result, checks = asked(X, truth(X), candidate(Predicts(truth)), units=wanted)
    assert result.status is Status.PARTIAL and failed(checks) == {"as many units as were asked for"}
    assert ("more than the 1" if wanted == 1 else "fewer than the 3") in result.message


def test_inputs_that_repeat_each_other_confirm_nothing() -> None:
    X, truth = np.tile(inputs(15), (200, 1)), layered()
    result, checks = asked(X, truth(X), candidate(Predicts(truth)))
    assert result.status is Status.PARTIAL and failed(checks) == {"different inputs are enough"}


def test_steps_say_nothing_near_their_faces() -> None:
    """Labels there may be wrong; where all is near, nothing is confirmed."""
    X, truth = inputs(), layered("step")
    y = truth(X)
    near = FaceErrors(W, T, SMALL, SMALL).unsure(X, 4.0)
    assert 0 < near.sum() < 100
    y[near] += 1.0
    faces = FaceErrors(W, T, SMALL, SMALL)
    found = replace(candidate(Predicts(truth, faces, 4.0)), angle_errors=SMALL)
    result, checks = asked(X, y, found)
    assert result.status is Status.WITHIN_NOISE
    assert checks["labels confirm it"].samples == len(X) - near.sum()
    result, checks = asked(X, y, replace(found, statement=Predicts(truth, faces, 1e9)))
    assert result.status is Status.PARTIAL and "labels confirm it" in failed(checks)


# ------------------------------------------------- units that fire alone


def alone(weights: Array = W, thresholds: Array = T) -> FiresAlone:
    return FiresAlone(Network(weights, -thresholds, np.array([1.0, -2.0]), 0.5))


def test_where_units_fire_together_nothing_is_said() -> None:
    X = inputs()
    y = layered()(X)
    together = np.all(X @ W.T > T, axis=1)
    y[together] = np.random.default_rng(0).standard_normal(together.sum())
    result, checks = asked(X, y, candidate(alone()))
    assert result.status is Status.EXACT and "learn_top" in result.message
    assert checks["labels confirm it"].samples == len(X) - together.sum()


def test_a_label_that_fires_where_no_unit_does() -> None:
    X = inputs()
    y = layered()(X)
    y[np.flatnonzero(np.all(X @ W.T < T, axis=1))[0]] += 1.0
    result, checks = asked(X, y, candidate(alone()))
    assert result.status is Status.PARTIAL and failed(checks) == {"no label contradicts it"}
    assert "1 of all 4000 samples contradict" in result.message


def test_units_that_never_fire_alone_are_not_exact() -> None:
    """The check on no sample: two that are the same, so that no label contradicts either."""
    X = inputs()
    twice, threshold = np.tile(W[:1], (2, 1)), np.full(2, 0.8)
    y = 0.5 + np.where(X[:, 0] > 0.8, np.random.default_rng(0).standard_normal(len(X)), 0.0)
    result, checks = asked(X, y, candidate(alone(twice, threshold)))
    assert result.status is Status.PARTIAL
    assert failed(checks) == {"every unit has samples of its own"}


@pytest.mark.parametrize(
    "labels",
    [
        lambda X: np.maximum(np.sum(X**2, axis=1) - 9, 0),
        lambda X: np.maximum(X[:, 0] * X[:, 1] - 2, 0),
        lambda X: np.where(np.sin(3 * X[:, 0]) > 0.95, X[:, 1], 0.0),
    ],
    ids=["ball", "product", "stripes"],
)
def test_labels_of_no_layer_are_no_success(labels: object) -> None:
    """Before, some of them were exact, on "the 0 samples on which one fires alone"."""
    for seed in range(2):
        X = np.random.default_rng(seed).standard_normal((2_500, 4))
        result = pn.recover(X, labels(X), method="lowest-layer", rng=seed)  # type: ignore[operator]
        assert not result.success


# ------------------------------------------------- labels that fire or not


def fires(top: object = union, errors: Array = SMALL) -> Fires:
    network = LayeredNetwork(lowest_layer(W, T, "step"), top)  # type: ignore[arg-type]
    return Fires(network, FaceErrors(W, T, errors, errors), 0.5)


@pytest.mark.parametrize("top", [union, intersection])
def test_what_fires_is_within_noise_at_best(top: object) -> None:
    X, statement = inputs(), fires(top)
    result, checks = asked(X, statement.values(X), candidate(statement))
    assert result.status is Status.WITHIN_NOISE and not failed(checks)
    assert not result.layer.exact and "400 samples that were not fitted 400 are" in result.message


def test_labels_that_fire_on_either_side_of_the_silent_one() -> None:
    X = inputs()
    statement = replace(fires(), level=2.0, either_side=True)
    y = 2.0 + statement.values(X) * np.random.default_rng(0).standard_normal(len(X))
    assert asked(X, y, candidate(statement))[0].success
    assert not asked(X, y, candidate(replace(statement, either_side=False)))[0].success


@pytest.mark.parametrize(("flip_rate", "holds"), [(0.0, False), (0.05, True)])
def test_flips_beyond_those_stated(flip_rate: float, holds: bool) -> None:
    X, statement = inputs(), fires()
    flips = np.random.default_rng(3).random(len(X)) < 0.05
    y = np.where(flips, 1 - statement.values(X), statement.values(X))
    result, checks = asked(X, y, replace(candidate(statement), flip_rate=flip_rate))
    assert result.success is holds
    names = {
        f"{which} fire where they should" for which in ("labels", "labels that were not fitted")
    }
    assert failed(checks) == (set() if holds else names)


@pytest.mark.parametrize(("error", "holds"), [(1e-4, False), (0.1, True)])
def test_errors_of_faces_beyond_those_stated(error: float, holds: bool) -> None:
    """Both faces are off by 0.1: some labels beside them are wrong."""
    X, statement = inputs(), fires(errors=np.full(2, error))
    y = np.any(X @ W.T > T + 0.1, axis=1).astype(float)
    assert asked(X, y, candidate(statement))[0].success is holds


def test_few_unseen_inputs() -> None:
    X, statement = inputs(150), fires()
    result, checks = asked(X, statement.values(X), candidate(statement))
    assert result.status is Status.PARTIAL and failed(checks) == {"unseen inputs are enough"}
    assert "Only 15 different inputs" in result.message


# ------------------------------------------------- what the method says


def test_moments_alone_are_partial() -> None:
    X = inputs()
    found = replace(candidate(None), unrefined="This is step 1 alone, not refined.")
    result, checks = asked(X, layered()(X), found)
    assert result.status is Status.PARTIAL and failed(checks) == {"it was refined on labels"}
    assert result.message.startswith("This is step 1 alone")


def test_a_layer_that_says_nothing_is_not_confirmed() -> None:
    X = inputs()
    result, checks = asked(X, layered()(X), candidate(None))
    assert result.status is Status.PARTIAL and failed(checks) == {"labels confirm it"}
    assert "No top was fitted" in result.message


@pytest.mark.parametrize("otherwise", [Status.PARTIAL, Status.FAILED])
def test_findings_of_the_method_count(otherwise: Status) -> None:
    X, truth = inputs(), layered()
    finding = Check("it looks right", False, "no", "yes", "It does not look right.", otherwise)
    found = replace(candidate(Predicts(truth)), findings=(finding,), remark=" A remark.")
    result, checks = asked(X, truth(X), found)
    assert result.status is otherwise and failed(checks) == {"it looks right"}
    assert result.message.startswith("It does not look right. Found: 2 units;")
    assert result.message.endswith("A remark.")


def test_whole_numbers_are_exact_though_single_precision_holds_them() -> None:
    X = inputs()
    truth = LayeredNetwork(lowest_layer(W, T, "step"), Polynomial(2, {(0,): 1.0, (1,): 2.0}))
    result, checks = asked(X, truth(X), candidate(Predicts(truth)))
    assert result.status is Status.EXACT and not failed(checks)


def test_residuals_that_are_rounding_where_a_unit_is_off_are_no_noise() -> None:
    """Noise is everywhere: a wrong top of a right unit leaves something only where it is on."""
    X = inputs()
    statement = Predicts(layered())
    on = X @ W[0] > T[0]
    noise = 0.1 * np.random.default_rng(1).standard_normal(len(X))
    everywhere, beyond = (Residuals(X, X, left) for left in (noise, np.where(on, noise, 0.0)))
    assert along_units(statement, everywhere, 1e-10) < NOT_CHANCE
    assert along_units(statement, beyond, 1e-10) > 2 * NOT_CHANCE
    wave = 0.05 * np.sin(40 * (X @ W[0])) + noise
    assert along_units(statement, Residuals(X, X, wave), 1e-10) > NOT_CHANCE
