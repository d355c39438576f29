"""Every theorem of GP19 (Goel, Panigrahy 2019), measured.

    python benchmarks/papers/gp19.py --list
    python benchmarks/papers/gp19.py --figure refinement
    python benchmarks/papers/gp19.py --quick --out pictures

The modules beside it have the figures: `gp19_thresholds` step 1 against thresholds, and
`gp19_refinement` step 2 (section 2), `gp19_structured` low thresholds and even units (sections 3
and 4). Seeds are 0, 1, 2, ...; each has its own network and samples.
"""

from __future__ import annotations

from figures import main
from gp19_refinement import REFINEMENT
from gp19_structured import EVEN, LOW_THRESHOLDS
from gp19_thresholds import THRESHOLDS

FIGURES = (THRESHOLDS, REFINEMENT, LOW_THRESHOLDS, EVEN)

if __name__ == "__main__":
    raise SystemExit(main("gp19", FIGURES))
