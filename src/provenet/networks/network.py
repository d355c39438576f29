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
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks import formats as network_formats
from provenet.networks.activations import Activation, get_activation
from provenet.networks.symmetries import by_convention
from provenet.networks.tolerances import SORTED_DIGITS


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Network:
    """A network with one hidden layer; every array is read-only.

    Shapes: `weights` (units, features), `biases` (units,), `output_weights` (units,) for one output
    or (outputs, units) for several, `output_bias` a number or (outputs,), `linear` (features,) or
    (outputs, features), or None.
    """

    weights: Array
    biases: Array
    output_weights: Array
    output_bias: Array | float
    activation: Activation
    linear: Array | None

    def __init__(
        self,
        weights: Any,
        biases: Any = None,
        output_weights: Any = None,
        output_bias: Any = 0.0,
        activation: str | Activation = "relu",
        *,
        linear: Any = None,
    ) -> None:
        """Check the shapes and store the arrays; biases default to 0, output weights to 1."""
        W = _array(weights, "weights", (2,))
        units, features = W.shape
        b = np.zeros(units) if biases is None else _array(biases, "biases", (1,))
        A = (
            np.ones(units)
            if output_weights is None
            else _array(output_weights, "output_weights", (1, 2))
        )
        c = _array(output_bias, "output_bias", (0, 1))
        _check(b.shape == (units,), f"biases must have shape ({units},), not {b.shape}")
        _check(
            A.shape[-1] == units,
            f"output_weights must have {units} entries in the last axis, not shape {A.shape}",
        )
        _check(
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
        if linear is not None:
            V = _array(linear, "linear", (1, 2))
            shape = (*A.shape[:-1], features)
            _check(V.shape == shape, f"linear must have shape {shape}, not {V.shape}")
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
    def free_parameters(self) -> int:
        """Parameters that the function determines.

        Weights, bias and output weights of each unit, the linear term and the output bias; of the
        weights only the direction where the activation is positively homogeneous.
        """
        linear = 0 if self.linear is None else self.linear.size
        return self.units * self.parameters_a_unit + linear + (self.outputs or 1)

    @property
    def parameters_a_unit(self) -> int:
        """How many of these a unit has."""
        scale = 1 if self.activation.degree is None else 0
        return self.features + scale + (self.outputs or 1)

    def __call__(self, X: Any) -> Array:
        """Outputs for the rows of `X`: (n, features) -> (n,) or (n, outputs), in bounded memory."""
        inputs = np.asarray(X)
        if inputs.ndim != 2 or inputs.shape[1] != self.features:
            raise InvalidInput(
                f"X must have shape (n, {self.features}) for this network, not {inputs.shape}."
            )
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
        return (
            f"Network(features={self.features}, units={self.units}{outputs}, "
            f"activation={self.activation.name!r}{linear})"
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
        output bias. Signs and periods that the function leaves open are chosen `by_convention`.
        """
        W, b, A = self.weights, self.biases, self.output_weights
        norm = np.linalg.norm(W, axis=1)
        constant = norm == 0
        c = self.output_bias + A[..., constant] @ self.activation(b[constant])
        W, b, A, norm = W[~constant], b[~constant], A[..., ~constant], norm[~constant]
        if self.activation.degree is not None:
            W, b, A = W / norm[:, None], b / norm, A * norm**self.activation.degree
        return by_convention(Network(W, b, A, c, self.activation, linear=self.linear))

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

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to an .npz, .safetensors or .onnx file, whole or not at all."""
        network_formats.save_network(self, path)

    def to_onnx(self, dtype: Any = "float64") -> Any:
        """The network as an `onnx.ModelProto`, in double precision or in `float32`.

        onnxruntime runs units `gelu` and `erf` in `float32` only.
        """
        from provenet.networks.formats.onnx_writer import to_onnx

        return to_onnx(self, dtype)

    def to_torch(self, dtype: Any = None) -> Any:
        """The network as a `torch.nn.Sequential`, in `torch.float64` or the dtype given.

        Units `|z|` become ReLU units and a linear term two units for each output, so there may be
        more units than here.
        """
        from provenet.networks.formats.torch_sequential import to_torch

        return to_torch(self, dtype)

    def to_mlp_regressor(self) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPRegressor`.

        Leaky units, `|z|` and a linear term become ReLU units, so there may be more units than
        here.
        """
        from provenet.networks.formats.mlp_regressor import to_mlp_regressor

        return to_mlp_regressor(self)

    @staticmethod
    def from_mlp_regressor(model: Any) -> Network:
        """The network that a fitted `MLPRegressor` with one hidden layer is."""
        from provenet.networks.formats.mlp_regressor import from_mlp_regressor

        return from_mlp_regressor(model)


def load_network(path: str | PathLike[str]) -> Network:
    """Read a network with one hidden layer from an .npz, .safetensors or .onnx file."""
    return network_formats.load_network(path)


def _array(value: Any, name: str, ndims: tuple[int, ...]) -> Array:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The network's {name} must be numbers: {error}.") from None
    _check(
        array.ndim in ndims,
        f"{name} must have {' or '.join(map(str, ndims))} dimensions, not {array.ndim}",
    )
    _check(bool(np.isfinite(array).all()), f"{name} must be finite")
    array.flags.writeable = False
    return array


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise InvalidInput(f"The network's {problem}.")
