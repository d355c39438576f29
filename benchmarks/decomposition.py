"""Taking moments apart: provenet's decompositions beside TensorLy's CP, on the same tensors.

    python benchmarks/decomposition.py [--seeds N] [--samples N]

The tensors are `T_2`, `T_3` and `T_4` of the networks of `recovery.py`, from samples, in the span
of the units, where the moment route takes them apart. "Joint diagonalisation" and "CP of all" get
the slices of all three in one tensor, each order over its sampling error; "moment fit" is the power
iteration and then a fit of all moments, as in the method "biased-relu". CP is TensorLy's
alternating least squares (`parafac`) at the true rank, from its own start. The error is the angle
between the worst direction found and its unit, signs apart; a median over seeds. Prints a Markdown
table.
TensorLy is optional: `pip install provenet[bench]`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from scipy.optimize import linear_sum_assignment

import provenet as pn
from common import Record, machine, markdown_head, markdown_row, random_problem
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread
from provenet.moments.decomposition import (
    congruence,
    fit_moments,
    power_directions,
    recover_scalars,
)
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments
from provenet.moments.subspace import span_of_units
from provenet.networks.activations import RELU

SIZES = ((10, 5), (20, 10), (40, 20))
ITERATIONS = 200
RIVALS = ("CP of T_3", "CP of T_4", "CP of all")


@dataclass(frozen=True)
class Tensors:
    """Moments in the span of the units, and the units' directions there."""

    moments: Moments
    directions: Array

    @property
    def stacked(self) -> Array:
        """All slices (q, k, k), each order over its error."""
        k = len(self.directions)
        T, errors = self.moments.tensors, self.moments.errors
        weighted = (T[i].reshape(-1, k, k) / errors[i] for i in (2, 3, 4))
        return np.concatenate(list(weighted))


def moments_of(features: int, units: int, samples: int, seed: int) -> Tensors:
    """Those of the moment route, told the number of units."""
    problem = random_problem(features, units, samples, "gauss", 0.0, seed)
    source = pn.ArraySource(problem.X, problem.y)
    s = source.standardisation()
    second = estimate_moments(source, MomentRequest(s, 2))
    span = span_of_units(second.tensors[2], second.errors[2], units)
    found = estimate_moments(source, MomentRequest(s, 4, span.basis, span.quadratic))
    own = s.network_from_user(problem.truth).canonical()
    errors = (*found.errors[:2], second.errors[2], *found.errors[3:])
    return Tensors(replace(found, errors=errors), own.weights @ span.basis.T)


Solver = Callable[[Tensors, np.random.Generator], Array]
"""Directions (rows), up to order, sign and length."""


def by_power(t: Tensors, rng: np.random.Generator) -> Array:
    """The first step of the moment route."""
    return power_directions(t.moments.symmetric, t.moments.errors, rng)


def by_fit(t: Tensors, rng: np.random.Generator) -> Array:
    """The moment route's own, with the fit of all moments that follows."""
    W, T = by_power(t, rng), t.moments.symmetric
    return fit_moments(T, RELU, W, np.clip(recover_scalars(T, W)[1], -2.5, 2.5)).W


def by_diagonalisation(t: Tensors, rng: np.random.Generator) -> Array:
    """All slices at once."""
    return congruence(t.stacked)


def cp(tensor: Callable[[Tensors], Array]) -> Solver:
    """TensorLy's alternating least squares; the factor of the first way."""

    def solve(t: Tensors, rng: np.random.Generator) -> Array:
        from tensorly.decomposition import parafac

        T, rank = tensor(t), len(t.directions)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = parafac(T, rank, n_iter_max=ITERATIONS, random_state=int(rng.integers(2**31)))
        return np.asarray(found.factors[-1]).T

    return solve


def solvers() -> dict[str, Solver]:
    """By name; those of TensorLy only where it is installed."""
    ours: dict[str, Solver] = {
        "power iteration": by_power,
        "moment fit": by_fit,
        "joint diagonalisation": by_diagonalisation,
    }
    if find_spec("tensorly") is None:
        return ours
    tensors: tuple[Callable[[Tensors], Array], ...] = (
        lambda t: t.moments.tensors[3],
        lambda t: t.moments.tensors[4],
        lambda t: t.stacked,
    )
    return ours | {name: cp(tensor) for name, tensor in zip(RIVALS, tensors, strict=True)}


def worst_angle(found: Array, truth: Array) -> float:
    """In degrees, after matching, signs apart."""
    unit = [V / np.linalg.norm(V, axis=1, keepdims=True) for V in (found, truth)]
    cosines = np.abs(unit[0] @ unit[1].T)
    rows, columns = linear_sum_assignment(-cosines)
    return float(np.degrees(np.arccos(np.clip(cosines[rows, columns], 0, 1))).max())


@dataclass(frozen=True)
class Result:
    """One solver at one size: medians."""

    solver: str
    seconds: float
    angle: float


def results(features: int, units: int, samples: int, seeds: int) -> Iterator[Result]:
    """Every solver on the same tensors."""
    with one_blas_thread():
        problems = [moments_of(features, units, samples, seed) for seed in range(seeds)]
        for name, solve in solvers().items():
            solve(problems[0], np.random.default_rng(0))  # imports, caches
            seconds, angles = [], []
            for seed, tensors in enumerate(problems):
                begin = time.perf_counter()
                found = solve(tensors, np.random.default_rng([seed, 0x50]))
                seconds.append(time.perf_counter() - begin)
                angles.append(worst_angle(found, tensors.directions))
            yield Result(name, float(np.median(seconds)), float(np.median(angles)))


def run(quick: bool) -> list[Record]:
    """For the suite: time and angle of ours beside the best of TensorLy's."""
    if find_spec("tensorly") is None:
        raise ModuleNotFoundError("TensorLy is not installed (pip install provenet[bench])")
    records = []
    for features, units in SIZES[:2] if quick else SIZES:
        found = list(results(features, units, 100_000, 3 if quick else 10))
        ours, rivals = found[: -len(RIVALS)], found[-len(RIVALS) :]
        best = min(rivals, key=lambda r: r.angle)
        for r in ours:
            name, reference = f"{features}, {units}, 1e5, {r.solver}", f"TensorLy, {best.solver}"
            times = r.seconds, "s", reference, best.seconds
            angles = r.angle, "degrees", reference, best.angle
            records += [Record(f"{name}: time", *times), Record(f"{name}: angle", *angles)]
    return records


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100_000)
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    titles = ("features, units, samples", "solver", "worst angle (degrees)", "seconds")
    print(markdown_head(titles), flush=True)
    for features, units in SIZES:
        for r in results(features, units, args.samples, args.seeds):
            size = f"{features}, {units}, {args.samples}"
            print(markdown_row((size, r.solver, f"{r.angle:.3g}", f"{r.seconds:.4f}")), flush=True)


if __name__ == "__main__":
    main()
