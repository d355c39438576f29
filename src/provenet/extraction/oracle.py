"""A black box that may be asked: counted, limited by a budget, remembered and checked.

`ask` never asks the model the same point twice, unless it is told to with `fresh=True`, nor what is
in the cache. Every answer counts once against the budget, from the model or from the cache: so a
run that is repeated, or was killed and goes on, sees the same budget at the same place, and ends
with the same answer.

Where only the name of a model is known (an address, a function), another may answer by now: then a
few questions of the cache are asked again first, which count, too. Answers that differ by more than
rounding, and by more than the noise of the answers that are given now, are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real
from os import PathLike
from types import NoneType
from typing import Any

import numpy as np

from provenet.common.exceptions import BudgetSpent, EndpointLost, InvalidInput, TimeSpent
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.sources import ArraySource
from provenet.extraction.answers import Answers, row_keys
from provenet.extraction.cache import AnswerFile, Asked
from provenet.extraction.clients.base import (
    BatchTooLarge,
    Client,
    TooLate,
    Unreachable,
    counted_queries,
    first_line,
    shown,
    such_as,
)
from provenet.extraction.clients.door import Model, client_of
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import OTHER_BATCH, OTHER_MODEL, TIMES_AGAIN


class Oracle:
    """Answers to points of `features` numbers, in the box from `low` to `high` if there is one.

    `queries` counts the answers that the model gave in this run, `cached` those that came from the
    file; both together are `used`, and the budget limits them. After the deadline nothing is
    answered any more.
    """

    deadline: Deadline = NEVER

    def __init__(
        self,
        client: Client,
        *,
        budget: int | None = None,
        cache: str | PathLike[str] | None = None,
        low: Any = None,
        high: Any = None,
    ) -> None:
        """Nothing is asked yet; the cache is read, and raises if it is another model's."""
        self.features, self.input_dtype = client.features, client.input_dtype
        self.budget = None if budget is None else _whole("budget", budget, 1)
        self.low, self.high = _box(low, high, client.features, client.input_dtype)
        self.queries = self.cached = 0
        self.class_names: list[str] = []
        """Of a model that answers with names: those it gave so far, in the order of their numbers.
        """
        self._client = client
        self._width, self._answer_dtype = client.outputs, client.answer_dtype
        self._file = None if cache is None else _open_cache(cache, client)
        self._answers = Answers(() if self._file is None else self._file.entries())
        self._in_doubt = client.known_by_name and self._file is not None

    @property
    def name(self) -> str:
        """Who is asked, in messages."""
        return self._client.name

    @property
    def outputs(self) -> int | None:
        """Number of outputs; None for plain numbers, and until a first answer tells."""
        return None if self._width == 1 else self._width

    @property
    def answer_dtype(self) -> np.dtype[Any]:
        """Precision of the answers: double until a first answer tells otherwise."""
        return self._answer_dtype or np.dtype(np.float64)

    @property
    def used(self) -> int:
        """Answers of this run, from the model and from the cache."""
        return self.queries + self.cached

    @property
    def remaining(self) -> int | None:
        """How many more answers the budget allows; None without one."""
        return None if self.budget is None else self.budget - self.used

    def ask(self, X: Any, *, fresh: bool = False) -> Array:
        """Answers to the rows of `X`, rounded to `input_dtype` first: (n,) or (n, outputs).

        With `fresh=True` every row is a question of its own, also where its answer is known: that
        shows noise. Raises `BudgetSpent`, before anything is asked, if it would take too many, and
        `TimeSpent` at the deadline.
        """
        self.check_time()
        self._ask_kept_again()
        points = self._rounded(X)
        places = self._answers.places(row_keys(points), fresh)
        first: dict[tuple[bytes, int], int] = {}
        for i, place in enumerate(places):
            first.setdefault(place, i)
        missing = [place for place in first if self._answers.missing(place)]
        remembered = [place for place in first if self._answers.new_from_file(place)]
        self._check_budget(len(missing) + len(remembered))
        if len(points):
            self._take_sizes_from_file()
        new = points if len(missing) == len(points) else points[[first[place] for place in missing]]
        self._fetch(new, [key for key, _ in missing])
        self.cached += len(remembered)
        for place in first:
            self._answers.hand_out(place)
        y = np.array([self._answers[place] for place in places])
        shape = (len(points),) if self.outputs is None else (len(points), self.outputs)
        return y.reshape(shape)

    def ask_in(self, dtype: np.dtype[Any]) -> None:
        """Round questions to a coarser precision than the model takes, from here on."""
        self.input_dtype = dtype
        self.low, self.high = _box(self.low, self.high, self.features, dtype)

    def as_asked(self, X: Array) -> Array:
        """The points that are asked where these are given: in the precision of questions."""
        return np.asarray(X.astype(self.input_dtype).astype(float))

    def doubt(self, X: Array) -> Array | None:
        """(n, 1): how far answers may be off by their own rounding, where that differs much."""
        return None

    def samples(self, X: Array, y: Array) -> ArraySource:
        """Points with their answers, as samples."""
        return ArraySource(X, y)

    def _rounded(self, X: Any) -> AnyArray:
        """The points that are really asked."""
        given = np.asarray(X, dtype=float)
        assert given.ndim == 2 and given.shape[1] == self.features, given.shape
        # Adding 0 turns -0 into 0: the same point, so the same question.
        points = given.astype(self.input_dtype).astype(self._client.input_dtype, order="C")
        points += 0
        assert np.isfinite(points).all(), "a point is not finite"
        inside = self.low is None or bool((points >= self.low).all())
        inside = inside and (self.high is None or bool((points <= self.high).all()))
        assert inside, "a point is outside of the box"
        return points

    def _check_budget(self, needed: int) -> None:
        if self.remaining is not None and needed > self.remaining:
            raise BudgetSpent(self.used, needed)

    def check_time(self) -> None:
        """For loops that ask nothing: raises `TimeSpent` after the deadline."""
        if self.deadline.passed:
            raise TimeSpent(self.used)

    def _take_sizes_from_file(self) -> None:
        """Not before the first question, when a run without the file would know them too."""
        if self._file is not None and self._file.outputs is not None:
            self._width = self._file.outputs
            self._answer_dtype = np.dtype(self._file.answer_dtype)

    def _fetch(self, points: AnyArray, keys: list[bytes]) -> None:
        """Ask the model; what is answered is kept whatever happens next."""
        for batch, answers in self._batches(points):
            if self._file is not None:
                self._file.append(points[batch], answers, self.answer_dtype.name)
            for key, answer in zip(keys[batch], answers, strict=True):
                self._answers.add(key, answer)

    def _batches(self, points: AnyArray) -> Iterator[tuple[slice, Array]]:
        """The model's answers, batch by batch, counted."""
        done = 0
        while done < len(points):
            self.check_time()
            batch = slice(done, done + self._client.batch)
            try:
                answers = self._answered(points[batch])
            except BatchTooLarge:
                continue
            self.queries += len(answers)
            yield batch, answers
            done += len(answers)

    def _answered(self, points: AnyArray) -> Array:
        """What the model says to one batch."""
        try:
            return self._checked(points, self._client.answers(points, self.deadline))
        except TooLate:
            raise TimeSpent(self.used) from None
        except Unreachable as problem:
            raise self._lost(problem) from None

    def _ask_kept_again(self) -> None:
        """Once, where another model may have taken the name: raise if it answers differently."""
        if not self._in_doubt or self._file is None:
            return
        self._in_doubt = False
        self._take_sizes_from_file()
        points, kept = self._file.kept()
        if len(points) == 0:
            return
        off = np.abs(self._again(points) - kept)
        if (off <= self._rounding_of(kept)).all():
            return
        now = np.array([self._again(points) for _ in range(TIMES_AGAIN)])
        noise = np.sqrt(np.mean(np.var(now, axis=0, ddof=1), axis=0))
        if (np.abs(now.mean(axis=0) - kept) > self._rounding_of(kept) + OTHER_MODEL * noise).any():
            raise InvalidInput(
                f"{self._file.path} holds answers that {self.name} does not give now "
                f"({counted(len(points), 'question')} of it asked again): give another name, or "
                "delete it."
            )

    def _again(self, points: AnyArray) -> Array:
        self._check_budget(len(points))
        return np.vstack([answers for _, answers in self._batches(points)])

    def _rounding_of(self, answers: Array) -> Array:
        """How far answers of each output may differ for rounding."""
        eps = float(np.finfo(self.answer_dtype).eps)
        return np.asarray(OTHER_BATCH * eps * np.abs(answers).max(axis=0))

    def _checked(self, points: AnyArray, raw: Any) -> Array:
        """(n, outputs), finite; the first answers tell the number of outputs and the precision."""
        try:
            found = np.asarray(raw)
        except Exception as error:  # whatever an object raises that will not be an array
            raise self._not_numbers(points, f"{type(raw).__name__}: {first_line(error)}") from None
        found = self._with_its_row(len(points), self._numbered(points, found))
        self._check_shape(points, found.shape)
        y = found.reshape(len(points), -1).astype(float)
        if not np.isfinite(y).all():
            bad = int(np.argmin(np.isfinite(y).all(axis=1)))
            raise InvalidInput(
                f"{self.name} answered {shown(found[bad])} to the query {shown(points[bad])}: it "
                "must be finite for every input; low= and high= limit the inputs."
            )
        self._width = y.shape[1]
        if self._answer_dtype is None:
            self._answer_dtype = _precision(found.dtype)
        return y

    def _numbered(self, points: AnyArray, found: AnyArray) -> AnyArray:
        """Numbers as they are, yes and no as 1 and 0, and names of classes by their numbers."""
        if found.dtype.kind == "b":
            return found.astype(float)
        if found.dtype.kind in "fiu":
            return found
        names = found.ravel()
        one_a_row = len(names) == len(points) and all(isinstance(name, str) for name in names)
        if found.dtype.kind not in "UO" or not one_a_row:
            raise self._not_numbers(points, f"an array of {found.dtype}")
        if self._file is not None:
            raise InvalidInput(
                f"{self.name} answers with names of classes, which a cache does not keep: answer "
                "with 0 and 1, or leave cache out."
            )
        for name in dict.fromkeys(map(str, names)):
            if name not in self.class_names:
                self.class_names.append(name)
        numbers = [self.class_names.index(str(name)) for name in names]
        return np.array(numbers, dtype=float).reshape(found.shape)

    def _with_its_row(self, n: int, found: AnyArray) -> AnyArray:
        """The answer to one input with its row, which functions lose that squeeze their answers."""
        width = self._width
        lost = n == 1 and width is not None and found.shape == (() if width == 1 else (width,))
        return found[None] if lost else found

    def _check_shape(self, points: AnyArray, shape: tuple[int, ...]) -> None:
        n = len(points)
        width = self._width
        if width is None:
            fits = shape == (n,) or (len(shape) == 2 and shape[0] == n and shape[1] > 0)
        else:
            fits = shape == (n, width) or (width == 1 and shape == (n,))
        if not fits:
            wanted = (n,) if width == 1 else (n, "outputs" if width is None else width)
            text = str(wanted).replace("'", "")
            raise InvalidInput(
                f"{self.name} answered with shape {shape} {such_as(points)}: {counted(n, 'input')} "
                f"must be answered with shape {text}; outputs= says how many outputs there are."
            )

    def _not_numbers(self, points: AnyArray, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self.name} answered with {what} {such_as(points)}: it must answer with an array of "
            "real numbers, or with a name of a class for each input."
        )

    def _lost(self, problem: Unreachable) -> EndpointLost:
        kept = (
            "give it a cache to keep what is answered"
            if self._file is None
            else f"what was answered is kept in {self._file.path}; run the same again"
        )
        times = "once" if problem.times == 1 else f"{problem.times} times"
        return EndpointLost(
            f"{self.name} answered {counted_queries(self.queries)}, then failed {times} "
            f"({problem.reason}): {kept}."
        )


