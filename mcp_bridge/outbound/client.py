"""
Send requests to other services, under the rules for all outgoing connections of the site.

A server's name is resolved once for each connection, all its addresses are checked, and the
connection goes to one of them; redirects, proxies and environment variables are ignored. A call has
one deadline, however slowly bytes arrive, and its response a size limit, which applies after
decompression. Imports httpcore2, which is only installed with an extra.
"""

from __future__ import annotations

import os
import socket
import ssl
import zlib
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from weakref import finalize

import httpcore2

from mcp_bridge.outbound.addresses import is_host

MAX_CONNECTIONS: Final = 20
# Seconds that most servers keep an idle connection open.
_KEEP_ALIVE: Final = 5.0
# The deadline of this thread's call, by monotonic().
_DEADLINE: Final[ContextVar[float]] = ContextVar("mcp_bridge_deadline")


class OutboundError(Exception):
    """
    Raised if a request gets no response; the text is a phrase such as "did not answer in time".

    The text does not contain addresses. ``is_sent``: whether the service may have received it.
    """

    def __init__(self, text: str, *, is_sent: bool = True) -> None:
        super().__init__(text)
        self.is_sent = is_sent


class Received(NamedTuple):
    """A response, with header names in lower case and the body decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes


class Outbound:
    """
    A client for one server, such as ``https://billing.example.internal/v2``.

    ``timeout`` is the total time of a call in seconds, ``max_bytes`` the longest response.
    The threads of a process share a pool of connections. ``ca_file`` has the CA certificates to
    trust instead of the system's. Raises ValueError for an invalid server URL, and OSError if the
    file cannot be read.
    """

    def __init__(
        self,
        server: str,
        *,
        timeout: float,
        max_bytes: int,
        ca_file: str | None = None,
    ) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
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
        is_secure = parts.scheme == "https"
        self._context = ssl.create_default_context(cafile=ca_file) if is_secure else None
        self._backend = _JudgingBackend()
        # By process id.
        self._pools: dict[int, httpcore2.ConnectionPool] = {}

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Received:
        """
        Send a request and return the response with any status.

        ``target`` is the path below the server's path, with its query string, both
        percent-encoded; it is sent unchanged. Raises OutboundError.
        """
        url = httpcore2.URL(
            scheme=self.origin.scheme,
            host=self.origin.host,
            port=self.origin.port,
            target=(self.base + target).encode("ascii"),
        )
        fields = {"Host": self.host, "Accept-Encoding": "gzip", **headers}
        token = _DEADLINE.set(monotonic() + self.timeout)
        # The timeout of each step; the deadline of the call is enforced by the network backend.
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
        """Return the pool of this process, which must not use its parent's connections."""
        pid = os.getpid()
        if pid not in self._pools:
            pool = httpcore2.ConnectionPool(
                ssl_context=self._context,
                max_connections=MAX_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE,
                network_backend=self._backend,
            )
            # Closed with the source, which is rebuilt with the registry.
            finalize(self, pool.close)
            # Without a lock, which a fork could leave locked forever.
            self._pools.setdefault(pid, pool)
        return self._pools[pid]

    def _read(self, chunks: Iterable[bytes], coding: str) -> bytes:
        """Return the decompressed body, at most ``max_bytes``. Raises OutboundError."""
        read = bytearray()
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding.lower() == "gzip" else None
        if decoder is None and coding.lower() not in ("", "identity"):
            raise OutboundError(
                f"answered in the encoding {coding[:20]!r}, which was not requested"
            )
        for chunk in chunks:
            if decoder is None:
                read += chunk
            else:
                # At most one byte above the limit: decompression bombs are not unpacked.
                try:
                    read += decoder.decompress(chunk, self.max_bytes + 1 - len(read))
                except zlib.error as why:
                    raise OutboundError("answered with invalid gzip data") from why
            if len(read) > self.max_bytes:
                raise OutboundError(
                    f"answered with more than {self.max_bytes} bytes, which is the limit; request "
                    "less"
                )
        return bytes(read)


class _JudgingBackend(httpcore2.NetworkBackend):
    """A backend that connects only to hosts (``is_host``) and enforces the call's deadline."""

    def __init__(self) -> None:
        self.inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first reachable address of a host, if all of them are allowed."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as why:
            raise httpcore2.ConnectError(f"The host {host} cannot be resolved: {why}") from why
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        refused = [each for each in addresses if not is_host(each)]
        if refused:
            raise httpcore2.ConnectError(f"{host} resolves to {refused[0]}, which is not allowed")
        error: Exception = httpcore2.ConnectError(f"{host} does not have an address")
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
    """A connection whose every step ends at the deadline of the current call."""

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
    """Return the seconds that a step may take. Raises ``error`` if the deadline has passed."""
    deadline = _DEADLINE.get(None)
    if deadline is None:
        return timeout
    left = deadline - monotonic()
    if left <= 0:
        raise error("The deadline of the call has passed")
    return left if timeout is None else min(timeout, left)
