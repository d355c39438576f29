"""`"ica"`: orthonormal weights, from the labels alone (BJW19, section 4.1, Algorithm 3, Theorem 3).

Letters of the paper: its A is our Y transposed, U* our A, V* our W, T the sketch. Gaussian inputs
seen along orthonormal rows of W are independent, so the values `h_i = relu(w_i.x)` are independent
too, and `y = A h` is a problem of independent component analysis:

1. *Sketch* the labels to as many as there are units (steps 1, 2). The paper's sketch is a random
   Gaussian matrix (`faithful=True`); the principal components of Y lose as little and keep the
   condition. Their number is the number
   of units.
2. *FastICA* (step 3). The values are far from symmetric (half of them are zero), so the contrast is
   the third moment, whose estimate varies far less than that of the usual ones; these serve later
   starts.
3. *Sparsity pattern* (step 4). A component is a unit's values up to scale, shift and sign. The sign
   is that of the third moment, and the shift moves the point where so much of the mass lies to
   zero: what is above a threshold is on.
4. *The exact finish* (steps 5 to 8, `stages.exact_finish`) is the first to look at X. The weights
   that the linear system of step 8 gives on a pattern point it to where each unit surely is off.

Units may have biases as long as each is off often enough (independence is all that counts), and
weights that are only nearly orthonormal end at the exact answer too, because the finish asks only
for approximate directions. With noise in the labels the finish fails; components that are
independent all the same are handed to least squares.

`faithful=True` is Algorithm 3 and nothing after it: the Gaussian sketch, FastICA from several
starts, and the network of the first for which steps 5 to 8 have a solution. With noise there is
none.

Cost: n units^2 an iteration of FastICA on at most some 20000 samples; memory n units.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.fitting.context import Context
from provenet.fitting.linear import with_output_layer
from provenet.fitting.search.problem import zero_level
from provenet.methods.stages.exact_finish import exact_finish
from provenet.methods.tolerances import (
    ATOM_SHARE,
    DEPENDENCE,
    DEPENDENCE_ERRORS,
    ICA_STEPS,
    ICA_TOLERANCE,
)
from provenet.moments.subspace import possible_widths
from provenet.networks.network import Network

Contrast = str | Callable[[Array], tuple[Array, Array]]

_ON = 0.2
"""How far above its zero a component of variance 1 must be to count as on."""


def third_moment(u: Array) -> tuple[Array, Array]:
    """FastICA's contrast `u^3 / 3`: its derivative, and the mean of its second derivative."""
    return u**2, 2 * u.mean(axis=-1)


_CONTRASTS: tuple[Contrast, ...] = (third_moment, third_moment, "cube", "logcosh", third_moment)
"""One a start."""


# ---------------------------------------------------------------- steps 1 and 2: the sketch


def principal_sketch(left: Array, units: int) -> Array:
    """The principal components of the labels, of variance 1."""
    return np.asarray(left[:, :units] * np.sqrt(len(left)))


def random_sketch(Y: Array, units: int, rng: np.random.Generator) -> Array:
    """`T A` of the paper with a Gaussian T, then of variance 1 and uncorrelated as FastICA asks."""
    centred = Y - Y.mean(axis=0)
    sketch = centred @ rng.standard_normal((Y.shape[1], units))
    return principal_sketch(np.linalg.svd(sketch, full_matrices=False)[0], units)


# ---------------------------------------------------------------- step 3: the components


