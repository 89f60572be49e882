"""
Send requests to other services, under the rules for all outgoing connections of the site.

A server's name is resolved once for each connection, all its addresses are checked, and the
connection goes to one of them; redirects, proxies and environment variables are ignored. A call has
one deadline, however slowly bytes arrive, and its response a size limit, which applies after
decompression. A response that is read while it arrives has a limit for each pause instead.
Imports httpcore2, which is only installed with an extra.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from weakref import finalize

import httpcore2

from mcp_bridge.outbound.addresses import is_host

MAX_CONNECTIONS: Final = 20
# Seconds that most servers keep an idle connection open.
_KEEP_ALIVE: Final = 5.0
# Seconds after which a wait for bytes is interrupted, to see whether the call is still wanted.
_POLL: Final = 1.0
# Bytes of a decompressed chunk.
_CHUNK: Final = 64 * 1024


class OutboundError(Exception):
    """
    Raised if a request gets no response; the text is a phrase such as "did not answer in time".

    The text does not contain addresses. ``is_sent``: whether the service may have received it.
    ``is_outage``: whether the service cannot be reached, does not answer in time or breaks off.
    ``cause`` is why it cannot be reached, for administrators.
    """

    def __init__(
        self, text: str, *, is_sent: bool = True, is_outage: bool = False, cause: str = ""
    ) -> None:
        super().__init__(text)
        self.cause = cause
        self.is_sent = is_sent
        self.is_outage = is_outage


class Fields(dict[str, str]):
    """Headers of a request, whose values error reports do not show."""

    def __repr__(self) -> str:
        return f"Fields({', '.join(self)})"


class Received(NamedTuple):
    """A response, with header names in lower case and the body decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Limits:
    """
    The limits of the call in this thread: its end by monotonic(), and the seconds of one pause.

    ``check`` is called before each wait and at least once a second during it, and may raise.
    """

    deadline: float
    pause: float
    check: Callable[[], object] | None = None

    def left(self, timeout: float | None, error: type[Exception]) -> float:
        """Return the seconds that a step may take. Raises ``error`` if the deadline has passed."""
        left = self.deadline - monotonic()
        if left <= 0:
            raise error("The deadline of the call has passed")
        return min(left, self.pause if timeout is None else timeout)


_LIMITS: Final[ContextVar[_Limits]] = ContextVar("mcp_bridge_outbound_limits")


