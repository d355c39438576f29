"""From a layer that was found to a recovery: what the samples that no fit saw say of it.

A layer under a polynomial predicts labels, so it is judged like any network: exact if unseen labels
come out to the last digits, within noise if what is left of them depends on nothing that was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from provenet.layer_evidence import LayerEvidence
from provenet.layer_fit import LayerFit
from provenet.layered import LayeredNetwork, unit_values
from provenet.result import Recovery, Status
from provenet.typing import Array
from provenet.user_layer import on_user_inputs
from provenet.workspace import Workspace

Notes = Callable[[LayeredNetwork], tuple[str, ...]]

_ROUNDING = 1e-8
"""Root mean square error of unseen labels, over their spread, that is exact."""
_UNLIKELY = 1e-4
_NOISE_OFF = 0.05
_SIGMAS = 4.0


@dataclass(frozen=True)
class Unseen:
    """What is left of the labels of samples that no fit saw."""

    size: float
    """Its root mean square."""
    spread: float
    """Of the labels."""
    samples: int
    chance: float
    """Of so good an explanation by linear and quadratic terms, if it is noise."""

    @property
    def rounding(self) -> bool:
        """Whether it is nothing."""
        return self.size <= _ROUNDING * self.spread

    def is_noise(self, given: float | None) -> bool:
        """Whether it is noise: as large as was given, and without form.

        Without a given size it may be that of a bad minimum, which looks like noise too.
        """
        if not given:
            return False
        slack = _NOISE_OFF + _SIGMAS / np.sqrt(2 * self.samples)
        return abs(self.size / given - 1) < slack and self.chance > _UNLIKELY


def unseen(workspace: Workspace, network: LayeredNetwork) -> Unseen:
    """Look at the held-out samples; the network is on the user's inputs."""
    X, y = workspace.held_out.X, workspace.held_out.y
    left = y - network(X)
    z = workspace.standardisation.apply(X)
    H = unit_values(network.layer, X)
    terms = np.column_stack([np.ones(len(y)), z, z**2, H])
    terms = terms[:, np.isfinite(terms).all(axis=0)]
    spread = float(np.std(y))
    return Unseen(float(np.sqrt(np.mean(left**2))), spread, len(y), _chance(terms, left))


def _chance(terms: Array, left: Array) -> float:
    """P-value of the regression (F-test)."""
    fitted = terms @ np.linalg.lstsq(terms, left, rcond=1e-10)[0]
    p, free = terms.shape[1], len(left) - terms.shape[1]
    if free < 1:
        return 0.0
    explained, rest = float(fitted @ fitted), float(np.sum((left - fitted) ** 2))
    return float(fdtrc(p, free, (explained / p) / max(rest / free, 1e-300)))


def from_fit(
    workspace: Workspace,
    fit: LayerFit,
    method: str,
    notes: Notes = lambda network: (),
    *,
    standardised: bool = True,
) -> Recovery:
    """The recovery of a layer and its polynomial; partial if unseen labels are not explained.

    `notes` says what else there is to say of the network; `standardised`, whether it was fitted on
    standardised inputs.
    """
    standardisation = workspace.standardisation if standardised else None
    user = on_user_inputs(fit.network, standardisation, fit.angle_errors, fit.threshold_errors)
    seen = unseen(workspace, user.network)
    exact = seen.rounding and fit.determined
    noisy = fit.determined and not exact and seen.is_noise(workspace.noise)
    k = user.network.units
    zero = np.zeros(k)
    evidence = LayerEvidence(
        angle_errors=zero if exact else user.angle_errors,
        threshold_errors=zero if exact else user.threshold_errors,
        samples=np.full(k, fit.samples),
        exact=exact,
        unexplained=seen.size / max(seen.spread, 1e-300),
        way="least squares for the layer and a polynomial above it",
        notes=notes(user.network),
    )
    status = Status.EXACT if exact else Status.WITHIN_NOISE if noisy else Status.PARTIAL
    message = _message(status, k, seen, fit)
    return Recovery(user.units, status, message, method, layer=evidence, layered=user.network)


def _message(status: Status, k: int, seen: Unseen, fit: LayerFit) -> str:
    checked = f"{seen.samples} samples that were not fitted"
    if status is Status.EXACT:
        return (
            f"All {k} units and the polynomial above them are recovered to machine precision: "
            f"{checked} are predicted to the last digits."
        )
    if status is Status.WITHIN_NOISE:
        worst = np.degrees(float(fit.angle_errors.max()))
        return (
            f"{k} units and the polynomial above them, each direction within about {worst:.2g} "
            f"degrees (one standard error); what is left of {checked} is {seen.size:.3g}, and "
            "looks like noise."
        )
    if not fit.determined:
        return (
            f"{k} units and a polynomial leave {seen.size / seen.spread:.1e} of the spread of "
            f"{checked}, but not all of their weights are determined: some unit has no effect, or "
            "two are the same. Ask for fewer units (units=)."
        )
    return (
        f"{k} units and a polynomial above them leave {seen.size:.3g} of {checked}, "
        f"{seen.size / seen.spread:.1e} of their spread: take more samples, or give another number "
        "of units (units=); if labels have so much noise, say so (noise=); the top may be no "
        "polynomial of low degree, or the activation another."
    )
