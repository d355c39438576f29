"""What a value of an ONNX graph is as a function of the inputs, if it is a network so far.

Every value is a batch of rows `M_0 x + sum_l M_l sigma_l(v_l) + c`, the arguments v_l of its units
being values themselves: `W x + b` in the first hidden layer, of its units in the second. Affine
nodes change the matrices and c; an activation of a value makes a new layer of units. The output's
matrices and those of the arguments below are then the network's parameters, whatever nodes computed
them. Matrices are kept as the graph gives them, a number for a multiple of the identity and a
vector for a diagonal: weights that nothing was multiplied with come out bit for bit, and the
identity of the input takes no room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import Array
from provenet.networks.activations import Activation


class NotReadable(Exception):
    """The graph is not a network that can be read; the message says what was found in it."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Units `sigma(v)` of every number of a value v."""

    argument: Value
    activation: Activation
    depth: int
    """How many layers lead to it, itself included."""


@dataclass(frozen=True, eq=False)
class Value:
    """Rows of `width` numbers; `parts` holds `M` by its layer, under None that of the input.

    `rows` is the size of the batch where the graph fixes it. `flat` says that the values of one
    column have lost its axis: (N,), not (N, 1). `formula` says which function of another value this
    one is, if each of its numbers is one of a number there. `link` says that these are not the
    numbers, but what they are before the link.
    """

    width: int
    parts: Mapping[Layer | None, Array]
    constant: Array = field(default_factory=lambda: np.zeros(()))
    rows: int | None = None
    flat: bool = False
    formula: Formula | None = None
    link: str = "identity"

    @property
    def depth(self) -> int:
        """How many layers of units lead to it."""
        return max((layer.depth for layer in self.parts if layer is not None), default=0)

    @property
    def mixed(self) -> bool:
        """Whether its units went through a matrix, if there are any.

        Then no number of it is a function of one number of theirs: here formulas begin.
        """
        return all(layer is None or M.ndim == 2 for layer, M in self.parts.items())

    def times(self, matrix: Array) -> Value:
        """`matrix @ value` for a matrix (new width, width)."""
        if matrix.shape[1] != self.width:
            raise NotReadable(f"multiplies {self.width} columns by a matrix of {matrix.shape[1]}")
        parts = {
            layer: matrix @ M if M.ndim == 2 else matrix * M for layer, M in self.parts.items()
        }
        c = self.constant
        moved = matrix @ np.broadcast_to(c, (self.width,)) if c.any() else np.zeros(())
        return self._changed(width=len(matrix), parts=parts, constant=moved)

    def scaled(self, factors: Array) -> Value:
        """The value with its columns multiplied by a number or by one each."""
        parts = {
            layer: factors[:, None] * M if factors.ndim and M.ndim == 2 else factors * M
            for layer, M in self.parts.items()
        }
        return self._changed(parts=parts, constant=self.constant * factors)

    def shifted(self, constant: Array) -> Value:
        """The value plus a number or a row."""
        return self._changed(constant=_sum(self.constant, constant))

    def plus(self, other: Value) -> Value:
        """The sum of two values."""
        if (self.width, self.flat) != (other.width, other.flat):
            raise NotReadable(f"adds values of {self.width} and {other.width} columns")
        parts = dict(self.parts)
        for layer, M in other.parts.items():
            parts[layer] = _added(parts[layer], M, self.width) if layer in parts else M
        return self._changed(parts=parts, constant=_sum(self.constant, other.constant))

    def activated(self, activation: Activation) -> Value:
        """A new layer of units."""
        layer = Layer(replace(self, formula=None), activation, self.depth + 1)
        return self._changed(parts={layer: np.ones(())}, constant=np.zeros(()))

    def reshaped(self, flat: bool) -> Value:
        """The same numbers with or without the axis of their one column."""
        return self._changed(flat=flat)

    def _changed(self, **changes: object) -> Value:
        return replace(self, **{"formula": None, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Formula:
    """`function` of every number of a value: what several nodes make of it.

    Where that is no activation yet, `refusal` says why the last node cannot be read by itself.
    """

    base: Value
    function: Callable[[Array], Array]
    refusal: NotReadable | None = None


def _sum(a: Array, b: Array) -> Array:
    """`a + b`; with nothing there yet, b itself, so that it stays as it is to the sign of zero."""
    return a + b if a.any() else np.asarray(b)


def _added(M: Array, other: Array, width: int) -> Array:
    if M.ndim == other.ndim:
        return M + other
    return dense(M, width) + dense(other, width)


def dense(M: Array, width: int) -> Array:
    """A matrix as it is, or what stands for one written out."""
    return M if M.ndim == 2 else M * np.eye(width)


def stacked(values: Sequence[Value]) -> Value:
    """One value of all columns."""
    if len(values) == 1:
        return values[0]
    layers = dict.fromkeys(layer for value in values for layer in value.parts)
    parts = {layer: np.vstack([_block(value, layer) for value in values]) for layer in layers}
    constants = [np.broadcast_to(value.constant, (value.width,)) for value in values]
    return Value(sum(value.width for value in values), parts, np.concatenate(constants))


def _block(value: Value, layer: Layer | None) -> Array:
    """The columns of a layer in a value that may not have it."""
    if layer in value.parts:
        return dense(value.parts[layer], value.width)
    if layer is None:
        raise NotReadable("has a shortcut around a hidden layer")
    return np.zeros((value.width, layer.argument.width))
