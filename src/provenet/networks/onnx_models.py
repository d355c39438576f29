"""Networks as ONNX models, and back.

*Written*: input `x` (N, features), output `y` (N, outputs), in one chain.

    x -> Gemm (W, b) -> activation -> .. -> Gemm (A, c) -> y

A linear term is a second Gemm of `x`, added at the end; a link is a Sigmoid or Softmax. The nodes
are those of opset 13 that runtimes evaluate in double precision. So a leaky ReLU is `Max(z, s z)`,
because the operator LeakyRelu keeps its slope in single precision; and softplus and elu are
formulas that do not overflow, `relu(z) + log(1 + exp(-|z|))` and `relu(z) + (exp(min(z, 0)) - 1)`,
because onnxruntime has these operators in single precision only. It has Erf so, too, for which
there is no formula: it evaluates `erf` and `gelu` in `float32` only.

*Read*: a model of provenet has the names of its arrays and of its activation. Any other, such as
those that PyTorch, scikit-learn and Keras export, is evaluated once on symbols. A value in its
graph is a batch of rows whose entries are `g(a)`, with one function g of one number, known by its
values on a grid, and `a = M h + c`, h the last layer of units below, or the input. Affine nodes
(Gemm, MatMul, a bias) work on M and c; elementwise nodes (Relu, Erf, a product of two values) work
on g. Where an affine node meets a g that is not linear, g must be an activation that has a name,
and becomes a layer of units. So `0.5 z (1 + Erf(z / 1.414))` is gelu and `Max(z, 0.1 z)` is a leaky
ReLU without a list of spellings. Nodes that reshape are taken to keep the rows.

The network is compared with ONNX's reference evaluation of the model: if they differ, the file is
refused. No code is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import GELU_CUBIC, NAMES, Activation, get_activation, leaky_relu
from provenet.networks.formats import named_arrays, network_of_arrays, network_of_layers
from provenet.networks.network import Network, probabilities

METADATA = ("provenet.activation", "provenet.link", "provenet.outputs")
"""The name of the activation, the link, and the number of outputs (empty where labels are plain
numbers): with these and the names of its constants a model is read as it was written."""

_OPERATORS = {
    "relu": "Relu",
    "abs": "Abs",
    "sigmoid": "Sigmoid",
    "exp": "Exp",
    "tanh": "Tanh",
    "erf": "Erf",
    "sin": "Sin",
}
"""Activations that are a single node."""
_FORMULAS = {family: f"h = {operator} z" for family, operator in _OPERATORS.items()} | {
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
    "steepness": math.sqrt(8 / math.pi),
}
_OF_OUTPUTS = {"output_weights", "linear"}


def to_onnx(
    network: Network, dtype: Any = "float64", where: str | PathLike[str] = "An ONNX model"
) -> Any:
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


# ---- Reading


class NotReadable(Exception):
    """The graph is not a network that can be read; the message says what was found in it."""


def load_onnx(path: Path) -> Network:
    """Read a model that is a network of fully connected layers."""
    onnx = package("onnx", path, '"provenet[onnx]"')
    try:
        proto = onnx.load(path, load_external_data=False)
        if any(map(onnx.external_data_helper.uses_external_data, proto.graph.initializer)):
            raise InvalidInput(
                f"{path} keeps its weights in another file: write the model to a single one, with "
                "onnx.save, or with external_data=False in torch.onnx.export."
            )
        onnx.checker.check_model(proto)
    except (InvalidInput, OSError):
        raise
    except Exception as error:  # a parser may raise anything for bytes that mean nothing
        raise InvalidInput(
            f"{path} is damaged or not an ONNX model ({_first_line(error)}): export it again."
        ) from None
    try:
        model = _Model(onnx, proto)
        properties = {p.key: p.value for p in proto.metadata_props}
        own = properties.keys() >= set(METADATA)
        network = _own(model.known, properties) if own else _network(model)
        _check(model, network)
    except NotReadable as problem:
        names = [node.op_type for node in proto.graph.node]
        shown = ", ".join(names[:12] + ["..."] * (len(names) > 12))
        raise InvalidInput(
            f"{path} {problem} ({shown}): export a network of fully connected layers, with the "
            "same units in all hidden ones and a linear output, or Sigmoid or Softmax of one."
        ) from None
    return network


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(". ")


@dataclass(frozen=True, eq=False)
class _Affine:
    """`M h + c`, h a layer of units or, without an activation, the input.

    A vector M is the diagonal of a matrix: the identity of the input takes no memory.
    """

    M: Array
    c: Array
    below: _Affine | None = None
    """The arguments of the units h."""
    activation: Activation | None = None

    def times(self, W: Array) -> _Affine:
        return replace(self, M=W * self.M if self.M.ndim == 1 else W @ self.M, c=W @ self.c)

    def scaled(self, factors: AnyArray | float) -> _Affine:
        d = np.broadcast_to(np.ravel(factors), self.c.shape)
        return replace(self, M=(d * self.M.T).T, c=d * self.c)

    def shifted(self, constant: AnyArray | float) -> _Affine:
        return replace(self, c=self.c + np.broadcast_to(np.ravel(constant), self.c.shape))


_GRID = np.linspace(-4.0, 4.0, 33)
"""Where functions of one number are compared: as far as activations bend, in binary fractions."""


@dataclass(frozen=True, eq=False)
class _Value:
    """Entries `g(a)`, g by its values on the grid; with a link, what they are before it."""

    base: _Affine
    g: Array = field(default_factory=_GRID.copy)
    link: str = "identity"

    @property
    def slope(self) -> float | None:
        """The slope of g, if it is linear."""
        slope = float(self.g[-1] / _GRID[-1])
        return slope if np.allclose(self.g, slope * _GRID, rtol=1e-13, atol=0) else None

    def affine(self) -> _Affine:
        """The value as an affine function; if g is not linear, of a new layer of units."""
        if self.slope is not None:
            return self.base if self.slope == 1 else self.base.scaled(self.slope)
        known, leak = [*map(get_activation, NAMES)], self.g[0] / _GRID[0]
        known += [leaky_relu(leak)] if leak < 1 and self.g[-1] == _GRID[-1] else []
        errors = [np.abs(self.g - sigma(_GRID)).max() for sigma in known]
        best = int(np.argmin([np.inf if np.isnan(e) else max(e, 1e-12) for e in errors]))
        if not errors[best] <= 1e-3 * np.abs(self.g).max():  # as constants in half precision leave
            raise NotReadable("after a formula that is no activation with a name")
        one = np.ones(self.base.c.shape)
        return _Affine(one, 0 * one, self.base, known[best])


def _pointwise(function: Callable[..., Any], *arguments: Any) -> _Value:
    """A function of each entry by itself, of values of one base and constant numbers."""
    values = [a for a in arguments if isinstance(a, _Value)]
    if any(value.base is not values[0].base for value in values):
        raise NotReadable("of two values that depend on the input")
    if not all(isinstance(a, _Value) or _is_number(a) for a in arguments):
        raise NotReadable("with a constant that differs from unit to unit")
    g = function(*(a.g if isinstance(a, _Value) else float(np.ravel(a)[0]) for a in arguments))
    return _Value(values[0].base, np.asarray(g, dtype=float))


def _is_number(constant: AnyArray | float) -> bool:
    return np.unique(constant).size == 1


def _add(*terms: Any) -> _Value:
    values = [term for term in terms if isinstance(term, _Value)]
    constants = [term for term in terms if not isinstance(term, _Value)]
    if len(values) > 1 or (values[0].slope is None and all(map(_is_number, constants))):
        return _pointwise(lambda *numbers: reduce(np.add, numbers), *terms)
    return _Value(reduce(_Affine.shifted, constants, values[0].affine()))


def _subtract(a: Any, b: Any) -> _Value:
    return _add(a, _multiply(b, -1.0) if isinstance(b, _Value) else -b)


def _multiply(a: Any, b: Any) -> _Value:
    value, factors = (a, b) if isinstance(a, _Value) else (b, a)
    if isinstance(factors, _Value) or _is_number(factors):
        return _pointwise(np.multiply, value, factors)
    return _Value(value.affine().scaled(factors))


def _divide(a: Any, b: Any) -> _Value:
    return _pointwise(np.divide, a, b) if isinstance(b, _Value) else _multiply(a, 1 / b)


def _gemm(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    transA: Any = 0,
    transB: Any = 0,
) -> _Value:
    if not isinstance(a, _Value) or isinstance(b, _Value) or transA:
        raise NotReadable("that is not of rows by a matrix")
    W = b if transB else b.reshape(len(b), -1).T
    product = _Value(a.affine().times(alpha * W))
    return product if c is None else _add(product, beta * c)


def _columns(a: Any, b: Any, axis: int) -> _Value:
    """`1 - p` and `p` of a classifier, which stand for p."""
    if a.base is not b.base or not np.allclose(a.g + b.g, 1.0):
        raise NotReadable("of columns that are not 1 - p and p")
    return b  # type: ignore[no-any-return]


_AFFINE: Mapping[str, Callable[..., _Value]] = {
    "Add": _add,
    "Sum": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "Neg": lambda a: _multiply(a, -1.0),
    "Gemm": _gemm,
    "MatMul": _gemm,
    "Scaler": lambda a, offset, scale: _multiply(_subtract(a, np.array(offset)), np.array(scale)),
    "Concat": _columns,
    "Softmax": lambda a, axis=-1: _Value(a.affine(), link="softmax"),
}
"""Their arguments are values and constants, and the node's attributes by name."""
_POINTWISE: Mapping[str, Callable[..., Any]] = {
    **{operator: get_activation(name).function for name, operator in _OPERATORS.items()},
    "Softplus": get_activation("softplus").function,
    "Gelu": lambda z, approximate=b"": get_activation(
        "gelu_tanh" if approximate == b"tanh" else "gelu"
    )(z),
    "Elu": lambda z, alpha=1.0: np.where(z > 0, z, alpha * np.expm1(z)),
    "LeakyRelu": lambda z, alpha=0.01: np.where(z > 0, z, alpha * z),
    "PRelu": lambda z, slope: np.where(z > 0, z, slope * z),
    "Max": lambda *values: reduce(np.maximum, values),
    "Min": lambda *values: reduce(np.minimum, values),
    "Pow": np.power,
    "Log": np.log,
}
_RESHAPING = ("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
_KNOWN = {*_AFFINE, *_POINTWISE, *_RESHAPING, "Constant", "Transpose", "Greater"}
"""The last of provenet's own models alone, the two before it of constants."""


def _evaluated(op: str, arguments: Sequence[Any], attributes: Mapping[str, Any]) -> _Value:
    """The value of a node of which some argument depends on the input."""
    try:
        if op in _RESHAPING and isinstance(arguments[0], _Value):
            return arguments[0]
        if any(isinstance(a, _Value) and a.link != "identity" for a in arguments):
            raise NotReadable("after a Softmax")
        with np.errstate(all="ignore"):
            if op in _AFFINE:
                return _AFFINE[op](*arguments, **attributes)
            return _pointwise(lambda *z: _POINTWISE[op](*z, **attributes), *arguments)
    except NotReadable as problem:
        raise NotReadable(f"has a node {op} {problem}") from None
    except (TypeError, ValueError, IndexError, AttributeError, KeyError):
        raise NotReadable(f"has a node {op} whose arguments do not fit") from None


_FLOATS = {1: "float32", 10: "float16", 11: "float64"}


class _Model:
    """The part of a model that leads from its one input to its one output of real numbers."""

    def __init__(self, onnx: Any, proto: Any) -> None:
        graph = proto.graph
        stored = [tensor.name for tensor in graph.initializer]
        inputs = [value for value in graph.input if value.name not in stored]
        # Of a classifier's outputs the probabilities, without the map from classes to them.
        maps = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "ZipMap"}
        outputs = [
            maps.get(value.name, value.name)
            for value in graph.output
            if value.type.tensor_type.elem_type in _FLOATS or value.name in maps
        ]
        if len(inputs) != 1 or len(outputs) != 1:
            raise NotReadable(f"has {len(inputs)} inputs and {len(outputs)} real outputs")
        self.result, (self.input, kind) = outputs[0], (inputs[0].name, inputs[0].type.tensor_type)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        self.rows = sizes[0] or 32 if len(sizes) == 2 and sizes[1] else 0
        if not 1 <= self.rows <= 4096 or kind.elem_type not in _FLOATS:
            names = ", ".join(str(d.dim_value or d.dim_param or "?") for d in kind.shape.dim)
            raise NotReadable(
                f"has an input ({names}) of {onnx.TensorProto.DataType.Name(kind.elem_type)}, not "
                "(samples, features) of real numbers"
            )
        self.zeros: AnyArray = np.zeros((self.rows, int(sizes[1] or 0)), _FLOATS[kind.elem_type])
        self.nodes: list[Any] = []
        needed: set[str] = {self.result}
        for node in reversed(graph.node):
            if needed.intersection(node.output):
                if node.op_type not in _KNOWN or node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
                    raise NotReadable(f"has a node {node.op_type} {node.domain}".rstrip())
                self.nodes.insert(0, node)
                needed.update(node.input)
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(proto)
        del self.proto.graph.node[:], self.proto.graph.output[:]
        self.proto.graph.node.extend(self.nodes)
        self.proto.graph.output.append(onnx.helper.make_tensor_value_info(self.result, 1, None))
        used = sorted({*stored, *(name for node in self.nodes for name in node.output if name)})
        arrays = dict(zip(used, map(np.asarray, self.run(self.zeros, used)[0]), strict=True))
        self.known: dict[str, Any] = {"": None}
        """Constants; of what depends on the input, its value at zero."""
        self.known |= {n: a.astype(float) for n, a in arrays.items() if a.dtype.kind in "fiub"}
        half = np.dtype("float16") in {self.zeros.dtype, *(a.dtype for a in arrays.values())}
        self.eps = float(np.finfo("float16" if half else "float32").eps)
        self.attributes = [
            {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            for node in self.nodes
        ]

    def run(self, X: AnyArray, names: Sequence[str]) -> list[Any]:
        """The values of these names in the graph, by ONNX's reference evaluation."""
        try:
            evaluator = import_module("onnx.reference").ReferenceEvaluator(self.proto)
            batches = [X[i : i + self.rows] for i in range(0, len(X), self.rows)]
            with np.errstate(all="ignore"):
                return [evaluator.run(list(names), {self.input: rows}) for rows in batches]
        except Exception as error:  # of the many that an evaluator of any model may raise
            raise NotReadable(f"cannot be evaluated by ONNX ({_first_line(error)})") from None


def _own(known: Mapping[str, Any], properties: Mapping[str, str]) -> Network:
    """A network that provenet wrote, by the names of its arrays."""
    arrays, (activation, link, outputs) = dict(known), (properties[key] for key in METADATA)
    try:
        if not outputs:
            names = arrays.keys() & {"output_bias", *_OF_OUTPUTS}
            arrays |= {name: arrays[name][0] for name in names}
        return network_of_arrays(arrays, activation, link)
    except (KeyError, IndexError) as name:
        raise NotReadable(f"lacks {name}, which models of provenet have") from None


def _network(model: _Model) -> Network:
    """The network whose outputs are the graph's, its layers from the output down."""
    one = np.ones(model.zeros.shape[1])
    known = model.known | {model.input: _Value(_Affine(one, 0 * one))}
    for node, attributes in zip(model.nodes, model.attributes, strict=True):
        arguments = [known.get(name) for name in node.input]
        if any(isinstance(a, _Value) for a in arguments):
            known[node.output[0]] = _evaluated(node.op_type, arguments, attributes)
    output = known.get(model.result)
    if not isinstance(output, _Value):
        raise NotReadable("has an output that does not depend on its input")
    link, layers = output.link, list[_Affine]()
    layer: _Affine | None = output.affine()
    while layer is not None:
        layers.insert(0, layer)
        layer = layer.below
    last = layers[-1]
    plain = last.M.ndim == 1 and (last.M == 1).all() and not last.c.any()
    if plain and len(layers) > 2 and last.activation is get_activation("sigmoid"):
        link = "logit"
        layers.pop()
    names = {layer.activation.name for layer in layers if layer.activation is not None}
    if len(names) != 1:
        units = f"different units ({', '.join(sorted(names))})" if names else "no layer of units"
        raise NotReadable(f"has {units}")
    weights = [np.diag(layer.M) if layer.M.ndim == 1 else layer.M for layer in layers]
    return network_of_layers(weights, [layer.c for layer in layers], names.pop(), link)


def _check(model: _Model, network: Network, roundings: int = 100) -> None:
    """Compare the network with the model at random inputs, up to rounding in every layer.

    Errors are measured in the size of the terms that are added. At every second input the arguments
    of the first units are about standard normal. A formula may overflow where the function does
    not: only finite numbers are compared.
    """
    rng, (W, b) = np.random.default_rng(0), network.affine_maps[0]
    X = rng.standard_normal((-(-32 // model.rows) * model.rows, network.features))
    X[1::2] += np.linalg.lstsq(W, (rng.standard_normal((len(X[1::2]), len(W))) - b).T)[0].T
    X = X.astype(model.zeros.dtype)
    found = np.concatenate([outputs[0] for outputs in model.run(X, [model.result])])
    with np.errstate(all="ignore"):
        h = X.astype(float)
        expected = network(h).reshape(len(X), -1)
        size = np.abs(h)
        linear = 0.0 if network.linear is None else size @ np.abs(np.atleast_2d(network.linear)).T
        for W, b in network.affine_maps[:-1]:
            h, size = network.activation(h @ W.T + b), size @ np.abs(W).T + np.abs(b)
            size = np.maximum(size, np.abs(h))
        A, c = network.affine_maps[-1]
        allowed = roundings * model.eps * (size @ np.abs(A).T + np.abs(c) + linear)
        if network.link != "identity":  # a probability moves by no more than the logits
            columns = found.shape[1] if found.ndim == 2 else 1
            expected = probabilities(expected, network.link)[:, -columns:]
            allowed = allowed.max(axis=1, keepdims=True) + roundings * model.eps
        if found.shape not in (expected.shape, expected[:, 0].shape):
            raise NotReadable(f"gives outputs of shape {found.shape} for {len(X)} inputs")
        error = np.abs(found.reshape(expected.shape) - expected)
    compared = np.isfinite(error)
    if (compared & (error > allowed)).any() or not compared.any(axis=0).all():
        raise NotReadable("does not predict what its weights determine, as far as they were read")
