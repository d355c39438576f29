"""One-hidden-layer networks `f(x) = A sigma(W x + b) + V x + c`: values, canonical form, files.

`V x` is a linear term beside the units. A network that was drawn or trained usually has none; a
recovered one has it when some units could not be told apart from a linear function.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.networks import formats as network_formats
from provenet.networks.activations import Activation, get_activation
from provenet.networks.any_network import AffineMap, AnyNetwork
from provenet.networks.checked import check, check_layer, checked_array, checked_rows
from provenet.networks.exports import Exports
from provenet.networks.links import Probabilities, centred, checked_link, free_outputs
from provenet.networks.symmetries import by_convention
from provenet.networks.tolerances import SORTED_DIGITS


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Network(Exports, Probabilities):
    """A network with one hidden layer; every array is read-only.

    Shapes: `weights` (units, features), `biases` (units,), `output_weights` (units,) for one output
    or (outputs, units) for several, `output_bias` a number or (outputs,), `linear` (features,) or
    (outputs, features), or None. `link` says how outputs become probabilities (see `links`):
    "identity" (they do not), "logit" or "softmax".
    """

    weights: Array
    biases: Array
    output_weights: Array
    output_bias: Array | float
    activation: Activation
    linear: Array | None
    link: str

    def __init__(
        self,
        weights: Any,
        biases: Any = None,
        output_weights: Any = None,
        output_bias: Any = 0.0,
        activation: str | Activation = "relu",
        *,
        linear: Any = None,
        link: str = "identity",
    ) -> None:
        """Check the shapes and store the arrays; biases default to 0, output weights to 1."""
        W = checked_array(weights, "weights", (2,))
        units, features = W.shape
        b = np.zeros(units) if biases is None else checked_array(biases, "biases", (1,))
        A = (
            np.ones(units)
            if output_weights is None
            else checked_array(output_weights, "output_weights", (1, 2))
        )
        c = checked_array(output_bias, "output_bias", (0, 1))
        check(b.shape == (units,), f"biases must have shape ({units},), not {b.shape}")
        check(
            A.shape[-1] == units,
            f"output_weights must have {units} entries in the last axis, not shape {A.shape}",
        )
        check(
            c.shape in ((), A.shape[:-1]),
            f"output_bias must be a number or have shape {A.shape[:-1]}, not {c.shape}",
        )
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "weights", W)
        set_field(self, "biases", b)
        set_field(self, "output_weights", A)
        set_field(self, "output_bias", c if c.ndim else float(c))
        set_field(self, "activation", get_activation(activation))
        set_field(self, "linear", None)
        set_field(self, "link", checked_link(link, self.outputs))
        if linear is not None:
            V = checked_array(linear, "linear", (1, 2))
            shape = (*A.shape[:-1], features)
            check(V.shape == shape, f"linear must have shape {shape}, not {V.shape}")
            set_field(self, "linear", V)

    @property
    def units(self) -> int:
        """Number of hidden units."""
        return int(self.weights.shape[0])

    @property
    def features(self) -> int:
        """Number of inputs."""
        return int(self.weights.shape[1])

    @property
    def outputs(self) -> int | None:
        """Number of outputs; None when labels are plain numbers."""
        return None if self.output_weights.ndim == 1 else int(self.output_weights.shape[0])

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units of each hidden layer: of the one there is."""
        return (self.units,)

    @property
    def layers(self) -> int:
        """Number of hidden layers."""
        return 1

    @property
    def affine_maps(self) -> tuple[AffineMap, ...]:
        """Weights and biases of the hidden layer and of the outputs, these in rows."""
        A = np.atleast_2d(self.output_weights)
        c = np.broadcast_to(np.asarray(self.output_bias, dtype=float), (len(A),))
        return (self.weights, self.biases), (A, c)

    def layer(self, number: int) -> Network:
        """The hidden layer of that number, which is 0: the network itself."""
        check_layer(number, self.layers)
        return self

    @property
    def free_parameters(self) -> int:
        """Parameters that the function determines.

        Weights, bias and output weights of each unit, the linear term and the output bias; of the
        weights only the direction where the activation is positively homogeneous, and of softmax's
        outputs all but one.
        """
        outputs = free_outputs(self.outputs, self.link)
        linear = 0 if self.linear is None else self.features * outputs
        return self.units * self.parameters_a_unit + linear + outputs

    @property
    def parameters_a_unit(self) -> int:
        """How many of these a unit has."""
        scale = 1 if self.activation.degree is None else 0
        return self.features + scale + free_outputs(self.outputs, self.link)

    def __call__(self, X: Any) -> Array:
        """Outputs for the rows of `X`: (n, features) -> (n,) or (n, outputs), in bounded memory.

        They are those before the link: of a classifier log-odds, or logits.
        """
        inputs = checked_rows(X, self.features)
        shape = (len(inputs),) if self.outputs is None else (len(inputs), self.outputs)
        y = np.empty(shape)
        for rows in row_blocks(len(inputs)):
            x = np.asarray(inputs[rows], dtype=float)
            z = x @ self.weights.T + self.biases
            y[rows] = self.activation(z) @ self.output_weights.T + self.output_bias
            if self.linear is not None:
                y[rows] += x @ self.linear.T
        return y

    def __repr__(self) -> str:
        """One line: sizes and activation."""
        outputs = "" if self.outputs is None else f", outputs={self.outputs}"
        linear = "" if self.linear is None else ", with a linear term"
        link = "" if self.link == "identity" else f", link={self.link!r}"
        return (
            f"Network(features={self.features}, units={self.units}{outputs}, "
            f"activation={self.activation.name!r}{link}{linear})"
        )

    def canonical(self) -> Network:
        """The same function with each unit in a fixed form, and the units in a fixed order.

        See `normalised`. Units are ordered by falling size of their output weight.
        """
        own = self.normalised()
        return own.keep(own.canonical_order())

    def normalised(self) -> Network:
        """The same function with each unit in a fixed form, units in the order they have.

        Where the activation is positively homogeneous, rows of `weights` have norm 1 and the norm
        moves into the output weights. A unit without weights is a constant and moves into the
        output bias. Signs and periods that the function leaves open are chosen `by_convention`, and
        softmax's outputs sum to zero.
        """
        W, b, A = self.weights, self.biases, np.asarray(centred(self.output_weights, self.link))
        norm = np.linalg.norm(W, axis=1)
        constant = norm == 0
        c = centred(self.output_bias, self.link) + A[..., constant] @ self.activation(b[constant])
        W, b, A, norm = W[~constant], b[~constant], A[..., ~constant], norm[~constant]
        if self.activation.degree is not None:
            W, b, A = W / norm[:, None], b / norm, A * norm**self.activation.degree
        V = None if self.linear is None else centred(self.linear, self.link)
        return by_convention(Network(W, b, A, c, self.activation, linear=V, link=self.link))

    def canonical_order(self) -> AnyArray:
        """The indices of the units of a normalised network, in the order of its canonical form."""
        W, b, A = self.weights, self.biases, self.output_weights
        size = np.abs(A) if A.ndim == 1 else np.linalg.norm(A, axis=0)
        # Rounded, so that the last digits of equal sizes do not reorder units.
        return np.lexsort(
            (
                *np.atleast_2d(A),
                b,
                *np.round(W.T[::-1], SORTED_DIGITS),
                -np.round(size, SORTED_DIGITS),
            )
        )

    def replace(self, **changes: Any) -> Network:
        """A copy with some of the constructor's arguments changed."""
        fields = {
            name: getattr(self, name)
            for name in (
                "weights",
                "biases",
                "output_weights",
                "output_bias",
                "activation",
                "linear",
                "link",
            )
        }
        return Network(**{**fields, **changes})

    def keep(self, units: AnyArray) -> Network:
        """The network of some of its units (a mask or indices); the linear part stays."""
        return self.replace(
            weights=self.weights[units],
            biases=self.biases[units],
            output_weights=self.output_weights[..., units],
        )

    @staticmethod
    def from_mlp_regressor(model: Any) -> Network:
        """The network that a fitted `MLPRegressor` with one hidden layer is."""
        from provenet.networks.formats.mlp_regressor import one_layer_from_mlp_regressor

        return one_layer_from_mlp_regressor(model)

    @staticmethod
    def from_mlp_classifier(model: Any) -> Network:
        """The network that a fitted `MLPClassifier` with one hidden layer is, with its link."""
        from provenet.networks.formats.mlp_classifier import one_layer_from_mlp_classifier

        return one_layer_from_mlp_classifier(model)


def load_network(path: str | PathLike[str]) -> AnyNetwork:
    """Read a network from an .npz, .safetensors or .onnx file.

    A `Network` if it has one hidden layer, a `DeepNetwork` if it has more.
    """
    return network_formats.load_network(path)