class Response:
    """A response whose body is read once, as a whole or while it arrives; see ``Outbound.open``."""

    def __init__(
        self, status: int, headers: dict[str, str], body: Iterable[bytes], max_bytes: int
    ) -> None:
        self.status = status
        self.headers = headers
        self._body = body
        self._max_bytes = max_bytes

    @property
    def media_type(self) -> str:
        """The Content-Type without parameters, in lower case; "" without one."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def read(self) -> bytes:
        """Return the body. Raises OutboundError if it has more than ``max_bytes``."""
        read = bytearray()
        for chunk in self._body:
            read += chunk
            if len(read) > self._max_bytes:
                raise OutboundError(
                    f"answered with more than {self._max_bytes} bytes, which is the limit; request "
                    "less"
                )
        return bytes(read)

    def chunks(self, *, may_last: bool = False) -> Iterator[bytes]:
        """
        Yield the body as it arrives. Raises OutboundError after a pause.

        If it ``may_last``, the deadline of the call no longer applies.
        """
        if may_last:
            _LIMITS.get().deadline = math.inf
        yield from self._body

    def expect_end(self, seconds: float) -> None:
        """Read the rest of ``chunks`` only for so long; then it raises OutboundError."""
        _LIMITS.get().deadline = monotonic() + seconds


class Outbound:
    """
    A client for one server, such as ``https://billing.example.internal/v2``.

    Limits are in seconds: ``timeout`` is that of a call, ``connect_timeout`` that of its connection
    and ``first_byte_timeout`` that of the wait for its response, both at most ``timeout``, and
    ``pause`` the longest time without a byte of a body. ``max_bytes`` is the longest body that is
    read as a whole. ``allows`` decides about each address. The threads of a process share a pool of
    connections, ``max_connections`` at once, or without a limit. ``ca_file`` has the CA
    certificates to trust instead of the system's. Raises ValueError for an invalid server URL, and
    OSError if the file cannot be read.
    """

    def __init__(
        self,
        server: str,
        *,
        timeout: float,
        max_bytes: int,
        connect_timeout: float = math.inf,
        first_byte_timeout: float = math.inf,
        pause: float = math.inf,
        max_connections: int | None = MAX_CONNECTIONS,
        allows: Callable[[str], bool] = is_host,
        ca_file: str | None = None,
    ) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname or not server.isascii():
            raise ValueError(f"{server!r} is not a URL such as https://service.example")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{server!r} has more than a scheme, a host, a port and a path")
        self.origin = httpcore2.URL(
            scheme=parts.scheme, host=parts.hostname, port=parts.port, target=b"/"
        )
        # With the brackets of an IPv6 address.
        self.host = parts.netloc
        self.base = parts.path.rstrip("/")
        self.timeout = timeout
        self.max_bytes = max_bytes
        self._connect_timeout = min(connect_timeout, timeout)
        self._first_byte_timeout = min(first_byte_timeout, timeout)
        self._pause = pause
        self._max_connections = max_connections
        is_secure = parts.scheme == "https"
        self._context = _context_of(ca_file) if is_secure else None
        self._backend = _JudgingBackend(allows)
        # By process id.
        self._pools: dict[int, httpcore2.ConnectionPool] = {}

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Received:
        """Send a request and return the response, as ``open`` does, with its whole body."""
        with self.open(method, target, headers, body) as response:
            return Received(response.status, response.headers, response.read())

    @contextmanager
    def open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        check: Callable[[], object] | None = None,
    ) -> Iterator[Response]:
        """
        Send a request, and yield the response of any status before its body is read.

        ``target`` is the path below the server's path, with its query string, both
        percent-encoded; it is sent unchanged. ``check`` is called at least once a second until
        the body is read, and may raise to cancel the call. Raises OutboundError, also while the
        body is read, which must be done in the same thread.
        """
        url = httpcore2.URL(
            scheme=self.origin.scheme,
            host=self.origin.host,
            port=self.origin.port,
            target=(self.base + target).encode("ascii"),
        )
        fields = Fields({"Host": self.host, "Accept-Encoding": "gzip", **headers})
        limits = _Limits(monotonic() + self.timeout, self._first_byte_timeout, check)
        token = _LIMITS.set(limits)
        timeouts = {"connect": self._connect_timeout, "pool": self._connect_timeout}
        try:
            with (
                _outbound_errors(),
                self._connections().stream(
                    method,
                    url,
                    headers=[(name.encode(), text.encode()) for name, text in fields.items()],
                    content=body,
                    extensions={"timeout": timeouts},
                ) as response,
            ):
                limits.pause = self._pause
                received = {
                    name.decode("latin-1").lower(): text.decode("latin-1")
                    for name, text in response.headers
                }
                coding = received.get("content-encoding", "").lower()
                is_asked = coding in fields["Accept-Encoding"].split(", ")
                content = _decoded(response.iter_stream(), coding, is_asked)
                yield Response(response.status, received, content, self.max_bytes)
        finally:
            _LIMITS.reset(token)

    def close(self) -> None:
        """Close the connections of this process that are not in use."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()

    def _connections(self) -> httpcore2.ConnectionPool:
        """Return the pool of this process, which must not use its parent's connections."""
        pid = os.getpid()
        if pid not in self._pools:
            pool = httpcore2.ConnectionPool(
                ssl_context=self._context,
                max_connections=self._max_connections,
                max_keepalive_connections=MAX_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE,
                network_backend=self._backend,
            )
            # Closed with its owner, a source or a gateway.
            finalize(self, pool.close)
            # Without a lock, which a fork could leave locked forever.
            self._pools.setdefault(pid, pool)
        return self._pools[pid]


