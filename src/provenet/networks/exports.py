"""What a network of any depth can be written as: files, and models of other programs."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from provenet.networks import formats as network_formats

if TYPE_CHECKING:
    from provenet.networks.any_network import AnyNetwork


class Exports:
    """The writing half of a network."""

    def save(self: AnyNetwork, path: str | PathLike[str]) -> None:
        """Write the network to an .npz, .safetensors or .onnx file, whole or not at all."""
        network_formats.save_network(self, path)

    def to_onnx(self: AnyNetwork, dtype: Any = "float64") -> Any:
        """The network as an `onnx.ModelProto`, in double precision or in `float32`.

        onnxruntime runs units `gelu` and `erf` in `float32` only.
        """
        from provenet.networks.formats.onnx_writer import to_onnx

        return to_onnx(self, dtype)

    def to_torch(self: AnyNetwork, dtype: Any = None) -> Any:
        """The network as a `torch.nn.Sequential`, in `torch.float64` or the dtype given.

        Units `|z|` become ReLU units and a linear term two units for each output, so there may be
        more units than here.
        """
        from provenet.networks.formats.torch_sequential import to_torch

        return to_torch(self, dtype)

    def to_mlp_regressor(self: AnyNetwork) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPRegressor`.

        Leaky units, `|z|` and a linear term become ReLU units, so there may be more units than
        here.
        """
        from provenet.networks.formats.mlp_regressor import to_mlp_regressor

        return to_mlp_regressor(self)

    def to_mlp_classifier(self: AnyNetwork) -> Any:
        """The network as a fitted `sklearn.neural_network.MLPClassifier` of classes 0, 1, ...

        It needs a link, "logit" with one output or "softmax"; units as of `to_mlp_regressor`.
        """
        from provenet.networks.formats.mlp_classifier import to_mlp_classifier

        return to_mlp_classifier(self)
