"""What a value of an ONNX graph is as a function of the inputs, if it is a network so far.

Every value is a batch of rows `M_0 x + sum_l M_l sigma_l(W_l x + b_l) + c`. Affine nodes change the
matrices and c; an activation of `M_0 x + c` makes a new layer of units. The output's matrices are
then the network's parameters, whatever nodes computed them. Matrices are kept as the graph gives
them, a number for a multiple of the identity and a vector for a diagonal: weights that nothing was
multiplied with come out bit for bit, and the identity of the input takes no room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import Array
from provenet.networks.activations import Activation
from provenet.networks.formats.names import plain_if_one
from provenet.networks.network import Network


class NotReadable(Exception):
    """The graph is not a network with one hidden layer; the message says what was found in it."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Units `sigma(W x + b)`."""

    weights: Array
    biases: Array
    activation: Activation


@dataclass(frozen=True, eq=False)
class Value:
    """Rows of `width` numbers; `parts` holds `M` by its layer, under None that of the input.

    `rows` is the size of the batch where the graph fixes it. `flat` says that the values of one
    column have lost its axis: (N,), not (N, 1). `formula` says which function of another value this
    one is, if each of its numbers is one of a number there.
    """

    width: int
    parts: Mapping[Layer | None, Array]
    constant: Array = field(default_factory=lambda: np.zeros(()))
    rows: int | None = None
    flat: bool = False
    formula: Formula | None = None

    @property
    def affine(self) -> bool:
        """Whether no layer of units has part in it."""
        return all(layer is None for layer in self.parts)

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

    def activated(self, activation: Activation, operator: str) -> Value:
        """A new layer of units."""
        if not self.affine:
            raise NotReadable(f"has a second activation, {operator}, after its hidden layer")
        W = _dense(self.parts[None], self.width)
        layer = Layer(W, np.array(np.broadcast_to(self.constant, (self.width,))), activation)
        return self._changed(parts={layer: np.ones(())}, constant=np.zeros(()))

    def reshaped(self, flat: bool) -> Value:
        """The same numbers with or without the axis of their one column."""
        return self._changed(flat=flat)

    def network(self, keep_row: bool = False) -> Network:
        """The network whose outputs these are; one output gives plain labels unless kept a row."""
        layers = [layer for layer in self.parts if layer is not None]
        kinds = sorted({layer.activation.name for layer in layers})
        if not layers:
            raise NotReadable("has no layer of units, only linear functions")
        if len(kinds) > 1:
            raise NotReadable(f"has units of several kinds in one layer ({', '.join(kinds)})")
        A = np.hstack([_dense(self.parts[layer], self.width) for layer in layers])
        c = np.broadcast_to(self.constant, (self.width,))
        V = _dense(self.parts[None], self.width) if None in self.parts else None
        if not keep_row:
            A, c, V = plain_if_one(A, c, V)
        W = np.vstack([layer.weights for layer in layers])
        b = np.concatenate([layer.biases for layer in layers])
        return Network(W, b, A, c, layers[0].activation, linear=V)

    def _changed(self, **changes: object) -> Value:
        return replace(self, **{"formula": None, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Formula:
    """`function` of every number of an affine value: what several nodes make of it.

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
    return _dense(M, width) + _dense(other, width)


def _dense(M: Array, width: int) -> Array:
    return M if M.ndim == 2 else M * np.eye(width)
