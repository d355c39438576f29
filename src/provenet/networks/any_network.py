"""What networks of any depth have in common, for all that serves both.

`Network` (one hidden layer, perhaps a linear term) and `DeepNetwork` (any number of hidden layers)
follow it; neither inherits from it.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self

from provenet.common.typing import Array
from provenet.networks.activations import Activation

if TYPE_CHECKING:
    from provenet.networks.network import Network

AffineMap = tuple[Array, Array]
"""A matrix (out, in) and a vector (out,): `h -> M h + v`."""


class AnyNetwork(Protocol):
    """Layers of units, one after the other, and a linear output."""

    @property
    def activation(self) -> Activation:
        """Of all units."""

    @property
    def features(self) -> int:
        """Number of inputs."""

    @property
    def outputs(self) -> int | None:
        """Number of outputs; None when labels are plain numbers."""

    @property
    def link(self) -> str:
        """How outputs become probabilities: "identity" (they do not), "logit" or "softmax"."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units of each hidden layer."""

    @property
    def layers(self) -> int:
        """Number of hidden layers."""

    @property
    def units(self) -> int:
        """Number of hidden units of all layers."""

    @property
    def free_parameters(self) -> int:
        """Parameters that the function determines."""

    @property
    def linear(self) -> Array | None:
        """A linear term beside the units, which only one hidden layer may have."""

    @property
    def affine_maps(self) -> tuple[AffineMap, ...]:
        """Weights and biases of every layer, last those of the outputs, which are in rows."""

    def layer(self, number: int) -> Network:
        """A hidden layer, counted from 0, as a network whose outputs feed the next."""

    def __call__(self, X: Any) -> Array:
        """Outputs for the rows of `X`: (n, features) -> (n,) or (n, outputs), before the link."""

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, classes), of a network with a link."""

    def canonical(self) -> Self:
        """The same function with each unit in a fixed form, and the units in a fixed order."""

    def normalised(self) -> Self:
        """The same function with each unit in a fixed form, units in the order they have."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some of the constructor's arguments changed."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a file, whole or not at all."""

    def to_onnx(self, dtype: Any = "float64") -> Any:
        """The network as an `onnx.ModelProto`."""

    def to_torch(self, dtype: Any = None) -> Any:
        """The network as a `torch.nn.Sequential`."""

    def to_mlp_regressor(self) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPRegressor`."""

    def to_mlp_classifier(self) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPClassifier`."""
