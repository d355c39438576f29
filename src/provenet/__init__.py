"""provenet: recover the weights of a neural network from samples of what it does."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from provenet import datasets, landscape, plotting
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import InvalidInput
from provenet.common.version import __version__
from provenet.data.sample_files.door import open_samples
from provenet.data.sources import ArraySource, FileSource, PopulationSource, QuerySource, Source
from provenet.datasets import random_network, sample
from provenet.extract import extract
from provenet.learn_top import learn_top
from provenet.methods.identifiability import Identifiability, identifiability
from provenet.networks.activations import Activation
from provenet.networks.layered import LayeredNetwork
from provenet.networks.matching import parameter_error
from provenet.networks.network import Network, load_network
from provenet.networks.risk import population_risk, truncation_bound
from provenet.networks.sign_ambiguities import FlipSets, flip_sets
from provenet.recover import METHODS, recover

logging.getLogger("provenet").addHandler(logging.NullHandler())  # silent unless asked

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

if TYPE_CHECKING:
    from provenet.estimators import HalfspaceClassifier, NetworkRegressor
    from provenet.report import write_report

_WHEN_ASKED_FOR = {
    "HalfspaceClassifier": "provenet.estimators",
    "NetworkRegressor": "provenet.estimators",
    "write_report": "provenet.report",
}
"""Names of modules that take long to import and that a recovery does not need."""


def __getattr__(name: str) -> Any:
    """What is imported only when it is asked for."""
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module 'provenet' has no attribute {name!r}")
    return getattr(import_module(_WHEN_ASKED_FOR[name]), name)
