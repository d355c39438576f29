"""What no theorem covers: expand and prune, beside its rivals and what the samples allow.

python benchmarks/papers/ours.py --quick --out pictures       # seconds a figure
python benchmarks/papers/ours.py                              # minutes a figure: docs/papers
"""

from __future__ import annotations

from figures import main
from ours_samples import SAMPLES
from ours_width import WIDTH

FIGURES = (SAMPLES, WIDTH)

if __name__ == "__main__":
    raise SystemExit(main("ours", FIGURES))
