"""What every part of the suite did and what came of it, in words that are made from its figures.

A part has a sentence on what was done, and a function that tells what its records, or the lines of
its table, mean. To add a part's words, add a line to `WORDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Content = dict[str, Any]
Cells = list[str]


@dataclass(frozen=True)
class Words:
    """Of one part."""

    done: str
    of_records: Callable[[Sequence[Content]], str] = lambda records: ""
    of_lines: Callable[[Sequence[Cells]], str] = lambda lines: ""


def told(name: str, part: Content) -> Iterator[str]:
    """The paragraph of a part; nothing of one that has no words."""
    if name not in WORDS:
        return
    words = WORDS[name]
    meaning = (
        words.of_records(part["records"]) if part["records"] else "",
        words.of_lines([cells for _, cells in part["lines"]]) if part["lines"] else "",
    )
    yield " ".join(text for text in (words.done, *meaning) if text)


MOSTLY = 0.9
"""Of the problems of a size: what counts as enough samples."""

# ---------------------------------------------------------------- figures as words


def _of(records: Sequence[Content], *words: str) -> list[Content]:
    """Records whose names have all of these words."""
    return [record for record in records if all(word in record["name"] for word in words)]


def _span(values: Sequence[float | None]) -> str:
    """From the least to the largest of those that are finite, or the one that there is."""
    finite = [f"{float(f'{v:.2g}'):g}" for v in sorted(v for v in values if v is not None)]
    if not finite:
        return "nothing"
    return finite[0] if finite[0] == finite[-1] else f"{finite[0]} to {finite[-1]}"


def _values(records: Sequence[Content], key: str = "value") -> str:
    return _span([record[key] for record in records])


def _calls(records: Sequence[Content]) -> str:
    missed = sum(record["value"] < 1 for record in _of(records, "recovered"))
    rest = "every network was recovered" if not missed else f"{missed} rows missed some networks"
    return f"A call took {_values(_of(records, 'time'))} s, and {rest}."


def _moments(records: Sequence[Content]) -> str:
    few = _of(records, "in 10 dimensions")
    more = [record for record in _of(records, "order 4") if record not in few]
    second = _values(_of(records, "order 2"), "ratio")
    return (
        f"Of dgemm's rate the pass of order 4 reaches {_values(more, 'ratio')} in 20 dimensions "
        f"and more, {_values(few, 'ratio')} in 10, where forming factors costs as much as "
        f"multiplying them; order 2 reaches {second}. Orders 3 and 4 are summed in single "
        "precision, whose products take half as long, so a rate beyond dgemm's is no mistake."
    )


def _scaling(records: Sequence[Content]) -> str:
    files = [r for r in records if r["reference"] == "memory" and "cluster" not in r["name"]]
    clusters = _values(_of(records, "cluster of"), "ratio")
    readings = _span([1 / r["ratio"] for r in _of(records, "reading alone")])
    return (
        f"From files the pass runs at {_values(files, 'ratio')} of its rate in memory, "
        f"on a cluster at {clusters}, with what Dask does meanwhile in the client, the scheduler "
        f"and every worker counted in. Reading mapped samples and adding nothing up is "
        f"{readings} times as fast: unless the disk is slow, the pass is limited by its products."
    )


def _decomposition(records: Sequence[Content]) -> str:
    fits = _of(records, "joint diagonalisation")
    return (
        f"Joint diagonalisation has {_values(_of(fits, 'angle'), 'ratio')} of the angle of "
        f"TensorLy's best in {_values(_of(fits, 'time'), 'ratio')} of its time."
    )


def _trials(lines: Sequence[Cells]) -> str:
    """Lines of `trials`: the row, the solver, how many were recovered, and wrong successes."""
    ours = [cells for cells in lines if cells[1] == "provenet"]
    rivals = [cells for cells in lines if cells[1] != "provenet"]
    found, of = (sum(x) for x in zip(*(_counts(cells[2]) for cells in ours), strict=True))
    wrong = sum(int(cells[5].split()[0]) for cells in ours if cells[5].split()[0].isdecimal())
    text = f"provenet recovered {found} of {of}, with {wrong} wrong successes"
    if rivals:
        theirs, tried = (sum(x) for x in zip(*(_counts(r[2]) for r in rivals), strict=True))
        text += f"; its rivals, told the width, {theirs} of {tried}"
    return text + "."


def _few_samples(lines: Sequence[Cells]) -> str:
    """Lines of `samples`: units, samples a parameter, ..., recovered, the rival, ..., wrong."""
    wrong = sum(int(cells[7]) for cells in lines)
    enough = []
    for units in dict.fromkeys(cells[0] for cells in lines):
        own = [cells for cells in lines if cells[0] == units]
        few = [k for k, cells in enumerate(own) if _share(cells[3]) < MOSTLY]
        first = few[-1] + 1 if few else 0
        if first < len(own):
            enough.append(f"{own[first][1]} at {units} units")
    text = f"Nine in ten and more are recovered from {', '.join(enough)} on" if enough else ""
    return (text + "; " if text else "") + f"wrong successes: {wrong}."


def _share(cell: str) -> float:
    found, of = _counts(cell)
    return found / of


def _counts(cell: str) -> tuple[int, int]:
    """`3 of 5` as numbers."""
    words = cell.split()
    return int(words[0]), int(words[2])


def _extraction(records: Sequence[Content]) -> str:
    return (
        f"The share recovered is {_values(_of(records, 'recovered'))}, with "
        f"{_values(_of(records, 'queries'))} queries a parameter; one a parameter is the least."
    )


def _lowest_layer(records: Sequence[Content]) -> str:
    angles = _of(records, "worst angle")
    return (
        f"The worst direction is off by {_values(angles, 'reference_value')} degrees after step 1, "
        f"by {_values(angles)} after step 2."
    )


def _halfspaces(records: Sequence[Content]) -> str:
    return (
        f"Of a million fresh labels {_values(records)} are wrong, of the wider perceptron's "
        f"{_values(records, 'reference_value')}."
    )


def _regression(records: Sequence[Content]) -> str:
    exact, noisy = (_of(records, "regression,", n, "error") for n in ("noise 0,", "noise 0.1,"))
    return (
        f'Over the perceptron\'s, the error of "regression" is {_values(exact, "ratio")} without '
        f'noise and {_values(noisy, "ratio")} with noise of 0.1; "faithful" is the paper\'s '
        "algorithm as it stands, without the refinement."
    )


def _landscape(records: Sequence[Content]) -> str:
    return (
        f"The share of descents that end at the truth is {_values(records)} on GLM17's objectives, "
        f"{_values(records, 'reference_value')} on the squared loss."
    )


# ---------------------------------------------------------------- the parts

WORDS = {
    "calls": Words(
        "`recover` told nothing but the samples (features, units, samples, activation), processor "
        "time beside that of a product of two matrices of 400 rows and columns.",
        _calls,
    ),
    "moment pass": Words(
        "One pass over samples of a random network (features, units, samples), by the operations "
        "that its distinct entries need, in processor time, beside a plain product of large "
        "matrices of doubles on one core.",
        _moments,
    ),
    "disk and cluster": Words(
        "The pass of order 4 in the span of 10 units over samples of 20 features, in every format "
        "of files and on clusters of 1, 2 and 4 worker processes of this machine; samples a second "
        "of one core.",
        _scaling,
    ),
    "decomposition": Words(
        "Directions of the units from moments of 1e5 samples, beside TensorLy's decomposition of "
        "the same tensors; medians.",
        _decomposition,
    ),
    "recovery, one output": Words(
        "Random networks recovered from samples without being told the width; rivals on the same "
        "samples, started again for as long as provenet took.",
        of_lines=_trials,
    ),
    "few samples": Words(
        "The share recovered against samples a parameter, with twice as many features as units, "
        "beside Levenberg-Marquardt from random starts at the true width, which has as long as "
        "provenet took and at least a second, and beside what the samples themselves allow: a kink "
        "with no more samples than features on a side of it, or other networks next to the hidden "
        "one that fit the samples as well.",
        of_lines=_few_samples,
    ),
    "recovery, several outputs": Words(
        "The same with several outputs, by the method that is named.", of_lines=_trials
    ),
    "recovery, smooth units": Words("The same for units without a kink.", of_lines=_trials),
    "extraction by queries": Words(
        "`extract` asks a network at points of its own choice until it has the weights.",
        _extraction,
    ),
    "lowest layer": Words(
        "The lowest layer of a network below sums and products, from samples (GP19): directions by "
        "conditional means (step 1), then fitted (step 2).",
        _lowest_layer,
    ),
    "union of halfspaces": Words(
        "Labels that tell whether an input lies in any of ten halfspaces, beside MLPClassifier, "
        "which was given as long.",
        _halfspaces,
    ),
    "regression": Words(
        "Predictors of networks with random weights, by ATV21's regression, beside MLPRegressor; "
        "root mean square error on fresh labels.",
        _regression,
    ),
    "landscape": Words(
        "Plain descents from random starts, on GLM17's objectives and on the squared loss.",
        _landscape,
    ),
}
