"""
Requests to other services, under the rules that every way out of the site keeps.

The name of a server is looked up once for a connection, all its addresses are judged, and the
connection goes to one of those: no redirect, proxy or variable of the environment leads elsewhere.
A call has one deadline, however slowly its bytes come, and its answer a size, measured after
decompression. Imports httpcore2, which only sites with an extra have.
"""

from __future__ import annotations

import os
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from weakref import finalize

import httpcore2

from mcp_bridge.outbound.addresses import is_host

MAX_CONNECTIONS: Final = 20
# As long as most servers keep a connection open that nobody uses.
_KEEP_ALIVE: Final = 5.0
# When the call of this thread ends, by monotonic().
_DEADLINE: Final[ContextVar[float]] = ContextVar("mcp_bridge_deadline")


class OutboundError(Exception):
    """
    A request had no answer; the text is a phrase for callers, such as "did not answer in time".

    It names no address. ``is_sent`` says whether the service may have had the request.
    """

    def __init__(self, text: str, *, is_sent: bool = True) -> None:
        super().__init__(text)
        self.is_sent = is_sent


class Received(NamedTuple):
    """An answer: the names of its headers are in lower case, and its body is decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes


class Outbound:
    """
    Sends requests to one server, such as ``https://billing.example.internal/v2``.

    ``timeout`` is how long a call may take in all, in seconds, and ``max_bytes`` how long an answer
    may be. ``allows`` judges addresses. Connections are kept and used again by all threads of a
    process. ``ca_file`` has the certificates of who may vouch for the server, in place of the
    system's. Raises ValueError for what is no address of a server, and OSError for such a file.
    """

    def __init__(
        self,
        server: str,
        *,
        timeout: float,
        max_bytes: int,
        ca_file: str | None = None,
        allows: Callable[[str], bool] = is_host,
    ) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{server!r} is no address such as https://service.example")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{server!r} has more than a scheme, a host, a port and a path")
        self.origin = httpcore2.URL(
            scheme=parts.scheme, host=parts.hostname, port=parts.port, target=b"/"
        )
        # With the brackets of an address of IPv6.
        self.host = parts.netloc
        self.base = parts.path.rstrip("/")
        self.timeout = timeout
        self.max_bytes = max_bytes
        is_secure = parts.scheme == "https"
        self._context = ssl.create_default_context(cafile=ca_file) if is_secure else None
        self._backend = _JudgingBackend(allows)
        self._pool: tuple[int, httpcore2.ConnectionPool] | None = None
        self._lock = Lock()

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Received:
        """
        Send a request and return the answer, whatever its status.

        ``target`` is the path below that of the server, with its query string, both
        percent-encoded: it is sent as it is. Raises OutboundError.
        """
        url = httpcore2.URL(
            scheme=self.origin.scheme,
            host=self.origin.host,
            port=self.origin.port,
            target=(self.base + target).encode("ascii"),
        )
        fields = {"Host": self.host, "Accept-Encoding": "gzip", **headers}
        token = _DEADLINE.set(monotonic() + self.timeout)
        # Of each step; that of the whole call is kept where bytes come and go.
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self.timeout)
        try:
            with self._connections().stream(
                method,
                url,
                headers=[(name.encode(), text.encode()) for name, text in fields.items()],
                content=body,
                extensions={"timeout": timeouts},
            ) as response:
                received = {
                    name.decode("latin-1").lower(): text.decode("latin-1")
                    for name, text in response.headers
                }
                coding = received.get("content-encoding", "")
                content = self._read(response.iter_stream(), coding)
                return Received(response.status, received, content)
        except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as why:
            raise OutboundError("could not be reached in time", is_sent=False) from why
        except httpcore2.ConnectError as why:
            raise OutboundError("cannot be reached", is_sent=False) from why
        except httpcore2.TimeoutException as why:
            raise OutboundError("did not answer in time") from why
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as why:
            raise OutboundError("broke off") from why
        finally:
            _DEADLINE.reset(token)

    def _connections(self) -> httpcore2.ConnectionPool:
        """Return the connections of this process: those of its parent are not for it."""
        with self._lock:
            if self._pool is None or self._pool[0] != os.getpid():
                pool = httpcore2.ConnectionPool(
                    ssl_context=self._context,
                    max_connections=MAX_CONNECTIONS,
                    keepalive_expiry=_KEEP_ALIVE,
                    network_backend=self._backend,
                )
                # With the source, which is made anew where the registry is.
                finalize(self, pool.close)
                self._pool = (os.getpid(), pool)
            return self._pool[1]

    def _read(self, chunks: Iterable[bytes], coding: str) -> bytes:
        """Return a body, decompressed, of at most ``max_bytes``. Raises OutboundError."""
        read = bytearray()
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding.lower() == "gzip" else None
        if decoder is None and coding.lower() not in ("", "identity"):
            raise OutboundError(
                f"answered in the encoding {coding[:20]!r}, which was not asked for"
            )
        for chunk in chunks:
            if decoder is None:
                read += chunk
            else:
                # No more than what shows that it is too much: a bomb is not unpacked.
                try:
                    read += decoder.decompress(chunk, self.max_bytes + 1 - len(read))
                except zlib.error as why:
                    raise OutboundError("answered with what is no gzip") from why
            if len(read) > self.max_bytes:
                raise OutboundError(
                    f"answered with more than {self.max_bytes} bytes, which are not read; ask for "
                    "less"
                )
        return bytes(read)


class _JudgingBackend(httpcore2.NetworkBackend):
    """Connects to addresses that were judged, and ends every step at the deadline of the call."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self.allows = allows
        self.inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of a host that answers, if all of them are allowed."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as why:
            raise httpcore2.ConnectError(f"The host {host} is not known: {why}") from why
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        refused = [each for each in addresses if not self.allows(each)]
        if refused:
            raise httpcore2.ConnectError(f"{host} leads to {refused[0]}, which is not allowed")
        error: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                stream = self.inner.connect_tcp(
                    address, port, remaining(timeout), local_address, socket_options
                )
                return _TimedStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as why:
                error = why
        raise error


class _TimedStream(httpcore2.NetworkStream):
    """A connection of which every step ends at the deadline of the call that it is used for."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self.inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, remaining(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, remaining(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = remaining(timeout)
        return _TimedStream(self.inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> object:
        return self.inner.get_extra_info(info)


def remaining(
    timeout: float | None, error: type[Exception] = httpcore2.ConnectTimeout
) -> float | None:
    """Return the seconds that a step may take; raises the error where the call has none left."""
    deadline = _DEADLINE.get(None)
    if deadline is None:
        return timeout
    left = deadline - monotonic()
    if left <= 0:
        raise error("The deadline of the call has passed")
    return left if timeout is None else min(timeout, left)
