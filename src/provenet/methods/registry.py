"""Which methods there are, what each needs, and how to call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from provenet.methods.auto import auto
from provenet.methods.biased_relu import biased_relu
from provenet.methods.expand_prune import expand_prune
from provenet.workspace import Candidate, Workspace


@dataclass(frozen=True)
class Method:
    """A way to find a network: a generator of candidates, the most likely first."""

    name: str
    summary: str
    needs: str
    paper: str
    candidates: Callable[[Workspace], Iterator[Candidate]]
    independent_units: bool = False
    """Whether the units must have linearly independent weights, so at most as many as features."""
    activations: tuple[str, ...] = ("relu",)


METHODS = {
    method.name: method
    for method in (
        Method(
            "auto",
            "chooses among the methods below by samples, inputs and cost",
            "one output",
            "-",
            auto,
        ),
        Method(
            "expand-prune",
            "least squares with swaps, growth and pruning; few samples, width found",
            "one output; any inputs in general position",
            "none: the answer certifies itself",
            expand_prune,
        ),
        Method(
            "biased-relu",
            "Hermite moments, tensor decomposition, then least squares",
            "one output; Gaussian inputs; units <= features, independent",
            "ATV21, Algorithms 1-4 and 6",
            biased_relu,
            independent_units=True,
        ),
    )
}
