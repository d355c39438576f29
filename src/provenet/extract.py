"""`extract`: the network behind a model that can be queried.

A few questions tell the kind of answers (`probing`). Exact ones are traced along lines (`kinks`)
and measured again where there is room (`sharpen`); where one layer does not explain them, layer
after layer is looked for (`several_layers`). Noisy or rounded ones, and those of smooth units, are
sampled (`sampling`).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from provenet.certify.asked import CAME_TO_ITS_END
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent
from provenet.common.progress import StageProgress, Stages
from provenet.common.typing import Progress, Seed
from provenet.common.words import check_seconds
from provenet.data.passes import one_blas_thread
from provenet.extraction.box import Box
from provenet.extraction.clients.door import Model
from provenet.extraction.deadline import Deadline
from provenet.extraction.oracle import Oracle, open_oracle
from provenet.extraction.precision import notice_precision
from provenet.extraction.run import Run, nothing_before, through_link
from provenet.extraction.sampling import METHODS_OF_DEPTH as SAMPLED
from provenet.extraction.scaled import BoxUnits, ScaledOracle
from provenet.fitting.context import Options
from provenet.networks.activations import Activation
from provenet.validation import (
    OPEN,
    as_generator,
    check_link,
    check_options,
    check_surroundings,
    read_activation,
    read_depth,
)


def extract(
    f: Model | Oracle,
    features: int | None = None,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    outputs: int | None = None,
    activation: str | Activation = OPEN,
    noise: float | None = None,
    units: int | tuple[int, ...] | None = None,
    layers: int | str = OPEN,
    low: Any = None,
    high: Any = None,
    cache: Any = None,
    timeout: float = 30.0,
    retries: int = 5,
    output: str | int | None = None,
    link: str = OPEN,
    rng: Seed = None,
    progress: Progress | None = None,
    verbose: bool = False,
) -> Recovery:
    """Recover the network in a model that may be asked.

    Parameters
    ----------
    f
        A function of an array (n, features); a model object: a fitted scikit-learn estimator or
        pipeline, a Keras model, a torch module; an .onnx or TorchScript file; an address, which is
        sent `{"inputs": [[..], ..]}` and answers `{"outputs": [..]}`, or a `provenet.Endpoint`
        that says how it is asked otherwise; or an oracle.
    features
        Number of inputs; only needed where nothing tells it.
    budget
        Most answers to use, those of the cache included. Exact answers take about two a parameter,
        and 600.
    seconds
        Stop after so long with what was found until then; without it, when the work is done.
    outputs
        Number of outputs; found when left out.
    activation
        Of the units: a name such as "tanh", or a `provenet.Activation`. "auto" finds it where
        answers are exact, also the slope of leaky ReLU; where they are not, units are taken to be
        ReLU.
    noise
        Standard deviation of the answers' noise, if known; estimated when left out.
    units
        Number of units, or a tuple of the widths of several layers; found when left out.
    layers
        Number of hidden layers. "auto" finds it where answers are exact and units ReLU, and is one
        where they are not.
    low, high
        Ask no input outside of these: numbers, or one a feature.
    cache
        File in which answers are kept: a run that was killed goes on from there.
    timeout, retries
        Seconds a request, and how often it is tried again, where `f` is an address.
    output
        Which output to ask, by name or number, of a model that has several.
    link
        How answers come from the network's outputs: "identity", as they are; "logit", as a
        probability, or two; "softmax", as probabilities of three classes or more. "auto" tells
        them. Probabilities are asked where the model is not saturated; the network returned has
        the link, and `predict_proba`. Where answers are two classes and nothing else (two
        numbers, yes and no, names, or one of two columns), the network is read off the boundary
        between them, up to a positive factor, unless the link is "identity".
    rng
        Seed or generator; the same seed gives the same answer.
    progress
        Called as `progress(stage, fraction, message)`; a negative fraction means unknown.
    verbose
        Show bars of progress on stderr, as the command line does, unless `progress` is given.

    Raises
    ------
    InvalidInput
        If the input cannot be used. Bad luck is never an exception: see `Recovery.status`.
    EndpointLost
        If an address stopped answering.
    """
    generator = as_generator(rng)
    units = tuple(units) if isinstance(units, list) else units
    number = read_depth(layers, units)
    units = units[0] if isinstance(units, tuple) and number == 1 else units
    options = _checked(units, noise, activation, number)
    check_surroundings(progress, cache=cache)
    if seconds is not None:
        check_seconds("seconds", seconds)
    oracle = open_oracle(
        f,
        features,
        outputs=outputs,
        budget=budget,
        cache=cache,
        low=low,
        high=high,
        timeout=timeout,
        retries=retries,
        output=output,
    )
    link = check_link(link)
    oracle.deadline = Deadline.after(seconds)
    bars = StageProgress.on_stderr() if verbose and progress is None else None
    stages = Stages(bars or progress)
    with one_blas_thread(), bars or nullcontext():
        try:
            notice_precision(oracle)
            result = _extracted(oracle, generator, options, number, stages, link)
        except Spent as spent:
            result = nothing_before(spent, oracle)
    # Sampled answers bring the timings of their last recovery.
    timings = {**stages.seconds, **result.timings, "total": stages.total}
    return replace(result, queries=oracle.used, timings=timings)


def _extracted(
    oracle: Oracle,
    rng: np.random.Generator,
    options: Options,
    layers: int | None,
    stages: Stages,
    link: str,
) -> Recovery:
    """What is found in the model's box, or in units of a box whose sides differ much."""
    box = Box.of(oracle.low, oracle.high, oracle.features)
    run = Run(oracle, box, rng, options, layers, stages)
    uneven = BoxUnits.wanted(oracle, box)
    if uneven is None:
        return _advised(through_link(run, link), box)
    run = replace(run, oracle=ScaledOracle(oracle, uneven), box=uneven.inside())
    return uneven.undone(_advised(through_link(run, link), box))


def _advised(result: Recovery, box: Box) -> Recovery:
    """Where a search that came to its end found nothing about zero, it may be elsewhere."""
    found = result.network is not None and result.status is Status.FAILED
    stopped = any(check.name == CAME_TO_ITS_END and not check.holds for check in result.checks)
    if not found or stopped or not box.unlimited:
        return result
    return replace(result, message=f"{result.message} {_NO_BOX}")


_NO_BOX = (
    "Inputs were about zero and of size one: where those of the model are not, give their range "
    "with low= and high=."
)


def _checked(units: Any, noise: Any, activation: Any, layers: int | None) -> Options:
    """What is asked for, if the search on random points could serve it."""
    first, is_open = read_activation(activation)
    depth = layers or 1
    options = Options(units, noise, first, open_activation=is_open and depth == 1, layers=depth)
    own = check_options(SAMPLED[depth > 1], options, np.inf)[1]
    return replace(own, open_activation=is_open)
