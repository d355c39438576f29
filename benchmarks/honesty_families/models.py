"""Models that may be asked, and are not quite what `extract` takes them for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from honesty_families.case import Case, Family, Mean, network, small, two_layers, uniform_in_log
from provenet.common.typing import AnyArray, Array

SECONDS = 2.0
BOX = 2.0
"""Half the width of the box, where there is one."""
LEAST_PEAK = 0.5
"""By how much a function that is to be clipped rises above its value where no unit is on."""
FRESH = 20_000
"""So that a region of a per cent has many of them."""


def asked(
    truth: pn.Network | None,
    f: Callable[[Array], Any],
    features: int,
    rng: np.random.Generator,
    seed: int,
    *,
    mean: Mean | None = None,
    boxed: bool = False,
    expected: bool = False,
    **options: Any,
) -> Case:
    """A function given to `extract`, anywhere or in a box."""
    fresh = rng.standard_normal((FRESH, features))
    if boxed:
        fresh = rng.uniform(-BOX, BOX, fresh.shape)
        options |= {"low": -BOX, "high": BOX}
    ask = partial(pn.extract, f, features, rng=seed, seconds=SECONDS, **options)
    return Case(ask, truth, mean or truth or f, fresh, SECONDS, expected=expected)


def clean(rng: np.random.Generator, seed: int) -> Case:
    truth = network(rng, int(rng.integers(3, 9)), int(rng.integers(1, 7)))
    return asked(
        truth, truth, truth.features, rng, seed, boxed=bool(seed % 2), expected=not seed % 2
    )


def several_outputs(rng: np.random.Generator, seed: int) -> Case:
    truth = network(rng, int(rng.integers(3, 7)), int(rng.integers(1, 5)), outputs=3)
    return asked(truth, truth, truth.features, rng, seed, expected=True)


def clipped_region(rng: np.random.Generator, seed: int) -> Case:
    """min(network, c) where 1 to 6% of the inputs are above c."""
    base = network(rng, int(rng.integers(3, 7)), int(rng.integers(2, 5)))
    boxed = bool(seed % 2)
    points = rng.uniform(-BOX, BOX, (FRESH, base.features))
    points = points if boxed else rng.standard_normal(points.shape)
    if base(points).max() - base.output_bias < LEAST_PEAK:  # where all units are off it is largest
        base = base.replace(output_weights=-base.output_weights)
    level = float(np.quantile(base(points), 1 - rng.uniform(0.01, 0.06)))

    def mean(X: Array) -> Array:
        return np.minimum(base(X), level)

    return asked(None, mean, base.features, rng, seed, boxed=boxed)


def corner(rng: np.random.Generator, seed: int) -> Case:
    """Another value in a corner of 1 to 6% of the box."""
    base = small(rng)
    share = rng.uniform(0.01, 0.06) ** (1 / 2)
    cut = BOX - 2 * BOX * share

    def mean(X: Array) -> Array:
        inside = (X[:, 0] > cut) & (X[:, 1] > cut)
        return np.where(inside, base(X) + 1.0, base(X))

    return asked(None, mean, base.features, rng, seed, boxed=True)


def far_step(rng: np.random.Generator, seed: int) -> Case:
    """Constant but for a step or a unit far out; one fresh input in ten lies there."""
    features = int(rng.integers(2, 6))
    w = rng.standard_normal(features)
    w /= np.linalg.norm(w)
    cut, value = rng.uniform(3.0, 50.0), rng.uniform(-1, 1)

    def step(X: Array) -> Array:
        return np.where(X @ w > cut, value + 1.0, value)

    def unit(X: Array) -> Array:
        return value + np.maximum(X @ w - cut, 0.0)

    case = asked(None, step if seed % 2 else unit, features, rng, seed)
    fresh = case.fresh.copy()
    fresh[::10] += (cut + 1 - fresh[::10] @ w)[:, None] * w
    return replace(case, fresh=fresh)


def hidden_unit(rng: np.random.Generator, seed: int) -> Case:
    """A network of which one unit fires far out only; it counts where it is within reach."""
    base = small(rng)
    biases = base.biases.copy()
    biases[0] = -rng.uniform(2.5, 8.0)
    truth = base.replace(biases=biases)
    return asked(truth, truth, truth.features, rng, seed)


def tiny_output(rng: np.random.Generator, seed: int) -> Case:
    """A second output of size 1e-12 that is no network."""
    base = small(rng)
    size = 10.0 ** rng.uniform(-13, -8)
    w = rng.standard_normal(base.features)

    def mean(X: Array) -> Array:
        return np.stack([base(X), size * np.tanh(X @ w)], axis=1)

    return asked(None, mean, base.features, rng, seed)


def far_output(rng: np.random.Generator, seed: int) -> Case:
    """Of two outputs one has a mean of 1e3 to 1e10: rounding hides what its weights are."""
    truth = network(rng, int(rng.integers(3, 7)), int(rng.integers(1, 5)), outputs=2)
    far = np.array([10.0 ** rng.uniform(3, 10), 0.0])
    truth = truth.replace(output_bias=truth.output_bias + far[:: -1 if seed % 2 else 1])
    return asked(truth, truth, truth.features, rng, seed)


def many_units(rng: np.random.Generator, seed: int) -> Case:
    features = int(rng.integers(3, 11))
    truth = network(rng, features, int(rng.integers(2, 7)) * features)
    return asked(truth, truth, truth.features, rng, seed)


@dataclass
class Stateful:
    """A model that changes with the number of questions asked."""

    base: pn.Network
    change: Callable[[AnyArray], AnyArray]
    """What is added to the answers of such numbers."""
    asked: int = 0

    def __call__(self, X: Array) -> Array:
        """Answers, each the next one."""
        numbers = self.asked + np.arange(len(X))
        self.asked += len(X)
        return np.asarray(self.base(X) + self.change(numbers))

    def settled(self, X: Array) -> Array:
        """What it has come to by now."""
        return np.asarray(self.base(X) + self.change(np.full(len(X), self.asked)))


def stateful(rng: np.random.Generator, seed: int) -> Case:
    """A drift with every question, another bias after some, or every tenth answer off."""
    base = small(rng)
    size = 10.0 ** rng.uniform(-3, 0)
    begin = int(rng.integers(20, 60))
    changes: tuple[Callable[[AnyArray], AnyArray], ...] = (
        lambda numbers: size * numbers / 1000,
        lambda numbers: size * (numbers > begin),
        lambda numbers: size * (numbers % 10 == 9),
    )
    f = Stateful(base, changes[seed % 3])
    return asked(None, f, base.features, rng, seed, mean=base if seed % 3 == 2 else f.settled)


def discontinuous(rng: np.random.Generator, seed: int) -> Case:
    base = small(rng)
    w, cut, size = (
        rng.standard_normal(base.features),
        rng.uniform(-2, 2),
        uniform_in_log(rng, 1e-4, 1),
    )

    def mean(X: Array) -> Array:
        return base(X) + size * (X @ w > cut)

    return asked(None, mean, base.features, rng, seed, boxed=bool(seed % 2))


def periodic(rng: np.random.Generator, seed: int) -> Case:
    """A network of the inputs' remainders, or a wave."""
    base = small(rng)
    period = uniform_in_log(rng, 0.5, 2 * BOX)

    def folded(X: Array) -> Array:
        return base((X + period / 2) % period - period / 2)

    def wave(X: Array) -> Array:
        return base(X) + np.abs((X[:, 0] / period) % 1 - 0.5)

    return asked(None, wave if seed % 2 else folded, base.features, rng, seed, boxed=True)


