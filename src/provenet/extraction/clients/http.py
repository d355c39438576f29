"""A model behind HTTP that is asked: a POST of JSON a batch, on urllib3.

What is sent and where the answer is, `endpoint` says: `{"inputs": [[..], ..]}` and
`{"outputs": [..]}` unless told otherwise, with one number, or one list of numbers, to each row.
Every request ends by one deadline, however slowly the server trickles (`timed`). Connections that
fail or are dropped, requests that are too slow, and the statuses that mean "later" are tried again:
half a second after the first failure, and twice as long after each further one, or when the server
says. What is not an answer at all is not tried again: it is told, with the query.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from urllib3 import BaseHTTPResponse, Retry, Timeout
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.extraction.clients.base import (
    BatchTooLarge,
    TooLate,
    Unreachable,
    counted_queries,
    first_line,
    rows_at_once,
    shown,
    such_as,
)
from provenet.extraction.clients.endpoint import Endpoint, checked_address
from provenet.extraction.clients.timed import TooLong, timed_pools
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.tolerances import (
    FIRST_WAIT,
    LONGEST_WAIT,
    LONGEST_WISH,
    MOST_BYTES,
    REQUEST_BATCH,
    SHORTEST,
)

_TOO_LARGE, _LATER = 413, (408, 425, 429)
"""Derived: statuses of HTTP: too large; a timeout, too early, too many requests, which all pass."""
_HIDDEN = "***"


class HttpClient:
    """Asks one address, a request a batch."""

    kind, known_by_name = "an HTTP endpoint", True

    def __init__(
        self,
        endpoint: Endpoint | str,
        features: int,
        outputs: int | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is asked yet; `sleep` waits between two tries."""
        self._endpoint = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self.name = checked_address(self._endpoint.url)
        self.features, self.outputs = features, outputs
        self.input_dtype = np.dtype(self._endpoint.dtype)
        self.answer_dtype: np.dtype[Any] | None = np.dtype(np.float64)
        self.batch = rows_at_once(REQUEST_BATCH, features)
        self.identity = self._endpoint.identity
        self._headers = self._endpoint.all_headers()
        self._timeout, self._sleep = timeout, sleep
        self._tries = Retry(
            total=retries,
            backoff_factor=FIRST_WAIT,
            backoff_max=LONGEST_WAIT,
            retry_after_max=int(LONGEST_WISH),
            allowed_methods=None,
        )
        self._pools = timed_pools(self._endpoint.url, MOST_BYTES)

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Array:
        """The answers to one batch, after as many tries as it takes or is allowed."""
        body, tries = self._endpoint.body(X), self._tries
        while True:
            try:
                timeout = min(self._timeout, max(deadline.left, SHORTEST))
                return self._as_numbers(X, self._parsed(self._post(body, timeout), X))
            except _TryAgain as problem:
                tries = self._once_more(tries, problem, deadline)

    def _once_more(self, tries: Retry, problem: _TryAgain, deadline: Deadline) -> Retry:
        """Wait for the next try; raises if there is none."""
        try:
            tries = tries.increment("POST", error=problem)
        except MaxRetryError:
            if deadline.passed:
                raise TooLate from None
            raise Unreachable(len(tries.history) + 1, problem.reason) from None
        wait = max(tries.get_backoff_time(), FIRST_WAIT, _retry_after(tries, problem.response))
        if wait >= deadline.left:
            raise TooLate
        self._sleep(wait)
        return tries

    def _post(self, body: bytes, timeout: float) -> BaseHTTPResponse:
        """What the server says, read whole."""
        try:
            return self._pools.urlopen(
                "POST",
                self._endpoint.url,
                body=body,
                headers=self._headers,
                timeout=Timeout(total=timeout),
                retries=False,
                redirect=False,
            )
        except TooLong:
            raise InvalidInput(
                f"{self.name} answered with more than {MOST_BYTES:,} bytes: check the address."
            ) from None
        except (HTTPError, OSError, http.client.HTTPException) as error:
            raise self._failure(error) from None

    def _parsed(self, response: BaseHTTPResponse, X: AnyArray) -> Any:
        """The answer as parsed JSON, where it is one."""
        if not 200 <= response.status < 300:
            raise self._refusal(response, X)
        text = response.data
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if _ends_by_closing(response) and text.lstrip()[:1] in (b"{", b"["):
                raise _TryAgain("its answer broke off") from None
            raise self._nonsense(self._told(text), X) from None

    def _refusal(self, response: BaseHTTPResponse, X: AnyArray) -> Exception:
        """What a status other than success means."""
        code = response.status
        status = self._hidden(f"HTTP {code} {response.reason or ''}".strip())
        if code == _TOO_LARGE and len(X) > 1:
            self.batch = len(X) // 2
            return BatchTooLarge()
        if code in _LATER or code >= 500:
            return _TryAgain(status, response)
        if 300 <= code < 400:
            place = self._hidden(response.headers.get("Location", "nowhere"))
            return InvalidInput(f"{self.name} points to {place} ({status}): give that address.")
        return InvalidInput(
            f"{self.name} answered {status} ({self._told(response.data)}) {such_as(X)}: check the "
            "address and what it takes."
        )

    def _failure(self, error: Exception) -> Exception:
        """What a connection that failed means."""
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return InvalidInput(
                    f"{self.name} has a certificate that is not trusted ({cause.verify_message}): "
                    "check the address, or add its authority to the system's."
                )
        return _TryAgain(self._hidden(_reason(error, self._timeout)))

    def _told(self, text: bytes) -> str:
        """The first line of what a server says, without what it was told in confidence."""
        return self._hidden(first_line(text.decode(errors="replace"), most=10_000))[:200]

    def _hidden(self, text: str) -> str:
        for secret in self._endpoint.secrets():
            text = text.replace(secret, _HIDDEN)
        return text

    # ------------------------------------------------------------ numbers

    def _nonsense(self, said: str, X: AnyArray) -> InvalidInput:
        path = self._endpoint.answer
        where = f'{{"{path}": [..]}}' if path == "outputs" else f"a list at {path or 'its root'}"
        return InvalidInput(
            f"{self.name} answered {said} {such_as(X)}: it must answer JSON, {where}, with one "
            "number or one list of numbers an input."
        )

    def _as_numbers(self, X: AnyArray, answer: Any) -> Array:
        """(n, outputs), if there is an answer of as many finite numbers to every row."""
        rows = self._endpoint.found_in(answer)
        if not isinstance(rows, list):
            raise self._nonsense(self._hidden(_brief(answer)), X)
        if len(rows) != len(X):
            said = f"with {counted(len(rows), 'answer')} to {counted_queries(len(X))}"
            raise self._nonsense(said, X)
        listed = [row if isinstance(row, list) else [row] for row in rows]
        for i, values in enumerate(listed):
            if not values or len(values) != len(listed[0]) or not all(map(_is_number, values)):
                said = self._hidden(_brief(rows[i]))
                raise InvalidInput(
                    f"{self.name} answered {said} to the query {shown(X[i])} (number {i + 1:,} of "
                    f"{len(X):,}): it must answer each with as many finite numbers."
                )
        return np.array(listed, dtype=float)


