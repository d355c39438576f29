"""An ONNX graph with one input and one output, and what its output is as a function of the input.

Only nodes that the output needs are looked at, in the order of the file (ONNX sorts them).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet.common.typing import AnyArray
from provenet.networks.formats.onnx_nodes import (
    FLOATS,
    OPERATORS,
    Known,
    Node,
    evaluate,
    type_name,
)
from provenet.networks.formats.onnx_outputs import needed_nodes
from provenet.networks.formats.onnx_values import Formula, NotReadable, Value
from provenet.networks.tolerances import MOST_BATCH_ROWS

_DOMAINS = {"": "", "ai.onnx": "", "ai.onnx.ml": "Scaler"}
"""Known domains; of the last only this operator."""

_SINGLE = ("Scaler", "Erf", "Gelu")
"""Operators with constants of single precision, or that ONNX's reference evaluates in it."""
_PLAIN_CONSTANTS = ("value_float", "value_floats", "value_int", "value_ints")
_REAL = tuple(FLOATS.values())
_NUMBERS = (*_REAL, "int32", "int64", "bool")


@dataclass(frozen=True)
class OnnxGraph:
    """The nodes and constants that count; name, width, batch size and type of the input."""

    nodes: Sequence[tuple[Node, Any]]
    constants: dict[str, AnyArray]
    input: str
    output: str
    features: int
    rows: int | None
    dtype: str

    @classmethod
    def of(cls, onnx: Any, model: Any) -> OnnxGraph:
        """Check what the graph is made of."""
        graph = model.graph
        stored = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in stored]
        for found, what in ((inputs, "input"), (graph.output, "output")):
            if len(found) != 1:
                raise NotReadable(f"has {len(found)} {what}s")
        needed = needed_nodes(graph.node, graph.output[0].name)
        constants = _constants(onnx, graph, needed)
        nodes = [(_node(onnx, node), node) for node in needed if node.op_type != "Constant"]
        shape = _input_shape(inputs[0])
        return cls(nodes, constants, inputs[0].name, graph.output[0].name, *shape)

    @property
    def coarsest(self) -> str:
        """The least precise of the real types that the graph computes in."""
        kinds = {self.dtype, *(str(array.dtype) for array in self.constants.values())}
        for node, _ in self.nodes:
            kinds.add(FLOATS.get(node.attributes.get("to", 0), ""))
            kinds.add("float32" if node.operator in _SINGLE else "")
        return next((kind for kind in ("float16", "float32") if kind in kinds), "float64")

    def value(self) -> Value:
        """The output as a function of the input."""
        known: dict[str, Known] = {"": None}
        known.update((name, _widened(array)) for name, array in self.constants.items())
        known[self.input] = Value(self.features, {None: np.ones(())}, rows=self.rows)
        for node, stored in self.nodes:
            known[stored.output[0]] = _evaluated(node, [known.get(name) for name in stored.input])
        result = known.get(self.output)
        if isinstance(result, Formula) and result.refusal is not None:
            raise result.refusal
        if not isinstance(result, Value):
            raise NotReadable("has an output that does not depend on its input")
        return result


def _evaluated(node: Node, arguments: list[Known]) -> Known:
    try:
        return evaluate(node, arguments)
    except (TypeError, ValueError, IndexError):
        # Too many arguments, or constants of shapes that do not go together.
        raise node.refused("whose arguments do not fit") from None


def _node(onnx: Any, node: Any) -> Node:
    """The operator, if it is one that can be read."""
    only = _DOMAINS.get(node.domain)
    if only is None:
        raise NotReadable(f"has a node {node.op_type} of the domain {node.domain}")
    if node.op_type not in OPERATORS or (only and node.op_type != only):
        raise NotReadable(f"has a node {node.op_type}")
    return Node(node.op_type, _attributes(onnx, node))


def _attributes(onnx: Any, node: Any) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _constants(onnx: Any, graph: Any, needed: Iterable[Any]) -> dict[str, AnyArray]:
    """The stored arrays that are used, and those of nodes named Constant."""
    needed = list(needed)
    used = {name for node in needed for name in node.input}
    arrays = {t.name: _array(onnx, t) for t in graph.initializer if t.name in used}
    for node in needed:
        if node.op_type == "Constant":
            arrays[node.output[0]] = _of_constant_node(onnx, node)
    return arrays


def _of_constant_node(onnx: Any, node: Any) -> AnyArray:
    ((name, value),) = _attributes(onnx, node).items()
    if name == "value":
        return _array(onnx, value)
    if name not in _PLAIN_CONSTANTS:
        raise NotReadable(f"has a constant given as {name}")
    return np.asarray(value, dtype="float32" if "float" in name else "int64")


def _array(onnx: Any, tensor: Any) -> AnyArray:
    try:
        array = np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):
        raise NotReadable(f"has a constant {tensor.name!r} that is incomplete") from None
    if str(array.dtype) not in _NUMBERS:
        raise NotReadable(f"has a constant {tensor.name!r} of type {array.dtype}")
    return array


def _widened(array: AnyArray) -> AnyArray:
    return array.astype(float) if array.dtype.kind == "f" else array


def _input_shape(value: Any) -> tuple[int, int | None, str]:
    """Number of features, size of a fixed batch, and type of the numbers."""
    tensor = value.type.tensor_type
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    if len(sizes) != 2 or sizes[1] is None:
        named = [dim.dim_param or "?" for dim in tensor.shape.dim]
        shown = ", ".join(
            str(name if size is None else size) for name, size in zip(named, sizes, strict=True)
        )
        raise NotReadable(f"has an input of shape ({shown}), not (samples, features)")
    if tensor.elem_type not in FLOATS:
        raise NotReadable(
            f"has an input of type {type_name(tensor.elem_type)}, not of real numbers"
        )
    rows = sizes[0]
    if rows is not None and not 1 <= rows <= MOST_BATCH_ROWS:
        raise NotReadable(f"takes exactly {rows} samples at a time")
    return sizes[1], rows, FLOATS[tensor.elem_type]
