"""The methods, one file each, named for what they do."""

from provenet.methods.registry import METHODS, Method

__all__ = ["METHODS", "Method"]
