"""A network as an ONNX model: input `x` (N, features), output `y` (N, outputs), in one chain.

    x -> Gemm (W, b) -> activation -> .. -> Gemm (A, c) -> y

with a Gemm and an activation for each hidden layer, and a Sigmoid or Softmax at the end of a
network with a link; what belongs to one of several has its number
behind its name. A linear term is a second Gemm of `x`, added at the end. Operators and their
versions are those that every runtime of the last years runs in double precision. A leaky ReLU is
`Max(z, s z)` therefore: the operator LeakyRelu keeps its slope in single precision. Softplus and
elu are formulas that do not overflow, `relu(z) + log(1 + exp(-|z|))` and `relu(z) + (exp(min(z, 0))
- 1)`, because onnxruntime has their operators in single precision only. It has Erf so, too, for
which there is no formula: `erf` and `gelu` it runs in `float32` only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import Array
from provenet.common.version import __version__
from provenet.networks.activations import GELU_CUBIC, Activation
from provenet.networks.formats.names import activation_name
from provenet.networks.formats.onnx_formulas import NAMED
from provenet.networks.network import Network

OUTPUTS = "provenet.outputs"
"""Metadata: the one output of a network whose labels are rows, not plain numbers."""

_OPSET, _IR_VERSION = 13, 7
"""Convention: operators and file format of ONNX 1.8 (2020), which later runtimes read."""
_FORMULAS = {name: ((operator, "z", "h"),) for operator, name in NAMED.items()} | {
    "relu2": (("Relu", "z", "rectified"), ("Pow", "rectified two", "h")),
    "relu3": (("Relu", "z", "rectified"), ("Pow", "rectified three", "h")),
    "silu": (("Sigmoid", "z", "gate"), ("Mul", "z gate", "h")),
    "gelu": (
        ("Mul", "z root_half", "scaled"),
        ("Erf", "scaled", "error"),
        ("Add", "error one", "gate"),
        ("Mul", "z half", "halved"),
        ("Mul", "halved gate", "h"),
    ),
    "gelu_tanh": (
        ("Mul", "z z", "square"),
        ("Mul", "square cubic", "bent"),
        ("Add", "bent one", "stretch"),
        ("Mul", "z stretch", "stretched"),
        ("Mul", "stretched steepness", "argument"),
        ("Sigmoid", "argument", "gate"),
        ("Mul", "z gate", "h"),
    ),
    "softplus": (
        ("Abs", "z", "size"),
        ("Neg", "size", "negative"),
        ("Exp", "negative", "small"),
        ("Add", "small one", "above_one"),
        ("Log", "above_one", "rest"),
        ("Relu", "z", "rectified"),
        ("Add", "rectified rest", "h"),
    ),
    "elu": (
        ("Min", "z zero", "below"),
        ("Exp", "below", "fraction"),
        ("Sub", "fraction one", "loss"),
        ("Relu", "z", "rectified"),
        ("Add", "rectified loss", "h"),
    ),
}
"""Operator, inputs and output of each node from `z` to `h`."""
_LINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "logit": ("Sigmoid", {}),
    "softmax": ("Softmax", {"axis": 1}),
}
"""The operator of a link and its attributes."""
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
"""Constants of the formulas."""


def to_onnx(network: Network, dtype: Any = "float64", where: str | Path = "An ONNX model") -> Any:
    """The ModelProto; numbers in double precision, or in `float32`."""
    onnx = package("onnx", where, '"provenet[onnx]"')
    activation_name(network, where)
    if str(np.dtype(dtype)) not in ("float64", "float32"):
        raise InvalidInput(f"An ONNX model is written in float64 or float32, not {dtype}.")
    return _Writer(onnx, np.dtype(dtype)).model(network)


class _Writer:
    """Nodes and constants of a graph, in the order of writing."""

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self.onnx = onnx
        self.dtype = dtype
        self.kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def model(self, network: Network) -> Any:
        """The whole model."""
        helper = self.onnx.helper
        self._write(network)
        columns = {"x": network.features, "y": network.outputs or 1}
        x, y = (
            helper.make_tensor_value_info(name, self.kind, ["N", width])
            for name, width in columns.items()
        )
        graph = helper.make_graph(self.nodes, "provenet", [x], [y], list(self.constants.values()))
        model = helper.make_model(
            graph,
            producer_name="provenet",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
        )
        if network.outputs == 1:
            helper.set_model_props(model, {OUTPUTS: "1"})
        return model

    def _write(self, network: Network) -> None:
        *hidden, outputs = network.affine_maps
        h = "x"
        for number, layer in enumerate(hidden):
            mark = "" if len(hidden) == 1 else f".{number}"
            self._gemm(h, layer, (f"weights{mark}", f"biases{mark}"), f"z{mark}")
            h = self._activation(network.activation, mark)
        operator, attributes = _LINKS.get(network.link, (None, {}))
        u = "y" if operator is None else "u"
        last = u if network.linear is None else "units_part"
        units = self._gemm(h, outputs, ("output_weights", "output_bias"), last)
        if network.linear is not None:
            V = np.atleast_2d(network.linear)
            self._node("Add", [units, self._gemm("x", (V,), ("linear",), "linear_part")], u)
        if operator is not None:
            self._node(operator, [u], "y", **attributes)

    def _activation(self, sigma: Activation, mark: str) -> str:
        """From `z` to `h` of the layer with this mark."""
        z, h = f"z{mark}", f"h{mark}"
        if sigma.name in _FORMULAS:
            return self._formula(_FORMULAS[sigma.name], mark)
        if sigma.name == "step":
            fires = self._node("Greater", [z, self._constant("threshold", 0.0)], f"fires{mark}")
            return self._node("Cast", [fires], h, to=self.kind)
        assert sigma.slope is not None  # what is left is a leaky ReLU
        leak = self._node("Mul", [z, self._constant("slope", sigma.slope)], f"leak{mark}")
        return self._node("Max", [z, leak], h)

    def _formula(self, nodes: Sequence[tuple[str, str, str]], mark: str) -> str:
        """The nodes, and the constants that they need, which all layers share."""
        named = {name for _, inputs, _ in nodes for name in inputs.split()}
        for name in sorted(named & set(_NUMBERS)):
            self._constant(name, _NUMBERS[name])
        last = ""
        for operator, inputs, output in nodes:
            own = [name if name in _NUMBERS else f"{name}{mark}" for name in inputs.split()]
            last = self._node(operator, own, f"{output}{mark}")
        return last

    def _gemm(self, values: str, arrays: Sequence[Array], names: Sequence[str], output: str) -> str:
        """A matrix, and a bias if there is one, under these names."""
        stored = [self._constant(*named) for named in zip(names, arrays, strict=True)]
        return self._node("Gemm", [values, *stored], output, transB=1)

    def _node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        node = self.onnx.helper.make_node(operator, inputs, [output], name=output, **attributes)
        self.nodes.append(node)
        return output

    def _constant(self, name: str, value: Array | float) -> str:
        """By its name: stored once, however many layers use it."""
        array = np.array(value, dtype=self.dtype, order="C")
        self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return name