def open_oracle(
    f: Model | Oracle,
    features: int | None = None,
    *,
    outputs: int | None = None,
    budget: int | None = None,
    cache: str | PathLike[str] | None = None,
    low: Any = None,
    high: Any = None,
    timeout: float = 30.0,
    retries: int = 5,
    output: str | int | None = None,
) -> Oracle:
    """A function, a model object, an .onnx or TorchScript file, or an address to ask.

    `features` is needed where the model does not tell it. `timeout` (seconds a request) and
    `retries` are for addresses; `output` names one of several outputs. An oracle passes through.
    """
    if isinstance(f, Oracle):
        return f
    if features is not None:
        features = _whole("features", features, 1)
    if outputs is not None:
        outputs = _whole("outputs", outputs, 1)
    retries = _whole("retries", retries, 0)
    if not (_is_number(timeout) and 0 < timeout < math.inf):
        raise InvalidInput(f"timeout must be a positive number of seconds, not {timeout!r}.")
    if isinstance(output, bool) or not isinstance(output, (str, int, NoneType)):
        raise InvalidInput(f"output must be a name or a whole number, not {output!r}.")
    client = client_of(f, features, outputs, output, timeout, retries)
    return Oracle(client, budget=budget, cache=cache, low=low, high=high)


def _open_cache(path: str | PathLike[str], client: Client) -> AnswerFile:
    dtype = client.input_dtype.name
    file = AnswerFile(path, Asked(client.kind, client.identity, client.features, dtype))
    file.check_outputs(client.outputs)
    return file


