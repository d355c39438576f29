"""Every theorem of BJW19 (Bakshi, Jayaram, Woodruff 2018), measured.

    python benchmarks/papers/bjw19.py --list
    python benchmarks/papers/bjw19.py --figure lower_bound
    python benchmarks/papers/bjw19.py --quick --out pictures

The modules beside it have the figures: `bjw19_samples` how many samples it takes, `bjw19_exact` the
algorithms for exact and Gaussian labels, `bjw19_noise` other noise. Trials have the seeds 0, 1, 2,
... (`of` in a row says how many), each with its own samples and, unless said, its own network.
"""

from __future__ import annotations

from bjw19_exact import ARBITRARY_INPUTS, GAUSSIAN
from bjw19_noise import ARBITRARY_NOISE, SIGN_STEP, SPARSE_NOISE
from bjw19_samples import LOWER_BOUND, RANK_DEFICIENT
from figures import main

FIGURES = (
    LOWER_BOUND,
    ARBITRARY_INPUTS,
    GAUSSIAN,
    RANK_DEFICIENT,
    SIGN_STEP,
    ARBITRARY_NOISE,
    SPARSE_NOISE,
)

if __name__ == "__main__":
    raise SystemExit(main("bjw19", FIGURES))
