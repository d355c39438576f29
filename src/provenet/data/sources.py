"""Where samples come from: one protocol, `Source`, and the sources of this process.

Algorithms reach samples (x, y) through sums over all of them and draws of some of them, and never
learn whether these are arrays, files (`data.files`), a Dask cluster (`data.dask`), a queried
function, or the population of a known network. A source declares what else it can do, so no caller
checks its class.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import AnyArray, Array, Seed, row_blocks
from provenet.common.words import WORDS_ARE_CLASSES, counted
from provenet.data.labels import LabelPrecision, before_link, check_probabilities
from provenet.data.passes import Sum, Term, add_up, rows_per_block, sum_over, workers
from provenet.data.standardisation import LinearSums, Standardisation, standardisation_from
from provenet.networks.network import Network

Result = TypeVar("Result")
Job = Callable[[Callable[[], bool]], Result]
"""Work that receives a function which says whether its result is still wanted."""


@dataclass(frozen=True)
class Draw:
    """Samples drawn at random from a source."""

    X: Array
    y: Array
    rows: AnyArray | None = None
    """Their numbers in the source; None for fresh samples."""
    precision: LabelPrecision | None = None
    """Of the labels, if the source knows it."""


class Source(ABC):
    """Samples (x, y), reached only through sums over all of them and draws of some of them.

    A subclass gives `rows` and `draw`; sums follow. A source whose samples are elsewhere adds them
    up there (`partial_total`).
    """

    features: int
    size: int
    feature_names: tuple[str, ...] = ()
    """Names of the inputs, if they have any."""
    fixed: bool = True
    """Whether the samples are given; otherwise the source makes as many as are wanted."""
    outputs: int | None = None
    """Number of outputs; None when labels are plain numbers."""
    population: Network | None = None
    """The network whose population this is: its moments have no sampling error."""
    biased: bool = False
    """Whether inputs were kept with probability proportional to their labels (GP19, B.6)."""
    inputs_alone: bool = False
    """Whether this is all that is known of the labels, which then read 1."""
    queryable: bool = False
    """Whether `query` answers inputs of the caller's choice."""
    memory_limit: int = 2**31
    """Bytes that a method may hold at once: a few copies of them still fit an ordinary machine."""
    in_memory: bool = False
    """Whether all rows are arrays of this process, cheap to read again in any order."""

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of one sample's label: () or (outputs,)."""
        return () if self.outputs is None else (self.outputs,)

    @property
    def labels(self) -> int:
        """How many numbers the labels are: samples times outputs."""
        return self.size * (self.outputs or 1)

    @property
    def bytes(self) -> int:
        """Bytes of all samples as float64."""
        return 8 * (self.size * self.features + self.labels)

    @property
    def holdable(self) -> bool:
        """Whether a method may hold all samples at once."""
        return self.bytes <= self.memory_limit

    @property
    def block_rows(self) -> int:
        """Rows of a block of a pass, if a term computes 4 kB for each row."""
        return rows_per_block(max(8 * (self.features + (self.outputs or 1)), 4096))

    def query(self, X: Array) -> Array:
        """Labels of inputs of the caller's choice, (n,) or (n, outputs), if this is `queryable`."""
        raise InvalidInput("These samples are given, and no others can be had: give a QuerySource.")

    @abstractmethod
    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Samples `start` to `stop` as float64 arrays (n, features) and (n,) or (n, outputs)."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` samples at random without replacement (fresh ones if the source can make them)."""

    def total(self, term: Term[Sum], rows: int | None = None) -> Sum:
        """The sum of `term(X, y)` over all samples, `rows` at a time, on all cores.

        `term` returns anything that can be added. If it is a named function, or a partial of one,
        the pass can be checkpointed and run on other machines.
        """
        return add_up(self, term, self.block_rows if rows is None else rows)

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The sum over samples `start` to `stop`."""
        blocks = [slice(start + b.start, start + b.stop) for b in row_blocks(stop - start, rows)]
        return sum_over(blocks, lambda block: term(*self.rows(block.start, block.stop)))

    def stretches(self, rows: int) -> list[slice]:
        """All samples, cut where a pass is reported and checkpointed: whole blocks of every pass,
        32 MB or more, and eight blocks or more for each thread, since all wait at the end."""
        length = max(8 * rows * workers(), 2**25 * self.size // self.bytes)
        whole = max(rows, rows_per_block(0))
        return list(row_blocks(self.size, -(-length // whole) * whole))

    @property
    def jobs_at_once(self) -> int:
        """Number of long jobs to give to `side_by_side` at once."""
        return 1

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        """Results, in order, of jobs that need none of the samples, run where the samples are."""
        return (job(lambda: True) for job in jobs)

    def linear_sums(self) -> tuple[LinearSums, Array, Array]:
        """First and second moments of (x, y) about an origin near the mean, and that origin."""
        X, y = self.rows(0, min(self.size, 4096))
        origin, label_origin = X.mean(axis=0), y.mean(axis=0)
        term = partial(LinearSums.of, origin=origin, label_origin=label_origin)
        return self.total(term), origin, label_origin

    def standardisation(self) -> Standardisation:
        """Mean and covariance of the inputs, linear regression of the labels, in one pass."""
        return standardisation_from(*self.linear_sums())


# ---------------------------------------------------------------- arrays


def as_numbers(data: Any, name: str) -> AnyArray:
    """Real numbers as an array, without a copy where that is possible (memory-mapped files)."""
    try:
        array: AnyArray = np.asanyarray(data)
        array = array.astype(float) if array.dtype.kind == "O" else array
        masked = isinstance(array, np.ma.MaskedArray)
        if array.dtype.kind in "fiub" and not masked:
            return array
        found = "a masked array" if masked else array.dtype.name
    except (TypeError, ValueError, RuntimeError) as error:  # torch refuses with the last
        found = str(error).rstrip(".")
    way_out = WORDS_ARE_CLASSES if name == "y" and "str" in found else "convert it"
    raise InvalidInput(f"{name} must hold real numbers ({found}): {way_out}.")


def check_samples(X: Any, y: Any, X_name: str = "X", y_name: str = "y") -> None:
    """Raise unless two arrays of any kind are (samples, features) and (samples,) or (samples,
    outputs) of real numbers."""
    for array, name in ((X, X_name), (y, y_name)):
        if array.dtype.kind not in "fiub":
            raise InvalidInput(f"{name} must hold real numbers, not {array.dtype}: convert it.")
    if len(X.shape) != 2:
        raise InvalidInput(
            f"{X_name} must have two dimensions, not {len(X.shape)}: reshape(-1, 1) one feature."
        )
    if len(y.shape) not in (1, 2):
        raise InvalidInput(
            f"{y_name} must have shape (samples,) or (samples, outputs), not {y.shape}: reshape it."
        )
    if X.shape[0] != y.shape[0]:
        raise InvalidInput(
            f"{X_name} has {X.shape[0]} samples but {y_name} has {y.shape[0]}: give a row for each."
        )
    if 0 in (*X.shape, *y.shape):
        shapes = f"{X_name} has shape {X.shape}, {y_name} {y.shape}"
        raise InvalidInput(f"{shapes}: there is nothing to learn from.")


class ArraySource(Source):
    """Rows of `X` with labels `y`, in memory or memory-mapped; only rows in use are copied."""

    in_memory = True
    precision: LabelPrecision | None = None
    """Of the labels, if it is known."""

    def __init__(self, X: AnyArray, y: AnyArray) -> None:
        """Hold references to the arrays; nothing is read yet (lists become arrays)."""
        self.X, self.y = np.asanyarray(X), np.asanyarray(y)
        self.size, self.features = len(self.X), int(self.X.shape[-1])
        self.outputs = None if self.y.ndim == 1 else int(self.y.shape[1])

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64, copied only if they are of another type."""
        return np.asarray(self.X[start:stop], float), np.asarray(self.y[start:stop], float)

    def columns(self, which: AnyArray) -> ArraySource:
        """The same samples with some of their inputs."""
        source = ArraySource(self.X[:, which], self.y)
        if self.feature_names:
            source.feature_names = tuple(np.array(self.feature_names, dtype=object)[which])
        return source

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, or all rows in random order when `n` is as many as there are."""
        drawn = draw_rows(self._pick, self.size, n, rng)
        if self.precision is None or drawn.rows is None:
            return drawn
        return replace(drawn, precision=self.precision.of(drawn.rows))

    def _pick(self, rows: AnyArray) -> tuple[Array, Array]:
        X, y = np.empty((len(rows), self.features)), np.empty((len(rows), *self.label_shape))
        for block in row_blocks(len(rows), 1000):
            X[block], y[block] = self.X[rows[block]], self.y[rows[block]]
            self._release(int(rows[block][0]), int(rows[block][-1]) + 1)
        return X, y

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The sum over samples `start` to `stop`, releasing what was read of a memory map."""
        total = super().partial_total(term, start, stop, rows)
        self._release(start, stop)
        return total

    def _release(self, start: int, stop: int) -> None:
        """Release the pages of rows of a mapped file: they count as memory of the process."""
        for array in (self.X, self.y):
            if not (isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)):
                continue  # not a map, or part of one
            if array.mode == "r" and hasattr(array.base, "madvise"):
                origin = array.offset % mmap.ALLOCATIONGRANULARITY
                first = origin + start * array.strides[0]
                first -= first % mmap.PAGESIZE
                last = min(origin + stop * array.strides[0], len(array.base))
                array.base.madvise(mmap.MADV_DONTNEED, first, last - first)


