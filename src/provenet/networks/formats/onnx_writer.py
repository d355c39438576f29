"""A network as an ONNX model: input `x` (N, features), output `y` (N, outputs), in one chain.

    x -> Gemm (W, b) -> activation -> Gemm (A, c) -> y

A linear term is a second Gemm of `x`, added at the end. Operators and their versions are those that
every runtime of the last years runs in double precision. A leaky ReLU is `Max(z, s z)` therefore:
the operator LeakyRelu keeps its slope in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import Array
from provenet.common.version import __version__
from provenet.networks.formats.names import activation_name
from provenet.networks.network import Network

OUTPUTS = "provenet.outputs"
"""Metadata: the one output of a network whose labels are rows, not plain numbers."""

_OPSET, _IR_VERSION = 13, 7
"""Convention: operators and file format of ONNX 1.8 (2020), which later runtimes read."""
_ONE_OPERATOR = {"relu": "Relu", "abs": "Abs", "sigmoid": "Sigmoid", "exp": "Exp"}
_POWERS = {"relu2": 2.0, "relu3": 3.0}


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
        self.constants: list[Any] = []

    def model(self, network: Network) -> Any:
        """The whole model."""
        helper = self.onnx.helper
        self._write(network)
        columns = {"x": network.features, "y": network.outputs or 1}
        x, y = (
            helper.make_tensor_value_info(name, self.kind, ["N", width])
            for name, width in columns.items()
        )
        graph = helper.make_graph(self.nodes, "provenet", [x], [y], self.constants)
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
        A = np.atleast_2d(network.output_weights)
        c = np.broadcast_to(np.asarray(network.output_bias), (len(A),))
        z = self._gemm("x", network.weights, "weights", "z", network.biases, "biases")
        h = self._activation(network, z)
        last = "y" if network.linear is None else "units_part"
        y = self._gemm(h, A, "output_weights", last, c, "output_bias")
        if network.linear is not None:
            V = np.atleast_2d(network.linear)
            self._node("Add", [y, self._gemm("x", V, "linear", "linear_part")], "y")

    def _activation(self, network: Network, z: str) -> str:
        name, slope = network.activation.name, network.activation.slope
        if name in _ONE_OPERATOR:
            return self._node(_ONE_OPERATOR[name], [z], "h")
        if name in _POWERS:
            rectified = self._node("Relu", [z], "rectified")
            return self._node("Pow", [rectified, self._constant("power", _POWERS[name])], "h")
        if name == "step":
            fires = self._node("Greater", [z, self._constant("threshold", 0.0)], "fires")
            return self._node("Cast", [fires], "h", to=self.kind)
        assert slope is not None  # what is left is a leaky ReLU
        leak = self._node("Mul", [z, self._constant("slope", slope)], "leak")
        return self._node("Max", [z, leak], "h")

    def _gemm(
        self,
        values: str,
        matrix: Array,
        name: str,
        output: str,
        bias: Array | None = None,
        bias_name: str = "",
    ) -> str:
        inputs = [values, self._constant(name, matrix)]
        if bias is not None:
            inputs.append(self._constant(bias_name, bias))
        return self._node("Gemm", inputs, output, transB=1)

    def _node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        node = self.onnx.helper.make_node(operator, inputs, [output], name=output, **attributes)
        self.nodes.append(node)
        return output

    def _constant(self, name: str, value: Array | float) -> str:
        array = np.array(value, dtype=self.dtype, order="C")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name