def _box(low: Any, high: Any, features: int, dtype: np.dtype[Any]) -> tuple[Array | None, ...]:
    """Limits a feature that numbers of the model's precision can reach."""
    bounds = _limits("low", low, features, dtype, 1), _limits("high", high, features, dtype, -1)
    if bounds[0] is not None and bounds[1] is not None and not (bounds[0] < bounds[1]).all():
        raise InvalidInput("low must be below high in every feature: widen the box.")
    return bounds


def _limits(
    name: str, value: Any, features: int, dtype: np.dtype[Any], inward: int
) -> Array | None:
    if value is None:
        return None
    try:
        limits = np.broadcast_to(np.asarray(value, dtype=float), (features,))
    except (TypeError, ValueError):
        limits = np.full(features, np.nan)
    if np.isnan(limits).any():
        raise InvalidInput(f"{name} must be a number, or one for each of the {features} features.")
    with np.errstate(over="ignore", invalid="ignore"):  # infinite limits are no limits
        rounded = limits.astype(dtype)
        outside = (rounded - limits) * inward < 0
    return np.where(outside, np.nextafter(rounded, dtype.type(inward * np.inf)), rounded).astype(
        float
    )


def _precision(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind == "f" and dtype.itemsize < 8 else np.dtype(np.float64)


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{name} must be a whole number from {least} on, not {value!r}.")
    return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
