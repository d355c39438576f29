"""Checks of what users give: bad input gets one clear sentence before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import row_blocks
from provenet.common.words import check_deviation, check_path, check_seconds, check_units, is_whole
from provenet.data.labels import possible_links
from provenet.data.sources import ArraySource, Source, as_numbers, check_samples
from provenet.data.standardisation import (
    Standardisation,
    dependent_columns,
    label_variance,
    standardisation_from,
)
from provenet.fitting.context import Options
from provenet.fitting.losses import loss_of_classes
from provenet.methods import METHODS, Method
from provenet.methods.options import OPTIONS
from provenet.networks.activations import RELU, Activation, check_own_activation, get_activation
from provenet.networks.network import LINKS

OPEN = "auto"
"""In place of a method, a link, an activation or a number of layers: it is to be found."""
LIKELIHOOD = "likelihood"
"""The method for labels that are classes."""


# ---------------------------------------------------------------- options


def read_activation(activation: Any) -> tuple[Activation, bool]:
    """The activation of that name, and whether it is open; then ReLU is the first to try."""
    is_open = isinstance(activation, str) and activation == OPEN
    return (RELU, True) if is_open else (get_activation(activation), False)


def read_depth(layers: Any, units: Any) -> int | None:
    """The number of hidden layers; None if it is to be found."""
    several = isinstance(units, tuple)
    if several and not units:
        raise InvalidInput("units must hold a width for every layer: leave it out to find them.")
    if isinstance(layers, str) and layers == OPEN:
        return len(units) if several else None
    if not is_whole(layers) or layers < 1:
        wanted = f"a whole number of at least 1, or {OPEN!r}"
        raise InvalidInput(f"layers must be {wanted}, not {layers!r}.")
    if several and layers != len(units):
        raise InvalidInput(
            f"units={units!r} are the widths of {len(units)} layers, not of {layers}: correct one."
        )
    return int(layers)


def read_layers(layers: Any, units: Any, method: Any) -> list[tuple[int, str]]:
    """The numbers of hidden layers to try in turn, each with its method.

    A tuple of widths, or a method for several layers, overrides the default of one layer.
    """
    deep = next(name for name, other in METHODS.items() if other.deep)
    own = METHODS.get(method) if isinstance(method, str) and method != OPEN else None
    if is_whole(layers) and layers == 1:
        layers = OPEN if isinstance(units, tuple) else 2 if own is not None and own.deep else 1
    depth = read_depth(layers, units)
    numbers = (1, 2, 3) if depth is None else (depth,)
    for number in numbers:
        if own is not None and own.deep != (number > 1):
            instead = f"method={deep!r}" if number > 1 else "layers=2"
            problem = f"does not serve {number} hidden layer{'s' * (number > 1)}"
            raise InvalidInput(f"The method {method!r} {problem}: use {instead}.")
    return [(number, deep if method == OPEN and number > 1 else method) for number in numbers]


def check_options(method: str, options: Options, budget: float) -> tuple[Method, Options]:
    """The chosen method and the options with its own activation, if all of them can be used."""
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidInput(f"The method {method!r} is unknown: use one of {', '.join(METHODS)}.")
    chosen, units = METHODS[method], options.units
    if options.open_activation and not chosen.finds_activation:
        finders = " or ".join(f"method={m!r}" for m, o in METHODS.items() if o.finds_activation)
        raise InvalidInput(
            f"The method {method!r} cannot find the activation: name it, or "
            f"{'leave layers= out' if chosen.deep else f'use {finders}'}."
        )
    activation = chosen.activation_for(options.activation)
    check_own_activation(activation)
    if not chosen.serves(activation):
        served = ", ".join((*chosen.activations, *(["any smooth one"] * chosen.any_smooth)))
        others = [name for name, other in METHODS.items() if other.serves(activation)]
        raise InvalidInput(
            f"The method {method!r} serves the activations {served} only, not "
            f"{activation.name!r}{f': use method={others[0]!r}' if others else ''}."
        )
    for option in OPTIONS.values():
        value = getattr(options, option.name)
        if option in chosen.options:
            option.check(option.name, value)
        elif option.is_given(value):
            names = [name for name, other in METHODS.items() if option in other.options]
            problem = f"does not have {option.name}=: leave it out, or use {', '.join(names)}"
            raise InvalidInput(f"The method {method!r} {problem}.")
    if chosen.check_objective is not None:
        chosen.check_objective(options.objective, activation)
    if isinstance(units, tuple) and len(units) > 1 and not chosen.deep:
        raise InvalidInput(
            f"The method {method!r} serves one hidden layer, not units={units!r}: give a number, "
            f"or use provenet.recover with layers={len(units)}."
        )
    for width in units if chosen.deep and isinstance(units, tuple) else (units,):
        if width is not None or isinstance(units, tuple):
            check_units("units", width)
    if options.noise is not None:
        check_deviation("noise", options.noise)
    check_seconds("budget", budget)
    return chosen, replace(options, activation=activation)


def check_surroundings(progress: Any, **files: Any) -> None:
    """The progress function, and names of files that are written; each may be None."""
    if progress is not None and not callable(progress):
        wanted = "a function of stage, fraction and message"
        raise InvalidInput(f"progress must be {wanted}, not {progress!r}.")
    for name, path in files.items():
        if path is not None:
            check_path(name, path)


def as_generator(rng: Any) -> np.random.Generator:
    """The generator behind a seed."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        wanted = "a whole number from 0 on, or a numpy.random.Generator"
        raise InvalidInput(f"rng must be {wanted}, not {rng!r}.") from None