def draw_rows(
    pick: Callable[[AnyArray], tuple[Array, Array]], size: int, n: int, rng: np.random.Generator
) -> Draw:
    """`n` of `size` rows at random, in random order; `pick` reads rows of increasing number."""
    if size <= 10**6 or n >= size:
        chosen = rng.permutation(size)[:n]
    else:  # without a list of them all
        chosen = rng.choice(size, n, replace=False)
    order = np.argsort(chosen)  # sequential reads for files
    X, y = pick(chosen[order])
    back = np.argsort(order)
    return Draw(X[back], y[back], chosen)


class LinkedSource(ArraySource):
    """Samples labelled with probabilities, as samples of the outputs before the link that these
    determine."""

    def __init__(self, source: Source, link: str) -> None:
        """Reads all samples; raises unless their labels are probabilities."""
        if not (source.fixed and source.holdable):
            raise InvalidInput(
                "link= needs given samples that fit into memory: take fewer, use provenet.extract "
                "for a function, or give log-odds and link='identity'."
            )
        X, y = source.rows(0, source.size)
        check_probabilities(y, link)
        u, self.precision, kept = before_link(y, link)
        super().__init__(X[kept], u)
        if self.size < self.features + 2:
            lost = f"{source.size - self.size:,} of {counted(source.size, 'label')}"
            raise NoAnswer(
                f"{lost} are too near 0 or 1 to determine the outputs: take inputs nearer to the "
                "boundary between the classes, or probabilities of more digits."
            )


