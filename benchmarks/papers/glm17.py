"""Every theorem and figure of GLM17 (Ge, Lee, Ma 2017), measured and drawn.

    python benchmarks/papers/glm17.py --list
    python benchmarks/papers/glm17.py --quick --out pictures

What is seen is told in docs/papers/glm17.md.
"""

from __future__ import annotations

from figures import main
from glm17_counterexample import FIGURES as COUNTEREXAMPLE
from glm17_descents import FIGURES as DESCENTS
from glm17_sizes import FIGURES as SIZES
from glm17_theorems import FIGURES as THEOREMS

FIGURES = (*DESCENTS, *SIZES, *COUNTEREXAMPLE, *THEOREMS)

if __name__ == "__main__":
    raise SystemExit(main("glm17", FIGURES))
