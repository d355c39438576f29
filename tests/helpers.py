"""Problems built from their answers, and checks that several tests share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment

import provenet as pn
from provenet.certify.agreement import best_of, is_settled
from provenet.certify.conclude import conclude
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, Draw
from provenet.data.standardisation import Standardisation
from provenet.fitting.context import Context
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.moments.hermite import population_moments
from provenet.moments.symmetric import SymmetricTensor

ROUNDING = 1e-13
"""A few hundred units in the last place of a number near 1."""

ROOTS_AND_MORE = np.array([0.0, 1.0, -1.0, 0.0, 0.7, -1.4])
"""Biases at the roots of He_1 (order 3 vanishes) and He_2 (order 4 vanishes), and elsewhere."""


def judged(context: Context, method: str) -> Recovery:
    """The best of a method's candidates, as `recover` takes it; raises what the method does."""
    results: list[Recovery] = []
    for candidate in pn.METHODS[method].candidates(context):
        results.append(conclude(context, candidate, method))
        if is_settled(best_of(results), results):
            break
    return best_of(results)


def special_network(seed: int, features: int = 6) -> pn.Network:
    """Six units with random weights, output weights of both signs and the biases above."""
    net = pn.random_network(6, features, rng=seed)
    signs = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    return net.replace(
        biases=ROOTS_AND_MORE, output_weights=np.abs(net.output_weights) * signs, output_bias=0.3
    )


def assert_same_draw(found: Draw, wanted: Draw) -> None:
    """The same samples, of the same numbers, in the same order."""
    np.testing.assert_array_equal(found.X, wanted.X)
    np.testing.assert_array_equal(found.y, wanted.y)
    assert found.rows is not None and wanted.rows is not None
    np.testing.assert_array_equal(found.rows, wanted.rows)


def identity_standardisation(features: int) -> Standardisation:
    """Inputs that are standard normal already, labels untouched."""
    return Standardisation(np.zeros(features), np.eye(features), 0.0, 1.0, np.zeros(features), None)


def random_standardisation(features: int, rng: np.random.Generator) -> Standardisation:
    """A mean and a whitening that are nothing special (of condition number well below 100)."""
    return Standardisation(
        mean=rng.standard_normal(features),
        whiten=np.eye(features) + 0.3 * rng.standard_normal((features, features)),
        label_mean=0.5,
        label_spread=1.0,
        linear=rng.standard_normal(features),
        samples=None,
    )


def hermite_tensor(k: int, x: Array) -> Array:
    """The Hermite tensor `He_k(x)` of one point, as a dense array of shape `(d,) * k`.

    `He_k(x) = sum_j (-1)^j sum over j disjoint pairs of the k places of I on the pairs and x on the
    rest`. Independent of the sums over samples, which never form it.
    """
    d = len(x)
    total = np.zeros((d,) * k)
    for pairs in _pairings(tuple(range(k))):
        rest = [i for i in range(k) if all(i not in p for p in pairs)]
        term = np.ones(())
        for _ in pairs:
            term = np.multiply.outer(term, np.eye(d))
        for _ in rest:
            term = np.multiply.outer(term, x)
        places = [i for p in pairs for i in p] + rest
        total += (-1) ** len(pairs) * np.transpose(term, np.argsort(places))
    return total


