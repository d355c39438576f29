"""A network in an ONNX file, written by provenet or exported by another program.

Reading: the file is parsed (data only: no code is run), its graph is turned into a network node by
node, and the network is compared with ONNX's own reference evaluation of the graph. If they differ,
the file is refused: what is read is the model's function, or nothing. A graph that ends in Sigmoid
or Softmax is a network with a link; of a classifier with a label beside it, the label is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.files import write_atomically
from provenet.common.optional import package
from provenet.networks.formats.onnx_check import check_against_model
from provenet.networks.formats.onnx_graph import OnnxGraph
from provenet.networks.formats.onnx_network import network_of_output
from provenet.networks.formats.onnx_outputs import with_one_output
from provenet.networks.formats.onnx_values import NotReadable
from provenet.networks.formats.onnx_writer import OUTPUTS, to_onnx
from provenet.networks.network import Network
from provenet.networks.tolerances import MOST_SHOWN


def save(network: Network, path: Path) -> None:
    """Write the model in double precision."""
    content = to_onnx(network, where=path).SerializeToString()
    write_atomically(path, lambda file: file.write(content))


def load(path: Path) -> Network:
    """Read a model that is a network of fully connected layers."""
    onnx = package("onnx", path, '"provenet[onnx]"')
    model = _parse(onnx, path)
    keep_row = any((prop.key, prop.value) == (OUTPUTS, "1") for prop in model.metadata_props)
    try:
        one = with_one_output(onnx, model)
        graph = OnnxGraph.of(onnx, one)
        network = network_of_output(graph.value(), keep_row)
        check_against_model(one, graph, network)
    except NotReadable as problem:
        raise InvalidInput(
            f"{path} {problem}{_operators(model)}: export a network of fully connected layers, "
            "with the same units in all hidden ones and a linear output, or Sigmoid or Softmax of "
            "one."
        ) from None
    return network


def _parse(onnx: Any, path: Path) -> Any:
    """The model, well-formed and complete in itself."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # what a parser raises for bytes that mean nothing is its own affair
        raise _damaged(path, error) from None
    if _points_outside(onnx, model):
        raise InvalidInput(
            f"{path} keeps its weights in another file: write the model to a single one, with "
            "onnx.save, or with external_data=False in torch.onnx.export."
        )
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise _damaged(path, error) from None
    return model


def _damaged(path: Path, error: Exception) -> InvalidInput:
    if isinstance(error, OSError):
        raise error
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return InvalidInput(
        f"{path} is damaged or not an ONNX model ({reason.rstrip('. ')}): export it again."
    )


def _points_outside(onnx: Any, model: Any) -> bool:
    values = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    tensors = [*model.graph.initializer, *values]
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors)


def _operators(model: Any) -> str:
    names = [node.op_type for node in model.graph.node]
    shown = names[:MOST_SHOWN] + ["..."] * (len(names) > MOST_SHOWN)
    return f" ({', '.join(shown)})" if shown else ""
