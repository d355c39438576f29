"""provenet: recover the weights of a neural network from samples of what it does."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from provenet import datasets, landscape, plotting
from provenet.activations import Activation
from provenet.datasets import random_network, sample
from provenet.exceptions import InvalidInput
from provenet.identifiability import Identifiability, identifiability
from provenet.io import open_samples
from provenet.layered import LayeredNetwork
from provenet.learn_top import learn_top
from provenet.matching import parameter_error
from provenet.networks import Network, load_network
from provenet.recover import METHODS, recover
from provenet.result import Recovery, Status
from provenet.risk import population_risk, truncation_bound
from provenet.sign_ambiguities import FlipSets, flip_sets
from provenet.sources import ArraySource, FileSource, PopulationSource, QuerySource, Source

logging.getLogger("provenet").addHandler(logging.NullHandler())  # silent unless asked

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Activation",
    "ArraySource",
    "FileSource",
    "FlipSets",
    "HalfspaceClassifier",
    "Identifiability",
    "InvalidInput",
    "LayeredNetwork",
    "Network",
    "NetworkRegressor",
    "PopulationSource",
    "QuerySource",
    "Recovery",
    "Source",
    "Status",
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

if TYPE_CHECKING:
    from provenet.estimators import HalfspaceClassifier, NetworkRegressor
    from provenet.extraction.extract import extract
    from provenet.report import write_report

_WHEN_ASKED_FOR = {
    "HalfspaceClassifier": "provenet.estimators",
    "NetworkRegressor": "provenet.estimators",
    "extract": "provenet.extraction.extract",
    "write_report": "provenet.report",
}
"""Names of modules that take long to import and that a recovery does not need."""


def __getattr__(name: str) -> Any:
    """What is imported only when it is asked for."""
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module 'provenet' has no attribute {name!r}")
    return getattr(import_module(_WHEN_ASKED_FOR[name]), name)