# ---------------------------------------------------------------- links


def check_link(link: Any) -> str:
    """The link, if there is such a link, or "auto"."""
    if link != OPEN and link not in LINKS:
        wanted = f"{', '.join(LINKS)} or {OPEN!r}"
        raise InvalidInput(f"link must be one of {wanted}, not {link!r}: leave it out.")
    return str(link)


def read_link(link: Any, source: Source, method: Method, options: Options) -> tuple[str, ...]:
    """The links to try, the most likely first; labels of a lowest layer have none."""
    if check_link(link) != OPEN:
        if link != "identity" and method.lowest_layer:
            problem = "takes labels as they are: give link='identity'"
            raise InvalidInput(f"The method {method.name!r} {problem}.")
        return (str(link),)
    if method.lowest_layer or not (source.fixed and source.holdable):
        return ("identity",)
    plain = method.name == OPEN and options.refine is None and not options.open_activation
    if plain and METHODS[LIKELIHOOD].serves(options.activation):
        classes = link_of_classes(source)
        if classes is not None:
            return (classes,)
    links = possible_links(source.rows(0, min(source.size, source.block_rows))[1])
    return links if links == ("identity",) else possible_links(source.rows(0, source.size)[1])


def link_of_classes(source: Source) -> str | None:
    """The link of labels that are classes: 0 and 1, or rows with a single one among zeros."""
    if not (source.fixed and source.holdable):
        return None
    if loss_of_classes(source.rows(0, min(source.size, source.block_rows))[1]) is None:
        return None
    y = source.rows(0, source.size)[1]
    loss = loss_of_classes(y)
    if loss is not None and y.ndim == 2 and not y.any(axis=0).all():
        raise InvalidInput(
            f"No sample is of class {int(np.argmin(y.any(axis=0)))}: leave its column out, or take "
            "samples of it."
        )
    return None if loss is None else loss.link


# ---------------------------------------------------------------- samples as a source