def nan_somewhere(rng: np.random.Generator, seed: int) -> Case:
    """No answer, or an infinite one, where a feature is large."""
    base = small(rng)
    cut, answer = rng.uniform(0.5, 4.0), (np.nan, np.inf)[seed % 2]

    def f(X: Array) -> Array:
        return np.where(X[:, 0] > cut, answer, base(X))

    return asked(None, f, base.features, rng, seed)


def strings(rng: np.random.Generator, seed: int) -> Case:
    """Answers that are no numbers, or too few, to `extract` and to `recover`."""
    base = small(rng)

    def words(X: Array) -> Any:
        return ["no"] * len(X)

    def short(X: Array) -> Any:
        return base(X)[:-1]

    f = short if seed % 2 else words
    case = asked(None, f, base.features, rng, seed, mean=base)
    if seed % 4 < 2:
        return case
    source = pn.QuerySource(f, base.features, 1000, rng=seed)
    return replace(case, ask=partial(pn.recover, source, rng=seed, budget=SECONDS))


def single_precision(rng: np.random.Generator, seed: int) -> Case:
    """Computed in float32 throughout."""
    truth = network(rng, int(rng.integers(3, 7)), int(rng.integers(1, 5)))
    W, b = truth.weights.astype(np.float32), truth.biases.astype(np.float32)
    a, c = truth.output_weights.astype(np.float32), np.float32(truth.output_bias)

    def f(X: Array) -> Any:
        return np.maximum(X.astype(np.float32) @ W.T + b, 0) @ a + c

    own = pn.Network(W, b, a, float(c))
    return asked(own, f, truth.features, rng, seed)


