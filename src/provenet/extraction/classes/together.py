"""From pieces and bends to a network: units, their scales and their signs.

Units that several bends tell are summed with a linear part that is left free, and the linear part
tells their signs, as everywhere. Where units were met at one bend only, a network without a linear
term is looked for instead (`scales`).

Which units are on is seen beside a piece, not on it: without an output bias outputs are zero
wherever no unit is on, and the boundary runs along the units' own hyperplanes there. The positive
side is taken, and where that explains nothing the other: zero may belong to either class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.atlas import Atlas
from provenet.extraction.classes.bends import Bends, UnitsMet, units_met
from provenet.extraction.classes.scales import (
    Equations,
    UnitSum,
    equations_to_spare,
    fitted,
    with_free_scales,
    without_linear_term,
)
from provenet.extraction.classes.sides import Sides
from provenet.extraction.deadline import Deadline
from provenet.extraction.signed import signed_units
from provenet.extraction.tolerances import BOUND
from provenet.extraction.units import Units
from provenet.networks.activations import Activation
from provenet.networks.network import Network


@dataclass(frozen=True)
class Together:
    """A network, and what is known of how it came about."""

    network: Network
    error_bound: float
    met_once: int = 0
    spare: int = 0
    others: int = 0
    alternatives: int = 0
    untried: str = ""


def put_together(
    atlas: Atlas, deadline: Deadline, activation: Activation | None, *, once: bool
) -> Together | None:
    """The network that explains all pieces; with `once`, also of units met at a single bend."""
    bends = atlas.bends
    met = units_met(bends) if len(bends.pairs) else UnitsMet(np.zeros((0, 1)), np.zeros(0, int))
    for side in (1.0, -1.0):
        equations = Equations(atlas.hyperplanes, atlas.places(side), atlas.errors)
        if (met.unit_of >= 0).all():
            found = _of_many_bends(atlas, equations, met, deadline, activation)
        else:
            found = _of_single_bends(atlas, equations, bends, met) if once else None
        if found is not None:
            return replace(found, network=_level(found, side))
    return None


def _level(found: Together, side: float) -> Network:
    """An output bias that is zero to rounding: where no unit is on, outputs are zero themselves.

    There they are of the class on the other side of the pieces that were looked at from this one.
    """
    c = float(found.network.output_bias)
    if found.network.linear is not None or abs(c) > found.error_bound:
        return found.network
    return found.network.replace(output_bias=0.0 if side > 0 else found.error_bound)


def _of_many_bends(
    atlas: Atlas,
    equations: Equations,
    met: UnitsMet,
    deadline: Deadline,
    activation: Activation | None,
) -> Together | None:
    V = met.V.reshape(-1, equations.places.shape[1])
    found = fitted(equations, equations.places @ V.T > 0, linear=True)
    if found is None or not found.explains:
        return None
    error = BOUND * (float(np.max(found.errors, initial=0.0)) + atlas.span.error)
    units = _units(atlas, found, V)
    signed = signed_units(units, error, one=True, deadline=deadline, activation=activation)
    network = _of_norm_one(_in_inputs(signed.network.layer(0), atlas.sides))
    return Together(network, error, alternatives=signed.alternatives, untried=signed.untried)


def _of_single_bends(
    atlas: Atlas, equations: Equations, bends: Bends, met: UnitsMet
) -> Together | None:
    once = np.flatnonzero(met.unit_of < 0)
    sides = _sides_of_single_bends(len(atlas.pieces), bends.pairs, once)
    if sides is None:
        return None
    known = equations.places @ met.V.T > 0 if len(met.V) else np.zeros((len(sides), 0), bool)
    sides = np.hstack([known, sides])
    solutions = without_linear_term(equations, sides)
    found = solutions[0] if solutions else with_free_scales(equations, sides)
    if found is None:
        return None
    z = np.where(found.on, 1.0, -1.0)[:1] * np.sign(equations.places[:1] @ found.V.T)
    units = _units(atlas, found, found.V * z.T)
    linear = None if solutions else units.linear[0]
    network = Network(units.W, units.b, units.A[0], units.constant[0], linear=linear)
    network = _of_norm_one(_in_inputs(network, atlas.sides))
    return Together(
        network,
        BOUND * (float(found.errors.max()) + atlas.span.error),
        met_once=len(once),
        spare=equations_to_spare(equations, found.on),
        others=max(0, len(solutions) - 1),
    )


def _sides_of_single_bends(number: int, pairs: AnyArray, once: AnyArray) -> AnyArray | None:
    """On which side of each bend the pieces lie: those joined to it by other bends.

    None where the pieces do not all hang together, or a bend does not part them.
    """
    columns = []
    for bend in once:
        labels = _components(number, np.delete(pairs, bend, axis=0))
        first, second = labels[pairs[bend]]
        if first == second or len(np.unique(labels)) > 2:
            return None
        columns.append(labels == first)
    return np.array(columns).T


def _components(number: int, pairs: AnyArray) -> AnyArray:
    ones = np.ones(len(pairs))
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(number, number))
    return np.asarray(connected_components(graph, directed=False)[1])


def _units(atlas: Atlas, found: UnitSum, on_side: Array) -> Units:
    """In coordinates of the search; rows of `on_side` point to where the units are on."""
    span = atlas.span.rows
    sign = np.where(np.sum(found.V * on_side, axis=1) >= 0, 1.0, -1.0)
    size = np.linalg.norm(found.V[:, :-1], axis=1)
    own = found.V * (sign / size)[:, None]
    linear, constant = found.L[None, :-1] @ span, found.L[-1:]
    return Units(own[:, :-1] @ span, own[:, -1], (sign * size)[None], linear, constant)


def _in_inputs(network: Network, sides: Sides) -> Network:
    """The network of the model's own inputs: its places are (x - centre) / width."""
    origin = sides.places(np.zeros(sides.features))
    slope = sides.places(np.ones(sides.features)) - origin
    linear, constant = network.linear, network.output_bias
    if linear is not None:
        linear, constant = linear * slope, constant + linear @ origin
    return network.replace(
        weights=network.weights * slope,
        biases=network.biases + network.weights @ origin,
        linear=linear,
        output_bias=constant,
    )


def _of_norm_one(network: Network) -> Network:
    """The factor that classes leave open: output weights of norm 1, rows of the weights too."""
    network = network.canonical()
    sizes = network.output_weights if network.units else network.linear
    factor = 1 / float(np.linalg.norm(np.asarray(sizes)))
    linear = None if network.linear is None else factor * network.linear
    return network.replace(
        output_weights=factor * network.output_weights,
        output_bias=factor * network.output_bias,
        linear=linear,
    )
