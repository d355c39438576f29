"""`"biased-relu"`: ReLU units with biases from Hermite moments (ATV21).

Letters of the paper: its W has units as columns, here as rows; `f_k` is `T_k`. The coefficient of
`w_i^(x)k` in `T_k` is `(-1)^k a_i phi(b_i) He_{k-2}(b_i)` for k >= 2 (Lemma 3.5).

The faithful road is Algorithm 6 for order 1: Algorithm 4 (Jennrich on T_3 and on T_4, union without
duplicates, RecoverScalars), then Algorithm 3 (FixSigns). Its thresholds eta_1 (rank), eta_2 (weak
terms) and eta_3 (duplicates) are read from the sampling errors of the moments.

The default road projects to the span of the units first, starts from the indefinite power iteration
and fits all moments jointly (`decomposition`). Units too weak to show in `T_2` are then searched
for in what the found ones leave (`search`).
"""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.fitting.context import Context
from provenet.methods.stages.one_output import from_moments


def biased_relu(context: Context) -> Iterator[Candidate]:
    """Candidates from the moments; then units that the moments could not show are searched for."""
    yield from from_moments(context)
