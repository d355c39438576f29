"""Fits of what lies above known units, to their values (GP19, appendix E)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.lowest_layer.tolerances import (
    STANDS_OUT,
    TOP_FEWEST_SEEN,
    TOP_HELD_OUT,
    TOP_MOST_DRAWN,
    TOP_MOST_FITTED,
    TOP_MOST_TERMS,
    TOP_ROUNDING,
)
from provenet.networks.layered import LayeredNetwork, Polynomial, Top, unit_values
from provenet.networks.network import Network


@dataclass(frozen=True)
class LearnedTop:
    """A network end to end, and how well it predicts samples that were not fitted."""

    network: LayeredNetwork
    r2: float
    """Share of the labels' variance on held-out samples that is explained."""
    samples_held_out: int

    def __call__(self, X: Array) -> Array:
        """Predictions end to end."""
        return self.network(X)


def fit_top(
    source: Source, layer: Network, top: Any, degree: int, rng: np.random.Generator
) -> LearnedTop:
    """Learn the top on a draw of the source's samples, and try it on others of them."""
    drawn = source.draw(min(source.size, TOP_MOST_DRAWN), rng)
    H, labels = unit_values(layer, drawn.X), drawn.y
    held = max(1, int(TOP_HELD_OUT * len(labels)))
    rows = held + _telling(H[held:])
    fitted = _fit(top, H[rows], labels[rows], degree, steps=layer.activation.degree == 0)
    rest = labels[:held] - fitted(H[:held])
    r2 = 1 - float(np.mean(rest**2)) / max(float(np.var(labels[:held])), 1e-300)
    return LearnedTop(LayeredNetwork(layer, fitted), r2, held)


def _telling(H: Array) -> AnyArray:
    """Samples to fit: first those on which most units fire, which are the rarest."""
    order = np.argsort(-np.count_nonzero(H, axis=1), kind="stable")
    silent = order[TOP_MOST_FITTED:][: TOP_MOST_FITTED // 10]
    return np.concatenate([order[:TOP_MOST_FITTED], silent])


def _fit(top: Any, H: Array, y: Array, degree: int, steps: bool) -> Top:
    if isinstance(top, str):
        if top != "polynomial":
            raise InvalidInput(
                f'top is "polynomial" or a regressor with fit and predict, not {top!r}.'
            )
        return sparse_polynomial(H, y, degree, steps=steps)
    if not (hasattr(top, "fit") and hasattr(top, "predict")):
        raise InvalidInput(
            f'top is "polynomial" or a regressor with fit and predict, not a {type(top).__name__}.'
        )
    regressor = top.fit(H, y)

    def predict(values: Array) -> Array:
        return np.asarray(regressor.predict(values), dtype=float)

    return predict


def sparse_polynomial(H: Array, y: Array, degree: int, *, steps: bool = False) -> Polynomial:
    """Least squares over the monomials that the samples show, those that matter kept.

    `steps` says that units are 0 or 1, so that their powers are themselves.
    """
    units = H.shape[1]
    fires = np.any(H != 0, axis=1)
    terms = [monomial for monomial in _monomials(units, degree, steps) if _seen(H, monomial)]
    if len(terms) > TOP_MOST_TERMS:
        raise InvalidInput(
            f"{len(terms)} monomials of degree {degree} are too many for least squares: lower "
            "degree=, or give a regressor as top=."
        )
    constant = float(np.median(y[~fires])) if (~fires).sum() > fires.sum() else None
    rows = fires if constant is not None else np.ones(len(y), dtype=bool)
    target = y[rows] - (constant or 0.0)
    columns = np.column_stack([np.prod(H[rows][:, list(term)], axis=1) for term in terms])
    if constant is None:
        terms, columns = [(), *terms], np.column_stack([np.ones(len(target)), columns])
    keep, beta = _significant(columns, target)
    found = {terms[i]: b for i, b in zip(keep, beta, strict=True)}
    if constant:
        found[()] = constant
    return Polynomial(units, found)


def _monomials(units: int, degree: int, steps: bool) -> Iterator[tuple[int, ...]]:
    for d in range(1, degree + 1):
        for term in combinations_with_replacement(range(units), d):
            if not steps or len(set(term)) == len(term):
                yield term


def _seen(H: Array, monomial: tuple[int, ...]) -> bool:
    return int(np.count_nonzero(np.all(H[:, list(set(monomial))] != 0, axis=1))) >= TOP_FEWEST_SEEN


def _significant(columns: Array, y: Array) -> tuple[AnyArray, Array]:
    """Backward elimination: refit without what does not stand out, until all that is left does.

    One factorisation of the samples; every refit after it is on a matrix of terms x terms.
    """
    size = np.linalg.norm(columns, axis=0)
    Q, R = np.linalg.qr(columns / size)
    z = Q.T @ y
    outside = max(float(y @ y - z @ z), 0.0)
    least = TOP_ROUNDING * float(np.linalg.norm(y))
    keep = np.arange(len(size))
    while True:
        beta, *_ = np.linalg.lstsq(R[:, keep], z, rcond=1e-12)
        rest = z - R[:, keep] @ beta
        noise = np.sqrt((outside + rest @ rest) / max(len(y) - len(keep), 1))
        spread = np.sqrt(np.sum(np.linalg.pinv(R[:, keep]) ** 2, axis=1))
        stands = np.abs(beta) > np.maximum(STANDS_OUT * noise * spread, least)
        if stands.all() or not stands.any():
            return keep, np.asarray(beta / size[keep], dtype=float)
        keep = keep[stands]