@cache
def _context_of(ca_file: str | None) -> ssl.SSLContext:
    """Return the TLS settings of this process, since reading the certificates takes long."""
    return ssl.create_default_context(cafile=ca_file)


@contextmanager
def _outbound_errors() -> Iterator[None]:
    """Raise OutboundError for the errors of httpcore2."""
    try:
        yield
    except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as why:
        is_outage = isinstance(why, httpcore2.ConnectTimeout)
        text = "could not be reached in time"
        raise OutboundError(text, is_sent=False, is_outage=is_outage) from why
    except httpcore2.ConnectError as why:
        text, cause = "cannot be reached", str(why)
        raise OutboundError(text, is_sent=False, is_outage=True, cause=cause) from why
    except httpcore2.TimeoutException as why:
        raise OutboundError("did not answer in time", is_outage=True) from why
    except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as why:
        raise OutboundError("broke off", is_outage=True) from why
    except httpcore2.LocalProtocolError:
        # Without the cause, whose text quotes the header.
        text = "was not asked, since a header of the request is invalid"
        raise OutboundError(text, is_sent=False) from None


def _decoded(chunks: Iterable[bytes], coding: str, is_asked: bool) -> Iterator[bytes]:
    """Yield a body decompressed, in chunks of bounded size. Raises OutboundError."""
    with _outbound_errors():
        yield from _decompressed(chunks, coding, is_asked)


def _decompressed(chunks: Iterable[bytes], coding: str, is_asked: bool) -> Iterator[bytes]:
    if coding in ("", "identity"):
        yield from chunks
        return
    if coding != "gzip" or not is_asked:
        raise OutboundError(f"answered in the encoding {coding[:20]!r}, which was not requested")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for chunk in chunks:
        rest = chunk
        while rest:
            # Decompression bombs are not unpacked at once.
            try:
                yield decoder.decompress(rest, _CHUNK)
            except zlib.error as why:
                raise OutboundError("answered with invalid gzip data") from why
            rest = decoder.unconsumed_tail


class _JudgingBackend(httpcore2.NetworkBackend):
    """A backend that connects only to allowed addresses and enforces the limits of the call."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self.inner = httpcore2.SyncBackend()
        self.allows = allows

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first reachable address of a host, if all of them are allowed."""
        began = monotonic()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as why:
            raise httpcore2.ConnectError(f"The host {host} cannot be resolved: {why}") from why
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        if not all(map(self.allows, addresses)):
            raise httpcore2.ConnectError("its address is not allowed")
        error: Exception = httpcore2.ConnectError(f"{host} does not have an address")
        for address in addresses:
            left = None if timeout is None else timeout - (monotonic() - began)
            try:
                stream = self.inner.connect_tcp(
                    address, port, remaining(left), local_address, socket_options
                )
                return _TimedStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as why:
                error = why
        raise error


class _TimedStream(httpcore2.NetworkStream):
    """A connection whose every step ends at the limits of the current call."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self.inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        limits, left = _LIMITS.get(None), remaining(timeout, httpcore2.ReadTimeout)
        if limits is None or limits.check is None:
            return self.inner.read(max_bytes, left)
        end = monotonic() + (math.inf if left is None else left)
        while True:
            left = end - monotonic()
            limits.check()
            try:
                return self.inner.read(max_bytes, max(min(left, _POLL), 0.001))
            except httpcore2.ReadTimeout:
                if left <= _POLL:
                    raise

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
    """Return the seconds that a step may take. Raises ``error`` if none are left."""
    limits = _LIMITS.get(None)
    if limits is not None:
        timeout = limits.left(timeout, error)
    if timeout is not None and timeout <= 0:
        raise error("The time for this step has passed")
    return None if timeout == math.inf else timeout
