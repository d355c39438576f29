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
those that PyTorch, scikit-learn and Keras export, is a chain of affine maps and activations. Nodes
that multiply by a matrix, add or multiply constants (a bias, a standardisation) make up an affine
map. The nodes from there to the next matrix are evaluated on a grid of numbers, the same for all
units: they must be an activation that has a name. So `0.5 z (1 + Erf(z / 1.414))` is gelu and
`Max(z, 0.1 z)` is a leaky ReLU without a list of spellings. Nodes that reshape are taken to keep
the rows.

The network is compared with ONNX's reference evaluation of the model: if they differ, the file is
refused. No code is run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

_FORMULAS = {
    "relu": "h = Relu z",
    "abs": "h = Abs z",
    "sigmoid": "h = Sigmoid z",
    "exp": "h = Exp z",
    "tanh": "h = Tanh z",
    "erf": "h = Erf z",
    "sin": "h = Sin z",
    "leaky_relu": "leak = Mul z slope; h = Max z leak",
    "step": "fires = Greater z 0.0; h = Cast fires",
    "relu2": "positive = Relu z; h = Pow positive 2.0",
    "relu3": "positive = Relu z; h = Pow positive 3.0",
    "silu": "gate = Sigmoid z; h = Mul z gate",
    "gelu": f"scaled = Mul z {math.sqrt(0.5)}; error = Erf scaled; gate = Add error 1.0; "
    "halved = Mul z 0.5; h = Mul halved gate",
    "gelu_tanh": f"square = Mul z z; bent = Mul square {GELU_CUBIC}; stretch = Add bent 1.0; "
    f"stretched = Mul z stretch; argument = Mul stretched {math.sqrt(8 / math.pi)}; "
    "gate = Sigmoid argument; h = Mul z gate",
    "softplus": "size = Abs z; negative = Neg size; small = Exp negative; above = Add small 1.0; "
    "rest = Log above; positive = Relu z; h = Add positive rest",
    "elu": "below = Min z 0.0; fraction = Exp below; loss = Sub fraction 1.0; "
    "positive = Relu z; h = Add positive loss",
}
"""Nodes from the argument `z` of a layer's units to their values `h`; numbers are constants."""
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
        formula = _FORMULAS[network.activation.family]
        for line in formula.replace("slope", str(network.activation.slope)).split("; "):
            output, _, operator, *inputs = line.split()
            numbers = {name: float(name) for name in inputs if not name.isidentifier()}
            arrays |= {name: np.asarray(number) for name, number in numbers.items()}
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


def _refused(problem: str) -> InvalidInput:
    return InvalidInput(
        f"the model {problem}: export a network of fully connected layers, with the same units in "
        "all hidden ones and a linear output, or Sigmoid or Softmax of one."
    )


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
    model, properties = _Model(proto), {p.key: p.value for p in proto.metadata_props}
    own = properties.keys() >= set(METADATA)
    network = _own(model.arrays, properties) if own else _network(model)
    _check(model, network)
    return network


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(". ")


