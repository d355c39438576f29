"""The network that the output of an ONNX graph is, put together from the output down.

The layers of units in a value are side by side: they make one layer of the network, whose
arguments, stacked, are the value to go on with. If not all of them are as far from the input, it
turns up on the way down beside units that are further, and the graph is refused. Only a single
hidden layer may have a linear term beside it.

A Sigmoid of the outputs, or the two columns `1 - p` and `p` that scikit-learn makes of it, is a
logit; but a Sigmoid of the inputs' linear functions alone is a layer of units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from provenet.networks.activations import Activation
from provenet.networks.formats.onnx_values import Layer, NotReadable, Value, dense, stacked
from provenet.networks.network import AffineMap, DeepNetwork, Network


def network_of_output(output: Value, keep_row: bool = False) -> Network:
    """The network whose outputs these are; one output gives plain labels unless kept a row."""
    output, link = _without_link(output)
    if not output.depth:
        raise NotReadable("has no layer of units, only linear functions")
    maps, kinds, value = [], [], output
    while value.depth:
        layers = _side_by_side(value, linear=output.depth == 1)
        maps.append(_map(value, layers))
        kinds.append(_one_kind(layers))
        value = stacked([layer.argument for layer in layers])
    maps.append(_map(value, [None]))
    weights, biases = zip(*reversed(maps), strict=True)
    rows = 1 if keep_row and output.width == 1 else None
    network = DeepNetwork(weights, biases, _same_in_all(kinds), outputs=rows, link=link)
    return network if network.layers > 1 else _with_linear_term(network, output)


def _without_link(output: Value) -> tuple[Value, str]:
    """The outputs before the link, and which it is."""
    if output.link != "identity":
        return replace(output, link="identity"), output.link
    layers = list(output.parts)
    last = layers[0] if len(layers) == 1 else None
    if last is None or last.activation.name != "sigmoid" or not last.argument.depth:
        return output, "identity"
    M, c = output.parts[last], output.constant
    plain = M.ndim == 0 and M == 1 and not c.any()
    two = M.shape == (2, 1) and (M == [[-1.0], [1.0]]).all() and np.array_equal(c, [1.0, 0.0])
    return (last.argument, "logit") if plain or two else (output, "identity")


def _with_linear_term(network: DeepNetwork, output: Value) -> Network:
    """A network with one hidden layer, and what of the output is linear."""
    one = network.as_one_layer()
    if None not in output.parts:
        return one
    V = dense(output.parts[None], output.width)
    return one.replace(linear=V[0] if one.outputs is None else V)


def _side_by_side(value: Value, linear: bool) -> list[Layer]:
    """The layers in a value, beside which there is nothing but, perhaps, a linear term."""
    if None in value.parts and not linear:
        raise NotReadable("has a shortcut around a hidden layer")
    return [layer for layer in value.parts if layer is not None]


def _one_kind(layers: Iterable[Layer]) -> Activation:
    kinds = {layer.activation.name: layer.activation for layer in layers}
    if len(kinds) > 1:
        raise NotReadable(f"has units of several kinds in one layer ({_listed(kinds)})")
    (kind,) = kinds.values()
    return kind


def _same_in_all(kinds: Sequence[Activation]) -> Activation:
    """Of layers in the order from the output down."""
    names = dict.fromkeys(kind.name for kind in reversed(kinds))
    if len(names) > 1:
        raise NotReadable(f"has layers of different units, one after the other ({_listed(names)})")
    return kinds[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _map(value: Value, layers: Sequence[Layer | None]) -> AffineMap:
    """What a value makes of these layers, or of the input: one matrix for all, and a constant."""
    M = np.hstack([dense(value.parts[layer], value.width) for layer in layers])
    return M, np.broadcast_to(value.constant, (value.width,))
