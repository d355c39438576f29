"""Activations that a graph computes in several nodes, known by their values.

Programs write activations as formulas: `0.5 z (1 + Erf(z / 1.4142135))` is gelu, `z Sigmoid(z)` is
silu, `Log(1 + Exp(z))` is softplus, `Max(z, 0.1 z)` a leaky ReLU. Nodes that act on each number by
itself make a function g of one number z. It is kept beside the value, and where it is a multiple of
an activation that has a name, `g = alpha sigma` at a few z, it is read as units of it. Formulas
need no list of spellings then; and what only looks alike is refused later, because the network is
compared with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import NAMES, Activation, get_activation, leaky_relu
from provenet.networks.formats.onnx_values import Formula, Value
from provenet.networks.tolerances import FORMULA_POINTS, PLAIN_FACTOR, SAME_FORMULA

Attributes = Mapping[str, Any]


def formula_of(
    operator: str, attributes: Attributes, arguments: Sequence[Value | Formula | AnyArray | None]
) -> Formula | None:
    """The function that a node makes of its arguments, if they are functions of one value."""
    act = NUMBER_BY_NUMBER.get(operator)
    parts = [_part(argument) for argument in arguments]
    bases = {id(part.base): part.base for part in parts if isinstance(part, Formula)}
    if act is None or None in parts or len(bases) != 1:
        return None
    (base,) = bases.values()

    def function(z: Array) -> Array:
        values = (part.function(z) if isinstance(part, Formula) else part for part in parts)
        return np.asarray(act(attributes, *values))

    return Formula(base, function)


def recognised(formula: Formula) -> Value | None:
    """Units of the activation of which the formula is a multiple, if there is one."""
    with np.errstate(all="ignore"):
        g = formula.function(FORMULA_POINTS)
        fits = [(*_multiple(g, sigma), sigma) for sigma in _candidates(g)]
    off, factor, sigma = min(fits, key=lambda fit: fit[0])
    if not off < SAME_FORMULA:
        return None
    units = formula.base.activated(sigma)
    return replace(units if factor == 1 else units.scaled(np.asarray(factor)), formula=formula)


def _part(argument: Value | Formula | AnyArray | None) -> Formula | float | None:
    if isinstance(argument, Formula):
        return argument
    if isinstance(argument, Value):
        return argument.formula or Formula(argument, lambda z: z)
    if argument is None or argument.size != 1:
        return None
    return float(argument.flat[0])


def _candidates(g: Array) -> Iterator[Activation]:
    yield from (get_activation(name) for name in NAMES)
    up, down = g[-1] / FORMULA_POINTS[-1], g[0] / FORMULA_POINTS[0]
    if np.isfinite(up) and up != 0 and down / up < 1:
        yield leaky_relu(down / up)


def _multiple(g: Array, sigma: Activation) -> tuple[float, float]:
    """How far g is from the nearest multiple of an activation, relatively, and the factor."""
    values = sigma(FORMULA_POINTS)
    factor = float(g @ values / (values @ values))
    plain = float(np.sign(factor) * 2.0 ** np.rint(np.log2(np.abs(factor)))) if factor else 0.0
    if abs(factor - plain) < PLAIN_FACTOR * abs(factor):
        factor = plain
    off = float(np.max(np.abs(g - factor * values)) / np.max(np.abs(g)))
    return (off if np.isfinite(off) else np.inf), factor


def gelu_of(attributes: Attributes) -> Activation:
    """The activation that a node Gelu is."""
    kind = attributes.get("approximate", b"none")
    return get_activation("gelu_tanh" if kind == b"tanh" else "gelu")


def _elu(attributes: Attributes, z: Array) -> Array:
    alpha = attributes.get("alpha", 1.0)
    return np.asarray(np.maximum(z, 0.0) + alpha * np.expm1(np.minimum(z, 0.0)))


def _of_all(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda attributes, *values: reduce(function, values)


def _of_one(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda attributes, z: function(z)


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda attributes, a, b: function(a, b)


NAMED = {
    "Relu": "relu",
    "Abs": "abs",
    "Sigmoid": "sigmoid",
    "Exp": "exp",
    "Tanh": "tanh",
    "Erf": "erf",
    "Softplus": "softplus",
    "Sin": "sin",
}
"""Operators that are an activation by themselves."""

NUMBER_BY_NUMBER: Mapping[str, Callable[..., Any]] = {
    **{operator: _of_one(get_activation(name).function) for operator, name in NAMED.items()},
    "Gelu": lambda attributes, z: gelu_of(attributes)(z),
    "Elu": _elu,
    "Add": _of_all(np.add),
    "Sum": _of_all(np.add),
    "Max": _of_all(np.maximum),
    "Min": _of_all(np.minimum),
    "Sub": _of_two(np.subtract),
    "Mul": _of_two(np.multiply),
    "Div": _of_two(np.divide),
    "Pow": _of_two(np.power),
    "Neg": _of_one(np.negative),
    "Log": _of_one(np.log),
}
"""Nodes that act on each number by itself."""
