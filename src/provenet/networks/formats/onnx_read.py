"""A network from an ONNX model, written by provenet or exported by another program.

A model of provenet has the names of its arrays and of its activation. Any other is evaluated once
on symbols. A value in its graph is a batch of rows whose entries are `g(a)`, with one function g of
one number, known by its values on a grid, and `a = M h + c`, h the last layer of units below, or
the input. Affine nodes (Gemm, MatMul, a bias) work on M and c; nodes that act on each entry by
itself (Relu, Erf, a product of two values) work on g. Where an affine node meets a g that is not
linear, g must be `alpha sigma(s z) + beta` for an activation sigma that has a name, and becomes a
layer of units. So `0.5 z (1 + Erf(z / 1.414))` is gelu and `Max(z, 0.1 z)` is a leaky ReLU without
a list of spellings. Nodes that reshape are taken to keep the rows.

What was read is compared with ONNX's reference evaluation of the model: it is the model's function,
or the file is refused. No code is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import NAMES, Activation, get_activation, leaky_relu
from provenet.networks.formats.arrays import network_of_arrays, network_of_layers
from provenet.networks.formats.onnx_write import METADATA, OPERATORS
from provenet.networks.network import Network, probabilities


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
        network = _own(model, properties) if own else _network(model)
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


# ---------------------------------------------------------------- values


@dataclass(frozen=True, eq=False)
class _Affine:
    """`M h + c`, h a layer of units or, without an activation, the input.

    A vector M is the diagonal of a matrix: so weights come out bit for bit, and the identity of the
    input takes no memory.
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
    """Entries `g(a)`, g by its values on the grid; with a link, what they are before it.

    `scales` are the s at which some function was taken of `s a`.
    """

    base: _Affine
    g: Array = field(default_factory=_GRID.copy)
    scales: tuple[float, ...] = (1.0,)
    link: str = "identity"

    @property
    def slope(self) -> float | None:
        """Of g, if it is linear."""
        slope = float(self.g[-1] / _GRID[-1])
        return slope if np.allclose(self.g, slope * _GRID, rtol=1e-13, atol=0) else None

    def affine(self) -> _Affine:
        """The value as an affine function; if g is not linear, of a new layer of units."""
        if self.slope is not None:
            return self.base if self.slope == 1 else self.base.scaled(self.slope)
        r = self.g[0] / _GRID[0] / (self.g[-1] / _GRID[-1])
        known = [
            *map(get_activation, NAMES),
            *([leaky_relu(r)] if np.isfinite(r) and r < 1 else []),
        ]
        fits = [
            (*_nearest(self.g, sigma(s * _GRID), offset), sigma, s)
            for offset in (False, True)
            for s in self.scales
            for sigma in known
        ]
        # The first of those that fit to rounding; constants in half precision leave 1e-3.
        error, alpha, beta, sigma, s = min(fits, key=lambda fit: max(fit[0], 1e-12))
        if error > 1e-3:
            raise NotReadable("after a formula that is no activation with a name")
        one, below = np.ones(self.base.c.shape), self.base if s == 1 else self.base.scaled(s)
        return _Affine(alpha * one, beta * one, below, sigma)


def _nearest(g: Array, sigma: Array, offset: bool) -> tuple[float, float, float]:
    """The relative error of the nearest `alpha sigma + beta`, alpha, and beta (0 without offset).

    Powers of two and zero are preferred: single precision leaves 0.49999997 of a half.
    """
    if not (np.isfinite(g).all() and np.isfinite(sigma).all()):
        return np.inf, 0.0, 0.0
    design = np.column_stack([sigma, np.full_like(sigma, float(offset))])
    exact = np.linalg.lstsq(design, g, rcond=None)[0]
    with np.errstate(divide="ignore"):
        plain = np.sign(exact) * 2.0 ** np.rint(np.log2(np.abs(exact)))
    plain[1] *= abs(exact[1]) > 1e-3 * abs(exact[0])
    errors = [float(np.abs(design @ pair - g).max() / np.abs(g).max()) for pair in (exact, plain)]
    chosen = plain if errors[1] < 10 * errors[0] + 1e-14 else exact
    return min(errors), float(chosen[0]), float(chosen[1])


# ---------------------------------------------------------------- nodes


