"""When does interference alone lead to a bad minimum, and what becomes of it in G?

GLM17, section 3.2 and appendix D: with output weights 1 and r, r, r the objective P' has a bad
local minimum once r > 2 (`provenet.datasets.spurious_minimum`), and G, which also draws each row to
one unit, has none. This script shows, against the ratio r of the largest to the smallest weight,

- the smallest eigenvalue of the Hessian at that matrix: of P' along the spheres, its flat direction
  left out, and of G at the same rows, of the norm at which it has no slope;
- how many descents from random rows end away from the true units, on P' and on G.

Run it:

    python examples/spurious_minimum.py --quick --output spurious_minimum.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest

import provenet as pn
from provenet.common.typing import Array
from provenet.landscape import Objective, minimise, objective
from provenet.landscape.designed import Design
from provenet.landscape.second_order import smallest_eigenvalue

SLOPE, CURVATURE = 1e-7, 1e-6
"""Where a descent is at rest: eigenvalues that matter are 1e-3 and more on both objectives."""
STEPS = 2000
"""More than any descent needs: some dozen, on G a few hundred where r is large."""
AWAY = 0.01
"""Distance of a row from its unit that counts as away; right ends are within 1e-6, wrong ones 0.5.
"""


@dataclass(frozen=True)
class Share:
    """How many descents ended away from the true units."""

    objective: str
    features: int
    ratio: float
    bad: int
    starts: int

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence (Clopper and Pearson)."""
        low, high = binomtest(self.bad, self.starts).proportion_ci(0.95)
        return float(low), float(high)


def network_of(ratio: float, features: int = 4) -> pn.Network:
    """Orthogonal units, the first of weight 1 and all others of weight `ratio`."""
    weights = np.full(features, ratio)
    weights[0] = 1.0
    return pn.Network(np.eye(features), output_weights=weights)


def curvatures(ratio: float) -> tuple[float, float]:
    """The smallest eigenvalue at the matrix of appendix D: of P' off its arc, and of G."""
    B, network = pn.datasets.spurious_minimum().B, network_of(ratio)
    P, G = objective("P'", network), objective("G", network)
    assert isinstance(G, Design)
    # In units of the interference, which P' has with weight 1.
    of_G = smallest_eigenvalue(G, at_rest(G, ratio, B))[0] / G.constants.interference
    return lowest_off_the_arc(P, B), of_G


def lowest_off_the_arc(P: Objective, B: Array) -> float:
    """Along the spheres, but for the turn of b_4 in the plane of e_3 and e_4."""
    arc = np.zeros_like(B)
    arc[3, 2:] = B[3, 3], -B[3, 2]
    directions = np.eye(B.size).reshape(-1, *B.shape)
    free = np.array([(V := P.tangent(B, E)) - np.sum(V * arc) * arc for E in directions])
    vectors, sizes, _ = np.linalg.svd(free.reshape(B.size, -1))
    basis, gradient = vectors[:, sizes > 0.5].T, P.gradient(B)
    bent = [P.curvature(B, V.reshape(B.shape), gradient).ravel() for V in basis]
    return float(np.linalg.eigvalsh(basis @ np.array(bent).T)[0])


def at_rest(G: Design, ratio: float, B: Array) -> Array:
    """B with each row of the norm at which G has no slope."""
    c = G.constants
    pulls = np.array([c.attraction - c.interference] * 2 + [ratio, ratio / 2])
    pulls[2:] *= c.attraction
    return np.asarray(B * np.sqrt(c.penalty / (c.penalty - pulls))[:, None])


def is_away(B: Array, network: pn.Network) -> bool:
    """Whether rows are not, up to order, sign and norm, the true units."""
    inner = np.abs(B @ network.weights.T) / np.linalg.norm(B, axis=1, keepdims=True)
    rows, columns = linear_sum_assignment(-inner)
    return bool(np.sqrt(2 - 2 * np.minimum(inner[rows, columns], 1)).max() > AWAY)


