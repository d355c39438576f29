"""Requests over HTTP that end by one deadline, however slowly the server trickles.

A timeout of the standard library is one for each read: a server that sends a byte now and then is
never late. Here every read is given what is left of the whole request's time.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
from functools import partial
from typing import Any
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its inputs, so none is followed."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _TimedReader(io.RawIOBase):
    """Reads of a socket that all end by one deadline."""

    def __init__(self, sock: Any, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, sock.makefile("rb", 0), deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """The part of a socket that a response uses."""

    def __init__(self, sock: Any, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._deadline))


def _timed_response(deadline: float, sock: Any, **options: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_TimedSocket(sock, deadline), **options)  # type: ignore[arg-type]


def _timed(kind: Any, host: str, *, timeout: float, **options: Any) -> Any:
    """A connection of a kind, for one request, whose deadline begins now."""
    connection = kind(host, timeout=timeout, **options)
    connection.response_class = partial(_timed_response, time.monotonic() + timeout)
    return connection


class _TimedHttp(HTTPHandler):
    def http_open(self, request: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_timed, http.client.HTTPConnection), request)


class _TimedHttps(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._trust = context

    def https_open(self, request: Request) -> http.client.HTTPResponse:
        secure = partial(_timed, http.client.HTTPSConnection, context=self._trust)
        return self.do_open(secure, request)


def timed_opener(*, secure: bool) -> OpenerDirector:
    """Requests with a deadline and without redirects, through the system's proxy if it has one."""
    handlers: list[Any] = [_NoRedirects(), _TimedHttp()]
    return build_opener(*handlers, *([_TimedHttps(ssl.create_default_context())] * secure))
