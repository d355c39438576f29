"""Networks of several hidden layers: `h_0 = x`, `h_l = sigma(W_l h_{l-1} + b_l)`, a linear output.

A layer together with the next matrix is a `Network` of several outputs, which knows the scales,
signs, periods and constants that leave its outputs as they are: what it may do to itself it may do
inside a deep one. So the canonical form is made layer by layer from the inputs on. It is made
twice, because the order of a layer's units goes by the size of what they feed, which is settled
only once the next layer is normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from provenet.common.arguments import check_whole
from provenet.common.blocks import row_blocks
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.networks.activations import Activation, get_activation
from provenet.networks.any_network import AffineMap, AnyNetwork
from provenet.networks.checked import check, check_layer, checked_array, checked_rows
from provenet.networks.exports import Exports
from provenet.networks.links import Probabilities, centred_map, checked_link, free_outputs
from provenet.networks.network import Network


@dataclass(frozen=True, eq=False, init=False, repr=False)
class DeepNetwork(Exports, Probabilities):
    """A network with any number of hidden layers; every array is read-only.

    `weights[l]` has the shape (units of layer l, units of the layer below or features),
    `biases[l]` (units of layer l,); the last of both are those of the outputs. `outputs` is None
    where labels are plain numbers. `link` says how outputs become probabilities (see `links`):
    "identity" (they do not), "logit" or "softmax".
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: Activation
    outputs: int | None
    link: str

    def __init__(
        self,
        weights: Any,
        biases: Any = None,
        activation: str | Activation = "relu",
        *,
        outputs: int | None = None,
        link: str = "identity",
    ) -> None:
        """Check the shapes and store the arrays; biases that are None are 0.

        One row in the last matrix means plain labels, unless `outputs=1` asks for rows of one.
        """
        W = _matrices(weights)
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "weights", W)
        set_field(self, "biases", _vectors(biases, W))
        set_field(self, "activation", get_activation(activation))
        set_field(self, "outputs", _outputs(outputs, len(W[-1])))
        set_field(self, "link", checked_link(link, self.outputs))

    @property
    def features(self) -> int:
        """Number of inputs."""
        return int(self.weights[0].shape[1])

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units of each hidden layer."""
        return tuple(len(W) for W in self.weights[:-1])

    @property
    def layers(self) -> int:
        """Number of hidden layers."""
        return len(self.weights) - 1

    @property
    def units(self) -> int:
        """Number of hidden units of all layers."""
        return sum(self.widths)

    @property
    def linear(self) -> None:
        """A linear term beside the units: there is none."""
        return None

    @property
    def affine_maps(self) -> tuple[AffineMap, ...]:
        """Weights and biases of every layer, last those of the outputs, which are in rows."""
        return tuple(zip(self.weights, self.biases, strict=True))

    @property
    def free_parameters(self) -> int:
        """Parameters that the function determines.

        All weights and biases, but one scale of every hidden unit less where the activation is
        positively homogeneous, and one output less of softmax.
        """
        scales = 0 if self.activation.degree is None else self.units
        open_outputs = (self.outputs or 1) - free_outputs(self.outputs, self.link)
        own = sum(W.size + b.size for W, b in self.affine_maps) - scales
        return own - open_outputs * (self.widths[-1] + 1)

    def __call__(self, X: Any) -> Array:
        """Outputs for the rows of `X`: (n, features) -> (n,) or (n, outputs), in bounded memory.

        They are those before the link: of a classifier log-odds, or logits.
        """
        inputs = checked_rows(X, self.features)
        W, b = self.affine_maps[-1]
        y = np.empty((len(inputs), len(W)))
        for rows in row_blocks(len(inputs)):
            y[rows] = self.values(inputs[rows], self.layers - 1) @ W.T + b
        return y[:, 0] if self.outputs is None else y

    def values(self, X: Any, number: int) -> Array:
        """What the units of a hidden layer, counted from 0, say to the rows of `X`."""
        check_layer(number, self.layers)
        h = np.asarray(checked_rows(X, self.features), dtype=float)
        for W, b in self.affine_maps[: number + 1]:
            h = self.activation(h @ W.T + b)
        return h

    def __repr__(self) -> str:
        """One line: sizes and activation."""
        outputs = "" if self.outputs is None else f", outputs={self.outputs}"
        link = "" if self.link == "identity" else f", link={self.link!r}"
        return (
            f"DeepNetwork(features={self.features}, widths={self.widths}{outputs}, "
            f"activation={self.activation.name!r}{link})"
        )

    def canonical(self) -> DeepNetwork:
        """The same function with each unit in a fixed form, and the units in a fixed order.

        See `normalised`. The units of a layer are ordered by falling size of what they feed.
        """
        return self.normalised().rewritten(Network.canonical)

    def normalised(self) -> DeepNetwork:
        """The same function with each unit in a fixed form, units in the order they have.

        As `Network.normalised` does it: where the activation is positively homogeneous, the norms
        of weights move from layer to layer into the last. A unit without weights moves into the
        biases of the next layer, so a layer may be narrower than it was. Softmax's outputs sum to
        zero.
        """
        own = self.replace(
            weights=centred_map(self.weights, self.link), biases=centred_map(self.biases, self.link)
        )
        return own.rewritten(Network.normalised)

    def layer(self, number: int) -> Network:
        """A hidden layer, counted from 0, as a network whose outputs feed the next."""
        check_layer(number, self.layers)
        (W, b), (A, c) = self.affine_maps[number : number + 2]
        return Network(W, b, A, c, self.activation)

    def rewritten(self, rewrite: Callable[[Network], Network]) -> DeepNetwork:
        """Each layer, from the inputs on, replaced by another with the same outputs.

        `rewrite` is given a layer with the next as its outputs, in rows, and may change units and
        outputs of it; a linear term has no place.
        """
        maps, activation = list(self.affine_maps), self.activation
        for number in range(self.layers):
            (W, b), (A, c) = maps[number : number + 2]
            layer = rewrite(Network(W, b, A, c, self.activation))
            assert layer.linear is None
            maps[number : number + 2] = layer.affine_maps
            activation = layer.activation
        weights, biases = zip(*maps, strict=True)
        return self.replace(weights=weights, biases=biases, activation=activation)

    def replace(self, **changes: Any) -> DeepNetwork:
        """A copy with some of the constructor's arguments changed."""
        fields = {name: getattr(self, name) for name in ("weights", "biases", "activation", "link")}
        rows_of_one = {"outputs": 1} if self.outputs == 1 else {}
        return DeepNetwork(**{**fields, **rows_of_one, **changes})

    @staticmethod
    def of(network: Network) -> DeepNetwork:
        """A network with one hidden layer as a deep one; it must not have a linear term."""
        if network.linear is not None:
            raise InvalidInput(
                "A DeepNetwork has no linear term: write it as units first, or leave it out with "
                "replace(linear=None)."
            )
        weights, biases = zip(*network.affine_maps, strict=True)
        return DeepNetwork(
            weights, biases, network.activation, outputs=network.outputs, link=network.link
        )

    def as_one_layer(self) -> Network:
        """The network with one hidden layer that this is."""
        if self.layers != 1:
            raise InvalidInput(
                f"The network has {self.layers} hidden layers: only one with a single hidden layer "
                "is a Network."
            )
        layer = self.layer(0)
        if self.outputs is not None:
            return layer.replace(link=self.link)
        return layer.replace(
            output_weights=layer.output_weights[0],
            output_bias=self.biases[-1].item(),
            link=self.link,
        )

    @staticmethod
    def from_mlp_regressor(model: Any) -> DeepNetwork:
        """The network that a fitted `MLPRegressor` with any number of hidden layers is."""
        from provenet.networks.formats.mlp_regressor import from_mlp_regressor

        return from_mlp_regressor(model)

    @staticmethod
    def from_mlp_classifier(model: Any) -> DeepNetwork:
        """The network that a fitted `MLPClassifier` with hidden layers is, with its link."""
        from provenet.networks.formats.mlp_classifier import from_mlp_classifier

        return from_mlp_classifier(model)


