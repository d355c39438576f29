"""Models as people hold them: estimators, pipelines, torch modules, Keras models, files.

scikit-learn and ONNX are asked for real, torch and Keras where they are installed; stand-ins that
have only what is used of these test the rest everywhere.
"""

from __future__ import annotations

import pickle
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, helper
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import provenet as pn
from helpers import is_a_sentence
from provenet.extraction.oracle import open_oracle

NET = pn.random_network(3, 4, rng=0).replace(output_bias=0.4)
X = np.random.default_rng(0).standard_normal((10, 4))


def fitted(names: bool = False) -> MLPRegressor:
    """Weights after a step of training: what they are does not matter, that they are found does."""
    given: Any = 3 * np.random.default_rng(1).standard_normal((60, 4)) + 1
    y = NET(given)
    if names:
        given = pytest.importorskip("pandas").DataFrame(given, columns=list("abcd"))
    with pytest.warns(Warning, match="iterations"):  # that it has not converged
        return MLPRegressor(hidden_layer_sizes=3, max_iter=2, random_state=0).fit(given, y)


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("names", [False, True], ids=["array", "columns"])
def test_an_estimator_is_extracted(names: bool) -> None:
    """Warnings are errors here: a table with names goes where one was fitted."""
    model = fitted(names)
    result = pn.extract(model, rng=0)
    truth = pn.Network.from_mlp_regressor(model)
    assert result.status is pn.Status.EXACT, result.message
    assert pn.parameter_error(result.network, truth) < 1e-9


def test_a_pipeline_is_extracted_with_what_comes_before_and_after() -> None:
    rng = np.random.default_rng(0)
    given = rng.standard_normal((60, 4)) * [1, 2, 3, 4]
    inner = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=3, max_iter=2, random_state=0)
    )
    model = TransformedTargetRegressor(inner, transformer=StandardScaler())
    with pytest.warns(Warning, match="iterations"):
        model.fit(given, NET(given))
    result = pn.extract(model, rng=0)
    assert result.status is pn.Status.EXACT, result.message
    found = result.network(given)
    np.testing.assert_allclose(found, model.predict(given), rtol=0, atol=1e-9 * np.ptp(found))


def test_a_predict_alone_tells_its_features() -> None:
    model = fitted()
    np.testing.assert_array_equal(open_oracle(model.predict).ask(X), model.predict(X))


def test_our_own_networks_and_estimators_tell_their_features() -> None:
    assert pn.extract(NET, rng=0).success
    assert open_oracle(pn.random_network((3, 2), 4, rng=0)).features == 4


def test_classifiers_are_asked_for_probabilities() -> None:
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    oracle = open_oracle(model)
    np.testing.assert_array_equal(oracle.ask(X), model.predict_proba(X))
    assert oracle.outputs == 2


def test_estimators_that_cannot_be_asked_say_why() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(MLPRegressor())
    is_a_sentence(error, "MLPRegressor is not fitted")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(fitted(), 5)
    is_a_sentence(error, "MLPRegressor has 4 features, not 5")
    loose = make_pipeline(FunctionTransformer(), fitted())
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(loose)
    is_a_sentence(error, "Pipeline does not tell its number of features")
    np.testing.assert_array_equal(open_oracle(loose, 4).ask(X), loose.predict(X))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(3)
    is_a_sentence(error, "an object with predict", "not int")


def test_a_cache_knows_a_model_object_by_its_class_and_asks_again(tmp_path: Path) -> None:
    model = fitted()
    cache = tmp_path / "answers"
    open_oracle(model, cache=cache).ask(X)
    again = open_oracle(model, cache=cache)
    again.ask(X)
    assert (again.queries, again.cached) == (8, 10)
    model.coefs_[0] = 2 * model.coefs_[0]
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(model, cache=cache).ask(X)
    is_a_sentence(error, "answers that MLPRegressor does not give now")


# ---------------------------------------------------------------- one of several outputs

SEVERAL: dict[str, Callable[[Any], Any]] = {
    "names": lambda X: {"loss": np.zeros(1), "logits": NET(X)},
    "a row": lambda X: (np.zeros(1), NET(X)),
    "a list": lambda X: [np.zeros(1), NET(X)],
}


@pytest.mark.parametrize("how", SEVERAL)
def test_one_of_several_outputs_is_asked(how: str) -> None:
    f = SEVERAL[how]
    for output in (1, "1", *["logits"] * (how == "names")):
        np.testing.assert_array_equal(open_oracle(f, 4, output=output).ask(X), NET(X))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(f, 4).ask(X)
    is_a_sentence(error, "f answers with 2 outputs (", "output=")
    for output in (2, "other"):
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(f, 4, output=output).ask(X)
        is_a_sentence(error, f"f has no output {output!r}", "2 outputs")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(f, 4, output=1.5)  # type: ignore[arg-type]
    is_a_sentence(error, "output must be a name or a whole number, not 1.5")


