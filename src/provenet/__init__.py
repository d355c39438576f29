"""provenet: recover the weights of a neural network from samples of what it does."""

from provenet import datasets, landscape
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

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Activation",
    "ArraySource",
    "FileSource",
    "FlipSets",
    "Identifiability",
    "InvalidInput",
    "LayeredNetwork",
    "Network",
    "PopulationSource",
    "QuerySource",
    "Recovery",
    "Source",
    "Status",
    "datasets",
    "flip_sets",
    "identifiability",
    "landscape",
    "learn_top",
    "load_network",
    "open_samples",
    "parameter_error",
    "population_risk",
    "random_network",
    "recover",
    "sample",
    "truncation_bound",
]
