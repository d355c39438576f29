"""Rows of `extraction.py` with several hidden layers, beside the published attacks.

A random network is named by its widths, inputs first: weights N(0, 1/fan-in), biases N(0, 0.3^2).
A trained one is scikit-learn's MLPRegressor on standardised data, named by the data and its hidden
layers; classes are columns of zeros and ones. Neither depth nor widths are told.

*exact* counts answers that say so; *to 1e-8* those with every parameter as near as that, whatever
they say (parameters of units that are never on, at 80,000 inputs near and far, are not asked for);
*function* answers that are a whole network and predict fresh standard normal inputs to 1e-8 of the
answers' spread; *wrong* answers that call themselves exact and are not both; *beyond its bound*
those with all units that call themselves exact and have a larger error than they state. *off at* is
the largest share of fresh inputs at which an answer called exact is off, to be held against the
share that its certificate allows: a unit that is hardly ever on may be missing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import provenet as pn
from common import markdown_head, markdown_row
from provenet.certify.checks import Claim
from provenet.common.typing import Array
from provenet.networks.network import Network
from trials import report

BIAS_SCALE = 0.3
ALLOWED_ERROR = 1e-8
FRESH, BLOCK, BLOCKS = 5000, 20_000, 10
"""Fresh inputs that judge the function; how many more, in blocks, count where it is off."""
LIVING_AT = (1.0, 3.0, 10.0, 30.0)
"""Scales of the blocks of inputs, one each, at which a unit that is never on is dead."""
TRAINING_ROUNDS = 500

CJM20 = "Carlini, Jagielski, Mironov, CRYPTO 2020"
FOERSTER24 = "Foerster et al. 2024: 98 minutes for 16,721 parameters in two hidden layers, MNIST"
PUBLISHED_QUERIES = {
    (10, 10, 10, 1): 2**16.0,
    (10, 20, 20, 1): 2**17.1,
    (40, 20, 10, 10, 1): 2**17.8,
    (80, 40, 20, 1): 2**18.5,
}
"""Of CJM20, by widths."""

TITLES = (
    "network",
    "parameters",
    "exact",
    "to 1e-8",
    "function",
    "wrong",
    "beyond its bound",
    "off at",
    "queries (median)",
    "a parameter",
    "published queries",
    "times more",
    "processor s (median)",
    "largest error of exact",
)


@dataclass(frozen=True)
class Secret:
    """A network, and how it is asked."""

    network: pn.DeepNetwork
    model: Callable[[Array], Array]


@dataclass(frozen=True)
class RandomLayers:
    """Networks of given widths, inputs and outputs included."""

    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        """In a table."""
        return "-".join(map(str, self.widths))

    @property
    def published(self) -> float | None:
        """Queries of the published attack."""
        return PUBLISHED_QUERIES.get(self.widths)

    def secret(self, seed: int) -> Secret:
        """The network of a seed."""
        rng = np.random.default_rng([seed, *self.widths])
        weights = [
            rng.standard_normal((above, below)) / np.sqrt(below)
            for below, above in pairwise(self.widths)
        ]
        biases = [BIAS_SCALE * rng.standard_normal(above) for above in self.widths[1:]]
        network = pn.DeepNetwork(weights, biases, "relu")
        return Secret(network, network)


DATA: dict[str, Callable[..., tuple[Array, Array]]] = {
    "diabetes": load_diabetes,
    "digits": load_digits,
    "breast-cancer": load_breast_cancer,
}


def _targets(name: str, y: Array) -> Array:
    """Standardised; digits as ten columns of zeros and ones."""
    if name == "digits":
        return np.asarray(np.eye(10)[y.astype(int)])
    return np.asarray((y - y.mean()) / y.std())


@dataclass(frozen=True)
class TrainedLayers:
    """MLPRegressor with several hidden layers, fitted to data."""

    data: str
    hidden: tuple[int, ...]
    published: None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """In a table."""
        return f"trained on {self.data}, {'-'.join(map(str, self.hidden))}"

    def secret(self, seed: int) -> Secret:
        """The network that a seed leads to; `predict` is asked."""
        X, y = DATA[self.data](return_X_y=True)
        fit = MLPRegressor(
            hidden_layer_sizes=self.hidden, max_iter=TRAINING_ROUNDS, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit.fit(StandardScaler().fit_transform(X), _targets(self.data, y))
        outputs = None if fit.n_outputs_ == 1 else fit.n_outputs_
        network = pn.DeepNetwork(
            [W.T for W in fit.coefs_], list(fit.intercepts_), "relu", outputs=outputs
        )
        return Secret(network, fit.predict)


LayersRow = RandomLayers | TrainedLayers

DEEP: tuple[RandomLayers, ...] = tuple(
    map(
        RandomLayers,
        (
            *PUBLISHED_QUERIES,
            (64, 32, 16, 1),
            (784, 32, 16, 1),
            (100, 40, 16, 8, 4),
            (64, *(16,) * 8, 1),
            (64, *(8,) * 8, 1),
        ),
    )
)
TRAINED: tuple[TrainedLayers, ...] = (
    TrainedLayers("diabetes", (16, 8)),
    TrainedLayers("digits", (32, 16)),
    TrainedLayers("breast-cancer", (16, 8)),
    TrainedLayers("diabetes", (16, 8, 8)),
    TrainedLayers("digits", (32, 16, 8)),
    TrainedLayers("breast-cancer", (16, 8, 8)),
)


@dataclass(frozen=True)
class LayersTrial:
    """What one extraction gave."""

    status: str
    exact: bool
    near: bool
    """Every parameter to `ALLOWED_ERROR`."""
    function: bool
    queries: int
    parameters: int
    error: float
    bound: float | None
    """What the answer says of its error."""
    off: float
    """Share of fresh inputs at which it is off; 1 without a whole network."""
    seconds: float
    """Of processor time."""
    message: str

    @property
    def wrong(self) -> bool:
        """It calls itself exact and is not."""
        return self.exact and not (self.near and self.function)

    @property
    def beyond(self) -> bool:
        """It has all units, calls itself exact and is off by more than it says."""
        return self.exact and self.bound is not None and self.bound < self.error < np.inf


def _errors(found: Network, truth: pn.DeepNetwork, rng: np.random.Generator, n: int) -> Array:
    """On fresh inputs, the largest of all outputs, beside the spread of the answers."""
    X = rng.standard_normal((n, truth.features))
    answers = truth(X)
    errors = np.abs(found(X) - answers).reshape(n, -1).max(axis=1)
    return np.asarray(errors / np.std(answers))


def _is_function(found: Network, truth: pn.DeepNetwork, seed: int) -> bool:
    rng = np.random.default_rng([seed, FRESH])
    return bool(np.all(_errors(found, truth, rng, FRESH) <= ALLOWED_ERROR))


def _share_off(found: Network, truth: pn.DeepNetwork, seed: int) -> float:
    rng = np.random.default_rng([seed, BLOCK])
    off = [np.mean(_errors(found, truth, rng, BLOCK) > ALLOWED_ERROR) for _ in range(BLOCKS)]
    return float(np.mean(off))


def _living(truth: pn.DeepNetwork) -> pn.DeepNetwork:
    """Without units that are never on: no answer tells their weights."""
    rng = np.random.default_rng(FRESH)
    X = np.vstack([s * rng.standard_normal((BLOCK, truth.features)) for s in LIVING_AT])
    weights, biases = map(list, zip(*truth.affine_maps, strict=True))
    for number in range(truth.layers):
        on = (truth.values(X, number) > 0).any(axis=0)
        weights[number], biases[number] = weights[number][on], biases[number][on]
        weights[number + 1] = weights[number + 1][:, on]
    return truth.replace(weights=tuple(weights), biases=tuple(biases))


def layers_trial(row: LayersRow, seed: int, seconds: float | None = None) -> LayersTrial:
    """Extract one network, of which nothing is told but the number of inputs."""
    secret = row.secret(seed)
    truth = secret.network
    begin = time.process_time()
    result = pn.extract(secret.model, truth.features, seconds=seconds, rng=seed)
    took = time.process_time() - begin
    found = result.network if result.claim is Claim.NETWORK else None
    error = float("inf") if found is None else pn.parameter_error(found, _living(truth))
    return LayersTrial(
        status=str(result.status),
        exact=result.success,
        near=error <= ALLOWED_ERROR,
        function=found is not None and _is_function(found, truth, seed),
        queries=result.queries or 0,
        parameters=truth.free_parameters,
        error=error,
        bound=None if result.certificate is None else result.certificate.parameter_error_bound,
        off=1.0 if found is None else _share_off(found, truth, seed),
        seconds=took,
        message=result.message,
    )


def layers_cells(row: LayersRow, trials: list[LayersTrial]) -> list[str]:
    """A line of the table."""
    queries = float(np.median([done.queries for done in trials]))
    parameters = trials[0].parameters
    errors = [done.error for done in trials if done.exact and np.isfinite(done.error)]
    off = [done.off for done in trials if done.exact]
    return [
        row.name,
        f"{parameters:,}",
        f"{sum(done.exact for done in trials)} of {len(trials)}",
        f"{sum(done.near for done in trials)}",
        f"{sum(done.function for done in trials)}",
        f"{sum(done.wrong for done in trials)}",
        f"{sum(done.beyond for done in trials)}",
        f"{max(off):.0e}" if off else "",
        f"{queries:,.0f}",
        f"{queries / parameters:.1f}",
        f"{row.published:,.0f}" if row.published else "",
        f"{row.published / queries:.1f}" if row.published and off else "",
        f"{np.median([done.seconds for done in trials]):.1f}",
        f"{max(errors):.0e}" if errors else "",
    ]


def print_layers(rows: Iterable[LayersRow], seeds: Iterable[int], seconds: float | None) -> None:
    """The table; each trial on the way, with what an answer that is not exact says."""
    print(markdown_head(TITLES))
    for row in rows:
        trials = []
        for seed in seeds:
            done = layers_trial(row, seed, seconds)
            wrong = ", WRONG" if done.wrong else ", BEYOND ITS BOUND" if done.beyond else ""
            bound = np.nan if done.bound is None else done.bound
            said = "" if done.exact else f": {done.message}"
            report(
                f"{row.name}, seed {seed}: {done.status}{wrong}, error {done.error:.1e}, "
                f"said {bound:.1e}, off at {done.off:.1e}, {done.queries:,} queries, "
                f"{done.seconds:.1f} s{said}"
            )
            trials.append(done)
        print(markdown_row(layers_cells(row, trials)), flush=True)
    print(f"\nPublished queries: {CJM20}. Published time: {FOERSTER24}.", flush=True)
