"""A model behind HTTP that is asked: POST `{"inputs": [[..], ..]}` -> `{"outputs": [..]}`.

One number, or one list of numbers, is answered to each row. Every request ends by one deadline,
however slowly the server trickles. Connections that fail or are dropped, requests that are too
slow, and the statuses that mean "later" are tried again: half a second after the first failure, and
twice as long after each further one, or when the server says. What is not an answer at all is not
tried again: it is told, with the query.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.fingerprint import fingerprint
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
from provenet.extraction.clients.timed import timed_opener
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
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class HttpClient:
    """Asks one address, a request a batch."""

    kind, known_by_name = "an HTTP endpoint", True

    def __init__(
        self,
        url: str,
        features: int,
        outputs: int | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is asked yet; `sleep` waits between two tries."""
        self.name = _checked_address(url)
        self.features, self.outputs = features, outputs
        self.input_dtype = np.dtype(np.float64)
        self.answer_dtype: np.dtype[Any] | None = np.dtype(np.float64)
        self.batch = rows_at_once(REQUEST_BATCH, features)
        self.identity = fingerprint(url)
        self._url, self._timeout, self._retries = url, timeout, retries
        self._sleep = sleep
        self._opener = timed_opener(secure=url.lower().startswith("https"))

    def answers(self, X: AnyArray, deadline: Deadline = NEVER) -> Array:
        """The answers to one batch, after as many tries as it takes or is allowed."""
        body = json.dumps({"inputs": X.tolist()}).encode()
        for tries in range(1, self._retries + 2):
            try:
                timeout = min(self._timeout, max(deadline.left, SHORTEST))
                return _as_numbers(self.name, X, self._post(body, X, timeout))
            except _TryAgain as problem:
                last = problem
            wait = max(_back_off(tries), last.wish) if tries <= self._retries else 0.0
            if wait >= deadline.left:
                raise TooLate
            if tries <= self._retries:
                self._sleep(wait)
        raise Unreachable(self._retries + 1, last.reason)

    def _post(self, body: bytes, X: AnyArray, timeout: float) -> Any:
        """What the server says, as parsed JSON."""
        request = Request(self._url, body, _HEADERS, method="POST")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return self._parsed(response, X)
        except HTTPError as error:
            with error:
                raise self._refusal(error, X) from None
        except URLError as error:
            raise self._failure(error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error) from None

    def _parsed(self, response: http.client.HTTPResponse, X: AnyArray) -> Any:
        ends_by_closing = response.length is None and not response.chunked
        text = response.read(MOST_BYTES)
        if response.length and len(text) < MOST_BYTES:
            raise _TryAgain("its answer broke off")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if ends_by_closing and text.lstrip().startswith(b"{"):
                raise _TryAgain("its answer broke off") from None
            raise _nonsense(self.name, first_line(text.decode(errors="replace")), X) from None

    def _refusal(self, error: HTTPError, X: AnyArray) -> Exception:
        """What a status other than success means."""
        status = f"HTTP {error.code} {error.reason}".strip()
        if error.code == _TOO_LARGE and len(X) > 1:
            self.batch = len(X) // 2
            return BatchTooLarge()
        if error.code in _LATER or error.code >= 500:
            return _TryAgain(status, _wish(error.headers.get("Retry-After")))
        if 300 <= error.code < 400:
            place = error.headers.get("Location", "nowhere")
            return InvalidInput(f"{self.name} points to {place} ({status}): give that address.")
        return InvalidInput(
            f"{self.name} answered {status} ({_body(error)}) {such_as(X)}: check the address and "
            "what it takes."
        )

    def _failure(self, error: Any) -> Exception:
        """What a connection that failed means."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return InvalidInput(
                f"{self.name} has a certificate that is not trusted ({error.verify_message}): "
                "check the address, or add its authority to the system's."
            )
        return _TryAgain(_reason(error, self._timeout))


class _TryAgain(Exception):
    """A request failed in a way that may pass; the server may wish for a time, in seconds."""

    def __init__(self, reason: str, wish: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.wish = reason, wish


def _checked_address(url: str) -> str:
    """The address without what may be secret in it; raises if it cannot be one."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError as error:
        raise InvalidInput(f"{url} is not an address ({error}): check it.") from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or not parts.hostname or parts.username is not None:
        raise InvalidInput(
            f"{url!r} is not an address that can be asked: give http://host:port/path, in plain "
            "ASCII and without a user's name."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def _back_off(tries: int) -> float:
    return min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT)


def _wish(header: str | None) -> float:
    """Seconds of a Retry-After header, a number or a date, within reason."""
    try:
        seconds = float(header or 0)
    except ValueError:
        seconds = _seconds_until(header or "")
    return min(seconds, LONGEST_WISH) if seconds > 0 else 0.0


def _seconds_until(date: str) -> float:
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def _reason(error: Any, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, http.client.IncompleteRead):
        return "its answer broke off"
    if isinstance(error, ConnectionResetError | BrokenPipeError | ConnectionAbortedError):
        return "the connection was dropped"
    if isinstance(error, http.client.HTTPException):
        return f"it does not speak HTTP: {type(error).__name__}"
    return first_line(getattr(error, "strerror", None) or error)


def _body(error: HTTPError) -> str:
    try:
        return first_line(error.read(2000).decode(errors="replace"))
    except (OSError, http.client.HTTPException):
        return "no message"


def _nonsense(name: str, said: str, X: AnyArray) -> InvalidInput:
    return InvalidInput(
        f'{name} answered {said} {such_as(X)}: it must answer JSON, {{"outputs": [..]}}, with one '
        "number or one list of numbers an input."
    )


def _as_numbers(name: str, X: AnyArray, answer: Any) -> Array:
    """(n, outputs), if there is an answer of as many finite numbers to every row."""
    rows = answer.get("outputs") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise _nonsense(name, _brief(answer), X)
    if len(rows) != len(X):
        said = f"with {counted(len(rows), 'answer')} to {counted_queries(len(X))}"
        raise _nonsense(name, said, X)
    listed = [row if isinstance(row, list) else [row] for row in rows]
    for i, values in enumerate(listed):
        if not values or len(values) != len(listed[0]) or not all(map(_is_number, values)):
            raise InvalidInput(
                f"{name} answered {_brief(rows[i])} to the query {shown(X[i])} (number {i + 1:,} "
                f"of {len(X):,}): it must answer each with as many finite numbers."
            )
    return np.array(listed, dtype=float)


def _is_number(value: Any) -> bool:
    """A finite number; truth values are none, and nor are whole numbers beyond all floats."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _brief(answer: Any) -> str:
    text = json.dumps(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."
