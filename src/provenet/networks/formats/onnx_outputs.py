"""The one output of an ONNX model that is read: of a classifier its probabilities, not its label.

Programs export a classifier with two outputs, the label, an integer or a word, and the
probabilities; these as a table of numbers, or as a ZipMap, which writes the table's columns under
the names of the classes. What is read is the only output of real numbers, without its ZipMap.
"""

from __future__ import annotations

from typing import Any

from provenet.networks.formats.onnx_nodes import FLOATS
from provenet.networks.formats.onnx_values import NotReadable


def with_one_output(onnx: Any, model: Any) -> Any:
    """The model with that output alone, and the nodes that lead to it."""
    graph = model.graph
    maps = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "ZipMap"}
    outputs = list(graph.output)
    if len(outputs) == 1 and not maps:
        return model
    real = [value for value in outputs if value.name in maps or _is_real(value)]
    if len(real) != 1:
        raise NotReadable(f"has {len(outputs)} outputs")
    return _reduced(onnx, model, maps.get(real[0].name, real[0].name))


def needed_nodes(nodes: Any, output: str) -> list[Any]:
    """The nodes that an output depends on, in their order."""
    wanted, found = {output}, []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.append(node)
            wanted.update(node.input)
    return found[::-1]


def _is_real(value: Any) -> bool:
    return value.type.tensor_type.elem_type in FLOATS


def _reduced(onnx: Any, model: Any, name: str) -> Any:
    only = onnx.ModelProto()
    only.CopyFrom(model)
    nodes = needed_nodes(list(model.graph.node), name)
    del only.graph.node[:], only.graph.output[:]
    only.graph.node.extend(nodes)
    output = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    only.graph.output.append(output)
    return only