def test_one_array_is_the_only_output() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(NET, 4, output=0).ask(X)
    is_a_sentence(error, "f has no output 0: it answers with one array")
    # Numbers in rows are an array, however they are written.
    for f in (lambda X: NET(X).tolist(), lambda X: tuple(NET(X)), lambda X: list(NET(X))):
        np.testing.assert_array_equal(open_oracle(f, 4).ask(X), NET(X))


@pytest.fixture
def two_outputs(tmp_path: Path) -> Path:
    """`y = x + x` and `-x` in double precision, and which is larger as a whole number."""
    info = helper.make_tensor_value_info
    double, whole = TensorProto.DOUBLE, TensorProto.INT64
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"]),
        helper.make_node("Neg", ["x"], ["minus"]),
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [
        info("label", whole, ["rows"]),
        info("y", double, ["rows", 4]),
        info("minus", double, ["rows", 4]),
    ]
    graph = helper.make_graph(nodes, "net", [info("x", double, ["rows", 4])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_an_onnx_output_is_named_or_counted(two_outputs: Path, tmp_path: Path) -> None:
    classes = np.argmax(X, axis=1)
    for output, right in (("y", 2 * X), (1, 2 * X), ("2", -X), (0, classes), ("label", classes)):
        np.testing.assert_array_equal(open_oracle(two_outputs, output=output).ask(X), right)
    for output, words in (
        (None, "has 3 outputs: label (rows,) tensor(int64), y (rows, 4) float64, minus"),
        ("z", "has no output 'z' but 3 outputs: label"),
    ):
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(two_outputs, output=output)
        is_a_sentence(error, words)
    cache = tmp_path / "answers"
    open_oracle(two_outputs, output="y", cache=cache).ask(X)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(two_outputs, output="minus", cache=cache)
    is_a_sentence(error, "another ONNX model")


def test_the_only_output_of_numbers_is_asked(tmp_path: Path) -> None:
    """As scikit-learn's classifiers are exported: a label, and numbers beside it."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
        helper.make_node("Neg", ["x"], ["minus"]),
    ]
    given = info("x", TensorProto.DOUBLE, ["rows", 4])
    outputs = [
        info("label", TensorProto.INT64, ["rows"]),
        info("minus", TensorProto.DOUBLE, ["rows", 4]),
    ]
    graph = helper.make_graph(nodes, "net", [given], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(open_oracle(path).ask(X), -X)


# ---------------------------------------------------------------- torch


class TorchType(NamedTuple):
    is_floating_point: bool
    name: str


class Tensor:
    """As much of a tensor as a client uses."""

    def __init__(self, values: Any, device: str = "cpu") -> None:
        self.values, self.device = np.asarray(values), device
        self.dtype = TorchType(self.values.dtype.kind == "f", self.values.dtype.name)

    def to(self, device: str) -> Tensor:
        return Tensor(self.values, device)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def numpy(self) -> Any:
        assert self.device == "cpu"
        return self.values


class Module:
    """As much of a module as a client uses, with dropout while it is trained."""

    __module__ = "torch.nn.modules.module"

    def __init__(self, dtype: Any = np.float64, device: str = "meta") -> None:
        self.net = NET
        self.training, self.device, self.dtype = True, device, dtype
        self.in_features = 4
        self.asked: list[Any] = []
        self.fails = False

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        yield "", self

    def parameters(self, recurse: bool = True) -> list[Tensor]:
        return [Tensor(np.ones(1, self.dtype), self.device)]

    def buffers(self) -> list[Tensor]:
        return [Tensor(np.ones(1, int), self.device)]

    def eval(self) -> None:
        self.training = False

    def __call__(self, given: Tensor) -> Any:
        assert given.device == self.device and given.values.dtype == self.dtype
        assert not self.training and INFERENCE == [True]
        self.asked.append(given.values)
        if self.fails:
            raise RuntimeError("mat1 and mat2\ncannot be multiplied")
        return {"y": Tensor(self.net(given.values.astype(float)).astype(self.dtype), self.device)}


INFERENCE: list[bool] = []


@contextmanager
def inference_mode() -> Iterator[None]:
    INFERENCE.append(True)
    yield
    INFERENCE.pop()


@pytest.fixture
def torch_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = types.ModuleType("torch")
    torch.from_numpy, torch.inference_mode = Tensor, inference_mode
    torch.float32, torch.float64 = (Tensor(np.ones(1, t)).dtype for t in (np.float32, np.float64))
    monkeypatch.setitem(sys.modules, "torch", torch)
    INFERENCE.clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_module_keeps_precision_device_and_mode(torch_stand_in: None, dtype: Any) -> None:
    module = Module(dtype)
    oracle = open_oracle(module)
    assert (oracle.features, oracle.input_dtype) == (4, dtype)
    eps = 20 * np.finfo(dtype).eps  # a few roundings of numbers of a few units
    np.testing.assert_allclose(oracle.ask(X), NET(X), rtol=0, atol=eps)
    assert module.training and oracle.answer_dtype == dtype
    module.fails = True
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask(X + 1)
    is_a_sentence(error, "Module failed (mat1 and mat2)", "(rows, 4)")
    assert module.training


def test_a_module_in_half_precision_is_refused(torch_stand_in: None) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(Module(np.float16))
    is_a_sentence(error, "Module runs in", "copy.deepcopy(module).float()")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_a_real_module_is_asked(double: bool) -> None:
    torch = pytest.importorskip("torch")
    layers = torch.nn.Linear(4, 3), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(3, 1)
    module = torch.nn.Sequential(*layers)
    module = module.double() if double else module
    module[2].eval()
    oracle = open_oracle(module)
    y = oracle.ask(X)
    assert [part.training for part in module] == [True, True, False, True] and module.training
    assert oracle.input_dtype == oracle.answer_dtype == (np.float64 if double else np.float32)
    module.eval()
    given = torch.from_numpy(X.astype(oracle.input_dtype))
    # Other threads, other sums: a few roundings.
    eps = 20 * np.finfo(oracle.input_dtype).eps
    np.testing.assert_allclose(y, module(given).detach().numpy()[:, 0], rtol=0, atol=eps)
    first_conv = torch.nn.Sequential(torch.nn.Conv1d(1, 1, 3), torch.nn.Linear(2, 1))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(first_conv)
    is_a_sentence(error, "Sequential does not tell its number of features")
    if double:
        result = pn.extract(module, rng=0)
        assert result.status is pn.Status.EXACT, result.message


def test_weights_alone_are_told_from_torchscript(tmp_path: Path) -> None:
    """By what the archive holds: torch is not needed to say so."""
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps({"0.weight": [1.0]}))
        archive.writestr("m/version", "3")
    old = tmp_path / "old.pt"
    old.write_bytes(pickle.dumps({}, protocol=2))
    for file in (path, old):
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(file, 3)
        is_a_sentence(error, f"{file} was written by torch.save", "load_state_dict", "torch.jit")


def test_a_real_state_dict_is_told(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "m.pt"
    torch.save(torch.nn.Linear(3, 1).state_dict(), path)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path)
    is_a_sentence(error, "holds a state_dict")


class Trap:
    """Remembers that it was loaded."""

    def __reduce__(self) -> Any:
        return (sprung.append, (1,))


sprung: list[int] = []


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.PICKLE", "m.sav", "m.pt"])
def test_pickles_are_never_loaded(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(pn.InvalidInput) as error:
        pn.extract(tmp_path / name, 3)
    is_a_sentence(error, name, "provenet.extract")
    assert sprung == []


# ---------------------------------------------------------------- Keras


class KerasModel(Module):
    """As much of a Keras model as a client uses; with torch behind it, it is a module as well."""

    __module__ = "keras.src.models.model"
    input_shape: Any = (None, 4)

    def __init__(self, dtype: str = "float32") -> None:
        self.inputs = [types.SimpleNamespace(dtype=dtype)]

    def __call__(self, X: Any, training: bool = True) -> Any:
        raise AssertionError("asked for training")

    def predict(self, X: Any, verbose: str | int = "auto") -> Any:
        assert verbose == 0 and X.dtype == self.inputs[0].dtype
        return NET(X.astype(float)).astype(X.dtype)[:, None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_keras_model_is_asked_in_its_precision(dtype: str) -> None:
    oracle = open_oracle(KerasModel(dtype))
    assert (oracle.features, oracle.input_dtype) == (4, dtype)
    eps = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(oracle.ask(X), NET(X), rtol=0, atol=eps)


def test_a_keras_model_that_is_not_built(tmp_path: Path) -> None:
    model = KerasModel()
    model.input_shape, model.inputs = None, []
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(model)
    is_a_sentence(error, "KerasModel does not tell its number of features")
    assert open_oracle(model, 4).input_dtype == np.float32
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(tmp_path / "m.keras")
    is_a_sentence(error, "is a Keras model: load it in Python")