def as_source(X: Any, y: Any) -> Source:
    """Samples as a source; a source passes through."""
    if isinstance(X, Source):
        if y is not None:
            raise InvalidInput("A source brings its own labels: leave y out.")
        checked = as_source(X.X, X.y) if type(X) is ArraySource else X
        if checked.outputs == X.outputs:
            return X
        checked.feature_names = X.feature_names
        return checked
    if y is None:
        raise InvalidInput("Labels y are missing: give X and y, or a source in place of both.")
    read: Callable[[Any, str], Any] = as_numbers
    make: Callable[[Any, Any], Source] = ArraySource
    if any(type(data).__module__.partition(".")[0] == "dask" for data in (X, y)):
        from provenet.data.dask import DaskArrays, as_dask_array

        read, make = as_dask_array, DaskArrays
    inputs, labels = read(X, "X"), read(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    check_samples(inputs, labels)
    source, names = make(inputs, labels), tuple(getattr(X, "columns", ()))
    if all(isinstance(name, str) for name in names):  # of a table of pandas or similar
        source.feature_names = names
    return source


# ---------------------------------------------------------------- shapes and values


def check_data(source: Source, units: int | None, method: Method) -> Standardisation:
    """Check shapes and values, and standardise: the passes that every method needs anyway."""
    outputs, features, known = source.outputs or 1, source.features, units or 0
    limit, use = source.memory_limit, 'use method="expand-prune"'
    for wrong, problem in (
        (method.one_output and outputs > 1, f"serves one output, and y has {outputs}: {use}"),
        (outputs < method.fewest_outputs, f"needs {method.fewest_outputs} outputs or more: {use}"),
        (
            method.independent_outputs and known > outputs,
            f"needs at least as many outputs as units, and {outputs} < {units}: {use}",
        ),
        (
            method.independent_units and known > features,
            f"needs at most as many units as features, and {units} > {features}: {use}",
        ),
        (
            method.in_memory and not source.holdable,
            f"holds all samples in memory, {limit / 1e9:.3g} GB at most, and these are "
            f"{source.bytes / 1e9:.3g} GB: take at most {limit * source.size // source.bytes}",
        ),
        (
            source.inputs_alone and not method.inputs_alone,
            "needs the labels that the samples were kept by: give BiasedSource both, or use "
            'method="lowest-layer"',
        ),
    ):
        if wrong:
            raise InvalidInput(f"The method {method.name!r} {problem}.")
    units = 1 if units is None or method.deep else units  # higher units may have fewer inputs
    parameters = units * (features + outputs) + outputs
    if source.labels < parameters:
        raise InvalidInput(
            f"{source.size} samples are fewer than the {parameters} parameters of a network with "
            f"{features} features and {units} units: take more samples."
        )
    if source.fixed:
        standardisation = _of_given_samples(source, method)
    else:
        standardisation = source.standardisation()
        if not standardisation.label_spread > 1e-12 * np.abs(standardisation.label_mean).max():
            raise _constant_labels(source, method)
    if method.standard_inputs and standardisation.samples is not None:
        root = np.linalg.inv(standardisation.whiten)
        covariance = float(np.abs(root @ root.T - np.eye(len(root))).max())
        off = max(float(np.abs(standardisation.mean).max()), covariance)
        if off > 8 * np.sqrt(2 / standardisation.samples):  # of no entry by chance
            raise InvalidInput(
                f"The method {method.name!r} needs inputs of mean 0 and covariance I, and X is off "
                f"by {off:.2g}: rescale X if its features were standard normal."
            )
    return standardisation


def _of_given_samples(
    source: Source, method: Method, rounding: float = 1e-12, largest: float = 1e70
) -> Standardisation:
    """The standardisation, if all values are finite and vary.

    Labels are constant if their spread is `rounding` of their mean: some thousand eps, because of
    the rounding of sums. Fourth powers of values up to `largest` are finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums, origin, label_origin = source.linear_sums()
    if not (np.isfinite(sums.xx).all() and np.isfinite(sums.yy).all()):
        _check_finite(source)
    size = float(max(np.diag(sums.xx).max(), np.max(sums.yy)))
    if not size < largest**2 * sums.n:
        raise InvalidInput(f"Values of X or y beyond {largest:.0e} overflow: rescale them.")
    variance, squares = label_variance(sums), label_origin**2 + sums.yy / sums.n
    if np.all((variance <= rounding**2 * squares) | (variance < largest**-2)):
        raise _constant_labels(source, method)
    dependent = dependent_columns(sums)
    if dependent:
        raise InvalidInput(
            f"Columns {dependent} of X (counted from 0) are constant, duplicated or linear "
            "combinations of the others: remove them (or rescale tiny values)."
        )
    return standardisation_from(sums, origin, label_origin)


def _constant_labels(source: Source, method: Method) -> Exception:
    """Units of a high threshold may never fire: that is bad luck, not bad input."""
    if not method.lowest_layer:
        return InvalidInput("y is constant: check the labels (or rescale tiny values).")
    return NoAnswer(
        f"No unit fires: all {source.size} samples have one label. A unit of threshold 4 fires on "
        "one standard normal sample in 31,574: take more samples, or check the labels."
    )


def _check_finite(source: Source) -> None:
    """Raise if a sample is not finite; otherwise sums have overflowed."""
    for block in row_blocks(source.size, max(1, 2**25 * source.size // source.bytes)):
        X, y = source.rows(block.start, block.stop)
        for name, values in (("X", X), ("y", y.reshape(len(y), -1))):
            finite = np.isfinite(values).all(axis=1)
            if not finite.all():
                row = block.start + int(np.argmin(finite))
                place = f"{name} is not finite in row {row}"
                raise InvalidInput(f"{place}: remove or repair such rows.")
