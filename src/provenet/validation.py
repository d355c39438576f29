"""Checks at the door: bad input gets one clear sentence before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from provenet.common.arguments import (
    check_deviation,
    check_path,
    check_seconds,
    check_units,
    is_whole,
)
from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.common.words import WORDS_ARE_CLASSES
from provenet.data.checkpoint import Checkpoint
from provenet.data.labels import possible_links
from provenet.data.passes import Report
from provenet.data.sources import ArraySource, Source
from provenet.data.standardisation import (
    Standardisation,
    dependent_columns,
    label_variance,
    standardisation_from,
)
from provenet.fitting.losses import loss_of_classes
from provenet.fitting.workspace import Wishes
from provenet.methods import METHODS, Method
from provenet.methods.options import OPTIONS, Option
from provenet.networks.activations import RELU, Activation, get_activation
from provenet.networks.network import LINKS
from provenet.networks.own_activation import check_own_activation

_LARGEST = 1e70
"""Derived: fourth powers of the data must stay finite (below 1e308)."""
_SIGMAS = 8.0
"""Convention: standard errors by which means and covariances of standard normal inputs may be off;
of as many entries as there may be, none is off by so many by chance."""
_CONSTANT = 1e-12
"""Convention: labels whose spread is this share of their mean are constant: some thousand times
what rounding leaves (eps, 2.2e-16), since sums of many add up more."""


OPEN = "auto"
"""In place of an activation's name: it is to be found."""
LIKELIHOOD = "likelihood"
"""The method for labels that are classes."""
FOR_CLASSES = (OPEN, "expand-prune", LIKELIHOOD)
"""Methods that may be asked for when labels are classes; they are served by that one."""


def read_activation(activation: Any) -> tuple[Activation, bool]:
    """The activation of that name, and whether it is open; ReLU is the first to try then."""
    is_open = isinstance(activation, str) and activation == OPEN
    return (RELU, True) if is_open else (get_activation(activation), False)


DEEPEST = 3
"""Convention: hidden layers up to which `layers="auto"` goes."""


def read_layers(
    layers: Any, units: Any, method: Any, methods: Mapping[str, Method]
) -> tuple[tuple[int, str], ...]:
    """The numbers of hidden layers to try, one after the other, each with the method for it."""
    several = isinstance(units, tuple)
    if several and not units:
        raise InvalidInput("units must hold a width for every layer, not be empty: leave it out.")
    asked = len(units) if several and is_whole(layers) and layers == 1 else layers
    if isinstance(asked, str) and asked == OPEN:
        if several:
            raise InvalidInput(
                "Widths for every layer go with the number of layers: leave units= out, or give "
                f"layers={len(units)}."
            )
        depths: tuple[int, ...] = tuple(range(1, DEEPEST + 1))
    else:
        if not is_whole(asked) or asked < 1:
            raise InvalidInput(
                f"layers must be a whole number of at least 1, or {OPEN!r}, not {layers!r}."
            )
        depths = (asked,)
    own = methods.get(method) if isinstance(method, str) else None
    if own is not None and own.deep and depths == (1,):
        depths = (2,) if layers == 1 and not several else depths
    if several and depths != (len(units),):
        raise InvalidInput(
            f"units={units!r} are the widths of {len(units)} layers, not of {depths[0]}: give as "
            "many as there are layers."
        )
    return tuple((depth, _method_for(depth, method, methods)) for depth in depths)


def read_depth(layers: Any, units: Any) -> int | None:
    """The number of hidden layers that a model to be asked has; None where it is to be found."""
    several = isinstance(units, tuple)
    if several and not units:
        raise InvalidInput("units must hold a width for every layer, not be empty: leave it out.")
    if isinstance(layers, str) and layers == OPEN:
        return len(units) if several else None
    if not is_whole(layers) or layers < 1:
        raise InvalidInput(
            f"layers must be a whole number of at least 1, or {OPEN!r}, not {layers!r}."
        )
    if several and layers != len(units):
        raise InvalidInput(
            f"units={units!r} are the widths of {len(units)} layers, not of {layers}: give as "
            "many as there are layers."
        )
    return int(layers)


