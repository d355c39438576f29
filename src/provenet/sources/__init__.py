"""Where samples come from: arrays, a function that may be queried, a known network's population."""

from provenet.sources.arrays import ArraySource
from provenet.sources.base import Source
from provenet.sources.biased import BiasedSource, biased
from provenet.sources.population import PopulationSource
from provenet.sources.queries import QuerySource
from provenet.sources.standardised import StandardisedSource

__all__ = [
    "ArraySource",
    "BiasedSource",
    "PopulationSource",
    "QuerySource",
    "Source",
    "StandardisedSource",
    "biased",
]
