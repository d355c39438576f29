"""Where samples come from: arrays, files, queries of a function, a known network's population."""

from provenet.sources.arrays import ArraySource
from provenet.sources.base import Source
from provenet.sources.biased import BiasedSource, biased
from provenet.sources.files import FileArrays, FileSource
from provenet.sources.mapped import MappedSource, StandardisedSource
from provenet.sources.population import PopulationSource
from provenet.sources.queries import QuerySource

__all__ = [
    "ArraySource",
    "BiasedSource",
    "FileArrays",
    "FileSource",
    "MappedSource",
    "PopulationSource",
    "QuerySource",
    "Source",
    "StandardisedSource",
    "biased",
]