def check_link(link: Any) -> str:
    """The link, or what leaves it open, if it is one that there is."""
    if link != OPEN and link not in LINKS:
        raise InvalidInput(
            f"link must be one of {', '.join(LINKS)} or {OPEN!r}, not {link!r}: leave it out."
        )
    return str(link)


def read_link(link: Any, source: Source, method: Method, wishes: Wishes) -> tuple[str, ...]:
    """The links to try, the likeliest first; labels of a lowest layer have none."""
    if link == OPEN:
        readable = source.fixed and source.holdable
        if not readable or method.lowest_layer:
            return ("identity",)
        plain = wishes.refine is None and not wishes.open_activation
        plain = plain and METHODS[LIKELIHOOD].serves(wishes.activation)
        classes = link_of_classes(source) if method.name == OPEN and plain else None
        if classes is not None:
            return (classes,)
        first = possible_links(source.rows(0, min(source.size, source.block_rows))[1])
        if first == ("identity",) or source.size <= source.block_rows:
            return first
        return possible_links(source.rows(0, source.size)[1])
    if check_link(link) != "identity" and method.lowest_layer:
        raise InvalidInput(
            f"The method {method.name!r} takes labels as they are: give link='identity', or "
            'method="auto".'
        )
    return (str(link),)


def link_of_classes(source: Source) -> str | None:
    """The link of labels that are classes: 0 and 1, or rows with a single one among zeros."""
    if not (source.fixed and source.holdable):
        return None
    if loss_of_classes(source.rows(0, min(source.size, source.block_rows))[1]) is None:
        return None
    y = source.rows(0, source.size)[1]
    loss = loss_of_classes(y)
    if loss is None:
        return None
    unseen = [] if y.ndim == 1 else np.flatnonzero(~y.any(axis=0)).tolist()
    if unseen:
        raise InvalidInput(
            f"No sample is of class {unseen[0]}: a class that was not seen cannot be told from the "
            "others. Leave its column out, or take samples of it."
        )
    return loss.link


def _method_for(depth: int, method: Any, methods: Mapping[str, Method]) -> Any:
    """The method that was asked for, if it serves so many layers; "auto" takes one that does."""
    deep = next(name for name, other in methods.items() if other.deep)
    if method == OPEN:
        return method if depth == 1 else deep
    own = methods.get(method) if isinstance(method, str) else None
    if own is not None and own.deep != (depth > 1):
        instead = f"method={deep!r}" if depth > 1 else "layers=2"
        raise InvalidInput(
            f"The method {method!r} does not serve {depth} hidden "
            f"layer{'' if depth == 1 else 's'}: use {instead}."
        )
    return method


def check_options(
    method: str, methods: Mapping[str, Method], wishes: Wishes, budget: float
) -> tuple[Method, Wishes]:
    """The chosen method and the wishes with its own activation, if all options can be used."""
    if not isinstance(method, str) or method not in methods:
        raise InvalidInput(f"The method {method!r} is unknown: use one of {', '.join(methods)}.")
    chosen = methods[method]
    if wishes.open_activation and not chosen.finds_activation:
        finders = " or ".join(
            f"method={m!r}" for m, other in methods.items() if other.finds_activation
        )
        instead = "leave layers= out" if chosen.deep else f"use {finders}"
        raise InvalidInput(
            f"The method {method!r} cannot find the activation: name it in place of {OPEN!r}, "
            f"or {instead}."
        )
    wishes = replace(wishes, activation=chosen.activation_for(wishes.activation))
    check_own_activation(wishes.activation)
    if not chosen.serves(wishes.activation):
        served = ", ".join((*chosen.activations, *(["any smooth one"] * chosen.any_smooth)))
        others = [name for name, other in methods.items() if other.serves(wishes.activation)]
        instead = f": use method={others[0]!r}" if others else ""
        raise InvalidInput(
            f"The method {method!r} serves the activations {served} only, not "
            f"{wishes.activation.name!r}{instead}."
        )
    for option in OPTIONS.values():
        _check_option(option, getattr(wishes, option.name), chosen, methods)
    if chosen.check_objective is not None:
        chosen.check_objective(wishes.objective, wishes.activation)
    if isinstance(wishes.units, tuple) and len(wishes.units) > 1 and not chosen.deep:
        raise InvalidInput(
            f"The method {method!r} serves one hidden layer, not units={wishes.units!r}: give a "
            f"whole number, or use provenet.recover with layers={len(wishes.units)}."
        )
    widths = wishes.units if chosen.deep and isinstance(wishes.units, tuple) else ()
    for width in widths:
        check_units("Each of units", width)
    check_units_and_noise(None if widths else wishes.units, wishes.noise)
    check_seconds("budget", budget)
    return chosen, wishes


