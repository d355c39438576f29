"""Who is asked: the client for a function, a model object, a file or an address.

Pickles are never loaded: they run whatever code is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.extraction.clients.base import Client
from provenet.extraction.clients.callables import CallableClient
from provenet.extraction.clients.endpoint import Endpoint, checked_address
from provenet.extraction.clients.onnx_file import OnnxClient
from provenet.extraction.clients.predictors import PredictorClient, is_predictor
from provenet.extraction.clients.torch_module import (
    TorchClient,
    is_torch_module,
    open_torchscript,
)

Model = Callable[[Any], Any] | str | PathLike[str] | Any
_ADDRESSES, _TORCHSCRIPT = ("http://", "https://"), (".pt", ".pts")
_PICKLES, _KERAS = (".pkl", ".pickle", ".joblib", ".sav"), (".keras", ".h5", ".hdf5")


def client_of(
    f: Model,
    features: int | None,
    outputs: int | None,
    output: str | int | None,
    timeout: float,
    retries: int,
) -> Client:
    """The client that knows how to ask `f`; raises if nothing does."""
    if isinstance(f, str) and f.lower().startswith(_ADDRESSES):
        f = Endpoint(f)
    if isinstance(f, Endpoint):
        return _http_client(f, _needed(features), outputs, timeout, retries)
    if isinstance(f, (str, PathLike)):
        return _file_client(Path(f), features, outputs, output)
    if is_predictor(f):  # a Keras model may be a torch module as well
        return PredictorClient(f, features, outputs, output)
    if is_torch_module(f):
        return TorchClient(f, features, outputs, output)
    if not callable(f):
        raise InvalidInput(
            "A model is a function, an object with predict, a file or an address, not "
            f"{type(f).__name__}: give f(X)."
        )
    return CallableClient(f, _needed(features, f), outputs, output)


def _http_client(
    endpoint: Endpoint, features: int, outputs: int | None, timeout: float, retries: int
) -> Client:
    package("urllib3", checked_address(endpoint.url), '"provenet[http]"')
    from provenet.extraction.clients.http import HttpClient

    return HttpClient(endpoint, features, outputs, timeout=timeout, retries=retries)


def _file_client(
    path: Path, features: int | None, outputs: int | None, output: str | int | None
) -> Client:
    suffix = path.suffix.lower()
    if suffix in _PICKLES:
        raise InvalidInput(
            f"{path} is a pickle, which runs code when it is loaded, so it never is: if you trust "
            "it, load it in Python and give the object to provenet.extract, or export it to ONNX."
        )
    if suffix in _KERAS:
        raise InvalidInput(
            f"{path} is a Keras model: load it in Python and give the object to provenet.extract, "
            "or export it to ONNX."
        )
    if suffix not in (".onnx", *_TORCHSCRIPT):
        raise InvalidInput(
            f"{path} cannot be asked: give a file that ends in .onnx, or in .pt or .pts "
            "(TorchScript), or an address that begins with http:// or https://."
        )
    if not path.is_file():
        raise InvalidInput(f"{path} does not exist or is a folder: check the name.")
    if suffix == ".onnx":
        return OnnxClient(path, features, outputs, output)
    return open_torchscript(path, features, outputs, output)


def _needed(features: int | None, f: Any = None) -> int:
    found = _told_by(f) if features is None else features
    if found is None:
        raise InvalidInput("The number of features is not known: give features.")
    return found


def _told_by(f: Any) -> int | None:
    """By a network of our own, or by the estimator whose `predict` is given."""
    own = getattr(f, "features", None)
    found = getattr(getattr(f, "__self__", None), "n_features_in_", own)
    return found if isinstance(found, int) else None
