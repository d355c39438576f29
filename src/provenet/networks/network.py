"""Networks of any depth: `h_0 = x`, `h_l = sigma(W_l h_(l-1) + b_l)`, `f(x) = A h_L + V x + c`.

There is one class. `Network` is built from the arguments of one hidden layer, and its attributes
are those arrays; `DeepNetwork` is built from lists with one entry per layer, and its `weights` and
`biases` are those lists. Everything else is the same code for any depth L >= 1. Only one hidden
layer may have a linear term `V x`: a network that was drawn or trained usually has none, a
recovered one has it when some units cannot be distinguished from a linear function.

A classifier is a network with a link, which turns the outputs u into probabilities:

    identity    none; u itself are the labels
    logit       p = 1 / (1 + exp(-u)), the probability of class 1; one each for several outputs
    softmax     p_k = exp(u_k) / sum_j exp(u_j), one output per class

p determines the logit. Softmax leaves open a function that is added to all outputs alike; by
convention the outputs of a canonical network sum to zero at every input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, ClassVar, Self, cast

import numpy as np
from scipy.special import expit, softmax

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.common.words import check_whole
from provenet.networks.activations import Activation, get_activation
from provenet.networks.canonical import normal_form, unit_order

AffineMap = tuple[Array, Array]
"""A matrix (out, in) and a vector (out,): `h -> M h + v`."""
LINKS = ("identity", "logit", "softmax")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Network:
    """A network with one hidden layer, and all that networks of any depth have in common.

    Shapes: `weights` (units, features), `biases` (units,), `output_weights` (units,) for one output
    or (outputs, units) for several, `output_bias` a number or (outputs,), `linear` (features,) or
    (outputs, features), or None. Every array is read-only.
    """

    affine_maps: tuple[AffineMap, ...]
    """Weights and biases of the hidden layers from the inputs on, then of the outputs in rows."""
    outputs: int | None
    """Number of outputs; None when labels are plain numbers."""
    activation: Activation
    linear: Array | None
    link: str
    argument_names: ClassVar[tuple[str, ...]] = (
        *("weights", "biases", "output_weights", "output_bias", "activation", "linear", "link"),
    )

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
        W, b = _affine_map(weights, biases)
        units, features = W.shape
        A = np.ones(units) if output_weights is None else output_weights
        A = _array(A, "output_weights", (1, 2))
        c = _array(output_bias, "output_bias", (0, 1))
        rows = A.shape[:-1]
        _check(
            A.shape[-1] == units,
            f"output_weights must have {units} entries in the last axis, not shape {A.shape}",
        )
        _check(
            c.shape in ((), rows),
            f"output_bias must be a number or have shape {rows}, not {c.shape}",
        )
        if linear is not None:
            linear, shape = _array(linear, "linear", (1, 2)), (*rows, features)
            _check(linear.shape == shape, f"linear must have shape {shape}, not {linear.shape}")
        A = np.atleast_2d(A)
        maps = (W, b), (A, np.broadcast_to(c, len(A)))
        self._store(maps, rows[0] if rows else None, activation, link, linear)

    def _store(
        self,
        maps: tuple[AffineMap, ...],
        outputs: int | None,
        activation: str | Activation,
        link: Any,
        linear: Array | None = None,
    ) -> None:
        _check(link in LINKS, f"link must be one of {', '.join(LINKS)}, not {link!r}")
        _check(
            link != "softmax" or (outputs or 1) > 1,
            "link 'softmax' needs one output per class, at least two: use 'logit' for two classes "
            "and one output",
        )
        own = {"affine_maps": maps, "outputs": outputs, "linear": linear, "link": str(link)}
        self.__dict__.update(own, activation=get_activation(activation))  # the class is frozen

    # ---- What it consists of

    @property
    def weights(self) -> Array:
        """Weights of the units, one row each."""
        return self.affine_maps[0][0]

    @property
    def biases(self) -> Array:
        """Biases of the units."""
        return self.affine_maps[0][1]

    @property
    def output_weights(self) -> Array:
        """Weights of the outputs: (outputs, units), or (units,) where labels are plain numbers."""
        A = self.affine_maps[-1][0]
        return A[0] if self.outputs is None else A

    @property
    def output_bias(self) -> Array | float:
        """Biases of the outputs; a number where labels are plain numbers."""
        c = self.affine_maps[-1][1]
        return float(c[0]) if self.outputs is None else c

    @property
    def features(self) -> int:
        """Number of inputs."""
        return int(self.affine_maps[0][0].shape[1])

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units of each hidden layer."""
        return tuple(len(b) for _, b in self.affine_maps[:-1])

    @property
    def units(self) -> int:
        """Number of hidden units of all layers."""
        return sum(self.widths)

    @property
    def layers(self) -> int:
        """Number of hidden layers."""
        return len(self.affine_maps) - 1

    @property
    def free_parameters(self) -> int:
        """Number of parameters that the function determines.

        All weights, biases and the linear term, less one scale per hidden unit where the activation
        is positively homogeneous, and less one output's share under softmax.
        """
        hidden = sum(W.size + b.size for W, b in self.affine_maps[:-1])
        scales = 0 if self.activation.degree is None else self.units
        each_output = self.widths[-1] + 1 + (0 if self.linear is None else self.features)
        return hidden - scales + each_output * free_outputs(self.outputs, self.link)

    @property
    def parameters_a_unit(self) -> int:
        """How many of these belong to each unit of a single hidden layer."""
        scale = 1 if self.activation.degree is None else 0
        return self.features + scale + free_outputs(self.outputs, self.link)

    def layer(self, number: int) -> Network:
        """The hidden layer of that number, which is 0: the network itself."""
        self._check_layer(number)
        return self

    def as_one_layer(self, what: str = "This step") -> Network:
        """The same network as a `Network`; the message says that `what` needs one hidden layer."""
        if self.layers > 1:
            raise InvalidInput(
                f"{what} takes networks with one hidden layer, and this one has "
                f"{self.layers} hidden layers: give it one, as network.layer(0), the lowest."
            )
        if type(self) is Network:
            return self
        (W, b), A, c = self.affine_maps[0], self.output_weights, self.output_bias
        return Network(W, b, A, c, self.activation, link=self.link)

    # ---- Values

    def __call__(self, X: Any) -> Array:
        """Outputs for the rows of `X`: (n, features) -> (n,) or (n, outputs), in bounded memory.

        They are those before the link: for a classifier log-odds, or logits.
        """
        inputs, (A, c) = self._inputs(X), self.affine_maps[-1]
        y = np.empty((len(inputs), len(A)))
        for rows in row_blocks(len(inputs)):
            x = np.asarray(inputs[rows], dtype=float)
            y[rows] = self._hidden_values(x, self.layers) @ A.T + c
            if self.linear is not None:
                y[rows] += x @ np.atleast_2d(self.linear).T
        return y[:, 0] if self.outputs is None else y

    def values(self, X: Any, number: int) -> Array:
        """Values of the units of a hidden layer, counted from 0, at the rows of `X`: (n, units)."""
        self._check_layer(number)
        return self._hidden_values(np.asarray(self._inputs(X), dtype=float), number + 1)

    def _hidden_values(self, h: Array, layers: int) -> Array:
        for W, b in self.affine_maps[:layers]:
            h = self.activation(h @ W.T + b)
        return h

    def _inputs(self, X: Any) -> AnyArray:
        inputs = np.asarray(X)
        if inputs.ndim != 2 or inputs.shape[1] != self.features:
            raise InvalidInput(
                f"X must have shape (n, {self.features}) for this network, not {inputs.shape}."
            )
        return inputs

    def _check_layer(self, number: int) -> None:
        if not 0 <= number < self.layers:
            raise InvalidInput(
                f"The network has no hidden layer {number}: they are numbered from 0 to "
                f"{self.layers - 1}."
            )

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, classes), for a network with a link.

        A logit of one output gives two columns, of class 0 and of class 1. Several logits are
        separate yes-or-no labels, with one column each: the probability of yes.
        """
        if self.link == "identity":
            raise InvalidInput(
                "A network with the link 'identity' has no probabilities: give it one with "
                "network.replace(link='logit') or 'softmax'."
            )
        return probabilities(self(X), self.link)

    # ---- The same function in another form

    def canonical(self) -> Self:
        """The same function with each unit in a fixed form, and the units in a fixed order.

        See `normalised`. The units of a layer are ordered by decreasing size of their output
        weights, which is final only once the next layer is normalised: so a deep network is
        normalised first.
        """

        def ordered(layer: Network) -> Network:
            layer = normal_form(layer)
            return layer.keep(unit_order(layer))

        return (self if self.layers == 1 else self.normalised()).rewritten(ordered)

    def normalised(self) -> Self:
        """The same function with each unit in a fixed form, units in the order they have.

        Where the activation is positively homogeneous, rows of weights have norm 1 and the norms
        move up into the output weights. A unit without weights is a constant and moves into the
        biases above, so a layer may become narrower. Signs and periods that the function leaves
        open follow conventions (see `canonical`), and softmax's outputs sum to zero.
        """
        return self.rewritten(normal_form)

    def rewritten(self, rewrite: Callable[[Network], Network]) -> Self:
        """Each hidden layer, from the inputs on, replaced by another with the same outputs.

        `rewrite` gets a layer as `layer(number)` gives it and may change its units and outputs.
        """
        return cast(Self, rewrite(self))

    def replace(self, **changes: Any) -> Self:
        """A copy with some of the constructor's arguments changed."""
        own = {name: getattr(self, name) for name in self.argument_names}
        return type(self)(**{**own, **changes})

    def keep(self, units: AnyArray) -> Self:
        """The network of some units of its one hidden layer (a mask or indices)."""
        return self.replace(
            weights=self.weights[units],
            biases=self.biases[units],
            output_weights=self.output_weights[..., units],
        )

    def __repr__(self) -> str:
        """One line: sizes and activation."""
        units = f"units={self.units}" if type(self) is Network else f"widths={self.widths}"
        outputs = "" if self.outputs is None else f", outputs={self.outputs}"
        link = "" if self.link == "identity" else f", link={self.link!r}"
        linear = "" if self.linear is None else ", with a linear term"
        return (
            f"{type(self).__name__}(features={self.features}, {units}{outputs}, "
            f"activation={self.activation.name!r}{link}{linear})"
        )

    # ---- Files and models of other programs

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to an .npz, .safetensors or .onnx file, whole or not at all."""
        from provenet.networks.formats import save_network

        save_network(self, path)

    def to_onnx(self, dtype: Any = "float64") -> Any:
        """The network as an `onnx.ModelProto`, in double precision or in `float32`.

        onnxruntime evaluates `gelu` and `erf` units in `float32` only.
        """
        from provenet.networks.onnx_models import to_onnx

        return to_onnx(self, dtype)

    def to_torch(self, dtype: Any = None) -> Any:
        """The network as a `torch.nn.Sequential`, in `torch.float64` or the dtype given.

        Units `|z|` and a linear term become ReLU units, so there may be more units than here.
        """
        from provenet.networks.sklearn_torch import to_torch

        return to_torch(self, dtype)

    def to_mlp_regressor(self) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPRegressor`.

        Leaky units, `|z|` and a linear term become ReLU units.
        """
        from provenet.networks.sklearn_torch import to_mlp_regressor

        return to_mlp_regressor(self)

    def to_mlp_classifier(self) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPClassifier` of classes 0, 1, ...

        It needs a link, "logit" with one output or "softmax"; units as in `to_mlp_regressor`.
        """
        from provenet.networks.sklearn_torch import to_mlp_classifier

        return to_mlp_classifier(self)

    @classmethod
    def from_mlp_regressor(cls, model: Any) -> Self:
        """The network of a fitted `MLPRegressor`; a `Network` has one hidden layer."""
        from provenet.networks.sklearn_torch import from_mlp

        return cast(Self, from_mlp(model, "regressor", cls))

    @classmethod
    def from_mlp_classifier(cls, model: Any) -> Self:
        """The network of a fitted `MLPClassifier`, with its link."""
        from provenet.networks.sklearn_torch import from_mlp

        return cast(Self, from_mlp(model, "classifier", cls))


@dataclass(frozen=True, eq=False, init=False, repr=False)
class DeepNetwork(Network):
    """A network with any number of hidden layers, from lists with one entry per layer.

    `weights[l]` has the shape (units of layer l, units of the layer below or features),
    `biases[l]` (units of layer l,); the last of both are those of the outputs.
    """

    argument_names = ("weights", "biases", "activation", "outputs", "link")

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
        matrices = _items(weights, "weights", "matrices")
        depth = len(matrices)
        vectors = [None] * depth if biases is None else _items(biases, "biases", "vectors")
        _check(
            depth >= 2,
            f"weights must be at least two matrices, a hidden layer and the outputs, not {depth}",
        )
        _check(
            len(vectors) == depth,
            f"biases must be {depth} vectors, as many as weights, not {len(vectors)}",
        )
        pairs = enumerate(zip(matrices, vectors, strict=True))
        maps = tuple(_affine_map(M, v, f"[{number}]") for number, (M, v) in pairs)
        for number, ((below, _), (W, _)) in enumerate(pairwise(maps), 1):
            _check(
                W.shape[1] == len(below),
                f"weights[{number}] must have {len(below)} columns, the units of the layer below, "
                f"not shape {W.shape}",
            )
        rows = len(maps[-1][0])
        _check(rows > 0, "weights must end in a matrix of at least one row, an output")
        if outputs is not None:
            check_whole("outputs", outputs, 1)
            _check(
                outputs == rows,
                f"outputs must be {rows}, the rows of the last matrix, not {outputs}; "
                "or leave it out",
            )
        self._store(maps, None if outputs is None and rows == 1 else rows, activation, link)

    @property
    def weights(self) -> tuple[Array, ...]:  # type: ignore[override]
        """Weights of every layer, last of the outputs."""
        return tuple(W for W, _ in self.affine_maps)

    @property
    def biases(self) -> tuple[Array, ...]:  # type: ignore[override]
        """Biases of every layer, last of the outputs."""
        return tuple(b for _, b in self.affine_maps)

    def layer(self, number: int) -> Network:
        """A hidden layer, counted from 0, as a network whose outputs feed the next, in rows."""
        self._check_layer(number)
        return self._layer(self.affine_maps, number)

    def _layer(self, maps: Sequence[AffineMap], number: int) -> Network:
        (W, b), (A, c) = maps[number : number + 2]
        link = self.link if number == self.layers - 1 else "identity"
        return Network(W, b, A, c, self.activation, link=link)

    def rewritten(self, rewrite: Callable[[Network], Network]) -> Self:
        """See `Network.rewritten`; a layer must not get a linear term."""
        maps, activation = list(self.affine_maps), self.activation
        for number in range(self.layers):
            layer = rewrite(self._layer(maps, number))
            assert layer.linear is None
            maps[number : number + 2] = layer.affine_maps
            activation = layer.activation
        weights, biases = zip(*maps, strict=True)
        return self.replace(weights=weights, biases=biases, activation=activation)

    def replace(self, **changes: Any) -> Self:
        """A copy with some of the constructor's arguments changed."""
        rows_of_one = 1 if self.outputs == 1 else None
        return super().replace(**{"outputs": rows_of_one, **changes})

    @staticmethod
    def of(network: Network) -> DeepNetwork:
        """A network with one hidden layer as a deep one; it must not have a linear term."""
        _check(
            network.linear is None,
            "linear term has no place in a DeepNetwork: write it as units, or use "
            "replace(linear=None)",
        )
        (W, b), (A, c) = network.affine_maps
        sigma, outputs, link = network.activation, network.outputs, network.link
        return DeepNetwork([W, A], [b, c], sigma, outputs=outputs, link=link)


def probabilities(u: Array, link: str) -> Array:
    """What outputs (n,) or (n, outputs) mean under a link that is not the identity."""
    if link == "softmax":
        return np.asarray(softmax(u, axis=1))
    if u.ndim == 2 and u.shape[1] > 1:
        return np.asarray(expit(u))
    z = u.reshape(-1, 1)
    return np.hstack([expit(-z), expit(z)])


def free_outputs(outputs: int | None, link: str) -> int:
    """How many output weights of a unit the function determines."""
    return (outputs or 1) - (link == "softmax")


def _affine_map(weights: Any, biases: Any, mark: str = "") -> AffineMap:
    """One layer; biases that are None are 0."""
    W = _array(weights, f"weights{mark}", (2,))
    b = _array(np.zeros(len(W)) if biases is None else biases, f"biases{mark}", (1,))
    _check(b.shape == (len(W),), f"biases{mark} must have shape ({len(W)},), not {b.shape}")
    return W, b


def _items(value: Any, name: str, of: str) -> list[Any]:
    """The items of any sequence, but not the letters of a string."""
    _check(
        np.iterable(value) and not isinstance(value, (str, bytes)),
        f"{name} must be a list of {of}, one per layer, not {type(value).__name__}",
    )
    return list(value)


def _array(value: Any, name: str, ndims: tuple[int, ...]) -> Array:
    """A read-only copy, of finite numbers in one of these numbers of dimensions."""
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