class BiasedSource(ArraySource):
    """Samples whose inputs were standard normal before they were kept by their labels.

    Where labels are tiny nearly everywhere, as under sigmoid units of high threshold, an oracle may
    draw standard normal inputs and keep each with probability proportional to `f(x)` (GP19,
    appendix B.6). Then `E_kept[h(x)] = E[f(x) h(x)] / E[f]`. Give the labels if they are known:
    least squares fits them, and they decide on success. Inputs alone have only moments (method
    "lowest-layer"), so the answer is at best partial; their labels read 1.
    """

    fixed = False
    biased = True
    in_memory = False

    def __init__(self, X: AnyArray, y: AnyArray | None = None) -> None:
        """Inputs (n, features) that were kept and, if known, their labels (n,), all above 0."""
        self.inputs_alone = y is None
        X = as_numbers(X, "X")
        y = np.ones(len(X)) if y is None else as_numbers(y, "y")
        check_samples(X, y)
        if y.ndim != 1 or not (np.isfinite(X).all() and np.all((y > 0) & np.isfinite(y))):
            raise InvalidInput(
                "Inputs must be finite, and labels they were kept by one finite number above 0 for "
                "each: leave the labels out if they are not known."
            )
        super().__init__(X, y)

    def standardisation(self) -> Standardisation:
        """None is needed: inputs were standard normal, and no lower order may be subtracted."""
        d, spread = self.features, 1.0 if self.inputs_alone else float(np.std(self.y))
        return Standardisation(np.zeros(d), np.eye(d), np.zeros(()), spread, np.zeros(d), self.size)


# ---------------------------------------------------------------- another source, changed

Change = Callable[[Array, Array], tuple[Array, Array]]


class MappedSource(Source):
    """The samples `change(X, y)` of a source, block by block, added up where its samples are."""

    def __init__(self, source: Source, change: Change, features: int | None = None) -> None:
        """`features` only if `change` gives another number of them; nothing is read."""
        self.source, self.change = source, change
        self.size, self.outputs, self.fixed = source.size, source.outputs, source.fixed
        self.features = source.features if features is None else features

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Rows of the source, changed."""
        return self.change(*self.source.rows(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A draw of the source, changed."""
        drawn = self.source.draw(n, rng)
        return Draw(*self.change(drawn.X, drawn.y), drawn.rows)

    def total(self, term: Term[Sum], rows: int | None = None) -> Sum:
        """The sum over the source's samples of the changed term."""
        return self.source.total(partial(_changed, term, self.change), rows)


