"""Connections of urllib3 whose answers end by one deadline, however slowly the server trickles.

A timeout of urllib3, as of the standard library, is one for each read: a server that sends a byte
now and then is never late. Here every read is given what is left of the whole request's time, and
an answer that is too long is no answer.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class TooLong(Exception):
    """An answer has more bytes than are read."""


class _TimedReader(io.RawIOBase):
    """Reads of a socket that all end by one deadline, and after so many bytes."""

    def __init__(self, sock: Any, deadline: float, most: int) -> None:
        self._sock, self._raw = sock, sock.makefile("rb", 0)
        self._deadline, self._left = deadline, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        count: int = self._raw.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise TooLong
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """The part of a socket that a response uses."""

    def __init__(self, sock: Any, deadline: float, most: int) -> None:
        self._reader = partial(_TimedReader, sock, deadline, most)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader())


class _Timed:
    """Begins the time of an answer when it is waited for."""

    most = 0

    def getresponse(self) -> Any:
        """The answer, read by a deadline."""
        ends = time.monotonic() + self.timeout  # type: ignore[attr-defined]
        most = self.most

        def response(sock: Any, **options: Any) -> http.client.HTTPResponse:
            timed: Any = _TimedSocket(sock, ends, most)
            return http.client.HTTPResponse(timed, **options)

        self.response_class = response
        return super().getresponse()  # type: ignore[misc]


def timed_pools(url: str, most: int) -> PoolManager:
    """Connections with a deadline, through the system's proxy if it has one for this address."""
    plain = type("TimedHttp", (_Timed, HTTPConnection), {"most": most})
    secure = type("TimedHttps", (_Timed, HTTPSConnection), {"most": most})
    parts = urlsplit(url)
    trust: Any = ssl.create_default_context() if parts.scheme.lower() == "https" else None
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme.lower())
    pools = (
        PoolManager(ssl_context=trust) if proxy is None else ProxyManager(proxy, ssl_context=trust)
    )
    pools.pool_classes_by_scheme = {
        "http": type("Pool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }
    return pools
