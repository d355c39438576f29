"""When does interference alone lead to a bad minimum, and what becomes of it in G?

GLM17, section 3.2 and appendix D: with output weights 1 and r, r, r the objective P' has a bad
local minimum once r > 2 (`provenet.datasets.spurious_minimum`), and G, which also draws each row to
one unit, has none. This script shows, against the ratio r of the largest to the smallest weight,

- the smallest eigenvalue of the Hessian at that matrix: of P' along the spheres, its flat direction
  left out, and of G at the same rows, of the norm at which it has no slope;
- how many descents from random rows end away from the true units, on P' and on G.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import provenet as pn
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, share_with_error
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


def shares(
    ratios: Sequence[float], features: int, starts: int, rng: np.random.Generator
) -> Iterator[Row]:
    """Descents on P' and on G from the same random rows of norm 1, for each ratio."""
    for ratio in ratios:
        network = network_of(ratio, features)
        first = rng.standard_normal((starts, features, features))
        first /= np.linalg.norm(first, axis=2, keepdims=True)
        for name in ("P'", "G"):
            f = objective(name, network)
            bad = sum(is_away(end_of_descent(f, B), network) for B in first)
            yield {
                "kind": "descents",
                "objective": name,
                "units": features,
                "ratio": ratio,
                "bad": bad,
                "starts": starts,
            }


def end_of_descent(f: Objective, start: Array) -> Array:
    """Where the second-order method comes to rest."""
    descent = minimise(f, start, slope=SLOPE, curvature=CURVATURE, iterations=STEPS)
    if not descent.converged:
        raise RuntimeError(f"The descent is not at rest after {STEPS} steps: allow more.")
    return descent.B


def measure(quick: bool) -> Iterator[Row]:
    """Eigenvalues against the ratio, then descents."""
    for ratio in np.linspace(1, 4, 13 if quick else 31):
        of_P, of_G = curvatures(ratio)
        yield {"kind": "eigenvalue", "ratio": float(ratio), "P": of_P, "G": of_G}
    ratios = [1.5, 4.0] if quick else [1.5, 2.0, 2.5, 3.0, 4.0]
    for features in (4,) if quick else (4, 8):
        yield from shares(ratios, features, 20 if quick else 60, np.random.default_rng(features))


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Both against the ratio, side by side."""
    left, right = picture.subplots(1, 2)
    of_kind = by(rows, "kind")
    _draw_eigenvalues(left, of_kind["eigenvalue"])
    _draw_shares(right, of_kind["descents"])
    for axes in (left, right):
        axes.axvline(2, color="gray", lw=0.8)


def _draw_eigenvalues(axes: Any, rows: Sequence[Row]) -> None:
    ratios = column(rows, "ratio")
    axes.axhline(0, color="black", lw=0.8)
    axes.plot(
        ratios, column(rows, "P"), "o", ms=4, color="tab:red", label="P', the flat arc left out"
    )
    axes.plot(ratios, column(rows, "G"), "s", ms=4, color="tab:blue", label="G: always below 0")
    axes.plot(ratios, 2 * (ratios - 2), label="2 (r - 2), by hand", **GUIDE_STYLE)
    x = "r, the ratio of the largest output weight to the smallest"
    title = "At the matrix of appendix D, a = (1, r, r, r)"
    finish(axes, x, "smallest eigenvalue of the Hessian", title)
    axes.set_yscale("symlog", linthresh=0.02)  # that of G is -0.03 from r = 2 on


def _draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    colours = {"P'": "tab:red", "G": "tab:blue"}
    side = -0.06  # side by side where all are 0
    for (units, name), own in by(rows, "units", "objective").items():
        share = np.array([share_with_error(row["bad"], row["starts"]) for row in own])
        few = units == min(row["units"] for row in rows)
        axes.errorbar(
            column(own, "ratio") + side,
            100 * share[:, 0],
            100 * share[:, 1:].T,
            color=colours[name],
            marker="o" if few else "s",
            mfc=colours[name] if few else "white",
            ls="-" if few else "--",
            lw=1,
            capsize=2,
            label=f"{name}, {units} units",
        )
        side += 0.04
    title = f"a = (1, r, .., r), {rows[0]['starts']} random starts a point, 95% intervals"
    finish(axes, "r", "descents that end away from the units, in %", title)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


FIGURES = (
    Figure(
        "counterexample",
        "GLM17, appendix D: P', interference alone, has a bad minimum once r > 2; G has none",
        measure,
        draw,
        width=11.0,
    ),
)
