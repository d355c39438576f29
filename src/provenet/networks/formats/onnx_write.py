"""A network as an ONNX model: input `x` (N, features), output `y` (N, outputs), in one chain.

    x -> Gemm (W, b) -> activation -> .. -> Gemm (A, c) -> y

A linear term is a second Gemm of `x`, added at the end; a link is a Sigmoid or Softmax. The nodes
are those of opset 13 that runtimes evaluate in double precision. So a leaky ReLU is `Max(z, s z)`,
because the operator LeakyRelu keeps its slope in single precision; and softplus and elu are
formulas that do not overflow, `relu(z) + log(1 + exp(-|z|))` and `relu(z) + (exp(min(z, 0)) - 1)`,
because onnxruntime has these operators in single precision only. It has Erf so, too, for which
there is no formula: `erf` and `gelu` it runs in `float32` only.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import package, write_atomically
from provenet.networks.activations import GELU_CUBIC
from provenet.networks.formats.arrays import named_arrays
from provenet.networks.network import Network

METADATA = ("provenet.activation", "provenet.link", "provenet.outputs")
"""Metadata: the activation's name. By it, the link, the number of outputs (empty where labels are
plain numbers) and the names of its constants a model is read again as it was."""

OPERATORS = {
    "relu": "Relu",
    "abs": "Abs",
    "sigmoid": "Sigmoid",
    "exp": "Exp",
    "tanh": "Tanh",
    "erf": "Erf",
    "sin": "Sin",
}
"""Activations that are a single node."""

_FORMULAS = {family: f"h = {operator} z" for family, operator in OPERATORS.items()} | {
    "leaky_relu": "leak = Mul z slope; h = Max z leak",
    "step": "fires = Greater z zero; h = Cast fires",
    "relu2": "positive = Relu z; h = Pow positive two",
    "relu3": "positive = Relu z; h = Pow positive three",
    "silu": "gate = Sigmoid z; h = Mul z gate",
    "gelu": "scaled = Mul z root_half; error = Erf scaled; gate = Add error one; "
    "halved = Mul z half; h = Mul halved gate",
    "gelu_tanh": "square = Mul z z; bent = Mul square cubic; stretch = Add bent one; "
    "stretched = Mul z stretch; argument = Mul stretched steepness; gate = Sigmoid argument; "
    "h = Mul z gate",
    "softplus": "size = Abs z; negative = Neg size; small = Exp negative; above = Add small one; "
    "rest = Log above; positive = Relu z; h = Add positive rest",
    "elu": "below = Min z zero; fraction = Exp below; loss = Sub fraction one; "
    "positive = Relu z; h = Add positive loss",
}
"""Nodes from the argument `z` of a layer's units to their values `h`."""

_NUMBERS = {
    "zero": 0.0,
    "half": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "root_half": math.sqrt(0.5),
    "cubic": GELU_CUBIC,
    "steepness": 2 * math.sqrt(2 / math.pi),
}


_OF_OUTPUTS = {"output_weights", "linear"}


def save_onnx(network: Network, path: Path) -> None:
    """Write a model in double precision."""
    content = to_onnx(network, where=path).SerializeToString()
    write_atomically(path, lambda file: file.write(content))


def to_onnx(network: Network, dtype: Any = "float64", where: str | Path = "An ONNX model") -> Any:
    """The ModelProto; numbers in double precision, or in `float32`."""
    onnx = package("onnx", where, '"provenet[onnx]"')
    if str(np.dtype(dtype)) not in ("float64", "float32"):
        raise InvalidInput(f"An ONNX model is written in float64 or float32, not {dtype}.")
    helper, kind = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    arrays = named_arrays(network, where)
    arrays |= {name: np.atleast_2d(arrays[name]) for name in arrays.keys() & _OF_OUTPUTS}
    arrays["output_bias"] = np.atleast_1d(arrays["output_bias"])
    nodes: list[Any] = []

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> None:
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))

    h = "x"
    for number in range(network.layers):
        mark = "" if network.layers == 1 else f".{number}"
        node("Gemm", [h, f"weights{mark}", f"biases{mark}"], f"z{mark}", transB=1)
        numbers = {**_NUMBERS, "slope": network.activation.slope}
        for line in _FORMULAS[network.activation.family].split("; "):
            output, _, operator, *inputs = line.split()
            arrays |= {name: np.asarray(numbers[name]) for name in inputs if name in numbers}
            own = [name if name in numbers else f"{name}{mark}" for name in inputs]
            node(operator, own, f"{output}{mark}", **({"to": kind} if operator == "Cast" else {}))
        h = f"h{mark}"
    u = "y" if network.link == "identity" else "u"
    last = u if network.linear is None else "units_part"
    node("Gemm", [h, "output_weights", "output_bias"], last, transB=1)
    if network.linear is not None:
        node("Gemm", ["x", "linear"], "linear_part", transB=1)
        node("Add", [last, "linear_part"], u)
    if network.link == "logit":
        node("Sigmoid", [u], "y")
    elif network.link == "softmax":
        node("Softmax", [u], "y", axis=1)
    x, y = (
        helper.make_tensor_value_info(name, kind, ["N", width])
        for name, width in (("x", network.features), ("y", network.outputs or 1))
    )
    stored = [
        onnx.numpy_helper.from_array(np.array(array, dtype=dtype, order="C"), name)
        for name, array in arrays.items()
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "provenet", [x], [y], stored),
        producer_name="provenet",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=7,
    )
    facts = (network.activation.name, network.link, str(network.outputs or ""))
    helper.set_model_props(model, dict(zip(METADATA, facts, strict=True)))
    return model