def independent_components(sketch: Array, contrast: Contrast, seed: int) -> Array | None:
    """Components of mean 0, variance 1 and positive third moment; None if FastICA did not settle.

    Whitened data in, so that FastICA only rotates.
    """
    model = FastICA(
        whiten=False, fun=contrast, random_state=seed, max_iter=ICA_STEPS, tol=ICA_TOLERANCE
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            S = model.fit_transform(sketch)
        except ConvergenceWarning:
            return None
    S = (S - S.mean(axis=0)) / S.std(axis=0)
    return np.asarray(S * np.sign(np.mean(S**3, axis=0)))


def dependence(S: Array) -> float:
    """Largest `|E[s_i^2 s_j]|`, i != j: zero for independent components."""
    third = (S**2).T @ S / len(S)
    return float(np.abs(third - np.diag(np.diag(third))).max())


def are_independent(S: Array) -> bool:
    """Whether no third moment of two components is more than sampling and a little noise give."""
    return dependence(S) <= DEPENDENCE + DEPENDENCE_ERRORS / float(np.sqrt(len(S)))


# ---------------------------------------------------------------- step 4: the patterns


def zero_of(s: Array) -> float:
    """Where a component's mass is densest: the value that it takes when its unit is off."""
    values = np.sort(s)
    width = max(int(ATOM_SHARE * len(values)), 1)
    first = int(np.argmin(values[width:] - values[:-width]))
    return float(np.median(values[first : first + width + 1]))


def sparsity_pattern(S: Array) -> tuple[AnyArray, Array]:
    """Which unit is on where (n, units), and the components with their zeros at zero."""
    shifted = S - np.array([zero_of(s) for s in S.T])
    return shifted > _ON, shifted


def units_on(patterns: AnyArray, values: Array, X: Array) -> tuple[Array, Array]:
    """Weights and biases: the linear system of step 8, on the samples where each unit is on."""
    inputs = np.column_stack([X, np.ones(len(X))])
    solutions = [
        np.linalg.lstsq(inputs[on], value[on], rcond=None)[0]
        for on, value in zip(patterns.T, values.T, strict=True)
    ]
    theta = np.array(solutions)
    return theta[:, :-1], theta[:, -1]


# ---------------------------------------------------------------- the recipe


def ica(context: Context) -> Iterator[Candidate]:
    """Algorithm 3 from several starts: exact networks, then what least squares may start from."""
    samples = context.problem.samples
    X, Y = samples.X, samples.y
    with context.stage("sketch"):
        left, sizes, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
        widths = possible_widths(sizes, context.units)
    rough: dict[int, Network] = {}
    for contrast, units in product(_CONTRASTS, widths):
        if context.out_of_time:
            break
        if units in rough:  # independent, so found, and yet not exact: that is noise
            continue
        with context.stage("decompose", f"FastICA for {units} units"):
            S = _components(context, left, Y, units, contrast)
        if S is None or not _is_on_often_enough(S, X):
            continue
        with context.stage("finish"):
            network, exact = _network(X, Y, S, context)
        if exact:
            yield _candidate(network, sizes)
            if context.faithful:
                return
        elif are_independent(S):
            rough[units] = network
    if context.faithful and rough:
        raise NoAnswer(
            "Algorithm 3 found independent components, and its linear systems have no solution: "
            "the labels carry noise, for which it is not made. Leave out faithful=True."
        )
    for units in widths:
        if units in rough:
            yield _candidate(rough[units], sizes)
    raise NoAnswer(
        f"No start of FastICA gave {widths[0]} independent components that are units: the weights "
        "are not orthonormal on standardised inputs, the inputs are not Gaussian, or there are "
        'more units than outputs; methods "rectified" and "lifting" do not need orthonormal '
        'weights, "expand-prune" serves fewer outputs.'
    )


def _components(
    context: Context, left: Array, Y: Array, units: int, contrast: Contrast
) -> Array | None:
    """Steps 1 to 3."""
    rng = context.rng
    sketch = random_sketch(Y, units, rng) if context.faithful else principal_sketch(left, units)
    return independent_components(sketch, contrast, int(rng.integers(2**31)))


def _is_on_often_enough(S: Array, X: Array) -> bool:
    return bool(sparsity_pattern(S)[0].sum(axis=0).min() > X.shape[1])


def _network(X: Array, Y: Array, S: Array, context: Context) -> tuple[Network, bool]:
    """Steps 4 to 8, and whether they succeeded; else the network of step 4's directions."""
    W, b = units_on(*sparsity_pattern(S), X)
    exact = None if context.noise else _finished(X, Y, W, b, context.spread)
    if exact is not None:
        return exact, True
    return with_output_layer(X, Y, W, b), False


def _finished(X: Array, Y: Array, W: Array, b: Array, spread: float) -> Network | None:
    """Steps 5 to 8, None where they fail or do not explain the labels."""
    try:
        network = exact_finish(X, Y, W, b)
    except NoAnswer:
        return None
    left = np.sqrt(np.mean((network(X) - Y) ** 2))
    return network if left <= zero_level(spread) else None


def _candidate(network: Network, sizes: Array) -> Candidate:
    """The network, and why it has so many units."""
    following = sizes[network.units] if network.units < len(sizes) else 0.0
    why = (
        f"The centred labels have {network.units} singular values that were kept; the smallest is "
        f"{sizes[network.units - 1] / sizes[0]:.1e} of the largest, the next one "
        f"{following / sizes[0]:.1e}."
    )
    return Candidate(network, why)
