"""ONNX models of other programs: read as the same function, or refused with what was found.

The graphs are those that PyTorch, skl2onnx and Keras export, written by hand. The judge is
onnxruntime: it evaluates the graph without provenet's reading of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import ACTIVATIONS, is_a_sentence
from provenet.common.typing import Array
from provenet.networks.formats import onnx_check

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

RNG = np.random.default_rng(3)
W, B, A, C = (RNG.standard_normal(shape) for shape in ((4, 5), 4, (2, 4), 2))
X = RNG.standard_normal((40, 5))
ALLOWED = {"float64": 1e-13, "float32": 1e-5, "float16": 3e-2}
"""About a hundred roundings of outputs below 10."""

Nodes = list[tuple[Any, ...]]
GEMMS: Nodes = [
    ("Gemm", "x W b", "z", {"transB": 1}),
    ("Relu", "z", "h"),
    ("Gemm", "h A c", "y", {"transB": 1}),
]
WEIGHTS = {"W": W, "b": B, "A": A, "c": C}
TRANSPOSED = {"W": W.T, "b": B, "A": A.T, "c": C}
MATMULS: Nodes = [
    ("MatMul", "x W", "xw"),
    ("Add", "xw b", "z"),
    ("Relu", "z", "h"),
    ("MatMul", "h A", "ha"),
    ("Add", "ha c", "y"),
]
DEEP: Nodes = [
    *GEMMS[:2],
    ("Gemm", "h V v", "z2", {"transB": 1}),
    ("Relu", "z2", "h2"),
    ("Gemm", "h2 A c", "y", {"transB": 1}),
]
V, BELOW = RNG.standard_normal((3, 4)), RNG.standard_normal(3)
LAYERS = {**WEIGHTS, "V": V, "v": BELOW, "A": RNG.standard_normal((2, 3))}
"""Of two hidden layers, of 4 units and 3."""


def model(
    nodes: Nodes,
    constants: dict[str, Any],
    dtype: str = "float64",
    shape: tuple[Any, ...] = ("N", 5),
    opset: int = 17,
    output: str = "y",
) -> Any:
    """A graph from x to y; constants of real numbers take the model's type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = [
        helper.make_node(
            operator,
            inputs.split(),
            [name],
            domain="ai.onnx.ml" if operator == "Scaler" else "",
            **(more[0] if more else {}),
        )
        for operator, inputs, name, *more in nodes
    ]
    stored = []
    for name, value in constants.items():
        array = np.array(value, order="C")
        stored.append(
            numpy_helper.from_array(array.astype(dtype) if array.dtype.kind == "f" else array, name)
        )
    graph = helper.make_graph(
        made,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(output, kind, "n" if "a" in constants else ("n", "m"))],
        stored,
    )
    versions = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def predictions(made: Any, inputs: Array) -> Array:
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ((result),) = session.run(None, {session.get_inputs()[0].name: inputs})
    return np.asarray(result, dtype=float)


def read(made: Any, path: Path) -> pn.Network:
    path.write_bytes(made.SerializeToString())
    return pn.load_network(path)


def refused(made: Any, tmp_path: Path, *words: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        read(made, tmp_path / "model.onnx")
    is_a_sentence(error, "model.onnx", *words)


# ---------------------------------------------------------------- out


SINGLE = ("gelu", "erf")
"""What onnxruntime evaluates in single precision only."""


@pytest.mark.parametrize(
    ("activation", "dtype"),
    [
        (activation, dtype)
        for activation in ACTIVATIONS
        for dtype in ("float64", "float32")
        if dtype == "float32" or activation not in SINGLE
    ],
)
def test_a_runtime_predicts_what_the_network_does(activation: str, dtype: str) -> None:
    for outputs, linear in ((None, None), (None, np.ones(5)), (1, None), (3, np.eye(3, 5))):
        net = pn.random_network(6, 5, outputs=outputs, activation=activation, rng=1)
        net = net.replace(output_bias=0.3, linear=linear)
        inputs = X.astype(dtype)
        found, expected = predictions(net.to_onnx(dtype), inputs), net(inputs)
        assert found.shape == (40, outputs or 1)
        # Rounding of double precision, and a hundred roundings of single precision.
        allowed = 1e-12 if dtype == "float64" else 1e-5
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            found.reshape(expected.shape), expected, rtol=0, atol=allowed * scale
        )