_FLOATS = {1: "float32", 10: "float16", 11: "float64"}
_PRODUCTS = ("Gemm", "MatMul")
_RESHAPING = ("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
_KNOWN = {
    *("Concat", "Constant", "Div", "Elu", "Gelu", "LeakyRelu", "PRelu", "Scaler", "Softmax"),
    *("Softplus", "Sum", "Transpose", *_PRODUCTS, *_RESHAPING),
    *(line.split()[2] for formula in _FORMULAS.values() for line in formula.split("; ")),
}
"""Operators that are evaluated: none of them loops."""
_GRID = np.linspace(-4.0, 4.0, 33)
"""Where functions of one number are compared: as far as activations bend, in binary fractions."""


class _Model:
    """The part of a model that leads from its one input to its one output of real numbers."""

    def __init__(self, proto: Any) -> None:
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
            raise _refused(f"has {len(inputs)} inputs and {len(outputs)} real outputs")
        self.result, (self.input, kind) = outputs[0], (inputs[0].name, inputs[0].type.tensor_type)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        self.rows = sizes[0] or 32 if len(sizes) == 2 and sizes[1] else 0
        if not 1 <= self.rows <= 4096 or kind.elem_type not in _FLOATS:
            names = ", ".join(str(d.dim_value or d.dim_param or "?") for d in kind.shape.dim)
            raise _refused(
                f"has an input ({names}) that is not (samples, features) of real numbers"
            )
        self.proto, needed = proto, {self.result}
        self.nodes: list[Any] = []
        for node in reversed(graph.node):
            if needed.intersection(node.output):
                if node.op_type not in _KNOWN or node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
                    raise _refused(f"has a node {node.op_type} {node.domain}".rstrip())
                self.nodes.insert(0, node)
                needed.update(node.input)
        zeros = np.zeros((self.rows, int(sizes[1] or 0)), _FLOATS[kind.elem_type])
        every = [*stored, *(name for node in self.nodes for name in node.output if name)]
        found = self.run(self.nodes, every, self.input, zeros)
        self.arrays = {self.input: zeros, **dict(zip(every, found, strict=True))}
        """All values in the graph where the input is zero."""

    def run(
        self,
        nodes: Sequence[Any],
        names: Sequence[str],
        at: str,
        X: AnyArray,
        constants: Mapping[str, AnyArray] | None = None,
    ) -> list[AnyArray]:
        """Values of these names for rows X at `at`, by ONNX's reference evaluation."""
        part = type(self.proto)()
        part.CopyFrom(self.proto)
        del part.graph.node[:], part.graph.output[:]
        part.graph.node.extend(nodes)
        n = -(-len(X) // self.rows) * self.rows  # as many at a time as the model takes
        X = X[np.arange(n) % len(X)]
        feeds = [{**(constants or {}), at: X[i : i + self.rows]} for i in range(0, n, self.rows)]
        try:
            evaluator = import_module("onnx.reference").ReferenceEvaluator(part)
            with np.errstate(all="ignore"):
                batches = [evaluator.run(list(names), some) for some in feeds]
            return [
                np.concatenate(v) if v[1:] else np.asarray(v[0]) for v in zip(*batches, strict=True)
            ]
        except Exception as error:  # of the many that an evaluator of any model may raise
            raise _refused(f"cannot be evaluated by ONNX ({_first_line(error)})") from None


def _own(arrays: Mapping[str, AnyArray], properties: Mapping[str, str]) -> Network:
    """A network that provenet wrote, by the names of its arrays."""
    activation, link, outputs = (properties[key] for key in METADATA)
    named = {name: np.asarray(array, dtype=float) for name, array in arrays.items()}
    try:
        if not outputs:
            names = named.keys() & {"output_bias", *_OF_OUTPUTS}
            named |= {name: named[name][0] for name in names}
        return network_of_arrays(named, activation, link)
    except (KeyError, IndexError) as name:
        raise _refused(f"lacks {name}, which models of provenet have") from None


def _network(model: _Model) -> Network:
    """The network whose outputs are the graph's, its layers from the input on."""
    live, nodes = {model.input}, list[Any]()  # names and nodes that depend on the input
    for node in model.nodes:
        if live.intersection(node.input):
            nodes.append(node)
            live.update(node.output)
    if model.result not in live:
        raise _refused("has an output that does not depend on its input")
    layers, found, link = list[tuple[Array, Array]](), list[Activation](), "identity"
    at, (M, c) = model.input, _identity(model.arrays[model.input])
    while nodes:
        node, op = nodes[0], nodes[0].op_type
        if link == "softmax" and op not in _RESHAPING:
            raise _refused(f"has a node {op} after a Softmax")
        if [*node.input].count(at) == 1 and sum(at in other.input for other in nodes) == 1:
            others = [name for name in node.input if name and name != at]
            constants = [model.arrays[name].astype(float) for name in others if name not in live]
            moved = _moved(node, constants, at, M, c) if len(constants) == len(others) else None
            link = "softmax" if op == "Softmax" else link
            if moved is not None:
                at, (M, c) = node.output[0], moved
                nodes = nodes[1:]
                continue
        k = next((i for i, other in enumerate(nodes) if other.op_type in _PRODUCTS), len(nodes))
        if k == 0:
            raise _refused(f"has a node {op} that is not fed by the layer below alone")
        end = nodes[k].input[0] if k < len(nodes) else model.result
        layers.append((M, c))
        found.append(_activation(model, nodes[:k], at, end))
        nodes, at, (M, c) = nodes[k:], end, _identity(model.arrays[end])
    layers.append((M, c))
    untouched = M.ndim == 1 and (M == 1).all() and not c.any()
    if len(found) > 1 and found[-1].name == "sigmoid" and untouched:
        layers, found, link = layers[:-1], found[:-1], "logit"
    names = {sigma.name for sigma in found}
    if len(names) != 1:
        units = f"different units ({', '.join(sorted(names))})" if names else "no layer of units"
        raise _refused(f"has {units}")
    weights = [np.diag(M) if M.ndim == 1 else M for M, _ in layers]
    return network_of_layers(weights, [c for _, c in layers], names.pop(), link)


def _identity(values: AnyArray) -> tuple[Array, Array]:
    """`M h + c` with M = 1; a vector M is the diagonal of a matrix, so it takes no memory."""
    size = values[0].size
    return np.ones(size), np.zeros(size)


def _moved(
    node: Any, constants: list[Array], at: str, M: Array, c: Array
) -> tuple[Array, Array] | None:
    """`M h + c` after a node that is affine in it, or None."""
    op, first = node.op_type, node.input[0] == at
    more: dict[str, Any] = {a.name: list(a.floats) or a.f or a.i for a in node.attribute}
    factor, shift = np.ones(1), np.zeros(1)
    try:
        if op in ("Add", "Sum"):
            shift = sum(constants, shift)
        elif op == "Sub" and first:
            shift = -constants[0]
        elif op == "Mul":
            factor = constants[0]
        elif op == "Div" and first:
            factor = 1 / constants[0]
        elif op == "Scaler":
            factor, shift = np.array(more["scale"]), -np.multiply(more["scale"], more["offset"])
        elif op in _PRODUCTS and first and not more.get("transA"):
            W = constants[0].reshape(len(constants[0]), -1)
            W = more.get("alpha", 1.0) * (W if more.get("transB") else W.T)
            with np.errstate(all="ignore"):
                M, c = W * M if M.ndim == 1 else W @ M, W @ c
            shift = more.get("beta", 1.0) * constants[1] if constants[1:] else shift
        elif op not in (*_RESHAPING, "Softmax"):
            return None
        d, v = (np.broadcast_to(np.ravel(x), c.shape) for x in (factor, shift))
    except (ValueError, KeyError, IndexError):
        raise _refused(f"has a node {op} whose arguments do not fit") from None
    return (d * M.T).T, d * c + v


def _activation(model: _Model, nodes: Sequence[Any], at: str, end: str) -> Activation:
    """What the nodes from `at` to `end` do to numbers that are the same for all units."""
    shape, n = model.arrays[at].shape[1:], len(_GRID)
    grid = np.broadcast_to(_GRID.reshape(n, *[1 for _ in shape]), (n, *shape))
    constants = {  # in double precision
        name: a.astype(float) if a.dtype.kind == "f" else a for name, a in model.arrays.items()
    }
    values = model.run(nodes, [end], at, grid, constants)[0][:n].reshape(n, -1)
    if shape == (1,) and values.shape[1] == 2 and np.allclose(values.sum(axis=1), 1.0):
        values = values[:, 1:]  # 1 - p and p of a classifier, which stand for p
    g, shown = values[:, 0], ", ".join(node.op_type for node in nodes)
    if not np.allclose(values, g[:, None], rtol=1e-6, atol=0):
        raise _refused(f"has nodes ({shown}) that are not the same function for all units")
    known, leak = [*map(get_activation, NAMES)], g[0] / _GRID[0]
    known += [leaky_relu(leak)] if leak < 1 and g[-1] == _GRID[-1] else []
    errors = [np.abs(g - sigma(_GRID)).max() for sigma in known]
    best = int(np.argmin(np.maximum(errors, 1e-12)))  # the first of those that fit to rounding
    if not errors[best] <= 1e-3 * np.abs(g).max():  # as constants in half precision leave
        raise _refused(f"has nodes ({shown}) that are no activation with a name")
    return known[best]


def _check(model: _Model, network: Network, roundings: int = 100) -> None:
    """Compare the network with the model at random inputs, up to rounding in every layer.

    Errors are measured in the size of the terms that are added. At every second input the arguments
    of the first units are about standard normal. A formula may overflow where the function does
    not: only finite numbers are compared.
    """
    rng, (W, b) = np.random.default_rng(0), network.affine_maps[0]
    X = rng.standard_normal((max(32, model.rows), network.features))
    X[1::2] += np.linalg.lstsq(W, (rng.standard_normal((len(X[1::2]), len(W))) - b).T)[0].T
    X = X.astype(model.arrays[model.input].dtype)
    found = model.run(model.nodes, [model.result], model.input, X)[0][: len(X)]
    half = np.dtype("float16") in {array.dtype for array in model.arrays.values()}
    rounding = roundings * float(np.finfo("float16" if half else "float32").eps)
    with np.errstate(all="ignore"):
        h = X.astype(float)
        expected = network(h).reshape(len(X), -1)
        size = np.abs(h)
        linear = 0.0 if network.linear is None else size @ np.abs(np.atleast_2d(network.linear)).T
        for W, b in network.affine_maps[:-1]:
            h, size = network.activation(h @ W.T + b), size @ np.abs(W).T + np.abs(b)
            size = np.maximum(size, np.abs(h))
        A, c = network.affine_maps[-1]
        allowed = rounding * (size @ np.abs(A).T + np.abs(c) + linear)
        if network.link != "identity":  # a probability moves by no more than the logits
            columns = found.shape[1] if found.ndim == 2 else 1
            expected = probabilities(expected, network.link)[:, -columns:]
            allowed = allowed.max(axis=1, keepdims=True) + rounding
        if found.shape not in (expected.shape, expected[:, 0].shape):
            raise _refused(f"gives outputs of shape {found.shape} for {len(X)} inputs")
        error = np.abs(found.reshape(expected.shape) - expected)
    compared = np.isfinite(error)
    if (compared & (error > allowed)).any() or not compared.any(axis=0).all():
        raise _refused("does not predict what its weights determine, as far as they were read")