def with_one_layer(network: AnyNetwork, what: str) -> Network:
    """The network, for what serves one hidden layer alone."""
    if not isinstance(network, DeepNetwork):
        return cast(Network, network)
    if network.layers > 1:
        raise InvalidInput(
            f"{what} serves networks with one hidden layer, and this one has {network.layers}: "
            "give it a single layer, network.layer(0) for the lowest."
        )
    return network.as_one_layer()


def _matrices(weights: Any) -> tuple[Array, ...]:
    """One for each layer, each fed by the one before."""
    matrices = tuple(
        checked_array(matrix, f"weights[{number}]", (2,))
        for number, matrix in enumerate(_listed(weights, "weights", "matrices"))
    )
    check(
        len(matrices) >= 2,
        f"weights must be at least two matrices, a hidden layer and the outputs, "
        f"not {len(matrices)}",
    )
    for number, (below, above) in enumerate(pairwise(matrices), start=1):
        check(
            above.shape[1] == len(below),
            f"weights[{number}] must have {len(below)} columns, the units of the layer below, "
            f"not shape {above.shape}",
        )
    check(len(matrices[-1]) > 0, "weights must end in a matrix of at least one row, an output")
    return matrices


def _vectors(biases: Any, matrices: tuple[Array, ...]) -> tuple[Array, ...]:
    """One for each matrix."""
    given = [None] * len(matrices) if biases is None else _listed(biases, "biases", "vectors")
    check(
        len(given) == len(matrices),
        f"biases must be {len(matrices)} vectors, as many as weights, not {len(given)}",
    )
    vectors = []
    for number, (vector, W) in enumerate(zip(given, matrices, strict=True)):
        name = f"biases[{number}]"
        b = checked_array(np.zeros(len(W)) if vector is None else vector, name, (1,))
        check(b.shape == (len(W),), f"{name} must have shape ({len(W)},), not {b.shape}")
        vectors.append(b)
    return tuple(vectors)


def _listed(value: Any, name: str, of: str) -> list[Any]:
    """The items of any sequence, but not the letters of a string."""
    try:
        items = None if isinstance(value, (str, bytes)) else list(value)
    except TypeError:
        items = None
    if items is None:
        raise InvalidInput(
            f"The network's {name} must be a list of {of}, one a layer, not {type(value).__name__}."
        )
    return items


def _outputs(asked: int | None, rows: int) -> int | None:
    """What labels look like; None for plain numbers."""
    if asked is None:
        return None if rows == 1 else rows
    check_whole("outputs", asked, 1)
    check(
        asked == rows,
        f"outputs must be {rows}, the rows of the last matrix, not {asked}; or leave it out",
    )
    return rows