def test_a_model_in_single_precision_comes_in_again(tmp_path: Path) -> None:
    net = pn.random_network(6, 5, activation="leaky_relu(0.2)", rng=1)
    loaded = read(net.to_onnx("float32"), tmp_path / "net.onnx")
    np.testing.assert_array_equal(loaded.weights, net.weights.astype("float32"))
    assert loaded.activation.slope == float(np.float32(0.2))
    onnx.checker.check_model(net.to_onnx(), full_check=True)
    with pytest.raises(pn.InvalidInput) as error:
        net.to_onnx("float16")
    is_a_sentence(error, "float16", "float64")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_units_of_any_size_come_in_again(tmp_path: Path, activation: str) -> None:
    """Weights of norm 100 and biases of 50: no formula overflows or loses its digits."""
    net = pn.random_network(6, 5, bias_scale=0.5, activation=activation, rng=1)
    steep = net.replace(weights=100 * net.weights, biases=100 * net.biases)
    for network in (steep, net.replace(biases=net.biases - 8), net.keep(np.arange(6) == 0)):
        loaded = read(network.to_onnx(), tmp_path / "net.onnx")
        assert loaded.activation.family == network.activation.family
        for name in ("weights", "biases", "output_weights"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(network, name))


# ---------------------------------------------------------------- in

STANDARDISED: Nodes = [("Sub", "x mean", "x0"), ("Div", "x0 spread", "x1")]
SKL2ONNX: Nodes = [
    ("Cast", "x", "cast", {"to": 11}),
    ("MatMul", "cast W", "xw"),
    *MATMULS[1:-1],
    ("Add", "ha c", "wide"),
    ("Reshape", "wide shape", "y"),
]
LABELLED: Nodes = [*GEMMS[:2], ("MatMul", "h a", "s"), ("Add", "s one", "y")]


def from_x1(nodes: Nodes) -> Nodes:
    """The same nodes on standardised inputs."""
    return [(node[0], node[1].replace("x ", "x1 ", 1), *node[2:]) for node in nodes]


