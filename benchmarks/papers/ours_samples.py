"""Success of expand-and-prune against samples a parameter, beside rivals and what samples allow.

Problems, solvers and what counts as recovered are those of `benchmarks/samples.py`: networks with
twice as many features as units, Gaussian inputs, no noise, a parameter error of at most 1e-8.
"expand-prune" is not told the width; the rivals are, and get as long as it took on the same samples
(at least a second).

No method can pass what the samples themselves allow. *Determined* are problems in which no other
networks near the hidden one fit the samples (a Jacobian of full rank). *Both sides seen* are those
with more samples than features on either side of every kink: on a side with fewer, the linear
function there is not known from the samples of that side alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import samples
from figures import GUIDE_STYLE, Figure, Row, by, finish, share_with_error
from trials import LEAST_SECONDS, peer_trial, provenet_trial

OURS, (MLP, LM) = samples.METHODS[0], samples.PEERS
LIMIT = "limit"
LABELS = {
    OURS: "expand-prune, width not given",
    LM: "Levenberg-Marquardt, random starts, width given",
    MLP: "MLPRegressor (L-BFGS), width given",
}
STYLES = {OURS: ("#0b6e4f", "o", "-"), LM: ("#8e6c1f", "v", "--"), MLP: ("#c0392b", "^", "--")}
FULL = {
    5: ((1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0), 15, 5.0),
    10: ((1.5, 2.5, 3.0, 4.0, 6.0), 10, 8.0),
    20: ((4.0,), 4, 15.0),
}
"""By units: samples a parameter, seeds, and seconds for a recovery."""
QUICK = {3: ((2.0, 6.0), 2, 1.0)}
LIMIT_RATIOS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
LIMIT_SEEDS = {5: 200, 10: 60, 20: 10}


def measure(quick: bool) -> Iterator[Row]:
    """What the samples allow at every size, then every solver on the same problems."""
    for units, (ratios, seeds, budget) in (QUICK if quick else FULL).items():
        for ratio in ratios if quick else LIMIT_RATIOS:
            yield limit(units, ratio, 10 if quick else LIMIT_SEEDS[units])
        for ratio in ratios:
            for seed in range(seeds):
                yield from trials(units, ratio, seed, budget)


def limit(units: int, ratio: float, seeds: int) -> Row:
    """In how many problems the samples allow the network to be recovered."""
    problems = [samples.row(units, ratio, OURS).problem(seed) for seed in range(seeds)]
    return {
        "solver": LIMIT,
        "units": units,
        "ratio": ratio,
        "determined": sum(problem.determined for problem in problems),
        "both sides": sum(problem.identifiable for problem in problems),
        "of": seeds,
    }


def trials(units: int, ratio: float, seed: int, budget: float) -> Iterator[Row]:
    """One problem, three solvers."""
    problem = samples.row(units, ratio, OURS)
    ours = provenet_trial(problem, seed, budget)
    seconds = max(LEAST_SECONDS, ours.seconds)
    theirs = [peer_trial(problem, seed, name, seconds) for name in (LM, MLP)]
    for solver, outcome in zip((OURS, LM, MLP), (ours, *theirs), strict=True):
        yield {
            "solver": solver,
            "units": units,
            "ratio": ratio,
            "seed": seed,
            "recovered": outcome.recovered,
            "wrong success": outcome.wrong_success,
            "determined": outcome.determined,
            "seconds": round(outcome.seconds, 2),
        }


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """A panel a width."""
    by_units = by(rows, "units")
    panels = picture.subplots(1, len(by_units), sharey=True, squeeze=False)[0]
    for axes, (units, mine) in zip(panels, by_units.items(), strict=True):
        _draw_limit(axes, [row for row in mine if row["solver"] == LIMIT])
        for solver, line in by([row for row in mine if row["solver"] != LIMIT], "solver").items():
            _draw_solver(axes, solver, by(line, "ratio"))
        seeds = 1 + max(row.get("seed", 0) for row in mine)
        axes.set_ylim(-0.04, 1.04)
        _ratios_as_ticks(axes, sorted({row["ratio"] for row in mine}))
        title = f"{units} units, {2 * units} features, {seeds} seeds"
        finish(axes, "samples a parameter", "recovered exactly" if axes is panels[0] else "", title)
        if axes.get_legend():
            axes.get_legend().remove()
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)


def _draw_limit(axes: Any, rows: Sequence[Row]) -> None:
    ratios = [row["ratio"] for row in rows]
    determined = [row["determined"] / row["of"] for row in rows]
    axes.plot(ratios, determined, label="the limit: determined by the samples", **GUIDE_STYLE)
    axes.fill_between(ratios, determined, 1.04, color="0.92", zorder=0, linewidth=0)
    both = [row["both sides"] / row["of"] for row in rows]
    label = "more samples than features on both sides of all kinks"
    axes.plot(ratios, both, "-.", color="0.6", linewidth=1.2, label=label, zorder=1)


def _draw_solver(axes: Any, solver: str, groups: dict[float, list[Row]]) -> None:
    shares = np.array(
        [share_with_error(sum(r["recovered"] for r in g), len(g)) for g in groups.values()]
    ).T
    colour, marker, line = STYLES[solver]
    shift = 1 + 0.012 * (list(STYLES).index(solver) - 1)
    axes.errorbar(
        np.array(list(groups)) * shift, shares[0], shares[1:], color=colour, marker=marker, ms=5,
        linestyle=line, elinewidth=0.8, label=LABELS[solver],
    )  # fmt: skip


def _ratios_as_ticks(axes: Any, ratios: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
    axes.minorticks_off()


SAMPLES = Figure(
    "samples",
    "Beyond the papers: networks recovered exactly from a few samples a parameter",
    measure,
    draw,
    width=11.0,
)