def _check_option(
    option: Option, value: Any, chosen: Method, methods: Mapping[str, Method]
) -> None:
    """What the option itself says of the value, and whether the method has it at all."""
    if option in chosen.options:
        option.check(option.name, value)
    elif option.is_wished(value):
        others = [name for name, method in methods.items() if option in method.options]
        which = "the method" if len(others) == 1 else "one of the methods"
        raise InvalidInput(
            f"The method {chosen.name!r} does not have {option.name}=: leave it out, or use "
            f"{which} {', '.join(others)}."
        )


def check_units_and_noise(units: Any, noise: Any) -> None:
    """What both doors may be told; None is what they are to find."""
    if units is not None:
        check_units("units", units)
    if noise is not None:
        check_deviation("noise", noise)


def check_surroundings(progress: Any, **files: Any) -> None:
    """What both doors tell and write beside the answer; None is nothing."""
    if progress is not None and not callable(progress):
        raise InvalidInput(
            f"progress must be a function of stage, fraction and message, not {progress!r}."
        )
    for name, path in files.items():
        if path is not None:
            check_path(name, path)


def open_checkpoint(path: Any, source: Source, report: Report) -> Checkpoint:
    """The checkpoint of a source's passes; raises if the file is another's."""
    if not source.fixed:
        raise InvalidInput(
            "checkpoint= keeps passes over given samples, and this source makes its own: leave it "
            "out, or write the samples to a file first."
        )
    return Checkpoint(path, source, report=report)