def rounded_answers(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    decimals = int(rng.integers(2, 9))
    return asked(
        truth, lambda X: np.round(truth(X), decimals), truth.features, rng, seed, budget=2000
    )


def noisy_answers(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    own = np.random.default_rng(seed)
    size = uniform_in_log(rng, 1e-12, 0.05)

    def f(X: Array) -> Array:
        return truth(X) + size * own.standard_normal(len(X))

    return asked(truth, f, truth.features, rng, seed, budget=2000)


def hashed_noise(rng: np.random.Generator, seed: int) -> Case:
    """Noise that is the same whenever the same point is asked."""
    truth = small(rng)
    size = uniform_in_log(rng, 1e-12, 0.05)

    def f(X: Array) -> Array:
        return truth(X) + size * np.sin(1e9 * (X @ np.arange(1, truth.features + 1)))

    return asked(truth, f, truth.features, rng, seed, budget=2000)


def rounded_questions(rng: np.random.Generator, seed: int) -> Case:
    """The model rounds its inputs first."""
    base = small(rng)
    decimals = int(rng.integers(1, 9))

    def mean(X: Array) -> Array:
        return base(np.round(X, decimals))

    return asked(None, mean, base.features, rng, seed, budget=2000)


def deeper(rng: np.random.Generator, seed: int) -> Case:
    features = int(rng.integers(2, 5))
    return asked(None, two_layers(rng, features), features, rng, seed, boxed=bool(seed % 2))


def smooth(rng: np.random.Generator, seed: int) -> Case:
    base = small(rng)
    functions = (
        np.tanh,
        lambda z: np.logaddexp(0, 20 * z) / 20,
        np.sin,
        lambda z: z * (z > 0) ** 2,
    )
    unit = functions[seed % 3]
    scale = uniform_in_log(rng, 1e-4, 30)

    def mean(X: Array) -> Array:
        return unit(scale * (X @ base.weights.T + base.biases)) @ base.output_weights

    return asked(None, mean, base.features, rng, seed)


def other_models_cache(rng: np.random.Generator, seed: int) -> Case:
    """Answers are kept of one model, and another is asked."""
    old = small(rng)
    new = network(rng, old.features, old.units)
    if seed % 2:  # only one weight has changed
        output_weights = old.output_weights.copy()
        output_weights[0] *= 1.5
        new = old.replace(output_weights=output_weights)

    def ask() -> pn.Recovery:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "answers"
            pn.extract(_Renamed(old), old.features, rng=seed, cache=kept, seconds=SECONDS)
            return pn.extract(_Renamed(new), old.features, rng=seed, cache=kept, seconds=SECONDS)

    fresh = rng.standard_normal((FRESH, old.features))
    return Case(ask, new, new, fresh, 2 * SECONDS)


@dataclass(frozen=True)
class _Renamed:
    """Models that nothing but their answers tells apart."""

    network: pn.Network

    def __call__(self, X: Array) -> Array:
        """The answers."""
        return self.network(X)


FAMILIES = (
    Family("model", clean, "answers of a network, anywhere or in a box", 2),
    Family("model of three outputs", several_outputs, "answers of a network"),
    Family("clipped region", clipped_region, "1 to 6% of the inputs", 2),
    Family("corner", corner, "another value in 1 to 6% of the box"),
    Family("constant but far out", far_step, "a step or a unit 3 to 50 away"),
    Family("unit far out", hidden_unit, "2.5 to 8 from the origin"),
    Family("tiny output", tiny_output, "tanh of size 1e-13 to 1e-8 beside a network"),
    Family("output far from zero", far_output, "by 1e3 to 1e10, beside another"),
    Family("many units", many_units, "2 to 6 times as many as features", 0.5),
    Family("stateful", stateful, "answers change with the questions"),
    Family("discontinuous", discontinuous, "a step of 1e-4 to 1"),
    Family("periodic", periodic, "folded inputs, or a triangle wave"),
    Family("nan somewhere", nan_somewhere, "or infinite"),
    Family("answers of no use", strings, "words, or too few"),
    Family("float32 model", single_precision, "computed in single precision", 0.5),
    Family("rounded answers", rounded_answers, "2 to 8 decimals", 0.5),
    Family("noisy answers", noisy_answers, "noise of 1e-12 to 0.05", 0.5),
    Family("noise that repeats", hashed_noise, "the same at the same point", 0.5),
    Family("rounded questions", rounded_questions, "1 to 8 decimals", 0.5),
    Family("deeper model", deeper, "two layers"),
    Family("smooth model", smooth, "tanh, sin, sharp softplus"),
    Family("cache of another model", other_models_cache, "or of one that has changed"),
)
