"""Networks in files: what goes out comes in again; other and damaged files are refused."""

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

safetensors_numpy = pytest.importorskip("safetensors.numpy")
pytest.importorskip("onnx")

EXTENSIONS = (".npz", ".safetensors", ".onnx")


def network(activation: str, units: Any = 3, outputs: int | None = None) -> Any:
    net = pn.random_network(units, 4, outputs=outputs, activation=activation, rng=7)
    if isinstance(net, pn.DeepNetwork):
        return net.replace(weights=[W / 8 for W in net.weights])  # exp of exp stays finite
    shape = (4,) if outputs is None else (outputs, 4)
    return net.replace(biases=[-0.0, 0.1, 1e-300], output_bias=0.3, linear=np.full(shape, 0.1))


def assert_same(found: Any, truth: Any) -> None:
    assert type(found) is type(truth) and found.outputs == truth.outputs
    assert found.activation.name == truth.activation.name and found.link == truth.link
    for (W, b), (W0, b0) in zip(found.affine_maps, truth.affine_maps, strict=True):
        np.testing.assert_array_equal(W, W0)
        np.testing.assert_array_equal(b, b0)
    assert (found.linear is None) == (truth.linear is None)
    if truth.linear is not None:
        np.testing.assert_array_equal(found.linear, truth.linear)


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_saved_is_loaded_exactly(tmp_path: Path, extension: str, activation: str) -> None:
    path = tmp_path / f"net{extension.upper()}"
    for units in (3, (4, 3), (2, 1, 2)):
        for outputs in (None, 1, 3):
            net = network(activation, units, outputs)
            links = (
                ("identity", "logit", "softmax") if (outputs or 1) > 1 else ("identity", "logit")
            )
            for link in links if activation in ("relu", "sigmoid") else links[:1]:
                net = net.replace(link=link)
                net.save(path)
                assert_same(pn.load_network(path), net)
            assert [other.name for other in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_networks_at_the_edge(tmp_path: Path, extension: str) -> None:
    """No units, numbers near the ends of their range, steep units; one layer from lists."""
    path = tmp_path / f"net{extension}"
    steep = network("softplus").replace(weights=1e3 * np.eye(3, 4))
    small = pn.Network([[1e-310, 1e150]], [1e-5])
    for net in (small, small.keep(np.array([False])), steep):
        net.save(path)
        assert_same(pn.load_network(path), net)
    pn.DeepNetwork([np.eye(2), [[1.0, 2.0]]]).save(path)
    assert_same(pn.load_network(path), pn.Network(np.eye(2), None, [1.0, 2.0]))
    empty = pn.DeepNetwork([np.zeros((2, 4)), np.eye(2), [[1.0, 2.0]]], [[1.0, 2.0], None, None])
    empty.canonical().save(path)
    np.testing.assert_array_equal(pn.load_network(path)(np.eye(4)), np.full(4, 5.0))


# ---------------------------------------------------------------- files of other programs


def write(path: Path, tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> Path:
    path.write_bytes(safetensors_numpy.save(tensors, metadata=metadata))
    return path


@pytest.mark.parametrize("units", [3, (4, 3)])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_a_sequential_of_torch_by_the_names_of_its_tensors(
    tmp_path: Path, units: Any, outputs: int, biased: bool
) -> None:
    net = pn.random_network(units, 5, outputs=outputs, activation="tanh", rng=1)
    tensors = {}
    for i, (W, b) in enumerate(net.affine_maps):
        tensors[f"{2 * i}.weight"] = np.array(W, dtype="float32")
        if biased:
            tensors[f"{2 * i}.bias"] = np.array(b, dtype="float32")
    loaded = pn.load_network(write(tmp_path / "net.safetensors", tensors, {"activation": "tanh"}))
    assert loaded.outputs == (None if outputs == 1 else outputs)  # one column is plain labels
    for i, (W, b) in enumerate(loaded.affine_maps):
        np.testing.assert_array_equal(W, tensors[f"{2 * i}.weight"].astype(float))
        np.testing.assert_array_equal(b, tensors.get(f"{2 * i}.bias", np.zeros(len(b))))


W, A = np.ones((3, 4)), np.ones((2, 3))


@pytest.mark.parametrize(
    ("tensors", "metadata", "words"),
    [
        ({"weights": W, "biases": W[:, 0]}, None, ("biases, weights", "output_weights")),
        ({}, None, ("none", "fully connected")),
        ({"0.weight": W, "2.weight": A, "6.weight": A}, None, ("6.weight", "0.weight")),
        ({"0.weight": W, "2.weight": A, "4.weight": A}, None, ("weights[2]", "2 columns")),
        ({"0.weight": W.astype(int), "2.weight": A}, None, ("0.weight", "I64", "F32")),
        ({"0.weight": W, "2.weight": A}, {"activation": "mish"}, ("mish", "relu")),
    ],
)
def test_safetensors_that_are_no_network(
    tmp_path: Path, tensors: dict[str, Array], metadata: Any, words: tuple[str, ...]
) -> None:
    path = write(tmp_path / "net.safetensors", tensors, metadata)
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(path)
    is_a_sentence(error, "net.safetensors", *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"biases.1": None}, ("biases.1", "lacks", "Network.save")),
        ({"activation": None}, ("activation", "lacks")),
        ({"weights.1": np.ones((3, 5))}, ("weights[1]", "4 columns")),
    ],
)
def test_archives_that_are_no_network(
    tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    path = tmp_path / "net.npz"
    network("relu", (4, 3)).save(path)
    with np.load(path) as stored:
        arrays = {**stored, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(path)
    is_a_sentence(error, "net.npz", *words)


# ---------------------------------------------------------------- what cannot be kept


@pytest.mark.parametrize("name", ["net", "net.npy", "net.pkl"])
def test_other_extensions_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")  # a pickle that would act
    for act in (check_network_name, network("relu").save, pn.load_network):
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
            network("relu").save(path)
        is_a_sentence(error, word)


@pytest.mark.parametrize("name", ["mine", "relu"])
def test_an_activation_of_the_users_own_is_not_written(tmp_path: Path, name: str) -> None:
    """Not even under a name that provenet knows."""
    net = pn.Network(np.eye(2), activation=pn.Activation(name, np.tanh, lambda z: 1 / np.cosh(z)))
    saves = [lambda e=e: net.save(tmp_path / f"net{e}") for e in EXTENSIONS]
    for act in (*saves, net.to_onnx, net.to_mlp_regressor):
        with pytest.raises(pn.InvalidInput) as error:
            act()
        is_a_sentence(error, repr(name), "your own")
    assert not list(tmp_path.iterdir())


def test_packages_are_imported_when_they_are_needed_and_named_when_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import sys, provenet; "
        "print([m for m in ('onnx', 'safetensors', 'torch', 'sklearn.neural_network') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    net = network("relu")
    for package, act in (
        ("torch", net.to_torch),
        ("onnx", net.to_onnx),
        ("onnx", lambda: check_network_name("net.onnx")),
        ("safetensors", lambda: net.save(tmp_path / "net.safetensors")),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(pn.InvalidInput) as error:
            act()
        is_a_sentence(error, package, "pip install")


# ---------------------------------------------------------------- damaged files


@pytest.fixture(scope="module", params=EXTENSIONS)
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, bytes]]:
    """A place for damaged files, and the bytes of a whole one."""
    path = tmp_path_factory.mktemp("damaged") / f"net{request.param}"
    network("leaky_relu(0.2)", 3, 2).save(path)
    yield path, path.read_bytes()


def test_truncated_files_and_garbage_are_refused(written: tuple[Path, bytes]) -> None:
    path, whole = written
    lengths = [*range(8), *np.linspace(8, len(whole) - 1, 40, dtype=int)]
    for content in (*(whole[:n] for n in lengths), b"hello", b"\x80\x04]\x94.", bytes(99)):
        path.write_bytes(content)
        with pytest.raises(pn.InvalidInput) as error:
            pn.load_network(path)
        is_a_sentence(error, path.name)


@settings(max_examples=100)
@given(st.data())
def test_changed_bytes_raise_nothing_else(written: tuple[Path, bytes], data: st.DataObject) -> None:
    """Anything but a network or one sentence is an error."""
    path, whole = written
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        pn.load_network(path)
    except pn.InvalidInput as refusal:
        message = str(refusal)
        assert path.name in message and "\n" not in message and message.endswith(".")