READ: dict[str, tuple[Nodes, dict[str, Any], dict[str, Any]]] = {
    "PyTorch": (GEMMS, WEIGHTS, {}),
    "PyTorch, a batch of two": (GEMMS, WEIGHTS, {"shape": (2, 5)}),
    "skl2onnx": (SKL2ONNX, {**TRANSPOSED, "shape": np.array([-1, 2])}, {"opset": 13}),
    "skl2onnx with StandardScaler": (
        [*STANDARDISED, *from_x1(MATMULS)],
        {**TRANSPOSED, "mean": np.full(5, 1e3), "spread": np.linspace(1, 2, 5)},
        {},
    ),
    "skl2onnx with Scaler": (
        [
            ("Scaler", "x", "x1", {"offset": [0.5] * 5, "scale": [1.0, 2.0, 0.5, 1.0, 3.0]}),
            *from_x1(MATMULS),
        ],
        TRANSPOSED,
        {"dtype": "float32"},
    ),
    "Keras, weights transposed in the graph": (
        [
            ("Transpose", "W", "Wt", {"perm": [1, 0]}),
            ("MatMul", "x Wt", "xw"),
            ("Add", "b xw", "z"),
            *MATMULS[2:],
        ],
        {**TRANSPOSED, "W": W},
        {},
    ),
    "alpha, beta, no bias": (
        [
            ("Gemm", "x W b", "z", {"transB": 1, "alpha": 0.5, "beta": -2.0}),
            ("Relu", "z", "h"),
            ("Gemm", "h A", "y", {"transB": 1}),
        ],
        WEIGHTS,
        {},
    ),
    "LeakyRelu": ([GEMMS[0], ("LeakyRelu", "z", "h", {"alpha": 0.2}), GEMMS[2]], WEIGHTS, {}),
    "LeakyRelu by default": ([GEMMS[0], ("LeakyRelu", "z", "h"), GEMMS[2]], WEIGHTS, {}),
    "PRelu": ([GEMMS[0], ("PRelu", "z s", "h"), GEMMS[2]], {**WEIGHTS, "s": [0.3]}, {}),
    "Max with zero": ([GEMMS[0], ("Max", "o z", "h"), GEMMS[2]], {**WEIGHTS, "o": 0.0}, {}),
    "Less": (
        [
            GEMMS[0],
            ("Less", "z o", "on"),
            ("Cast", "on", "h", {"to": 11}),
            GEMMS[2],
        ],
        {**WEIGHTS, "o": [[0.5]]},
        {},
    ),
    "nodes that do nothing": (
        [
            ("Identity", "x", "i"),
            ("Flatten", "i", "f"),
            ("Reshape", "f shape", "x1"),
            *from_x1(GEMMS[:2]),
            ("Dropout", "h", "h1"),
            ("Gemm", "h1 A c", "y", {"transB": 1}),
        ],
        {**WEIGHTS, "shape": np.array([0, -1])},
        {},
    ),
    "units changed on their way out": (
        [
            *GEMMS[:2],
            ("Mul", "h f", "h1"),
            ("Sub", "o h1", "h2"),
            ("Neg", "h2", "h3"),
            ("Gemm", "h3 A c", "s", {"transB": 1}),
            ("Div", "s t", "y"),
        ],
        {**WEIGHTS, "f": np.arange(1.0, 5.0), "o": [0.5], "t": [4.0, 2.0]},
        {},
    ),
    "a linear term": (
        [*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}), ("MatMul", "x V", "l"),
         ("Add", "l s", "y")],
        {**WEIGHTS, "V": RNG.standard_normal((5, 2))},
        {},
    ),
    "two layers side by side": (
        [*GEMMS[:2], ("Neg", "z", "n"), ("Relu", "n", "k"), ("Sub", "h k", "d"),
         ("Gemm", "d A c", "y", {"transB": 1})],
        WEIGHTS,
        {},
    ),
    "shortcuts around layers": (
        [("MatMul", "x Q", "q"), ("Add", "x q", "x1"), *from_x1(GEMMS[:2]), ("Mul", "h f", "g"),
         ("Add", "h g", "k"), ("MatMul", "k M", "m"), ("Add", "m k", "n"),
         ("Gemm", "n A c", "y", {"transB": 1})],
        {**WEIGHTS, "Q": RNG.standard_normal((5, 5)), "M": RNG.standard_normal((4, 4)),
         "f": np.arange(1.0, 5.0)},
        {},
    ),
    "units of the inputs themselves": (
        [("Relu", "x", "h"), ("Gemm", "h V c", "y")],
        {"V": RNG.standard_normal((5, 2)), "c": C},
        {},
    ),
    "labels without an axis": (LABELLED, {**WEIGHTS, "a": A[0], "one": 1.0}, {}),
    "labels squeezed and back": (
        [
            *LABELLED[:-1],
            ("Unsqueeze", "s last", "t"),
            ("Add", "t one", "u"),
            ("Squeeze", "u last", "y"),
        ],
        {**WEIGHTS, "a": A[0], "one": 1.0, "last": np.array([1])},
        {},
    ),
    "half precision": (GEMMS, WEIGHTS, {"dtype": "float16"}),
    "two hidden layers": (DEEP, LAYERS, {}),
    "two hidden layers in half precision": (DEEP, LAYERS, {"dtype": "float16"}),
    "an activation of an activation": (
        [*GEMMS[:2], ("Relu", "h", "again"), ("Gemm", "again A c", "y", {"transB": 1})],
        WEIGHTS,
        {},
    ),
    "two towers": (
        [*GEMMS[:2], ("Gemm", "h V v", "z2", {"transB": 1}), ("Relu", "z2", "h2"),
         ("Neg", "x", "xn"), ("Gemm", "xn W b", "zn", {"transB": 1}),
         ("Relu", "zn", "hn"), ("Gemm", "hn V v", "z2n", {"transB": 1}), ("Relu", "z2n", "h2n"),
         ("Sub", "h2 h2n", "d"), ("Gemm", "d A c", "y", {"transB": 1})],
        LAYERS,
        {},
    ),
    "a shortcut around no layer": (
        [*GEMMS[:2], ("MatMul", "h M", "m"), ("Add", "m h", "k"),
         ("Gemm", "k V v", "z2", {"transB": 1}), *DEEP[3:]],
        {**LAYERS, "M": RNG.standard_normal((4, 4))},
        {},
    ),
    "skl2onnx, three hidden layers": (
        [("MatMul", "x W", "xw"), ("Add", "xw b", "z"), ("Tanh", "z", "h"), ("MatMul", "h V", "hv"),
         ("Add", "hv v", "z2"), ("Tanh", "z2", "h2"), ("MatMul", "h2 U", "hu"),
         ("Add", "hu u", "z3"), ("Tanh", "z3", "h3"), ("MatMul", "h3 A", "ha"),
         ("Add", "ha c", "y")],
        {"W": W.T, "b": B, "V": V.T, "v": BELOW, "U": RNG.standard_normal((3, 6)),
         "u": RNG.standard_normal(6), "A": RNG.standard_normal((6, 2)), "c": C},
        {},
    ),
    "gelu twice": (
        [GEMMS[0], ("Div", "z r", "d"), ("Erf", "d", "e"), ("Add", "e o", "g"), ("Mul", "z g", "w"),
         ("Mul", "w half", "h"), DEEP[2], ("Div", "z2 r", "d2"), ("Erf", "d2", "e2"),
         ("Add", "e2 o", "g2"), ("Mul", "z2 g2", "w2"), ("Mul", "w2 half", "h2"), DEEP[4]],
        {**LAYERS, "r": 1.4142135381698608, "o": 1.0, "half": 0.5},
        {"dtype": "float32"},
    ),
    "silu of one unit above others": (
        [("Gemm", "x W b", "z", {"transB": 1}), ("Sigmoid", "z", "g"), ("Mul", "z g", "h"),
         ("MatMul", "h V", "hv"), ("Add", "hv v", "z2"), ("Sigmoid", "z2", "g2"),
         ("Mul", "z2 g2", "h2"), ("MatMul", "h2 A", "ha"), ("Add", "ha c", "y")],
        {**WEIGHTS, "V": V[:1].T, "v": BELOW[:1], "A": A[:, :1].T},
        {},
    ),
}  # fmt: skip

