"""Success rate, time and memory of provenet and of what a user would pick instead: one output.

    python benchmarks/recovery.py                         # every row, all its seeds: hours
    python benchmarks/recovery.py --rows 10,5,300 --seeds 5 --peers
    python benchmarks/recovery.py --list

Prints a Markdown table; `--out FILE` also writes every trial as JSON. See README.md beside this.
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import NamedTemporaryFile

import numpy as np

from common import INPUTS, Line, Problem, random_problem
from provenet.common.typing import row_blocks
from trials import AsGoodAsLeastSquares, Row, main, suite_lines

ROWS_AT_ONCE = 10_000
PEERS = ("MLPRegressor lbfgs", "MLPRegressor adam", "Levenberg-Marquardt")


@dataclass(frozen=True)
class OneOutput(Row):
    """One line of the table."""

    noise: float = 0.0

    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""
        return random_problem(
            self.features, self.units, self.samples, self.inputs, self.noise, seed
        )


@dataclass(frozen=True)
class OnDisk(OneOutput):
    """The same with inputs in single precision in a memory-mapped file, without noise."""

    def problem(self, seed: int) -> Problem:
        """Inputs are drawn and written a block at a time; labels are exact for them as written."""
        few = random_problem(self.features, self.units, ROWS_AT_ONCE, self.inputs, 0.0, seed)
        rng = np.random.default_rng([seed, self.samples])
        with NamedTemporaryFile(suffix=".npy") as file:
            X = np.lib.format.open_memmap(
                file.name, "w+", np.float32, (self.samples, self.features)
            )
            for block in row_blocks(self.samples, ROWS_AT_ONCE):
                X[block] = INPUTS[self.inputs](rng, X[block].shape)
            X.flush()
            # The open map keeps the file's contents when its name is gone.
            mapped = np.load(file.name, mmap_mode="r")
        return Problem(few.truth, mapped, few.truth(mapped), few.fresh)


ROWS = {
    row.name: row
    for row in (
        OneOutput("10,5,300", 10, 5, 300, 100, "99 of 100"),
        OneOutput("10,5,150", 10, 5, 150, 100, "aim: 99 of 100", aim=True),
        OneOutput("20,10,1e3", 20, 10, 1000, 100, "98 of 100, median under 2 s"),
        OneOutput("20,10,500", 20, 10, 500, 100, "aim: 98 of 100", aim=True),
        OneOutput("20,10,2.5e3,uniform", 20, 10, 2500, 100, "98 of 100", "uniform"),
        OneOutput("20,10,2.5e3,student-t", 20, 10, 2500, 100, "98 of 100", "student-t"),
        OneOutput("20,10,2.5e3,integers", 20, 10, 2500, 100, "98 of 100", "integers"),
        OneOutput(
            "20,10,1e5,moments",
            20,
            10,
            100_000,
            100,
            "95 of 100, median under 3 s",
            method="biased-relu",
        ),
        OneOutput(
            "20,10,1e4,moments", 20, 10, 10_000, 100, "aim: all", method="biased-relu", aim=True
        ),
        OneOutput("50,20,5e3", 50, 20, 5000, 20, "18 of 20, median under 40 s"),
        OneOutput("50,20,3e3", 50, 20, 3000, 20, "aim: all, under 10 s", aim=True),
        OneOutput("50,20,1e6", 50, 20, 1_000_000, 20, "18 of 20, median under 40 s, under 1 GB"),
        OneOutput("300,20,5e5", 300, 20, 500_000, 10, "8 of 10"),
        OneOutput(
            "100,50,2.5e4",
            100,
            50,
            25_000,
            3,
            "aim: all, under 600 s",
            method="expand-prune",
            aim=True,
        ),
        OneOutput(
            "100,50,4e6,moments", 100, 50, 4_000_000, 1, "aim: all", method="biased-relu", aim=True
        ),
        OnDisk("1000,20,1e6", 1000, 20, 1_000_000, 1, "aim: all, in 8 GB", aim=True),
        OneOutput("8,12,2e3", 8, 12, 2000, 100, "98 of 100", method="overcomplete"),
        OneOutput("4,10,1.5e3", 4, 10, 1500, 100, "98 of 100", method="overcomplete"),
        OneOutput("10,30,2e4", 10, 30, 20_000, 10, "8 of 10", method="overcomplete"),
        OneOutput(
            "20,10,1e5,noise",
            20,
            10,
            100_000,
            20,
            "19 of 20",
            noise=0.1,
            target=AsGoodAsLeastSquares(),
        ),
    )
}


COLUMNS = "features, units, samples"
RIVALLED = ("10,5,300", "20,10,1e3", "20,10,2.5e3,uniform", "8,12,2e3")


def run(quick: bool) -> list[Line]:
    """For the suite: all that must hold, on as many seeds as it must hold for."""
    if quick:
        rows = [ROWS[name] for name in RIVALLED[:2]]
        return list(suite_lines(COLUMNS, rows, PEERS[::2], RIVALLED, seeds=3))
    rows = [row for row in ROWS.values() if not row.aim]
    return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED))


if __name__ == "__main__":
    main(__doc__.partition("\n")[0], COLUMNS, ROWS, PEERS)
