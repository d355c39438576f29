"""The nodes of ONNX that a network may be made of, each as a function of values and constants.

Arguments are `Value` (what depends on the input), arrays (constants) or None (left out). Whatever
mixes the rows of a batch, or is neither affine nor an activation, is refused with what was found;
but a node that acts on each number by itself may be part of a formula (`onnx_formulas`), and is
refused only when it turns out that this is no activation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation, get_activation, leaky_relu
from provenet.networks.formats.onnx_formulas import NAMED, formula_of, gelu_of, recognised
from provenet.networks.formats.onnx_values import Formula, NotReadable, Value, stacked

Argument = Value | AnyArray | None
Known = Formula | Argument
"""What a name in the graph may stand for."""

FLOATS = {1: "float32", 10: "float16", 11: "float64"}
"""ONNX's numbers of the types that are read."""

_OTHERS = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool"}


def type_name(number: int) -> str:
    """The name of a type of ONNX."""
    return {**FLOATS, **_OTHERS}.get(number, f"number {number}")


@dataclass(frozen=True)
class Node:
    """An operator and its attributes."""

    operator: str
    attributes: Mapping[str, Any]

    def refused(self, why: str) -> NotReadable:
        """What to raise."""
        return NotReadable(f"has a node {self.operator} {why}")


def evaluate(node: Node, arguments: Sequence[Known]) -> Value | Formula | AnyArray:
    """The node's first output."""
    if any(isinstance(argument, Value | Formula) for argument in arguments):
        return _of_values(node, arguments)
    folded = _FOLDED.get(node.operator)
    if folded is None:
        raise node.refused("of constants alone")
    return np.asarray(folded(node, *arguments))


def _of_values(node: Node, arguments: Sequence[Known]) -> Value | Formula:
    """By itself, or as a part of a formula."""
    if node.operator not in _OF_PROBABILITIES and any(_linked(argument) for argument in arguments):
        raise node.refused("after a Softmax")
    formula = formula_of(node.operator, node.attributes, arguments)
    try:
        result = _by_itself(node, arguments)
    except NotReadable as refusal:
        if formula is None:
            raise
        return recognised(formula) or replace(formula, refusal=refusal)
    # Units may be of any mixed value, but a multiple belongs to the formula of what it is one of.
    if formula is None or (result.mixed and node.operator not in ("Mul", "Div", "Neg")):
        return result
    # An activation of units as they are: by a name of its own before it counts as a second layer.
    twice = result.depth > formula.base.depth + 1
    return (recognised(formula) if twice else None) or replace(result, formula=formula)


def _linked(argument: Known) -> bool:
    value = argument.base if isinstance(argument, Formula) else argument
    return isinstance(value, Value) and value.link != "identity"


def _by_itself(node: Node, arguments: Sequence[Known]) -> Value:
    for argument in arguments:
        if isinstance(argument, Formula) and argument.refusal is not None:
            raise argument.refusal
    result: Value = OPERATORS[node.operator](node, *arguments)
    return result


# ---------------------------------------------------------------- affine


def _gemm(node: Node, a: Argument, b: Argument, c: Argument = None) -> Value:
    value, matrix = _first_of(node, a, b)
    get = node.attributes.get
    if matrix.ndim != 2 or value.flat or get("transA", 0):
        raise node.refused("that is not of rows by a matrix")
    alpha, beta = get("alpha", 1.0), get("beta", 1.0)
    product = value.times(alpha * (matrix if get("transB", 0) else matrix.T))
    if isinstance(c, Value):
        return product.plus(c.scaled(np.asarray(beta)))
    return product if c is None else product.shifted(beta * _row(node, c, product))


def _matmul(node: Node, a: Argument, b: Argument) -> Value:
    value, matrix = _first_of(node, a, b)
    if matrix.ndim not in (1, 2) or value.flat:
        raise node.refused("that is not of rows by a matrix")
    if matrix.ndim == 1:
        return value.times(matrix[None, :]).reshaped(flat=True)
    return value.times(matrix.T)


def _add(node: Node, *terms: Argument) -> Value:
    values = [term for term in terms if isinstance(term, Value)]
    total = values[0]
    for value in values[1:]:
        total = total.plus(value)
    for constant in terms:
        if not isinstance(constant, Value):
            total = total.shifted(_row(node, constant, total))
    return total


