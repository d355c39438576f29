"""Where samples come from: arrays, files, queries of a function, a known network's population."""

from provenet.data.sources.arrays import ArraySource
from provenet.data.sources.base import Draw, Source
from provenet.data.sources.biased import BiasedSource, biased
from provenet.data.sources.files import FileArrays, FileSource
from provenet.data.sources.mapped import MappedSource, StandardisedSource
from provenet.data.sources.population import PopulationSource
from provenet.data.sources.queries import QuerySource

__all__ = [
    "ArraySource",
    "BiasedSource",
    "Draw",
    "FileArrays",
    "FileSource",
    "MappedSource",
    "PopulationSource",
    "QuerySource",
    "Source",
    "StandardisedSource",
    "biased",
]
