"""ONNX models: a runtime predicts what the network does; other programs' are read or refused.

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
from provenet.networks import onnx_models

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 5))
W, B, V, D, A, C = (RNG.standard_normal(shape) for shape in ((4, 5), 4, (3, 4), 3, (2, 4), 2))
ALLOWED = {"float64": 1e-12, "float32": 1e-4, "float16": 0.3}
"""Some hundred roundings of outputs near 10."""

Nodes = list[tuple[Any, ...]]
GEMMS: Nodes = [
    ("Gemm", "x W b", "z", {"transB": 1}),
    ("Relu", "z", "h"),
    ("Gemm", "h A c", "y", {"transB": 1}),
]
WEIGHTS = {"W": W, "b": B, "A": A, "c": C}
MATMULS: Nodes = [
    ("MatMul", "x W", "xw"),
    ("Add", "xw b", "z"),
    ("Relu", "z", "h"),
    ("MatMul", "h A", "ha"),
    ("Add", "ha c", "y"),
]
TRANSPOSED = {"W": W.T, "b": B, "A": A.T, "c": C}
DEEP: Nodes = [
    *GEMMS[:2],
    ("Gemm", "h V d", "z2", {"transB": 1}),
    ("Relu", "z2", "h2"),
    ("Gemm", "h2 A c", "y", {"transB": 1}),
]
LAYERS = {**WEIGHTS, "V": V, "d": D, "A": A[:, :3]}


def model(
    nodes: Nodes, constants: dict[str, Any], dtype: str = "float64", shape: Any = ("N", 5)
) -> Any:
    """A graph from x to y; constants of real numbers take the model's type."""
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
        array = array.astype(dtype) if array.dtype.kind == "f" else array
        stored.append(numpy_helper.from_array(array, name))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    real = kind if dtype.startswith("float") else 11
    ends = [
        helper.make_tensor_value_info("x", kind, shape),
        helper.make_tensor_value_info("y", real, ("n",) if "a" in constants else ("n", "m")),
    ]
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(made, "graph", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def predictions(made: Any, inputs: Array) -> Array:
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ((result),) = session.run(None, {session.get_inputs()[0].name: inputs})
    return np.asarray(result, dtype=float)


def read(made: Any, folder: Path) -> Any:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return pn.load_network(folder / "model.onnx")


def refused(made: Any, folder: Path, *words: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        read(made, folder)
    is_a_sentence(error, "model.onnx", *words)


# ---------------------------------------------------------------- written


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_runtime_predicts_what_the_network_does(
    tmp_path: Path, activation: str, dtype: str
) -> None:
    if (activation, dtype) in (("gelu", "float64"), ("erf", "float64"), ("step", "float32")):
        return  # onnxruntime has no such kernel; a rounding changes sides
    deep = [
        pn.random_network((4, 3, 6), 5, outputs=n, activation=activation, rng=1) for n in (1, 3)
    ]
    flat = pn.random_network(6, 5, outputs=3, activation=activation, rng=1)
    for net in (*deep, flat.replace(output_bias=0.3, linear=np.eye(3, 5))):
        if isinstance(net, pn.DeepNetwork):
            net = net.replace(weights=[M / 8 for M in net.weights])  # exp of exp of exp
        made, inputs = net.to_onnx(dtype), X.astype(dtype)
        onnx.checker.check_model(made, full_check=True)
        found, expected = predictions(made, inputs), net(inputs)
        assert found.shape == (40, net.outputs or 1)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0, atol=ALLOWED[dtype] * scale)
        # Read by its own names, and as any graph: then a linear term is refused.
        assert read(made, tmp_path).widths == net.widths
        del made.metadata_props[:]
        if net.linear is not None:
            refused(made, tmp_path, "Gemm", "layer below alone")
            continue
        loaded = read(made, tmp_path)
        assert loaded.widths == net.widths and loaded.activation.family == net.activation.family
        for (M, v), (M0, v0) in zip(loaded.affine_maps, net.affine_maps, strict=True):
            np.testing.assert_array_equal(M, M0.astype(dtype))
            np.testing.assert_array_equal(v, v0.astype(dtype))


def test_only_real_types_are_written() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.Network(np.eye(2)).to_onnx("float16")
    is_a_sentence(error, "float16", "float64")


# ---------------------------------------------------------------- read


def after(nodes: Nodes) -> Nodes:
    """The same nodes on x1."""
    return [(node[0], node[1].replace("x ", "x1 ", 1), *node[2:]) for node in nodes]


def units(*nodes: tuple[Any, ...]) -> Nodes:
    """A hidden layer with these nodes from z to h."""
    return [GEMMS[0], *nodes, GEMMS[2]]


READ: dict[str, tuple[Nodes, dict[str, Any], dict[str, Any]]] = {
    "PyTorch, a batch of two": (GEMMS, WEIGHTS, {"shape": (2, 5)}),
    "half precision": (DEEP, LAYERS, {"dtype": "float16"}),
    "skl2onnx": (
        [("Cast", "x", "x1", {"to": 11}), *after(MATMULS[:-1]), ("Add", "ha c", "wide"),
         ("Reshape", "wide shape", "y")],
        {**TRANSPOSED, "shape": np.array([-1, 2])}, {}),
    "skl2onnx with StandardScaler": (
        [("Sub", "x mean", "x0"), ("Div", "x0 spread", "x1"), *after(MATMULS)],
        {**TRANSPOSED, "mean": np.full(5, 1e3), "spread": np.linspace(1, 2, 5)}, {}),
    "skl2onnx with Scaler": (
        [("Scaler", "x", "x1", {"offset": [0.5] * 5, "scale": [1.0, 2.0, 0.5, 1.0, 3.0]}),
         *after(MATMULS)], TRANSPOSED, {"dtype": "float32"}),
    "Keras, weights transposed in the graph": (
        [("Transpose", "W", "Wt", {"perm": [1, 0]}), ("MatMul", "x Wt", "xw"), ("Add", "b xw", "z"),
         *MATMULS[2:]], {**TRANSPOSED, "W": W}, {}),
    "alpha, beta, no bias": (
        [("Gemm", "x W b", "z", {"transA": 0, "transB": 1, "alpha": 0.5, "beta": -2.0}),
         ("Relu", "z", "h"), ("Gemm", "h A", "y", {"transB": 1})], WEIGHTS, {}),
    "nodes that do nothing": (
        [("Identity", "x", "i"), ("Flatten", "i", "f"), ("Reshape", "f shape", "x1"),
         *after(GEMMS[:2]), ("Dropout", "h", "h1"), ("Gemm", "h1 A c", "y", {"transB": 1})],
        {**WEIGHTS, "shape": np.array([0, -1])}, {}),
    "scaled outputs": (
        [*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1}), ("Div", "s t", "y")],
        {**WEIGHTS, "t": [4.0, 2.0]}, {}),
    "labels squeezed": (
        [*GEMMS[:2], ("MatMul", "h a", "s"), ("Add", "s one", "y")],
        {**WEIGHTS, "a": A[0], "one": 1.0}, {}),
    "an activation of an activation": (units(("Relu", "z", "k"), ("Relu", "k", "h")), WEIGHTS, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_the_function_it_computes(tmp_path: Path, name: str) -> None:
    nodes, constants, options = READ[name]
    made, dtype = model(nodes, constants, **options), options.get("dtype", "float64")
    loaded = read(made, tmp_path)
    inputs = (X * 5 + 1e3 * ("mean" in constants)).astype(dtype)[: 2 if "shape" in options else 40]
    found, expected = predictions(made, inputs), loaded(inputs.astype(float))
    # Inputs near 1000, where standardised, lose three digits in a difference.
    allowed = ALLOWED[dtype] * (1e3 if "mean" in constants else 1)
    np.testing.assert_allclose(expected.reshape(found.shape), found, rtol=0, atol=allowed)


def test_weights_come_out_as_they_are_stored(tmp_path: Path) -> None:
    """Old files list their weights among the inputs; others keep them in nodes."""
    listed = model(DEEP, LAYERS)
    listed.graph.input.append(helper.make_tensor_value_info("W", 11, W.shape))
    bias = listed.graph.initializer.pop(1)
    listed.graph.node.insert(0, helper.make_node("Constant", [], ["b"], value=bias))
    unused = model([*GEMMS, ("Softmax", "y", "unused")], WEIGHTS)
    for made, maps in (
        (unused, ((W, B), (A, C))),
        (model(MATMULS, TRANSPOSED), ((W, B), (A, C))),
        (listed, ((W, B), (V, D), (A[:, :3], C))),
    ):
        for (M, v), (M0, v0) in zip(read(made, tmp_path).affine_maps, maps, strict=True):
            np.testing.assert_array_equal(M, M0)
            np.testing.assert_array_equal(v, v0)


ERF: Nodes = [("Div", "z r", "d"), ("Erf", "d", "e"), ("Add", "e o", "g")]
TANH: Nodes = [("Mul", "q k", "m"), ("Add", "z m", "n"), ("Mul", "n s", "u"), ("Tanh", "u", "t"),
    ("Add", "t o", "g")]  # fmt: skip
NUMBERS = {"r": 1.4142135381698608, "o": 1.0, "half": 0.5, "k": 0.044715, "s": 0.7978845608028654,
    "p": 3.0, "leak": 0.3}  # fmt: skip
UNITS: dict[str, tuple[str, Nodes, str]] = {
    "Softplus": ("softplus", [("Softplus", "z", "h")], "float32"),
    "Elu": ("elu", [("Elu", "z", "h")], "float32"),
    "Gelu": ("gelu", [("Gelu", "z", "h")], "float32"),
    "Gelu tanh": ("gelu_tanh", [("Gelu", "z", "h", {"approximate": "tanh"})], "float32"),
    "LeakyRelu": ("leaky_relu", [("LeakyRelu", "z", "h", {"alpha": 0.2})], "float32"),
    "LeakyRelu by default": ("leaky_relu", [("LeakyRelu", "z", "h")], "float32"),
    "PRelu": ("leaky_relu", [("PRelu", "z leak", "h")], "float32"),
    "silu": ("silu", [("Sigmoid", "z", "g"), ("Mul", "g z", "h")], "float64"),
    "gelu of torch": ("gelu", [*ERF, ("Mul", "z g", "w"), ("Mul", "w half", "h")], "float32"),
    "gelu of Keras": ("gelu", [*ERF, ("Mul", "z half", "w"), ("Mul", "w g", "h")], "float16"),
    "gelu tanh of torch": ("gelu_tanh",
        [("Pow", "z p", "q"), *TANH, ("Mul", "z half", "w"), ("Mul", "w g", "h")], "float64"),
    "log of a sum": ("softplus", [("Exp", "z", "e"), ("Add", "e o", "d"), ("Log", "d", "h")],
        "float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_units_are_known_by_what_they_compute(tmp_path: Path, name: str) -> None:
    activation, nodes, dtype = UNITS[name]
    made = model(units(*nodes), {**WEIGHTS, **NUMBERS}, dtype)
    loaded = read(made, tmp_path)
    assert loaded.activation.family == activation
    np.testing.assert_array_equal(loaded.weights, W.astype(dtype))
    np.testing.assert_array_equal(loaded.output_weights, A.astype(dtype))
    if dtype == "float16":
        return
    # Inputs as far as formulas bend; cubes of numbers near 10.
    inputs = (3 * X).astype(dtype)
    found, expected = predictions(made, inputs), loaded(inputs.astype(float))
    np.testing.assert_allclose(expected, found, rtol=0, atol=100 * ALLOWED[dtype])


def test_a_formula_that_overflows_is_compared_where_it_does_not(tmp_path: Path) -> None:
    """`Log(1 + Exp(z))` for z up to some thousand; but somewhere it must be compared."""
    nodes = units(*UNITS["log of a sum"][1])
    steep = {**WEIGHTS, "W": 300 * W, "o": 1.0}
    assert np.isinf(predictions(model(nodes, steep), X)).any()
    assert read(model(nodes, steep), tmp_path).activation.name == "softplus"
    apart = {**steep, "W": np.tile(W[:1], (4, 1)), "b": np.array([0.0, 3e3, 0.0, 0.0])}
    refused(model(nodes, apart), tmp_path, "does not predict")


def test_rounding_is_carried_from_layer_to_layer(tmp_path: Path) -> None:
    """Differences of numbers near 1e5 in the second layer: the third has an error of 1e-2."""
    weights = [RNG.standard_normal(shape) for shape in ((4, 5), (4, 4), (3, 4), (1, 3))]
    weights[1] = np.array([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]])
    net = pn.DeepNetwork(weights, [np.full(4, 1e5), None, None, None])
    made = net.to_onnx("float32")
    assert np.abs(predictions(made, X.astype("float32"))[:, 0] - net(X)).max() > 1e-3
    assert read(made, tmp_path).widths == (4, 4, 3)


# ---------------------------------------------------------------- classifiers

LINKED = {"logit": (4, None), "softmax": (4, 3), "deep logit": ((4, 3), None),
    "deep softmax": ((4, 3), 3)}  # fmt: skip


def classifier(name: str) -> Any:
    size, outputs = LINKED[name]
    net = pn.random_network(size, 5, outputs=outputs, rng=3)  # type: ignore[arg-type]
    return net.replace(link=name.split()[-1])


def sklearn_graph(net: pn.Network, zipmap: bool) -> Any:
    """As skl2onnx writes an MLPClassifier: label and probabilities, these perhaps as a map."""
    made = net.to_onnx("float32")
    del made.metadata_props[:]
    graph, table = made.graph, "y"
    if net.link == "logit":
        one = numpy_helper.from_array(np.array([1.0], dtype="float32"), "unity")
        graph.initializer.append(one)
        graph.node.append(helper.make_node("Sub", ["unity", "y"], ["other"]))
        graph.node.append(helper.make_node("Concat", ["other", "y"], ["both"], axis=1))
        table = "both"
    graph.node.append(helper.make_node("ArgMax", [table], ["label"], axis=1, keepdims=0))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("label", 7, ["N"]))
    if zipmap:
        names = list(range(max(net.outputs or 1, 2)))
        node = helper.make_node(
            "ZipMap", [table], ["map"], domain="ai.onnx.ml", classlabels_int64s=names
        )
        graph.node.append(node)
        entry = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))
        sequence = helper.make_sequence_type_proto(entry)
        graph.output.append(helper.make_value_info("map", sequence))
    else:
        graph.node.append(helper.make_node("Identity", [table], ["probabilities"]))
        graph.output.append(helper.make_tensor_value_info("probabilities", 1, ["N", "K"]))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return made


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize("name", LINKED)
def test_classifiers_of_scikit_learn_are_read(tmp_path: Path, name: str, zipmap: bool) -> None:
    net = classifier(name)
    loaded = read(sklearn_graph(net, zipmap), tmp_path)
    assert loaded.link == net.link
    # Weights were written in single precision.
    np.testing.assert_allclose(loaded.predict_proba(X), net.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("name", LINKED)
def test_onnxruntime_predicts_the_probabilities(name: str) -> None:
    net = classifier(name)
    found = predictions(net.to_onnx(), X)
    wanted = net.predict_proba(X)[:, -found.shape[1] :]  # of one logit the column of class 1
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


# ---------------------------------------------------------------- refused

LOGITS: Nodes = [*GEMMS[:2], ("Gemm", "h A c", "s", {"transB": 1})]
REFUSED: dict[str, tuple[Nodes, dict[str, Any], dict[str, Any], str]] = {
    "a Softmax that is used": ([*LOGITS, ("Softmax", "s", "p"), ("Neg", "p", "y")], WEIGHTS, {},
        "node Neg after a Softmax"),
    "a Softmax of rows": ([*LOGITS, ("Softmax", "s", "y", {"axis": 0})], WEIGHTS, {},
        "does not predict"),
    "rows beside rows": ([*LOGITS, ("Concat", "s s", "y", {"axis": 0})], WEIGHTS, {}, "(Concat)"),
    "a Sigmoid that is scaled": ([*LOGITS, ("Sigmoid", "s", "p"), ("Add", "p p", "y")], WEIGHTS, {},
        "no activation"),
    "a shortcut": ([*DEEP[:3], ("MatMul", "x Q", "s"), ("Add", "z2 s", "z3"), ("Relu", "z3", "h2"),
        DEEP[4]], {**LAYERS, "Q": W[:3].T}, {}, "layer below alone"),
    "a linear function": ([("Gemm", "x W b", "y", {"transB": 1})], WEIGHTS, {},
        "no layer of units"),
    "softsign": (units(("Softsign", "z", "h")), WEIGHTS, {}, "node Softsign"),
    "elu of alpha 0.5": (units(("Elu", "z", "h", {"alpha": 0.5})), WEIGHTS, {}, "no activation"),
    "a gelu with another root": (units(*ERF, ("Mul", "z g", "w"), ("Mul", "w half", "h")),
        {**WEIGHTS, **NUMBERS, "r": 1.413}, {}, "does not predict"),
    "a gate of another layer": (units(("Gemm", "x Q", "v"), ("Sigmoid", "v", "g"),
        ("Mul", "z g", "h")), {**WEIGHTS, "Q": W.T + 1.0}, {}, "layer below alone"),
    "images": ([("Flatten", "x", "x1"), *after(GEMMS)], WEIGHTS, {"shape": ("N", 1, 5)},
        "(N, 1, 5) that is not (samples, features)"),
    "too many rows": (GEMMS, WEIGHTS, {"shape": (10**9, 5)}, "1000000000"),
    "integers": ([("Cast", "x", "x1", {"to": 11}), *after(GEMMS)], WEIGHTS, {"dtype": "int64"},
        "of real numbers"),
    "rounding": ([("Cast", "x", "i", {"to": 7}), ("Cast", "i", "x1", {"to": 11}), *after(GEMMS)],
        WEIGHTS, {}, "does not predict"),
    "slopes": (units(("PRelu", "z b", "h")), WEIGHTS, {}, "for all units"),
    "mixed rows": ([*LOGITS, ("Reshape", "s shape", "y")],
        {**WEIGHTS, "shape": np.array([-1, 1])}, {}, "outputs of shape (32, 1)"),
    "a bias a row": (units(("Add", "z R", "q"), ("Relu", "q", "h")),
        {**WEIGHTS, "R": np.ones((3, 4)) + B}, {"shape": (3, 5)}, "Add whose arguments do not fit"),
    "a constant": ([("Identity", "b", "y")], WEIGHTS, {}, "does not depend"),
    "weights that do not fit": ([("Gemm", "x A c", "y", {"transB": 1})], WEIGHTS, {},
        "cannot be evaluated"),
    "not finite": (GEMMS, {**WEIGHTS, "W": np.inf * W}, {}, "finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_graphs_are_refused_with_what_was_found(tmp_path: Path, name: str) -> None:
    nodes, constants, options, words = REFUSED[name]
    refused(model(nodes, constants, **options), tmp_path, words)


def second_input(made: Any) -> None:
    made.graph.input.append(helper.make_tensor_value_info("x2", 11, ("N", 5)))


def foreign_domain(made: Any) -> None:
    made.graph.node[1].domain = "com.example"
    made.opset_import.append(helper.make_opsetid("com.example", 1))


def outside(made: Any) -> None:
    """Weights in another file, which anyone may have put there."""
    tensor = made.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value="../secrets.bin")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (second_input, ("2 inputs",)),
        (foreign_domain, ("Relu", "com.example")),
        (outside, ("another file", "external_data=False")),
    ],
)
def test_other_models_are_refused(
    tmp_path: Path, change: Callable[[Any], None], words: tuple[str, ...]
) -> None:
    made = model(GEMMS, WEIGHTS)
    change(made)
    refused(made, tmp_path, *words)


@pytest.mark.parametrize("which", ["weights", "biases"])
@pytest.mark.parametrize("layer", range(3))
def test_a_network_that_predicts_otherwise_is_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, layer: int
) -> None:
    """Were any array misread by one number, by a hundredth, the comparison would say so."""
    plain = onnx_models.network_of_layers

    def misread(weights: Any, biases: Any, *more: Any) -> Any:
        arrays = {"weights": weights, "biases": biases}[which]
        arrays[layer] = np.array(arrays[layer])
        arrays[layer].flat[0] += 1e-2
        return plain(weights, biases, *more)

    monkeypatch.setattr(onnx_models, "network_of_layers", misread)
    refused(model(DEEP, LAYERS), tmp_path, "does not predict what its weights")


def test_a_model_of_provenet_whose_weights_were_exchanged_is_refused(tmp_path: Path) -> None:
    made = pn.random_network(4, 5, rng=0).to_onnx()
    made.graph.node[0].input[2] = "output_weights"
    refused(made, tmp_path, "does not predict")
    made.graph.node[0].input[2] = "biases"
    made.graph.initializer[0].name = made.graph.node[0].input[1] = "W"
    refused(made, tmp_path, "lacks 'weights'")