def as_generator(rng: Any) -> np.random.Generator:
    """The generator behind a seed."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"rng must be a whole number from 0 on, or a numpy.random.Generator, not {rng!r}."
        ) from None


def as_source(X: Any, y: Any) -> Source:
    """Samples as a source; a source passes through."""
    if isinstance(X, Source):
        if y is not None:
            raise InvalidInput("A source brings its own labels: leave y out.")
        if isinstance(X, ArraySource):
            checked = as_source(X.X, X.y)
            if checked.outputs == X.outputs:
                return X
            checked.feature_names = X.feature_names
            return checked
        return X
    if _is_dask(X) or _is_dask(y):
        return _dask_source(X, y)
    if y is None:
        raise InvalidInput("Labels y are missing: give X and y, or a source in place of both.")
    inputs, labels = _numeric(X, "X"), _numeric(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    _check_shapes(inputs, labels)
    source = ArraySource(inputs, labels)
    source.feature_names = names_of_columns(X)
    return source


def names_of_columns(table: Any) -> tuple[str, ...]:
    """Names of a table's columns, of pandas or like it; none where not all of them are words."""
    names = tuple(getattr(table, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else ()


def _is_dask(data: Any) -> bool:
    """Whether this is a Dask array, without importing Dask."""
    return type(data).__module__.partition(".")[0] == "dask"


def _dask_source(X: Any, y: Any) -> Source:
    from provenet.data.dask import DaskArrays, as_dask_arrays

    inputs, labels = as_dask_arrays(X, y)
    _check_shapes(inputs, labels)
    return DaskArrays(inputs, labels)


def _check_shapes(inputs: Any, labels: Any) -> None:
    """Raise unless two arrays, of numpy or Dask, are inputs and their labels."""
    if inputs.ndim != 2:
        raise InvalidInput(
            f"X must have two dimensions (samples, features), not {inputs.ndim}; "
            "use X.reshape(-1, 1) for a single feature."
        )
    if labels.ndim not in (1, 2):
        raise InvalidInput(
            f"y must have shape (samples,) or (samples, outputs), not {labels.shape}: reshape it."
        )
    if len(inputs) != len(labels):
        raise InvalidInput(
            f"X has {len(inputs)} samples but y has {len(labels)}: they must be as many."
        )
    for name, array in (("X", inputs), ("y", labels)):
        if array.size == 0:
            raise InvalidInput(f"{name} has shape {array.shape}: there is nothing to learn from.")


def _numeric(data: Any, name: str) -> AnyArray:
    """Real numbers as an array, without a copy where that is possible (memory-mapped files)."""
    try:
        if isinstance(data, np.ma.MaskedArray):
            raise InvalidInput(f"{name} is a masked array: leave out the samples with gaps.")
        array = np.asanyarray(data)
        if array.dtype.kind == "O":
            array = array.astype(float)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        reason = str(error).rstrip(".")
        classes = f"; {WORDS_ARE_CLASSES}" if name == "y" and "string to float" in reason else ""
        raise InvalidInput(f"{name} must be an array of numbers: {reason}{classes}.") from None
    if array.dtype.kind not in "fiub":
        words = name == "y" and array.dtype.kind in "US"
        remedy = WORDS_ARE_CLASSES if words else "convert it with astype(float)"
        raise InvalidInput(f"{name} must hold real numbers, not {array.dtype}: {remedy}.")
    return np.asanyarray(array)


def check_data(source: Source, units: int | None, method: Method) -> Standardisation:
    """Check shapes and values, and standardise: the passes that every method needs anyway."""
    _check_counts(source, units, method)
    _check_memory(source, method)
    if source.inputs_alone and not method.inputs_alone:
        raise InvalidInput(
            f"The method {method.name!r} needs the labels that the samples were kept by: give "
            'BiasedSource both, or use method="lowest-layer", which takes inputs alone.'
        )
    if not source.fixed:
        standardisation = source.standardisation()
        if not standardisation.label_spread > _CONSTANT * np.abs(standardisation.label_mean).max():
            raise _constant_labels(source, method)
        _check_standard_inputs(standardisation, method)
        return standardisation
    with np.errstate(over="ignore", invalid="ignore"):
        sums, origin, label_origin = source.linear_sums()
    if not np.isfinite(np.sum(sums.xx) + np.sum(sums.yy)):
        _check_finite(source)
    largest = max(float(np.diag(sums.xx).max()), float(np.max(sums.yy)))
    if not largest < _LARGEST**2 * sums.n:
        raise InvalidInput(
            f"X or y holds values beyond {_LARGEST:.0e}, whose squares overflow: rescale them."
        )
    variance = label_variance(sums)
    rounding = _CONSTANT**2 * (label_origin**2 + sums.yy / sums.n)
    if np.all((variance <= rounding) | (variance < _LARGEST**-2)):
        _check_not_tiny("y", sums.yy / sums.n, label_origin)
        raise _constant_labels(source, method)
    dependent = dependent_columns(sums)
    if dependent:
        _check_not_tiny("X", np.diag(sums.xx)[dependent] / sums.n, origin[dependent])
        raise InvalidInput(
            f"Columns {dependent} of X are constant, duplicated or linear combinations of the "
            "others (counted from 0): remove them."
        )
    standardisation = standardisation_from(sums, origin, label_origin)
    _check_standard_inputs(standardisation, method)
    return standardisation


def _check_not_tiny(name: str, squares: Array, origin: Array) -> None:
    """Raise for values that only seem to be constant: their squares are zero, or nearly so."""
    size = float(np.maximum(np.sqrt(squares), np.abs(origin)).max())
    if 0 < size < 1 / _LARGEST:
        raise InvalidInput(
            f"{name} holds values that differ by less than {1 / _LARGEST:.0e}, whose squares "
            "underflow: rescale them."
        )


def _constant_labels(source: Source, method: Method) -> Exception:
    """Units of a high threshold may never fire: that is bad luck, not bad input."""
    if not method.lowest_layer:
        return InvalidInput("y is constant: there is no network to see; check the labels.")
    if "step" not in method.activations:
        return NoAnswer(f"All {source.size} samples have one label: check the labels.")
    return NoAnswer(
        f"No unit fires: all {source.size} samples have one label. A unit of threshold 3 fires on "
        "one standard normal sample in 741, one of threshold 4 on one in 31,574: take more "
        "samples, or check the labels."
    )


def _check_standard_inputs(standardisation: Standardisation, method: Method) -> None:
    if not method.standard_inputs or standardisation.samples is None:
        return
    root = np.linalg.inv(standardisation.whiten)
    off = max(
        float(np.abs(standardisation.mean).max()),
        float(np.abs(root @ root.T - np.eye(len(root))).max()),
    )
    if off > _SIGMAS * np.sqrt(2 / standardisation.samples):
        raise InvalidInput(
            f"The method {method.name!r} needs inputs of mean 0 and covariance I, and X is off by "
            f"{off:.2g}: 0/1 weights are those of standard normal features; rescale X if that is "
            "what they were."
        )


def _check_counts(source: Source, units: int | None, method: Method) -> None:
    outputs = source.outputs or 1
    if outputs > 1 and method.one_output:
        raise InvalidInput(
            f"The method {method.name!r} serves one output, and y has {outputs}: use method="
            '"lifting" (exact labels), "rectified" (Gaussian inputs) or "expand-prune".'
        )
    if outputs < method.fewest_outputs:
        raise InvalidInput(
            f"The method {method.name!r} needs at least {method.fewest_outputs} outputs, and y has "
            f'{outputs}: use method="expand-prune" (any inputs) or "biased-relu" (Gaussian inputs).'
        )
    if units is not None and method.independent_outputs and units > outputs:
        raise InvalidInput(
            f"The method {method.name!r} needs at least as many outputs as units, and "
            f'{outputs} < {units}: use method="expand-prune" or "rank-deficient".'
        )
    if units is not None and method.independent_units and units > source.features:
        raise InvalidInput(
            f"The method {method.name!r} needs at most as many units as features, and "
            f'{units} > {source.features}: use method="expand-prune".'
        )
    units = 1 if units is None or method.deep else units  # higher units may have fewer inputs
    parameters = units * (source.features + outputs) + outputs
    if source.labels < parameters:
        raise InvalidInput(
            f"{source.size} samples are fewer than the {parameters} parameters of a network with "
            f"{source.features} features and {units} units: take more samples."
        )


def _check_memory(source: Source, method: Method) -> None:
    if method.in_memory and not source.holdable:
        raise InvalidInput(
            f"The method {method.name!r} holds all samples in memory, and {source.size} samples "
            f"are {source.bytes / 1e9:.3g} GB, above its limit of "
            f"{source.memory_limit / 1e9:.3g} GB: take at most "
            f"{source.memory_limit * source.size // source.bytes} of them."
        )


def _check_finite(source: Source) -> None:
    """Raise for the first sample that is not finite; without one, sums have overflowed."""
    for stretch in source.stretches(source.block_rows):
        if source.partial_total(_not_finite, stretch.start, stretch.stop, source.block_rows):
            _name_first_not_finite(source, stretch.start, stretch.stop)


def _not_finite(X: Array, y: Array) -> int:
    with np.errstate(all="ignore"):  # a sum is finite only if all that it adds up is
        return 0 if np.isfinite(X.sum()) and np.isfinite(y.sum()) else 1


def _name_first_not_finite(source: Source, first: int, last: int) -> None:
    for start in range(first, last, source.block_rows):
        X, y = source.rows(start, min(start + source.block_rows, last))
        finite = np.isfinite(y.reshape(len(y), -1)).all(axis=1)
        rows = np.flatnonzero(~(np.isfinite(X).all(axis=1) & finite))
        if len(rows):
            row = int(rows[0])
            name = "y" if np.isfinite(X[row]).all() else "X"
            raise InvalidInput(
                f"{name} is not finite in row {start + row}: remove or repair such rows."
            )
