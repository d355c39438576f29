"""provenet: recover the weights of a neural network from samples of what it does."""

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provenet import datasets, landscape, plotting
    from provenet.certify.checks import Check, Claim, Status
    from provenet.certify.result import Recovery
    from provenet.common import __version__
    from provenet.common.exceptions import InvalidInput
    from provenet.data.files import FileSource, open_samples
    from provenet.data.sources import (
        ArraySource,
        BiasedSource,
        PopulationSource,
        QuerySource,
        Source,
    )
    from provenet.datasets import random_network, sample
    from provenet.estimators import HalfspaceClassifier, NetworkClassifier, NetworkRegressor
    from provenet.extract import extract
    from provenet.extraction.clients.endpoint import Endpoint
    from provenet.learn_top import learn_top
    from provenet.methods import METHODS
    from provenet.methods.identifiability import Identifiability, identifiability
    from provenet.networks.activations import Activation
    from provenet.networks.canonical import parameter_error
    from provenet.networks.formats import load_network
    from provenet.networks.layered import LayeredNetwork
    from provenet.networks.network import DeepNetwork, Network
    from provenet.networks.risk import population_risk, truncation_bound
    from provenet.networks.signs import FlipSets, flip_sets
    from provenet.recover import recover
    from provenet.report import write_report

logging.getLogger("provenet").addHandler(logging.NullHandler())  # silent unless asked

__all__ = [
    "METHODS",
    "Activation",
    "ArraySource",
    "BiasedSource",
    "Check",
    "Claim",
    "DeepNetwork",
    "Endpoint",
    "FileSource",
    "FlipSets",
    "HalfspaceClassifier",
    "Identifiability",
    "InvalidInput",
    "LayeredNetwork",
    "Network",
    "NetworkClassifier",
    "NetworkRegressor",
    "PopulationSource",
    "QuerySource",
    "Recovery",
    "Source",
    "Status",
    "__version__",
    "datasets",
    "extract",
    "flip_sets",
    "identifiability",
    "landscape",
    "learn_top",
    "load_network",
    "open_samples",
    "parameter_error",
    "plotting",
    "population_risk",
    "random_network",
    "recover",
    "sample",
    "truncation_bound",
    "write_report",
]

_HOMES = {
    "METHODS": "methods",
    "Activation": "networks.activations",
    "ArraySource": "data.sources",
    "BiasedSource": "data.sources",
    "Check": "certify.checks",
    "Claim": "certify.checks",
    "DeepNetwork": "networks.network",
    "Endpoint": "extraction.clients.endpoint",
    "FileSource": "data.files",
    "FlipSets": "networks.signs",
    "HalfspaceClassifier": "estimators",
    "Identifiability": "methods.identifiability",
    "InvalidInput": "common.exceptions",
    "LayeredNetwork": "networks.layered",
    "Network": "networks.network",
    "NetworkClassifier": "estimators",
    "NetworkRegressor": "estimators",
    "PopulationSource": "data.sources",
    "QuerySource": "data.sources",
    "Recovery": "certify.result",
    "Source": "data.sources",
    "Status": "certify.checks",
    "__version__": "common",
    "extract": "extract",
    "flip_sets": "networks.signs",
    "identifiability": "methods.identifiability",
    "learn_top": "learn_top",
    "load_network": "networks.formats",
    "open_samples": "data.files",
    "parameter_error": "networks.canonical",
    "population_risk": "networks.risk",
    "random_network": "datasets",
    "recover": "recover",
    "sample": "datasets",
    "truncation_bound": "networks.risk",
    "write_report": "report",
}
"""The module of each public name that is imported only when it is asked for."""
_ROOMS = ("datasets", "landscape", "plotting")
"""Modules that are public themselves."""


class _Package(ModuleType):
    """A door bears its module's name: importing the module must not put it in the door's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and _HOMES.get(name) == name):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """What is imported only when it is asked for."""
    if name in _ROOMS:
        return import_module(f"provenet.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'provenet' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"provenet.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """The public names and no others."""
    return sorted(__all__)