def _changed(term: Term[Sum], change: Change, X: Array, y: Array) -> Sum:
    return term(*change(X, y))


class StandardisedSource(MappedSource):
    """Inputs standardised, labels divided by `label_scale`, a number or one for each output."""

    def __init__(
        self, source: Source, standardisation: Standardisation, label_scale: Array | float = 1.0
    ) -> None:
        """Wrap a source; nothing is read."""
        super().__init__(source, partial(_standardised, standardisation, label_scale))


def _standardised(
    standardisation: Standardisation, scale: Array | float, X: Array, y: Array
) -> tuple[Array, Array]:
    return standardisation.apply(X), y / scale


# ---------------------------------------------------------------- functions and known networks


class QuerySource(Source):
    """`samples` standard normal inputs and a function's answers to them.

    Inputs are made anew from the seed whenever they are needed; answers are kept (8 bytes an
    output), so no input is queried twice however many passes an algorithm makes. `draw` makes
    further inputs. `queries` counts every answer of the function.
    """

    fixed = False
    queryable = True

    def __init__(
        self,
        function: Callable[[Array], Array],
        features: int,
        samples: int = 100_000,
        *,
        outputs: int | None = None,
        rng: Seed = None,
    ) -> None:
        """Nothing is queried until samples are needed; `outputs` only if answers are vectors."""
        if features < 1 or samples < 1:
            raise InvalidInput("A queried function needs at least one feature and one sample.")
        self.function, self.features, self.size = function, features, samples
        self.outputs, self.queries, self._lock = outputs, 0, Lock()
        self._entropy = int(np.random.default_rng(rng).integers(2**63))
        self._answers = np.full((samples, *self.label_shape), np.nan)

    def query(self, X: Array) -> Array:
        """The function's answers to the rows of `X`, checked and counted."""
        with self._lock:  # sums run on several threads; the function need not be safe for that
            y = np.asarray(as_numbers(self.function(X), "The queried function's answer"), float)
            self.queries += len(X)
        if y.shape != (len(X), *self.label_shape):
            raise InvalidInput(
                f"The queried function answered {len(X)} inputs with shape {y.shape}, not "
                f"{(len(X), *self.label_shape)}: correct it, or give outputs=."
            )
        if not np.isfinite(y).all():
            bad = int(np.argmin(np.isfinite(y.reshape(len(y), -1)).all(axis=1)))
            problem = f"answered {y[bad]} to the input {X[bad].tolist()}"
            raise InvalidInput(f"The queried function {problem}: it must be finite everywhere.")
        return y

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Inputs made from the seed, 4096 at a time; answers from memory or from the function."""
        length, d = 4096, self.features
        seeds = ([self._entropy, k] for k in range(start // length, -(-stop // length)))
        made = [np.random.default_rng(seed).standard_normal((length, d)) for seed in seeds]
        X = np.concatenate(made)[start % length :][: stop - start]
        new = np.isnan(self._answers[start:stop].reshape(stop - start, -1)[:, 0])
        if new.any():
            self._answers[start:stop][new] = self.query(X[new])
        return X, self._answers[start:stop].copy()

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` fresh inputs and their answers."""
        X = rng.standard_normal((n, self.features))
        return Draw(X, np.concatenate([self.query(X[rows]) for rows in row_blocks(n)]))


class PopulationSource(QuerySource):
    """All of `x ~ N(0, I)`, `y = network(x)`: moments in closed form (ATV21, Lemma 3.5), samples as
    many as wanted."""

    def __init__(self, network: Network, samples: int = 100_000, *, rng: Seed = None) -> None:
        """`samples` is the number of rows of a sum that is not a moment."""
        network = network.as_one_layer("PopulationSource")
        super().__init__(network, network.features, samples, outputs=network.outputs, rng=rng)
        self.network = self.population = network.canonical()

    def standardisation(self) -> Standardisation:
        """Standard normal inputs; the labels' spread, which only sets a scale, is estimated."""
        d, net = self.features, self.network
        norm = np.linalg.norm(net.weights, axis=1)
        zeroth, first = (net.activation.hermite(k, net.biases, norm) for k in (0, 1))
        T0 = np.asarray((net.output_weights * zeroth).sum(axis=-1) + net.output_bias)
        T1 = (net.output_weights * first) @ (net.weights / norm[:, None])
        if net.linear is not None:
            T1 = T1 + net.linear
        _, y = self.rows(0, min(self.size, 10_000))
        spread = float(np.sqrt(np.mean(y.var(axis=0))))
        return Standardisation(np.zeros(d), np.eye(d), T0, spread, T1, None)