ERF: Nodes = [("Div", "z r", "d"), ("Erf", "d", "e"), ("Add", "e o", "g")]
TANH: Nodes = [("Mul", "q k", "m"), ("Add", "z m", "n"), ("Mul", "n s", "u"), ("Tanh", "u", "t"),
    ("Add", "t o", "g")]  # fmt: skip
NUMBERS = {"r": 1.4142135381698608, "o": 1.0, "half": 0.5, "k": 0.044715, "s": 0.7978845608028654,
    "p": 3.0, "minus": -1.0, "two": 2.0}  # fmt: skip
F32, F20 = {"dtype": "float32"}, {"dtype": "float32", "opset": 20}
UNITS: dict[str, tuple[str, Nodes, dict[str, Any]]] = {
    "Tanh": ("tanh", [("Tanh", "z", "h")], {}),
    "Sigmoid": ("sigmoid", [("Sigmoid", "z", "h")], {}),
    "Sin": ("sin", [("Sin", "z", "h")], {}),
    "Erf": ("erf", [("Erf", "z", "h")], F32),
    "Softplus": ("softplus", [("Softplus", "z", "h")], F32),
    "Elu": ("elu", [("Elu", "z", "h")], F32),
    "Elu of alpha 1": ("elu", [("Elu", "z", "h", {"alpha": 1.0})], F32),
    "Gelu": ("gelu", [("Gelu", "z", "h")], F20),
    "Gelu none": ("gelu", [("Gelu", "z", "h", {"approximate": "none"})], F20),
    "Gelu tanh": ("gelu_tanh", [("Gelu", "z", "h", {"approximate": "tanh"})], F20),
    "x Sigmoid(x)": ("silu", [("Sigmoid", "z", "g"), ("Mul", "z g", "h")], {}),
    "Sigmoid(x) x": ("silu", [("Sigmoid", "z", "g"), ("Mul", "g z", "h")], F32),
    "gelu of torch": ("gelu", [*ERF, ("Mul", "z g", "w"), ("Mul", "w half", "h")], F32),
    "gelu of Keras": ("gelu", [*ERF, ("Mul", "z half", "w"), ("Mul", "w g", "h")], F32),
    "gelu of BERT": ("gelu", [*ERF, ("Mul", "g half", "w"), ("Mul", "z w", "h")], F32),
    "gelu tanh of torch": ("gelu_tanh",
        [("Pow", "z p", "q"), *TANH, ("Mul", "z half", "w"), ("Mul", "w g", "h")], {}),
    "gelu tanh by products": ("gelu_tanh",
        [("Mul", "z z", "zz"), ("Mul", "zz z", "q"), *TANH, ("Mul", "z g", "w"),
         ("Mul", "w half", "h")], F32),
    "log of a sum": ("softplus", [("Exp", "z", "e"), ("Add", "e o", "d"), ("Log", "d", "h")], {}),
    "a logistic function": ("sigmoid",
        [("Neg", "z", "n"), ("Exp", "n", "e"), ("Add", "o e", "d"), ("Div", "o d", "h")], {}),
    "a quotient": ("silu",
        [("Neg", "z", "n"), ("Exp", "n", "e"), ("Add", "e o", "d"), ("Div", "z d", "h")], {}),
    "a product": ("relu2", [("Relu", "z", "r1"), ("Mul", "r1 r1", "h")], {}),
    "a power": ("relu3", [("Relu", "z", "r1"), ("Pow", "r1 p", "h")], {}),
    "three factors": ("relu3",
        [("Relu", "z", "r1"), ("Mul", "r1 r1", "r2"), ("Mul", "r2 r1", "h")], {}),
    "a steep maximum": ("leaky_relu", [("Mul", "z two", "w"), ("Max", "w z", "h")], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_units_are_known_by_what_they_compute(tmp_path: Path, name: str) -> None:
    activation, nodes, options = UNITS[name]
    dtype = options.get("dtype", "float64")
    made = model([GEMMS[0], *nodes, GEMMS[2]], {**WEIGHTS, **NUMBERS}, **options)
    loaded = read(made, tmp_path / "model.onnx")
    assert loaded.activation.family == activation
    np.testing.assert_array_equal(loaded.weights, W.astype(dtype))
    np.testing.assert_array_equal(loaded.biases, B.astype(dtype))
    factor = 2 if name == "a steep maximum" else 1  # max(z, 2z) = 2 max(z, z/2)
    np.testing.assert_array_equal(loaded.output_weights, factor * A.astype(dtype))
    inputs = (3 * X).astype(dtype)
    found, expected = predictions(made, inputs), loaded(inputs.astype(float))
    # Cubes of numbers near 10.
    allowed = 1e3 * ALLOWED[dtype]
    np.testing.assert_allclose(expected, found, rtol=0, atol=allowed)


def test_units_in_half_precision(tmp_path: Path) -> None:
    """Constants of three digits: the nearest activation is the one that was meant."""
    for nodes, name in ((ERF, "gelu"), ([("Pow", "z p", "q"), *TANH], "gelu_tanh")):
        made = model(
            [GEMMS[0], *nodes, ("Mul", "z half", "w"), ("Mul", "w g", "h"), GEMMS[2]],
            {**WEIGHTS, **NUMBERS},
            dtype="float16",
        )
        assert read(made, tmp_path / "model.onnx").activation.name == name


SOFTPLUS: Nodes = [("Exp", "z", "e"), ("Add", "e o", "d"), ("Log", "d", "h")]


def test_a_formula_that_overflows_is_compared_where_it_does_not(tmp_path: Path) -> None:
    """`Log(1 + Exp(z))` for z up to some thousand; but somewhere it must be compared."""
    nodes, steep = [GEMMS[0], *SOFTPLUS, GEMMS[2]], {**WEIGHTS, "W": 300 * W, "o": 1.0}
    assert np.isinf(predictions(model(nodes, steep), X)).any()
    loaded = read(model(nodes, steep), tmp_path / "model.onnx")
    assert loaded.activation.name == "softplus"
    apart = {**steep, "W": np.tile(W[:1], (4, 1)), "b": np.array([0.0, 3e3, 0.0, 0.0])}
    refused(model(nodes, apart), tmp_path, "does not predict")


def test_a_unit_alone(tmp_path: Path) -> None:
    """Its bias is a single number, as constants of formulas are."""
    nodes: Nodes = [("MatMul", "x W", "v"), ("Add", "v b", "z"), ("Sigmoid", "z", "g"),
        ("Mul", "z g", "h"), ("Mul", "h A", "a1"), ("Add", "a1 c", "y")]  # fmt: skip
    alone = {"W": W[:1].T, "b": B[:1], "A": A[:1, :1], "c": C[:1]}
    loaded = read(model(nodes, alone), tmp_path / "model.onnx")
    assert loaded.activation.name == "silu" and loaded.units == 1
    np.testing.assert_array_equal(loaded.biases, B[:1])
    np.testing.assert_array_equal(loaded.output_weights, A[0, :1])


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_the_function_it_computes(tmp_path: Path, name: str) -> None:
    nodes, constants, options = READ[name]
    made = model(nodes, constants, **options)
    loaded = read(made, tmp_path / "model.onnx")
    dtype = options.get("dtype", "float64")
    inputs = (X * 5 + 1e3 * ("mean" in constants)).astype(dtype)
    if "shape" in options:
        inputs = inputs[:2]
    found = predictions(made, inputs)
    expected = loaded(inputs.astype(float))
    # Inputs near 1000, where standardised, lose three digits in a difference.
    allowed = ALLOWED[dtype] * 20 * (1e3 if "mean" in constants else 1)
    np.testing.assert_allclose(
        expected.reshape(found.shape), found, rtol=0, atol=allowed, err_msg=name
    )


def test_weights_come_out_as_they_are_stored(tmp_path: Path) -> None:
    for nodes, constants in ((GEMMS, WEIGHTS), (MATMULS, TRANSPOSED)):
        loaded = read(model(nodes, constants), tmp_path / "model.onnx")
        found = (loaded.weights, loaded.biases, loaded.output_weights, loaded.output_bias)
        for array, truth in zip(found, (W, B, A, C), strict=True):
            np.testing.assert_array_equal(array, truth)


def test_weights_of_two_layers_come_out_as_they_are_stored(tmp_path: Path) -> None:
    loaded = read(model(DEEP, LAYERS), tmp_path / "model.onnx")
    assert isinstance(loaded, pn.DeepNetwork) and loaded.outputs == 2
    for found, names in ((loaded.weights, "WVA"), (loaded.biases, "bvc")):
        for array, name in zip(found, names, strict=True):
            np.testing.assert_array_equal(array, LAYERS[name])


def test_how_many_hidden_layers_a_graph_has(tmp_path: Path) -> None:
    """Side by side they are one; units of units are those of a name, if they have one."""
    deep = {"two hidden layers": (4, 3), "two towers": (8, 6), "gelu twice": (4, 3)}
    deep |= {"skl2onnx, three hidden layers": (4, 3, 6), "silu of one unit above others": (4, 1)}
    for name, widths in {**deep, "an activation of an activation": (4,)}.items():
        nodes, constants, options = READ[name]
        loaded = read(model(nodes, constants, **options), tmp_path / "model.onnx")
        assert loaded.widths == widths, name
        assert isinstance(loaded, pn.DeepNetwork if len(widths) > 1 else pn.Network)


def test_weights_in_nodes_and_listed_as_inputs(tmp_path: Path) -> None:
    """Old files list their weights among the inputs; others keep them in nodes."""
    made = model(GEMMS, WEIGHTS)
    made.graph.input.append(helper.make_tensor_value_info("W", 11, W.shape))
    bias = made.graph.initializer.pop(1)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["b"], value=bias))
    loaded = read(made, tmp_path / "model.onnx")
    np.testing.assert_array_equal(loaded.biases, B)
    np.testing.assert_array_equal(loaded.weights, W)


