"""`"rectified"`: several outputs, Gaussian inputs, exact or with noise (BJW19, sections 4 and 5).

Letters of the paper: its A is our Y transposed, U* our A, V* our W. Its Algorithm 4 contracts
`A (x) S_3(X)`, which vanishes for ReLU without bias; the second order does not (ERRATA, BJW19 9):

    T_q = E[y_q (z z^T - I)] = sum_i A_qi c_2(b_i) w_i w_i^T     for every output q,

a decomposition that is unique when the w_i are independent and no two columns of A are parallel.
So: the span of the units from all T_q side by side, joint diagonalisation of the T_q inside it
(Jennrich's algorithm on the way that is faithful to the paper), then

- without noise the exact finish (Algorithm 5, `stages.exact_finish`) if outputs are as many as
  units;
- with noise Algorithm 6 (`stages.exact_finish`) for the signs and regression for A (5.2).

`faithful=True` is these and nothing after them: units without biases, Jennrich's algorithm, then
Algorithm 5 or, where that fails, 6. One output has no decomposition of order 2: directions come
from order 4, signs from Algorithm 6. Step 2 of Algorithm 4, noise added to the labels, is left out:
it serves the proof, which hides in it how ReLU differs from a polynomial.

Beyond the paper: biases, from `E[y_q He_3(w_i.z)]` (for ReLU `c_3/c_2 = -b`); least squares and,
for units too weak to show in the moments, the search of `"expand-prune"` from those found. Inputs
may have any covariance of full rank (Remark 3): everything runs on standardised inputs. One output
goes to order 4, as in `"biased-relu"`.

Cost: one pass of `outputs features^2` operations a sample; no array with more than a block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.fitting.context import Context
from provenet.methods.stages.moment_units import faithful_directions
from provenet.methods.stages.one_output import from_moments
from provenet.methods.stages.several_outputs import from_second_moments, signed_by_projection
from provenet.networks.activations import RELU


def rectified(context: Context) -> Iterator[Candidate]:
    """The paper's candidate; or one from the moments, and a search for what these do not show."""
    if context.source.outputs is None:
        yield from _one_output(context)
    else:
        yield from from_second_moments(context)


def _one_output(context: Context) -> Iterator[Candidate]:
    if context.activation is not RELU:
        raise NoAnswer(
            f"One output of {context.activation.name} units needs order 4, which is built for "
            "relu only: give two or more outputs."
        )
    if not context.faithful:
        yield from from_moments(context)
        return
    _, W, evidence = faithful_directions(context)
    if len(W):
        yield Candidate(signed_by_projection(context, W, np.zeros(len(W))), evidence)