def _pointwise(function: Callable[..., Any], *arguments: Any) -> _Value:
    """A function of each entry by itself, of values of one base and constant numbers."""
    values = [a for a in arguments if isinstance(a, _Value)]
    if any(value.base is not values[0].base for value in values):
        raise NotReadable("of two values that depend on the input")
    if not all(isinstance(a, _Value) or _is_number(a) for a in arguments):
        raise NotReadable("with a constant that differs from unit to unit")
    g = function(*(a.g if isinstance(a, _Value) else float(np.ravel(a)[0]) for a in arguments))
    scales = dict.fromkeys(s for v in values for s in (*v.scales, v.slope) if s)
    return _Value(values[0].base, np.asarray(g, dtype=float), tuple(scales))


def _is_number(constant: AnyArray | float) -> bool:
    return np.unique(constant).size == 1


def _add(*terms: Any) -> _Value:
    values = [term for term in terms if isinstance(term, _Value)]
    constants = [term for term in terms if not isinstance(term, _Value)]
    if len(values) > 1 or (values[0].slope is None and all(map(_is_number, constants))):
        return _pointwise(lambda *numbers: reduce(np.add, numbers), *terms)
    return _Value(reduce(_Affine.shifted, constants, values[0].affine()))


def _multiply(a: Any, b: Any) -> _Value:
    value, factors = (a, b) if isinstance(a, _Value) else (b, a)
    if isinstance(factors, _Value) or _is_number(factors):
        return _pointwise(np.multiply, value, factors)
    return _Value(value.affine().scaled(factors))


def _divide(a: Any, b: Any) -> _Value:
    return _pointwise(np.divide, a, b) if isinstance(b, _Value) else _multiply(a, 1 / b)


def _subtract(a: Any, b: Any) -> _Value:
    return _add(a, _multiply(b, -1.0) if isinstance(b, _Value) else -b)


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