def measure(
    ratios: list[float], features: int, starts: int, rng: np.random.Generator
) -> Iterator[Share]:
    """Descents on P' and on G from the same random rows of norm 1, for each ratio."""
    for ratio in ratios:
        network = network_of(ratio, features)
        first = rng.standard_normal((starts, features, features))
        first /= np.linalg.norm(first, axis=2, keepdims=True)
        for name in ("P'", "G"):
            f = objective(name, network)
            bad = sum(is_away(end_of_descent(f, B), network) for B in first)
            yield Share(name, features, ratio, bad, starts)


def end_of_descent(f: Objective, start: Array) -> Array:
    """Where the second-order method comes to rest."""
    descent = minimise(f, start, slope=SLOPE, curvature=CURVATURE, iterations=STEPS)
    if not descent.converged:
        raise RuntimeError(f"The descent is not at rest after {STEPS} steps: allow more.")
    return descent.B


def draw(plt: Any, shares: list[Share], output: Path) -> None:
    """Both against the ratio, side by side."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.5), layout="constrained")
    _draw_curvatures(left)
    _draw_shares(right, shares)
    for axes in (left, right):
        axes.axvline(2, color="gray", lw=1, ls=":")
        axes.set_xlabel("r, the ratio of the largest output weight to the smallest")
        axes.grid(True, alpha=0.3)
    figure.suptitle("P', interference alone, has a bad minimum once r > 2; G has none", size=12)
    figure.savefig(output, dpi=150)


def _draw_curvatures(axes: Any) -> None:
    ratios = np.linspace(1, 4, 121)
    of_P, of_G = np.array([curvatures(r) for r in ratios]).T
    inset = axes.inset_axes((0.1, 0.55, 0.37, 0.36))
    for place in (axes, inset):
        place.axhline(0, color="black", lw=0.8)
        place.plot(ratios, of_P, color="tab:red", label="P', the flat arc left out")
        place.plot(ratios, of_G, color="tab:blue", label="G")
    inset.set_xlim(1.95, 2.1)
    inset.set_ylim(-0.1, 0.1)
    inset.axvline(2, color="gray", lw=1, ls=":")
    inset.tick_params(labelsize=7)
    axes.indicate_inset_zoom(inset, edgecolor="gray")
    axes.set_ylabel("smallest eigenvalue of the Hessian")
    axes.set_title("At the matrix of appendix D, a = (1, r, r, r)", size=10)
    axes.legend(frameon=False, loc="lower right")


def _draw_shares(axes: Any, shares: list[Share]) -> None:
    colours = {"P'": "tab:red", "G": "tab:blue"}
    side = -0.06  # side by side where all are 0
    for marker, features in zip("os", sorted({s.features for s in shares}), strict=False):
        for name, colour in colours.items():
            own = [s for s in shares if (s.objective, s.features) == (name, features)]
            share = np.array([s.bad / s.starts for s in own])
            low, high = np.array([s.interval for s in own]).T
            axes.errorbar(
                [s.ratio + side for s in own],
                100 * share,
                100 * np.array([share - low, high - share]),
                color=colour,
                marker=marker,
                mfc=colour if marker == "o" else "white",
                ls="-" if marker == "o" else "--",
                lw=1,
                capsize=2,
                label=f"{name}, {features} units",
            )
            side += 0.04
    axes.set_ylabel("descents that end away from the units, in %")
    title = f"a = (1, r, .., r), {shares[0].starts} random starts a point, 95% intervals"
    axes.set_title(title, size=10)
    axes.legend(frameon=False, loc="upper left")


def main() -> int:
    """Measure, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Bad minima of P' and G (GLM17, appendix D).")
    parser.add_argument("--quick", action="store_true", help="fewer points, a few seconds")
    parser.add_argument(
        "--output", type=Path, default=Path("spurious_minimum.png"), help="the picture"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    ratios = [1.5, 2.5, 4.0] if options.quick else [1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    starts = 30 if options.quick else 200
    shares = []
    for features in (4, 8):
        rng = np.random.default_rng([options.seed, features])
        for share in measure(ratios, features, starts, rng):
            shares.append(share)
            sys.stdout.write(
                f"{share.objective:2}, {features} units, r = {share.ratio:.1f}: "
                f"{share.bad:3} of {starts} end away from the units\n"
            )
    draw(plt, shares, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