def _pairings(places: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All sets of disjoint pairs of `places`, the empty set included."""
    found: list[tuple[tuple[int, int], ...]] = [()]
    for a, b in combinations(places, 2):
        later = tuple(p for p in places if p > a and p != b)
        found += [((a, b), *more) for more in _pairings(later)]
    return found


def exact_tensors(network: pn.Network, order: int = 4) -> tuple[Array, ...]:
    """`T_0 .. T_order` on standard normal inputs."""
    return population_moments(network.canonical(), order).tensors


def symmetric_tensor(coefficients: Array, W: Array, k: int) -> Array:
    """`sum_i coefficients_i w_i^(x)k` as a full array."""
    return SymmetricTensor.of_terms(coefficients, W, k).dense


def in_span(network: pn.Network) -> pn.Network:
    """The network in orthonormal coordinates of the span of its units, where T_2 is regular."""
    basis = np.linalg.qr(network.weights.T)[0].T
    return network.replace(weights=network.weights @ basis.T)


def direction_error(found: Array, truth: Array) -> float:
    """Largest distance, up to sign, between unit vectors after matching; rows of both as many."""
    assert found.shape == truth.shape
    inner = found @ truth.T
    rows, columns = linear_sum_assignment(-np.abs(inner))
    signs = np.sign(inner[rows, columns])
    return float(np.linalg.norm(found[rows] * signs[:, None] - truth[columns], axis=1).max())


def near(w: Array, angle: float, rng: np.random.Generator) -> Array:
    """A unit vector at an angle from another."""
    v = rng.standard_normal(len(w))
    v -= (v @ w) * w
    return np.asarray(np.cos(angle) * w + np.sin(angle) * v / np.linalg.norm(v))


def parity(H: Array) -> Array:
    """Whether an odd number of units fires: a top that is not monotone."""
    return np.asarray(np.round(H.sum(axis=1)) % 2)


def symmetrised(T: Array) -> Array:
    """The mean over all orders of the axes, scaled so that distinct entries keep their variance."""
    orders = list(permutations(range(T.ndim)))
    return np.asarray(sum(np.transpose(T, order) for order in orders) / np.sqrt(len(orders)))


def assert_symmetric(T: Array) -> None:
    """Exchanging any two neighbouring axes changes nothing but rounding."""
    for axis in range(T.ndim - 1):
        np.testing.assert_allclose(
            T, np.swapaxes(T, axis, axis + 1), rtol=0, atol=ROUNDING * (1 + np.abs(T).max())
        )


class ProcessorClock:
    """Takes the place of the module `time`: goes on as this process works, never while it waits."""

    def __init__(self) -> None:
        self.began = time.monotonic() - time.process_time()

    def monotonic(self) -> float:
        """The time."""
        return self.began + time.process_time()


class FakeClock:
    """Takes the place of the module `time`: goes on by `tick` whenever it is read, else not.

    So a budget is a number of looks at the clock, the same on a free and on a busy machine.
    """

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick, self.reads = 1000.0, tick, 0

    def monotonic(self) -> float:
        """The time, which goes on by this."""
        self.now, self.reads = self.now + self.tick, self.reads + 1
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.now += seconds


def run_script(script: str, timeout: float = 90.0) -> str:
    """What a script prints in a process of its own; one that hangs is ended and fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_a_sentence(error: pytest.ExceptionInfo[pn.InvalidInput], *words: str) -> None:
    """One line that ends in one full stop, names the problem and, with `words`, a way out."""
    message = str(error.value)
    assert "\n" not in message and message.endswith(".") and not message.endswith("..")
    for word in words:
        assert word in message, message


def jacobian(network: pn.Network, X: Array) -> Array:
    """`d f(x) / d (w_1, b_1, .., w_m, b_m, a, v, c)` by the plain formula, one row a label.

    Rows run over samples, then outputs; a, v and c over their rows, then outputs.
    """
    rows = []
    A = np.atleast_2d(network.output_weights)
    for x in X:
        z = network.weights @ x + network.biases
        linear = [] if network.linear is None else list(x)
        phi = np.concatenate([network.activation(z), linear, [1.0]])
        for q, weights in enumerate(A):
            slope = weights * network.activation.derivative(z)
            units = [np.append(s * x, s) for s in slope]
            rows.append(np.concatenate([*units, np.outer(phi, np.eye(len(A))[q]).ravel()]))
    return np.array(rows)


def numerical_jacobian(network: pn.DeepNetwork, X: Array, step: float = 1e-5) -> Array:
    """`d f(x) / d (layers, beta)` by central differences, one row a label.

    Columns are the hidden layers, the lowest first, a unit's weights and then its bias; then the
    weights and bias of each output. Rows run over samples, then outputs.
    """
    matrices = [np.column_stack(pair) for pair in network.affine_maps]
    columns = []
    for k, matrix in enumerate(matrices):
        for place in np.ndindex(matrix.shape):
            ends = []
            for sign in (1, -1):
                other = [m.copy() for m in matrices]
                other[k][place] += sign * step
                weights, biases = [m[:, :-1] for m in other], [m[:, -1] for m in other]
                ends.append(network.replace(weights=weights, biases=biases)(X))
            columns.append((ends[0] - ends[1]).ravel() / (2 * step))
    return np.array(columns).T


NET = pn.random_network(4, 3, rng=0).replace(output_bias=0.4)
NETS = {
    "one output": NET,
    "three outputs": pn.random_network(4, 3, outputs=3, rng=0).replace(
        output_bias=[0.4, 0.0, -1.0]
    ),
}


def samples(n: int = 1500, noise: float = 0.0, seed: int = 1, net: pn.Network = NET) -> ArraySource:
    """Samples of a small network; by default more than one block of rows."""
    return ArraySource(*pn.sample(net, n, noise=noise, rng=seed))


def moved(net: pn.Network, size: float, seed: int = 2) -> pn.Network:
    """A network near another."""
    rng = np.random.default_rng(seed)
    return net.replace(
        weights=net.weights + size * rng.standard_normal(net.weights.shape),
        biases=net.biases + size * rng.standard_normal(net.units),
        output_weights=net.output_weights + size * rng.standard_normal(net.output_weights.shape),
    )


def error_from_truth(truth: pn.Network, X: Array, Y: Array) -> float:
    """Parameter error of least squares on these samples, started at the hidden network itself."""
    fit = refine(
        ArraySource(X, Y),
        Parameters.of(truth),
        truth.activation,
        spread=1.0,
        tolerance=1e-12,
        damping=1e-6,
    )
    return pn.parameter_error(fit.parameters.network(truth.activation), truth)


ACTIVATIONS = (
    *("relu", "relu2", "relu3", "step", "abs", "leaky_relu", "leaky_relu(-0.3)", "sigmoid", "exp"),
    *("tanh", "erf", "gelu", "gelu_tanh", "silu", "softplus", "elu", "sin"),
)
"""All that have a name."""

numbers = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def networks(
    draw: st.DrawFn, activations: tuple[str, ...] = ("relu", "abs", "relu2"), outputs: bool = True
) -> pn.Network:
    """Small networks, also with units alike, without weights or without effect."""
    units, features = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    # A coarse grid makes equal units and equal sizes likely: that is where an order can slip.
    fine = draw(st.booleans())
    grid = st.integers(-16, 16).map(lambda i: i / 8) if fine else st.sampled_from([-1.0, 0.0, 1.0])
    several = draw(st.sampled_from([None, 2])) if outputs else None
    shape = (units,) if several is None else (several, units)
    linear = draw(st.booleans())
    return pn.Network(
        draw(hnp.arrays(float, (units, features), elements=grid)),
        draw(hnp.arrays(float, units, elements=grid)),
        draw(hnp.arrays(float, shape, elements=grid)),
        draw(hnp.arrays(float, shape[:-1], elements=grid)),
        draw(st.sampled_from(activations)),
        linear=draw(hnp.arrays(float, (*shape[:-1], features), elements=grid)) if linear else None,
    )


orders = st.permutations(range(4))


def permuted(network: pn.Network, order: Sequence[int]) -> pn.Network:
    """The same network with its units listed in the order of a longer list."""
    return network.keep(np.array([i for i in order if i < network.units]))


@st.composite
def deep_networks(
    draw: st.DrawFn, activations: tuple[str, ...] = ("relu", "tanh"), most_layers: int = 3
) -> pn.DeepNetwork:
    """Small deep networks, also with units alike, without weights or without effect."""
    features, layers = draw(st.integers(1, 3)), draw(st.integers(1, most_layers))
    widths = draw(st.lists(st.integers(1, 3), min_size=layers, max_size=layers))
    activation = draw(st.sampled_from(activations))
    fine = draw(st.booleans())
    grid = st.integers(-16, 16).map(lambda i: i / 8) if fine else st.sampled_from([-1.0, 0.0, 1.0])
    if activation == "exp":  # of exp of exp
        grid = grid.map(lambda number: number / 8)
    sizes = [features, *widths, draw(st.integers(1, 2))]
    return pn.DeepNetwork(
        [draw(hnp.arrays(float, (m, n), elements=grid)) for n, m in pairwise(sizes)],
        [draw(hnp.arrays(float, m, elements=grid)) for m in sizes[1:]],
        activation,
        outputs=draw(st.sampled_from([None, sizes[-1]])),
    )


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