def _subtract(node: Node, a: Argument, b: Argument) -> Value:
    if isinstance(b, Value):
        return _add(node, a, b.scaled(np.asarray(-1.0)))
    return _add(node, a, -_constant(node, b))


def _multiply(node: Node, a: Argument, b: Argument) -> Value:
    if isinstance(a, Value) and isinstance(b, Value):
        raise node.refused("of two values that depend on the input")
    value, factors = (a, b) if isinstance(a, Value) else (b, a)
    assert isinstance(value, Value)
    return value.scaled(_row(node, factors, value))


def _divide(node: Node, a: Argument, b: Argument) -> Value:
    value, divisors = _first_of(node, a, b)
    return value.scaled(1 / _row(node, divisors, value))


def _negate(node: Node, a: Argument) -> Value:
    return _value(node, a).scaled(np.asarray(-1.0))


def _scaler(node: Node, a: Argument) -> Value:
    """`(x - offset) * scale`: how scikit-learn's StandardScaler comes out of skl2onnx."""
    value = _value(node, a)
    offset, scale = (np.array(node.attributes.get(name, d)) for name, d in _SCALER)
    return value.shifted(-_row(node, offset, value)).scaled(_row(node, scale, value))


_SCALER = (("offset", [0.0]), ("scale", [1.0]))


# ---------------------------------------------------------------- activations


def _named(name: str) -> Callable[..., Value]:
    def apply(node: Node, a: Argument) -> Value:
        return _value(node, a).activated(get_activation(name))

    return apply


def _leaky(node: Node, a: Argument) -> Value:
    slope = node.attributes.get("alpha", np.float32(0.01))
    return _value(node, a).activated(_with_slope(node, float(slope)))


def _prelu(node: Node, a: Argument, slopes: Argument) -> Value:
    value, slope = _first_of(node, a, slopes)
    if len(np.unique(slope)) != 1:
        raise node.refused("whose units have slopes of their own")
    return value.activated(_with_slope(node, float(slope.flat[0])))


def _elu(node: Node, a: Argument) -> Value:
    alpha = node.attributes.get("alpha", 1.0)
    if alpha != 1:
        raise node.refused(f"of alpha {alpha:g}, not 1")
    return _value(node, a).activated(get_activation("elu"))


def _gelu(node: Node, a: Argument) -> Value:
    return _value(node, a).activated(gelu_of(node.attributes))


def _in_a_formula(why: str) -> Callable[..., Value]:
    """A node that is nothing by itself."""

    def refuse(node: Node, *_: Argument) -> Value:
        raise node.refused(why)

    return refuse


def _greater(node: Node, a: Argument, b: Argument) -> Value:
    return _subtract(node, a, b).activated(get_activation("step"))


def _less(node: Node, a: Argument, b: Argument) -> Value:
    return _greater(node, b, a)


def _with_slope(node: Node, slope: float) -> Activation:
    if slope in (0.0, -1.0):
        return get_activation("relu" if slope == 0 else "abs")
    try:
        return leaky_relu(slope)
    except InvalidInput:
        raise node.refused(f"of slope {slope:g}, which is not less than 1") from None


# ---------------------------------------------------------------- links


def _softmax(node: Node, a: Argument) -> Value:
    value = _value(node, a)
    if value.flat or node.attributes.get("axis", -1) not in (1, -1):
        raise node.refused("that is not of the columns of a row")
    return replace(value, formula=None, link="softmax")


def _concat(node: Node, *parts: Argument) -> Value:
    values = [_value(node, part) for part in parts]
    if node.attributes.get("axis") not in (1, -1) or any(value.flat for value in values):
        raise node.refused("that does not keep the rows")
    return replace(stacked(values), rows=values[0].rows)


# ---------------------------------------------------------------- nodes that change no number


def _same(node: Node, a: Argument, *_: Argument) -> Value:
    return _value(node, a)


def _cast(node: Node, a: Argument) -> Argument:
    """Between real types only: the rest would round to integers."""
    if node.attributes.get("to") not in FLOATS:
        raise node.refused(f"to the type {type_name(node.attributes.get('to', 0))}")
    return a


def _dropout(node: Node, a: Argument, ratio: Argument = None, training: Argument = None) -> Value:
    if isinstance(training, Value) or (training is not None and training.any()):
        raise node.refused("in training mode")
    return _value(node, a)