def test_what_the_output_does_not_need_is_not_looked_at(tmp_path: Path) -> None:
    made = model([*GEMMS, ("Softmax", "y", "unused")], WEIGHTS)
    np.testing.assert_array_equal(read(made, tmp_path / "model.onnx").weights, W)


# ---------------------------------------------------------------- refused

REFUSED: dict[str, tuple[Nodes, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "a Softmax that is used": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Softmax", "s", "p"), ("Neg", "p", "y")], WEIGHTS, {}, ("Neg", "after a Softmax")),
    "a Softmax of rows": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Softmax", "s", "y", {"axis": 0})], WEIGHTS, {}, ("Softmax", "columns of a row")),
    "rows beside rows": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Concat", "s s", "y", {"axis": 0})], WEIGHTS, {}, ("Concat", "keep the rows")),
    "a Sigmoid that is scaled": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Sigmoid", "s", "p"), ("Add", "p p", "y")], WEIGHTS, {}, ("different units",)),
    "a shortcut from the inputs": ([*DEEP[:3], ("MatMul", "x W.T", "s"), ("Add", "z2 s", "z3"),
        ("Relu", "z3", "h2"), DEEP[4]], {**LAYERS, "W.T": RNG.standard_normal((5, 3))}, {},
        ("shortcut around a hidden layer",)),
    "a shortcut to the output": ([*DEEP[:4], ("Gemm", "h2 A c", "s", {"transB": 1}),
        ("MatMul", "h U", "t"), ("Add", "s t", "y")],
        {**LAYERS, "U": RNG.standard_normal((4, 2))}, {}, ("shortcut around a hidden layer",)),
    "a linear term beside two layers": ([*DEEP[:4], ("Gemm", "h2 A c", "s", {"transB": 1}),
        ("MatMul", "x U", "t"), ("Add", "s t", "y")],
        {**LAYERS, "U": RNG.standard_normal((5, 2))}, {}, ("shortcut around a hidden layer",)),
    "layers of unequal depth side by side": ([*DEEP[:4], ("MatMul", "x U", "t"),
        ("Relu", "t", "k"), ("Add", "h2 k", "s"), ("Gemm", "s A c", "y", {"transB": 1})],
        {**LAYERS, "U": RNG.standard_normal((5, 3))}, {}, ("shortcut around a hidden layer",)),
    "half of a layer around another": ([*DEEP[:4], ("Gemm", "h2 U", "z3"), ("Relu", "z3", "h3"),
        ("Gemm", "x Q", "q"), ("Relu", "q", "p"), ("Gemm", "p U", "r"), ("Relu", "r", "k"),
        ("Gemm", "x Q", "s"), ("Add", "s k", "s1"),
        ("Relu", "s1", "s2"), ("Add", "h3 s2", "t"), ("Gemm", "t A c", "y", {"transB": 1})],
        {**LAYERS, "U": np.eye(3), "Q": RNG.standard_normal((5, 3))}, {},
        ("shortcut around a hidden layer",)),
    "a linear function": (GEMMS[:1], WEIGHTS, {"output": "z"}, ("no layer of units",)),
    "softsign": ([GEMMS[0], ("Softsign", "z", "h"), GEMMS[2]], WEIGHTS, {}, ("node Softsign",)),
    "elu of alpha 0.5": ([GEMMS[0], ("Elu", "z", "h", {"alpha": 0.5}), GEMMS[2]], WEIGHTS, {},
        ("node Elu", "alpha 0.5")),
    "a rougher gelu": ([GEMMS[0], ("Mul", "z f", "w"), ("Sigmoid", "w", "g"), ("Mul", "z g", "h"),
        GEMMS[2]], {**WEIGHTS, "f": 1.702}, {}, ("node Mul", "depend on the input")),
    "a gelu with another root": ([GEMMS[0], ("Div", "z r", "d"), ("Erf", "d", "e"),
        ("Add", "e o", "g"), ("Mul", "z g", "w"), ("Mul", "w half", "h"), GEMMS[2]],
        {**WEIGHTS, "r": 1.41, "o": 1.0, "half": 0.5}, {}, ("does not predict",)),
    "a gate of another layer": ([GEMMS[0], ("Gemm", "x V", "v"), ("Sigmoid", "v", "g"),
        ("Mul", "z g", "h"), GEMMS[2]], {**WEIGHTS, "V": W.T + 1.0}, {}, ("node Mul",)),
    "a formula to the end": ([GEMMS[0], ("Mul", "z z", "y")], WEIGHTS, {}, ("node Mul",)),
    "other units above": ([*GEMMS[:2], ("Gemm", "h V", "k"), ("Sigmoid", "k", "g"),
        ("Mul", "k g", "l"), ("Gemm", "l A c", "y", {"transB": 1})],
        {**WEIGHTS, "V": np.eye(4)}, {}, ("different units", "relu, silu")),
    "a product of units": ([*DEEP[:3], ("Mul", "z2 z2", "h2"), DEEP[4]], LAYERS, {},
        ("node Mul", "depend on the input")),
    "convolution": ([("Conv", "x V", "y")], {"V": np.ones((1, 1, 3))},
        {"shape": ("N", 1, 9)}, ("node Conv",)),
    "images": ([("Flatten", "x", "x1"), *from_x1(GEMMS)], WEIGHTS, {"shape": ("N", 1, 5)},
        ("(N, 1, 5)", "(samples, features)")),
    "features unknown": (GEMMS, WEIGHTS, {"shape": ("N", "F")}, ("(N, F)",)),
    "too many rows": (GEMMS, WEIGHTS, {"shape": (10**9, 5)}, ("exactly 1000000000 samples",)),
    "integers": ([("Cast", "x", "x1", {"to": 1}), *from_x1(GEMMS)], WEIGHTS, {"dtype": "int64"},
        ("int64", "real numbers")),
    "rounding": ([("Cast", "x", "i", {"to": 7}), ("Cast", "i", "x1", {"to": 11}),
        *from_x1(GEMMS)], WEIGHTS, {}, ("Cast", "int64")),
    "two kinds": ([*GEMMS[:2], ("Exp", "z", "e"), ("Add", "h e", "s"),
        ("Gemm", "s A c", "y", {"transB": 1})], WEIGHTS, {}, ("several kinds", "exp, relu")),
    "products": ([*GEMMS[:2], ("Sin", "z", "s"), ("Mul", "h s", "q"),
        ("Gemm", "q A c", "y", {"transB": 1})], WEIGHTS, {}, ("node Mul", "depend on the input")),
    "powers": ([GEMMS[0], ("Pow", "z p", "h"), GEMMS[2]], {**WEIGHTS, "p": 2.0}, {},
        ("node Pow", "ReLU")),
    "slopes": ([GEMMS[0], ("PRelu", "z s", "h"), GEMMS[2]], {**WEIGHTS, "s": B}, {},
        ("PRelu", "slopes of their own")),
    "steep": ([GEMMS[0], ("LeakyRelu", "z", "h", {"alpha": 1.5}), GEMMS[2]], WEIGHTS, {},
        ("LeakyRelu", "slope 1.5")),
    "mixed rows": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Reshape", "s shape", "y")], {**WEIGHTS, "shape": np.array([-1, 1])}, {},
        ("Reshape", "[-1, 1]", "rows")),
    "outputs in one row": ([*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}),
        ("Reshape", "s shape", "y")], {**WEIGHTS, "shape": np.array([-1])}, {},
        ("Reshape", "[-1]", "rows")),
    "transposed rows": ([("Transpose", "x", "x1"), *from_x1(GEMMS)], WEIGHTS, {},
        ("node Transpose",)),
    "a bias a row": ([*GEMMS[:1], ("Add", "z R", "q"), ("Relu", "q", "h"), GEMMS[2]],
        {**WEIGHTS, "R": np.ones((3, 4))}, {"shape": (3, 5)}, ("Add", "(3, 4)")),
    "dropout in training": ([*GEMMS[:2], ("Dropout", "h r t", "h1"),
        ("Gemm", "h1 A c", "y", {"transB": 1})],
        {**WEIGHTS, "r": 0.5, "t": np.array(True)}, {}, ("Dropout", "training")),
    "a constant": ([("Identity", "b", "y")], WEIGHTS, {}, ("does not depend",)),
    "weights that do not fit": ([("Gemm", "x A c", "y", {"transB": 1})], WEIGHTS, {},
        ("5 columns", "4")),
    "weights of integers": (GEMMS, {**WEIGHTS, "W": np.ones((4, 5), dtype="uint8")}, {},
        ("'W'", "uint8")),
    "not finite": (GEMMS, {**WEIGHTS, "W": np.inf * W}, {}, ("weights", "finite")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_graphs_are_refused_with_what_was_found(tmp_path: Path, name: str) -> None:
    nodes, constants, options, words = REFUSED[name]
    refused(model(nodes, constants, **options), tmp_path, *words)


def second_input(made: Any) -> None:
    made.graph.input.append(helper.make_tensor_value_info("x2", 11, ("N", 5)))


def second_output(made: Any) -> None:
    made.graph.output.append(helper.make_tensor_value_info("h", 11, ("N", 4)))


def foreign_domain(made: Any) -> None:
    made.graph.node[1].domain = "com.example"
    made.opset_import.append(helper.make_opsetid("com.example", 1))


def outside(made: Any) -> None:
    """Weights in a file beside, which anyone may have put there."""
    tensor = made.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value="../secrets.bin")


