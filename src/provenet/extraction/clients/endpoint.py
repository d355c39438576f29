"""What a server is asked and how its answer is read: templates of JSON.

A request is a text of JSON with places in it, which become

    {inputs}    the rows, [[..], ..]            {rows}      how many there are
    {data}      all numbers in one list         {features}  how many numbers a row has

and an answer is a path of names and numbers, `outputs.0.data`, to one number or one list of numbers
a row. A name on the way that leads into a list is looked up in each of its members. Numbers in one
list with a `shape` beside them (the Open Inference Protocol) are put into that shape.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.data.checkpoint import fingerprint

_PLAIN_REQUEST, _PLAIN_ANSWER = '{"inputs": {inputs}}', "outputs"
_PLACES = ("{inputs}", "{data}")
_PRECISIONS = ("float32", "float64")
_SECRET = 4
"""Convention: characters from which a text may be a secret; shorter ones are in every message."""


@dataclass(frozen=True)
class Endpoint:
    """An address that answers JSON, with how it wants to be asked.

    Parameters
    ----------
    url
        `http://host:port/path`.
    request
        JSON with `{inputs}` (rows) or `{data}` (all numbers in one list), and `{rows}` and
        `{features}` where they are wanted; a text, or the objects that it stands for.
    answer
        Path to one number, or one list of numbers, a row; empty where that is the whole answer.
    headers
        Sent with every request. They are never kept or shown.
    token_env
        Name of the environment's variable whose token is sent as `Authorization: Bearer`.
    dtype
        "float32" where the server computes in single precision: questions are rounded to it.

    Examples
    --------
    TensorFlow Serving, KServe and Triton, MLflow:

    >>> Endpoint(url, '{"instances": {inputs}}', "predictions", dtype="float32")
    >>> Endpoint(
    ...     url,
    ...     '{"inputs": [{"name": "x", "shape": [{rows}, {features}], "datatype": "FP64", '
    ...     '"data": {data}}]}',
    ...     "outputs.0.data",
    ... )
    >>> Endpoint(url, '{"inputs": {inputs}}', "predictions")
    """

    url: str
    request: Any = _PLAIN_REQUEST
    answer: str = _PLAIN_ANSWER
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_env: str | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        """Raise before anything is asked if this cannot work."""
        checked_address(self.url)
        _check_headers(self.headers)
        if self.dtype not in _PRECISIONS:
            raise InvalidInput(f"dtype must be float32 or float64, not {self.dtype!r}.")
        if not isinstance(self.answer, str):
            raise InvalidInput(f"answer must be a path such as outputs.0.data, not {self.answer}.")
        if not any(place in self.template for place in _PLACES):
            raise InvalidInput(
                "request must say where inputs go, with {inputs} or {data}: give for example "
                '{"instances": {inputs}}.'
            )
        try:
            json.loads(self.body(np.zeros((1, 1))))
        except ValueError as error:
            raise InvalidInput(
                f"request is not JSON once inputs are in it ({error}): give for example "
                '{"instances": {inputs}}.'
            ) from None

    @property
    def template(self) -> str:
        """The request as text; places may stand in objects as texts of their own."""
        if isinstance(self.request, str):
            return self.request
        text = json.dumps(self.request)
        for place in (*_PLACES, "{rows}", "{features}"):
            text = text.replace(json.dumps(place), place)
        return text

    @property
    def identity(self) -> str:
        """Of what is asked, without what is secret."""
        asked = (self.template, self.answer, self.dtype)
        plain = asked == (_PLAIN_REQUEST, _PLAIN_ANSWER, "float64")
        return fingerprint(self.url if plain else (self.url, *asked))

    def body(self, X: AnyArray) -> bytes:
        """The request for some rows."""
        text = self.template
        for place, value in (("{rows}", len(X)), ("{features}", X.shape[1])):
            text = text.replace(place, str(value))
        if "{data}" in text:
            text = text.replace("{data}", json.dumps(X.ravel().tolist()))
        if "{inputs}" in text:
            text = text.replace("{inputs}", json.dumps(X.tolist()))
        return text.encode()

    def all_headers(self) -> dict[str, str]:
        """What is sent with every request; raises if the environment has no token."""
        kinds = {"Content-Type": "application/json", "Accept": "application/json"}
        return {**kinds, **self._authorization(), **self.headers}

    def secrets(self) -> list[str]:
        """What no message may show, the longest first: texts of headers, unless very short."""
        texts = [*self._authorization().values(), *self.headers.values()]
        words = [word for text in texts for word in (text, *text.split())]
        return sorted({word for word in words if len(word) >= _SECRET}, key=len, reverse=True)

    def _authorization(self) -> dict[str, str]:
        if self.token_env is None:
            return {}
        token = os.environ.get(self.token_env, "").strip()
        if not token:
            raise InvalidInput(f"The variable {self.token_env} holds no token: set it.")
        return {"Authorization": f"Bearer {token}"}

    def found_in(self, answer: Any) -> Any:
        """What the path leads to; None if it leads nowhere."""
        parent, found = None, answer
        for name in filter(None, self.answer.split(".")):
            parent, found = found, _member(found, name)
        shape = parent.get("shape") if isinstance(parent, dict) else None
        return found if shape is None else _shaped(found, shape)


def checked_address(url: str) -> str:
    """The address without what may be secret in it; raises if it cannot be one."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"{url} is not an address ({error}): check it.") from None
    plain = url.isascii() and url.isprintable() and " " not in url
    web = parts.scheme.lower() in ("http", "https")
    if not plain or not web or not parts.hostname or parts.username is not None:
        raise InvalidInput(
            f"{url!r} is not an address that can be asked: give http://host:port/path, in plain "
            "ASCII and without a user's name."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def _check_headers(headers: Any) -> None:
    """Texts of one line; what is in them is not told."""
    if not isinstance(headers, Mapping):
        raise InvalidInput("headers must be names and texts, such as {'X-Key': '...'}.")
    for name, value in headers.items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name.isascii() or not f"{name}{value}".isprintable() or ":" in name:
            raise InvalidInput("A header must be a name and a text of one line: check headers.")


def _member(value: Any, name: str) -> Any:
    if isinstance(value, list) and name.isdecimal():
        return value[int(name)] if int(name) < len(value) else None
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [each.get(name) for each in value]
    return value.get(name) if isinstance(value, dict) else None


def _shaped(values: Any, shape: Any) -> Any:
    """Numbers in one list as rows of the shape beside them; anything else as it is."""
    flat = isinstance(values, list) and not any(isinstance(value, list) for value in values)
    sizes = shape if isinstance(shape, list) and all(type(n) is int for n in shape) else []
    if not flat or len(sizes) != 2 or min(sizes) < 1 or math.prod(sizes) != len(values):
        return values
    return [values[i : i + sizes[1]] for i in range(0, len(values), sizes[1])]