def _greater(a: Any, b: Any) -> _Value:
    return _pointwise(get_activation("step").function, _Value(_subtract(a, b).affine()))


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
    "Greater": _greater,
    "Less": lambda a, b: _greater(b, a),
    "Concat": _columns,
    "Softmax": lambda a, axis=-1: _Value(a.affine(), link="softmax"),
}
"""Their arguments are values and constants, and the node's attributes by name."""
_LEAK = float(np.float32(0.01))
_GELU = {b"none": get_activation("gelu"), b"tanh": get_activation("gelu_tanh")}
_POINTWISE: Mapping[str, Callable[..., Any]] = {
    **{operator: get_activation(name).function for name, operator in OPERATORS.items()},
    "Softplus": lambda z: np.logaddexp(0.0, z),
    "Gelu": lambda z, approximate=b"none": _GELU[approximate](z),
    "Elu": lambda z, alpha=1.0: np.where(z > 0, z, alpha * np.expm1(z)),
    "LeakyRelu": lambda z, alpha=_LEAK: np.where(z > 0, z, alpha * z),
    "PRelu": lambda z, slope: np.where(z > 0, z, slope * z),
    "Max": lambda *values: reduce(np.maximum, values),
    "Min": lambda *values: reduce(np.minimum, values),
    "Pow": np.power,
    "Log": np.log,
}
_RESHAPING = ("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
_KNOWN = {*_AFFINE, *_POINTWISE, *_RESHAPING, "Constant", "Transpose"}
"""The last two of constants alone."""


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


# ---------------------------------------------------------------- the graph

_FLOATS = {1: "float32", 10: "float16", 11: "float64"}


class _Model:
    """What leads from a model's one input to its one output of real numbers."""

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
        reduced = onnx.ModelProto()
        reduced.CopyFrom(proto)
        del reduced.graph.node[:], reduced.graph.output[:]
        reduced.graph.node.extend(self.nodes)
        reduced.graph.output.append(onnx.helper.make_tensor_value_info(self.result, 1, None))
        self.proto = reduced
        used = sorted({*stored, *(name for node in self.nodes for name in node.output if name)})
        arrays = dict(zip(used, map(np.asarray, self.run(self.zeros, used)[0]), strict=True))
        self.known: dict[str, Any] = {"": None}
        self.known |= {n: a.astype(float) for n, a in arrays.items() if a.dtype.kind in "fiub"}
        """Constants; of what depends on the input, its value at zero."""
        kinds = {self.zeros.dtype, *(a.dtype for a in arrays.values() if a.dtype.kind == "f")}
        if {node.op_type for node in self.nodes} & {"Scaler", "Erf", "Gelu"}:
            kinds.add(np.dtype("float32"))  # in which the reference evaluates these
        self.precision = max((np.finfo(kind) for kind in kinds), key=lambda finfo: finfo.eps)
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


def _own(model: _Model, properties: Mapping[str, str]) -> Network:
    """A network that provenet wrote, by the names of its arrays."""
    arrays, (activation, link, outputs) = dict(model.known), (properties[key] for key in METADATA)
    try:
        if not outputs:
            names = arrays.keys() & {"output_weights", "output_bias", "linear"}
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
    layer: _Affine | None = output.affine()
    assert layer is not None
    link, below = output.link, layer.below
    if link == "identity" and layer.activation is get_activation("sigmoid") and below is not None:
        plain = layer.M.ndim == 1 and (layer.M == 1).all() and not layer.c.any()
        if plain and below.below is not None:
            layer, link = below, "logit"
    weights: list[Array] = []
    biases: list[Array] = []
    names: set[str] = set()
    while layer is not None:
        weights.insert(0, np.diag(layer.M) if layer.M.ndim == 1 else layer.M)
        biases.insert(0, layer.c)
        names |= {layer.activation.name} if layer.activation is not None else set()
        layer = layer.below
    if len(names) != 1:
        units = f"different units ({', '.join(sorted(names))})" if names else "no layer of units"
        raise NotReadable(f"has {units}")
    return network_of_layers(weights, biases, names.pop(), link)


def _check(model: _Model, network: Network) -> None:
    """Raise unless the model predicts what the network does, but for rounding.

    Rounding in a precision eps moves a unit's argument by at most about
    `d = |W| e + K eps (|W| |h| + |b|)`, where h is what the layer is fed and e its error, nothing
    for the inputs. Its value moves by what sigma changes within d, and for a smooth unit by `K eps`
    times numbers as large as `1 + |z|`: that is the e of the next layer. K = 100 leaves room for
    sums of many terms. A probability moves by at most `exp(2 e) - 1` times itself. A formula may
    overflow where the function does not: only finite numbers are compared.
    """
    rng, (W, b), sigma = np.random.default_rng(0), network.affine_maps[0], network.activation
    X = rng.standard_normal((-(-32 // model.rows) * model.rows, network.features))
    # At every second input the arguments of the first units are about standard normal.
    X[1::2] += np.linalg.lstsq(W, (rng.standard_normal((len(X[1::2]), len(W))) - b).T)[0].T
    X = X.astype(model.zeros.dtype)
    found = np.concatenate([outputs[0] for outputs in model.run(X, [model.result])])
    K, eps, largest = 100, float(model.precision.eps), float(model.precision.max)
    with np.errstate(all="ignore"):
        h, e, (*hidden, (A, c)) = X.astype(float), np.zeros(X.shape), network.affine_maps
        expected = network(h).reshape(len(X), -1)
        V = np.zeros((1, X.shape[1])) if network.linear is None else np.atleast_2d(network.linear)
        size = np.abs(h) @ np.abs(V).T + np.abs(c)
        for W, b in hidden:
            z, d = h @ W.T + b, e @ np.abs(W).T + K * eps * (np.abs(h) @ np.abs(W).T + np.abs(b))
            moved = np.maximum(np.abs(sigma(z + d) - sigma(z)), np.abs(sigma(z - d) - sigma(z)))
            h, e = sigma(z), moved + K * eps * sigma.smooth * (1 + np.abs(z))
        size = size + np.abs(h) @ np.abs(A).T
        allowed = np.where(K * size < largest, e @ np.abs(A).T + K * eps * size, np.inf)
        if network.link != "identity":
            columns = found.shape[1] if found.ndim == 2 else 1
            expected = probabilities(expected, network.link)[:, -columns:]
            allowed = expected * np.expm1(2 * allowed.max(axis=1, keepdims=True)) + K * eps
        if found.shape not in (expected.shape, expected[:, 0].shape):
            raise NotReadable(f"gives outputs of shape {found.shape} for {len(X)} inputs")
        error = np.abs(found.reshape(expected.shape) - expected)
    compared = np.isfinite(allowed) & np.isfinite(error)
    if (compared & (error > allowed)).any() or not (compared | np.isinf(allowed)).any(axis=0).all():
        raise NotReadable("does not predict what its weights determine, as far as they were read")
