"""ATV21 (Awasthi, Tang, Vijayaraghavan 2021): biases, more units than features, smoothed analysis.

python benchmarks/papers/atv21.py --quick --out pictures      # seconds a figure
python benchmarks/papers/atv21.py                             # minutes a figure: docs/papers
"""

from __future__ import annotations

from atv21_errors import ERRORS
from atv21_smoothed import SMOOTHED
from atv21_success import SUCCESS
from figures import main

FIGURES = (ERRORS, SMOOTHED, SUCCESS)

if __name__ == "__main__":
    raise SystemExit(main("atv21", FIGURES))