class _TryAgain(Exception):
    """A request failed in a way that may pass; an answer may say when."""

    def __init__(self, reason: str, response: BaseHTTPResponse | None = None) -> None:
        super().__init__(reason)
        self.reason, self.response = reason, response


def _retry_after(tries: Retry, response: BaseHTTPResponse | None) -> float:
    """Seconds of a Retry-After header, a number or a date, within reason."""
    try:
        return 0.0 if response is None else tries.get_retry_after(response) or 0.0
    except InvalidHeader:
        return 0.0


def _ends_by_closing(response: BaseHTTPResponse) -> bool:
    """Whether only the end of the connection says where the answer ends."""
    return "Content-Length" not in response.headers and "Transfer-Encoding" not in response.headers


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it was made of."""
    yield error
    inner = [part for part in (*error.args, error.__cause__) if isinstance(part, BaseException)]
    for part in inner:
        yield from _causes(part)


def _reason(error: Exception, timeout: float) -> str:
    causes = list(_causes(error))
    if any(
        isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__ for cause in causes
    ):
        return f"no answer within {timeout:g} s"
    if any(isinstance(cause, http.client.IncompleteRead) for cause in causes):
        return "its answer broke off"
    if any(isinstance(cause, ConnectionResetError | BrokenPipeError) for cause in causes):
        return "the connection was dropped"
    for cause in causes:
        if isinstance(cause, http.client.HTTPException):
            return f"it does not speak HTTP: {type(cause).__name__}"
    texts = (getattr(cause, "strerror", None) for cause in reversed(causes))
    return first_line(next(filter(None, texts), type(error).__name__))


def _is_number(value: Any) -> bool:
    """A finite number; truth values are none, and nor are whole numbers beyond all floats."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _brief(answer: Any) -> str:
    text = json.dumps(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."