def cut_short(made: Any) -> None:
    tensor = made.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-8]


def unsorted(made: Any) -> None:
    made.graph.node.insert(0, made.graph.node.pop())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (second_input, ("2 inputs", "Gemm, Relu, Gemm")),
        (second_output, ("2 outputs",)),
        (foreign_domain, ("Relu", "com.example")),
        (outside, ("another file", "external_data=False")),
        (cut_short, ("W",)),
        (unsorted, ("topologically sorted",)),
    ],
)
def test_other_models_are_refused(
    tmp_path: Path, change: Callable[[Any], None], words: tuple[str, ...]
) -> None:
    made = model(GEMMS, WEIGHTS)
    change(made)
    refused(made, tmp_path, *words)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("field", ["weights", "biases", "output_weights", "output_bias"])
def test_a_network_that_predicts_otherwise_is_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, field: str
) -> None:
    """Were the graph misread by one number, by a thousandth, the comparison would say so."""
    plain = onnx_check.check_against_model

    def misread(made: Any, graph: Any, network: pn.Network) -> None:
        wrong = np.array(getattr(network, field))
        wrong.flat[0] += 1e-3
        plain(made, graph, network.replace(**{field: wrong}))

    monkeypatch.setattr("provenet.networks.formats.onnx_file.check_against_model", misread)
    refused(model(GEMMS, WEIGHTS, dtype), tmp_path, "does not predict what its weights say")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("field", ["weights", "biases"])
def test_a_deep_network_that_predicts_otherwise_is_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, layer: int, field: str
) -> None:
    """By a hundredth: in single precision the rounding of two layers leaves room for less."""
    plain = onnx_check.check_against_model

    def misread(made: Any, graph: Any, network: pn.DeepNetwork) -> None:
        wrong = [np.array(array) for array in getattr(network, field)]
        wrong[layer].flat[0] += 1e-2
        plain(made, graph, network.replace(**{field: wrong}))

    monkeypatch.setattr("provenet.networks.formats.onnx_file.check_against_model", misread)
    refused(model(DEEP, LAYERS, dtype), tmp_path, "does not predict what its weights say")
