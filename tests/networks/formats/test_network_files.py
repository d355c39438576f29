"""Networks in files: what goes out comes in again, to the last bit; damaged files are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import provenet as pn
from helpers import ACTIVATIONS, is_a_sentence
from provenet.common.typing import Array
from provenet.networks.formats import check_network_name

safetensors = pytest.importorskip("safetensors")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
pytest.importorskip("onnx")

EXTENSIONS = (".npz", ".safetensors", ".onnx")
FIELDS = ("weights", "biases", "output_weights", "output_bias", "linear")


def network(activation: str, outputs: int | None, linear: bool) -> pn.Network:
    """A network whose numbers use all their digits, with a zero of either sign among them."""
    rng = np.random.default_rng(7)
    net = pn.random_network(3, 4, outputs=outputs, activation=activation, rng=rng)
    weights = net.weights.copy()
    weights[0, :2] = 0.0, -0.0
    shape = (4,) if outputs is None else (outputs, 4)
    return net.replace(
        weights=weights,
        biases=[-0.0, 0.1, 1e-300],
        output_bias=rng.standard_normal(outputs),
        linear=rng.standard_normal(shape) if linear else None,
    )


def same_function(first: pn.Activation, second: pn.Activation) -> bool:
    """By value: a leaky ReLU is made anew for every name."""
    z = np.linspace(-2, 2, 41)
    return np.array_equal(first(z), second(z))


def assert_same_bits(found: pn.Network, truth: pn.Network) -> None:
    for name in FIELDS:
        a, b = getattr(found, name), getattr(truth, name)
        assert type(a) is type(b) and np.shape(a) == np.shape(b), name
        assert a is None or np.asarray(a).tobytes() == np.asarray(b).tobytes(), name
    assert same_function(found.activation, truth.activation)


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_saved_is_loaded_bit_for_bit(
    tmp_path: Path, extension: str, activation: str
) -> None:
    for outputs in (None, 1, 3):
        for linear in (False, True):
            net = network(activation, outputs, linear)
            net.save(tmp_path / f"net{extension}")
            assert_same_bits(pn.load_network(tmp_path / f"net{extension}"), net)
    assert [path.name for path in tmp_path.iterdir()] == [f"net{extension}"]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_networks_at_the_edge(tmp_path: Path, extension: str) -> None:
    """One unit of one feature, no units at all, and numbers near the ends of their range."""
    path = tmp_path / f"net{extension.upper()}"
    small = pn.Network([[1.5]], [0.25], [-2.0], 0.125)
    for net in (small, small.keep(np.array([False])), pn.Network([[1e-310, 1e150]], [1e-5])):
        net.save(path)
        assert_same_bits(pn.load_network(path), net)


def test_one_bias_for_several_outputs_keeps_its_value(tmp_path: Path) -> None:
    net = network("relu", 3, False).replace(output_bias=0.5)
    for extension in EXTENSIONS:
        net.save(tmp_path / f"net{extension}")
        loaded = pn.load_network(tmp_path / f"net{extension}")
        assert np.all(loaded.output_bias == 0.5)
        np.testing.assert_array_equal(loaded.weights, net.weights)


# ---------------------------------------------------------------- safetensors of other programs


def write(path: Path, tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> Path:
    path.write_bytes(safetensors_numpy.save(tensors, metadata=metadata))
    return path


def arrays(net: pn.Network) -> dict[str, Array]:
    return {name: np.array(getattr(net, name)) for name in FIELDS if getattr(net, name) is not None}


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_coarser_numbers_are_read_exactly(tmp_path: Path, kind: str) -> None:
    """Without metadata the units are ReLUs."""
    coarse = {name: array.astype(kind) for name, array in arrays(network("relu", 2, True)).items()}
    loaded = pn.load_network(write(tmp_path / "net.safetensors", coarse))
    assert loaded.activation.name == "relu"
    for name, array in coarse.items():
        np.testing.assert_array_equal(getattr(loaded, name), array.astype(float))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_a_sequential_of_torch_by_the_names_of_its_tensors(
    tmp_path: Path, outputs: int, biased: bool
) -> None:
    rng = np.random.default_rng(0)
    W, A = rng.standard_normal((3, 4)), rng.standard_normal((outputs, 3))
    b, c = (rng.standard_normal(size) * biased for size in (3, outputs))
    tensors = {"0.weight": W, "2.weight": A, **({"0.bias": b, "2.bias": c} if biased else {})}
    path = write(tmp_path / "net.safetensors", tensors, {"activation": "sigmoid"})
    loaded, X = pn.load_network(path), rng.standard_normal((6, 4))
    expected = 1 / (1 + np.exp(-(X @ W.T + b))) @ A.T + c
    assert loaded.outputs == (None if outputs == 1 else outputs)  # one column is plain labels
    # Rounding of sums of a few numbers near 1.
    np.testing.assert_allclose(loaded(X).reshape(6, -1), expected, rtol=0, atol=1e-14)


W, A = np.ones((3, 4)), np.ones((2, 3))


@pytest.mark.parametrize(
    ("tensors", "metadata", "words"),
    [
        ({"weights": W, "biases": W[:, 0]}, None, ("biases, weights", "output_weights")),
        ({"0.weight": W, "2.weight": A, "4.weight": A}, None, ("weights[2]", "2 columns")),
        ({}, None, ("none", "fully connected")),
        ({"0.weight": W}, None, ("0.weight", "fully connected")),
        ({"0.weight": W, "2.weight": A, "6.weight": A}, None, ("6.weight", "0.weight")),
        ({"weights.0": W, "biases.0": W[:, 0]}, None, ("biases.0, weights.0", "output_weights")),
        ({"0.weight": W, "2.weight": A[0]}, None, ("2.weight", "(3,)", "a matrix")),
        ({"0.weight": W, "2.weight": A, "2.bias": A[0]}, None, ("2.bias", "(3,)", "(2,)")),
        ({"0.weight": W, "2.weight": W}, None, ("weights[1]", "3 columns")),
        ({"0.weight": W.astype(int), "2.weight": A}, None, ("0.weight", "I64", "F32")),
        ({"0.weight": W, "2.weight": np.inf * A}, None, ("weights[1]", "finite")),
        ({"0.weight": W, "2.weight": A}, {"activation": "mish"}, ("mish", "relu")),
        ({"0.weight": W, "2.weight": A}, {"activation": "leaky_relu(x)"}, ("slope", "'x'")),
    ],
)
def test_safetensors_that_are_no_network(
    tmp_path: Path, tensors: dict[str, Array], metadata: Any, words: tuple[str, ...]
) -> None:
    path = write(tmp_path / "net.safetensors", tensors, metadata)
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(path)
    is_a_sentence(error, "net.safetensors", *words)


# ---------------------------------------------------------------- the door


@pytest.mark.parametrize("name", ["net", "net.txt", "net.npy", "net.pt", "net.pkl"])
def test_other_extensions_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")  # a pickle that would act
    net = network("relu", None, False)
    for act in (check_network_name, net.save, pn.load_network):
        with pytest.raises(pn.InvalidInput) as error:
            act(tmp_path / name)
        is_a_sentence(error, name, ".npz", ".safetensors", ".onnx")


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_files_that_are_not_there_or_cannot_be_written(tmp_path: Path, extension: str) -> None:
    folder = tmp_path / f"folder{extension}"
    folder.mkdir()
    for path in (folder, tmp_path / f"none{extension}"):
        with pytest.raises(pn.InvalidInput) as error:
            pn.load_network(path)
        is_a_sentence(error, path.name, "does not exist or is a folder")
    for path, word in ((folder, "folder"), (tmp_path / "no" / f"x{extension}", "does not exist")):
        with pytest.raises(pn.InvalidInput) as error:
            network("relu", None, False).save(path)
        is_a_sentence(error, word)


@pytest.mark.parametrize("name", ["mine", "relu"])
def test_an_activation_of_the_users_own_is_not_written(tmp_path: Path, name: str) -> None:
    """Not even under a name that provenet knows."""
    own = pn.Activation(name, np.tanh, lambda z: 1 - np.tanh(z) ** 2)
    net = pn.Network(np.eye(2), activation=own)
    for extension in EXTENSIONS:
        with pytest.raises(pn.InvalidInput) as error:
            net.save(tmp_path / f"net{extension}")
        is_a_sentence(error, f"net{extension}", repr(name), "your own")
    for convert in (net.to_onnx, net.to_mlp_regressor):
        with pytest.raises(pn.InvalidInput) as error:
            convert()
        is_a_sentence(error, repr(name), "your own")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["safetensors", "onnx", "torch"])
def test_a_package_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    net = network("relu", None, False)
    path = tmp_path / f"net.{package}"
    acts = {
        "torch": [net.to_torch],
        "onnx": [net.to_onnx, lambda: net.save(path), lambda: check_network_name(path)],
        "safetensors": [lambda: net.save(path), lambda: pn.load_network(path)],
    }
    way_out = "pip install torch" if package == "torch" else f'"provenet[{package}]"'
    for act in acts[package]:
        with pytest.raises(pn.InvalidInput) as error:
            act()
        is_a_sentence(error, package, way_out)


def test_the_packages_are_imported_only_when_they_are_needed() -> None:
    script = (
        "import sys, provenet; "
        "print([m for m in ('onnx', 'safetensors', 'torch', 'sklearn.neural_network') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# ---------------------------------------------------------------- damaged files


@pytest.fixture(scope="module", params=EXTENSIONS)
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, bytes]]:
    """A place for damaged files, and the bytes of a whole one."""
    path = tmp_path_factory.mktemp("damaged") / f"net{request.param}"
    network("leaky_relu(0.2)", 2, True).save(path)
    yield path, path.read_bytes()


def load_or_refuse(path: Path, content: bytes) -> None:
    """Anything but a network or one sentence is an error."""
    path.write_bytes(content)
    try:
        pn.load_network(path)
    except pn.InvalidInput as refusal:
        message = str(refusal)
        assert path.name in message and "\n" not in message and message.endswith(".")


def test_truncated_files_are_refused(written: tuple[Path, bytes]) -> None:
    path, whole = written
    for length in [*range(8), *np.linspace(8, len(whole) - 1, 50, dtype=int)]:
        path.write_bytes(whole[:length])
        with pytest.raises(pn.InvalidInput) as error:
            pn.load_network(path)
        is_a_sentence(error, path.name)


@settings(max_examples=120)
@given(st.data())
def test_changed_bytes_raise_nothing_else(written: tuple[Path, bytes], data: st.DataObject) -> None:
    path, whole = written
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    load_or_refuse(path, bytes(content))


@pytest.mark.parametrize("content", [b"", b"\n", b"hello", b"\x80\x04]\x94.", b"\x00" * 1000])
def test_garbage_is_refused(written: tuple[Path, bytes], content: bytes) -> None:
    path, _ = written
    path.write_bytes(content)
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(path)
    is_a_sentence(error, path.name)