def _flatten(node: Node, a: Argument) -> Value:
    value = _value(node, a)
    if value.flat or node.attributes.get("axis", 1) not in (1, -1):
        raise node.refused("that does not keep the rows")
    return value


def _transpose(node: Node, a: Argument) -> Value:
    value = _value(node, a)
    if list(node.attributes.get("perm", ())) != list(range(2 - value.flat)):
        raise node.refused("of values that depend on the input")
    return value


def _reshape(node: Node, a: Argument, shape: Argument) -> Value:
    value, target = _first_of(node, a, shape)
    sizes = [int(size) for size in target.ravel()]
    keeps_rows = bool(sizes) and sizes[0] in (-1, 0, value.rows)
    columns = sizes[1:]
    if keeps_rows and columns in ([value.width], [-1]):
        return value.reshaped(flat=False)
    if keeps_rows and not columns and value.width == 1:
        return value.reshaped(flat=True)
    raise node.refused(f"to {sizes}, which does not keep the rows")


def _squeeze(node: Node, a: Argument, axes: Argument = None) -> Value:
    return _without_column(node, _value(node, a), axes, flat=True)


def _unsqueeze(node: Node, a: Argument, axes: Argument = None) -> Value:
    return _without_column(node, _value(node, a), axes, flat=False)


def _without_column(node: Node, value: Value, axes: Argument, flat: bool) -> Value:
    """Take the axis of the one column away, or bring it back."""
    if _axes(node, axes) not in ([1], [-1]) or value.width != 1 or value.flat == flat:
        raise node.refused("that does not keep the rows")
    return value.reshaped(flat)


# ---------------------------------------------------------------- arguments


def _axes(node: Node, axes: Argument) -> list[int]:
    """An attribute until version 12 of the operators, an argument since."""
    given = node.attributes.get("axes", ()) if axes is None else _constant(node, axes).ravel()
    return [int(axis) for axis in given]


def _value(node: Node, a: Argument) -> Value:
    if not isinstance(a, Value):
        raise node.refused("of a constant")
    return a


def _constant(node: Node, a: Argument) -> AnyArray:
    if a is None or isinstance(a, Value):
        raise node.refused("whose second argument is not a constant")
    return a


def _first_of(node: Node, a: Argument, b: Argument) -> tuple[Value, AnyArray]:
    """A value and a constant, in this order."""
    if not isinstance(a, Value):
        raise node.refused("whose first argument is a constant")
    return a, _constant(node, b)


def _row(node: Node, constant: Argument, value: Value) -> Array:
    """A constant as what it adds to each row: a number, or one a column."""
    array = np.asarray(_constant(node, constant), dtype=float)
    shape = array.shape
    rows_alike = array.ndim < (1 if value.flat else 2) or shape[0] == 1
    if (
        array.ndim > 2 - value.flat
        or not rows_alike
        or shape[-1:] not in ((), (1,), (value.width,))
    ):
        raise node.refused(f"with a constant of shape {shape} for {value.width} columns")
    return array.reshape(()) if array.size == 1 else array.reshape(-1)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sum": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "Neg": _negate,
    "Scaler": _scaler,
    **{operator: _named(name) for operator, name in NAMED.items()},
    "Gelu": _gelu,
    "Elu": _elu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Max": _in_a_formula("that is not a ReLU"),
    "Min": _in_a_formula("that is no part of an activation"),
    "Pow": _in_a_formula("that is not the square or the cube of a ReLU"),
    "Log": _in_a_formula("that is no part of an activation"),
    "Greater": _greater,
    "Less": _less,
    "Softmax": _softmax,
    "Concat": _concat,
    "Identity": _same,
    "Cast": _cast,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}

_OF_PROBABILITIES = ("Identity", "Cast", "Dropout", "Flatten", "Reshape")
"""What may come after a link."""

_FOLDED: Mapping[str, Callable[..., Any]] = {
    "Identity": lambda node, a: a,
    "Cast": _cast,
    "Transpose": lambda node, a: np.transpose(a, node.attributes.get("perm")),
    "Reshape": lambda node, a, shape: np.reshape(a, [int(size) for size in shape]),
    "Squeeze": lambda node, a, axes=None: np.squeeze(a, tuple(_axes(node, axes)) or None),
    "Unsqueeze": lambda node, a, axes=None: np.expand_dims(a, tuple(_axes(node, axes))),
}
"""Nodes between a stored constant and its use."""
