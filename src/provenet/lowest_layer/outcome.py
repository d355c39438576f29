"""From a layer that was found to a recovery: what samples say of it, those most that no fit saw.

A layer under a polynomial predicts labels, so it is judged like any network: exact if every label
comes out to the last digits, within noise if what is left depends on nothing that was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.lowest_layer.fit import LayerFit
from provenet.lowest_layer.user_layer import UserLayer, on_user_inputs
from provenet.networks.layered import LayeredNetwork, unit_values

Notes = Callable[[LayeredNetwork], tuple[str, ...]]

_LAST_DIGITS = 1e-10
"""Error of a label, over its size and the labels' spread, that is none."""
_SINGLE_PRECISION = 2.0**-22
_UNLIKELY = 1e-4
_NOISE_OFF, _FITTED_NOISE_OFF = 0.05, 0.02
_SIGMAS = 4.0
_AMBIGUITIES = {
    "exp": "Thresholds of exponential units are factors in the top, and are set to 0.",
    "sigmoid": "A sigmoid unit and one less its mirror image are the same: thresholds are taken "
    "to be at least 0.",
}


@dataclass(frozen=True)
class Unseen:
    """What is left of the labels of samples that no fit saw."""

    size: float
    """Its root mean square."""
    spread: float
    """Of the labels."""
    samples: int
    chance: float
    """Of so good an explanation by the units and lengths of inputs, if it is noise."""

    @property
    def relative(self) -> float:
        """Its size over the labels' spread."""
        return self.size / max(self.spread, 1e-300)

    def is_noise(self, given: float | None, fit: LayerFit) -> bool:
        """Whether it is noise: as large as was given, fitted or not, and without form.

        Without a given size it may be that of a bad minimum, which looks like noise too.
        """
        if not given or self.chance < _UNLIKELY:
            return False
        unseen = _NOISE_OFF + _SIGMAS / np.sqrt(2 * self.samples)
        fitted = _FITTED_NOISE_OFF + _SIGMAS / np.sqrt(2 * fit.samples)
        alike = abs(self.size / given - 1) < unseen and abs(fit.residual / given - 1) < fitted
        return bool(alike)


def unseen(workspace: Workspace, network: LayeredNetwork) -> Unseen:
    """Look at the held-out samples; the network is on the user's inputs."""
    X, y = workspace.held_out.X, workspace.held_out.y
    left = y - network(X)
    z = workspace.standardisation.apply(X)
    H = unit_values(network.layer, X)
    length = np.einsum("nd,nd->n", z, z)
    terms = np.column_stack([np.ones(len(y)), length, H, z, z**2])
    # As many terms as leave half of the samples to tell noise by.
    terms = terms[:, np.isfinite(terms).all(axis=0)][:, : len(y) // 2]
    size = float(np.sqrt(np.mean(left**2)))
    return Unseen(size, float(np.std(y)), len(y), _chance(terms, left))


def _chance(terms: Array, left: Array) -> float:
    """P-value of the regression (F-test)."""
    fitted = terms @ np.linalg.lstsq(terms, left, rcond=1e-10)[0]
    p, free = terms.shape[1], len(left) - terms.shape[1]
    if p < 1 or free < 1:
        return 0.0
    explained, rest = float(fitted @ fitted), float(np.sum((left - fitted) ** 2))
    return float(fdtrc(p, free, (explained / p) / max(rest / free, 1e-300)))


def wrong_labels(workspace: Workspace, network: LayeredNetwork) -> int:
    """How many labels, of all samples, are not predicted to the last digits."""
    digits = _SINGLE_PRECISION if workspace.problem.label_rounding else _LAST_DIGITS
    spread = workspace.spread  # the term may travel to other machines: not the whole workspace

    def count(X: Array, y: Array) -> int:
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(y - network(X))
        return int(np.sum(~(off <= digits * (np.abs(y) + spread))))

    return workspace.source.total(count)


def from_fit(
    workspace: Workspace,
    fit: LayerFit,
    method: str,
    notes: Notes = lambda network: (),
    ambiguities: tuple[str, ...] = (),
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
    wrong = wrong_labels(workspace, user.network)
    rounded = workspace.problem.label_rounding > 0
    exact = wrong == 0 and fit.determined and not rounded
    # Labels in single precision that come out as far as they go are exact but for their rounding.
    noisy = fit.determined and ((wrong == 0 and rounded) or seen.is_noise(workspace.noise, fit))
    status = Status.EXACT if exact else Status.WITHIN_NOISE if noisy else Status.PARTIAL
    nothing = np.zeros(user.network.units)
    family = user.network.layer.activation.family
    own = (_AMBIGUITIES[family],) if family in _AMBIGUITIES else ()
    return Recovery(
        user.units,
        status,
        _message(workspace, status, user, seen, fit, wrong),
        method,
        ambiguities=(*own, *ambiguities),
        layer=LayerEvidence(
            angle_errors=nothing if exact else user.angle_errors,
            threshold_errors=nothing if exact else user.threshold_errors,
            samples=np.full(user.network.units, fit.samples),
            exact=exact,
            way="least squares for the layer and a polynomial above it",
            notes=notes(user.network),
        ),
        layered=user.network,
    )


def _message(
    workspace: Workspace, status: Status, user: UserLayer, seen: Unseen, fit: LayerFit, wrong: int
) -> str:
    units = counted(user.network.units, "unit")
    checked = f"{seen.samples} samples that were not fitted"
    if status is Status.EXACT:
        return (
            f"{units} and the polynomial above, to machine precision: every label of "
            f"{workspace.source.size} samples, {seen.samples} of them not fitted, is predicted to "
            "the last digits."
        )
    if status is Status.WITHIN_NOISE:
        worst = np.degrees(float(user.angle_errors.max()))
        known = f"each direction within about {worst:.2g} degrees (one standard error)"
        return (
            f"{units} and the polynomial above, "
            + (known if worst else "0/1 weights beyond chance")
            + f"; what is left of {checked} is {seen.size:.3g}, and looks like noise."
        )
    if not fit.determined:
        return (
            f"{units} and a polynomial leave {seen.relative:.1e} of the spread of {checked}, but "
            "not all of their weights are determined: some unit has no effect, or two are the "
            "same. Ask for fewer units (units=)."
        )
    if seen.relative < _LAST_DIGITS:
        return (
            f"{units} and the polynomial above predict {checked} to the last digits, but not "
            f"{wrong} of all {workspace.source.size}: a product of units that fires rarely is not "
            "known. Take more samples."
        )
    noise = (
        "if labels have so much noise, say so (noise=)"
        if not workspace.noise
        else f"{seen.size / workspace.noise:.3g} times the noise given"
    )
    return (
        f"{units} and a polynomial above leave {seen.size:.3g} of {checked}, {seen.relative:.1e} "
        f"of their spread ({noise}): take more samples, or another number of units (units=); the "
        "top may be no polynomial of low degree, or the activation another."
    )
