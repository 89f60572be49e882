"""The way to a remote server: its connections, and the credential and headers of a request."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from django.views.decorators.debug import sensitive_variables

from mcp_bridge.concurrency.threads import in_pool
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import Context
from mcp_bridge.outbound.client import Fields, Outbound
from mcp_bridge.protocol.headers import FIELD_VALUE
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.remote.breaker import Breaker
from mcp_bridge.remote.client import Client
from mcp_bridge.remote.encryption import SecretUnavailable, opened
from mcp_bridge.remote.models import RemoteHeader, RemoteServer, allows
from mcp_bridge.sources.secrets import check_credential

logger = get_logger("mcp_bridge.remote")

# The clients of a process; each has a pool of connections and perhaps a session.
MAX_CLIENTS: Final = 200
MAX_EVENT_BYTES: Final = 1024 * 1024
CONNECT_TIMEOUT: Final = 3.0
# The key of context.scratch with the server that a call reached, and the class of its status.
UPSTREAM: Final = "upstream"


class Unsendable(Exception):
    """A request cannot be sent; the text is a phrase for ``Gateway.sentence``."""


class Gateway:
    """
    The way to one remote server, as its row and those of its headers describe it.

    Its clients are kept by the headers that they send, which include the credential.
    """

    def __init__(self, server: RemoteServer, headers: Sequence[RemoteHeader]) -> None:
        self.server = server
        self.breaker = Breaker()
        self._headers = headers
        self._clients: OrderedDict[bytes, Client] = OrderedDict()
        self._lock = threading.Lock()

    def sentence(self, problem: str) -> str:
        """Return a phrase such as "did not answer in time" as a sentence that names the server."""
        return f"The remote server {self.server.name} {problem.rstrip('.')}."

    def check_open(self) -> None:
        """Raise Unsendable if the server has failed repeatedly, and is not asked at present."""
        if left := self.breaker.seconds_open():
            raise Unsendable(f"has failed repeatedly: retry in {left:.0f} s")

    def client(self, headers: Mapping[str, str]) -> Client:
        """Return the client that sends these headers."""
        text = "\0".join(f"{name.lower()}:{value}" for name, value in sorted(headers.items()))
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        dropped: Client | None = None
        with self._lock:
            found = self._clients.pop(key, None)
            if found is None:
                found = self._new_client(headers)
            self._clients[key] = found
            if len(self._clients) > MAX_CLIENTS:
                _, dropped = self._clients.popitem(last=False)
        if dropped is not None and not dropped.is_busy:
            in_pool(dropped.end_session)
        return found

    def _new_client(self, headers: Mapping[str, str]) -> Client:
        server = self.server
        outbound = Outbound(
            server.url,
            timeout=server.whole_call_s,
            connect_timeout=CONNECT_TIMEOUT,
            first_byte_timeout=server.first_byte_s,
            pause=server.idle_s,
            max_bytes=server.max_body_bytes,
            # Streams hold theirs; calls are limited by the site.
            max_connections=None,
            allows=partial(allows, server.url),
        )
        return Client(outbound, headers, version=server.version, max_event_bytes=MAX_EVENT_BYTES)

    def checked_headers(self, context: Context) -> Fields:
        """
        Return the headers of a call, after a check that none has the caller's credential.

        The check is left out if the server's row says that it receives it. Raises Unsendable, and
        ValueError if a header has it.
        """
        headers = self.headers(context)
        if self.server.auth != self.server.Auth.PASSTHROUGH:
            for name, value in headers.items():
                check_credential(context, name, value)
        return headers

    @sensitive_variables()
    def headers(self, context: Context | None) -> Fields:
        """
        Return the credential and the configured headers of a request of this caller.

        ``context`` is None for requests of the site itself, which lack headers of callers. Raises
        Unsendable.
        """
        headers = Fields()
        credential = self._credential(context)
        if credential is not None:
            headers["Authorization"] = f"Bearer {credential}"
        meta = {} if context is None or context.request is None else context.request.META
        for each in self._headers:
            if each.from_header and context is None:
                continue
            try:
                value = opened(each.value) if each.is_secret else each.value
            except SecretUnavailable as why:
                logger.error("Remote server %s: header %s: %s", self.server.slug, each.name, why)
                value = ""
            if each.from_header:
                value = meta.get(f"HTTP_{each.from_header.upper().replace('-', '_')}", "")
            if not FIELD_VALUE.fullmatch(value):
                text = f"cannot be used: the header {each.name} has a character that is not allowed"
                raise Unsendable(text)
            if value:
                headers[each.name] = value
            elif each.is_required:
                raise Unsendable(f"requires the header {each.name}, which lacks a value")
        return headers

    @sensitive_variables()
    def _credential(self, context: Context | None) -> str | None:
        server, auth = self.server, self.server.Auth
        if server.auth == auth.STATIC:
            try:
                return opened(server.credential)
            except SecretUnavailable as why:
                logger.error("Remote server %s: its credential: %s", server.slug, why)
                raise Unsendable("cannot be used: the site's credential is unavailable") from why
        if server.auth == auth.NONE:
            return None
        if server.auth == auth.PASSTHROUGH:
            request = None if context is None else context.request
            given = "" if request is None else request.META.get("HTTP_AUTHORIZATION", "")
            kind, _, token = given.partition(" ")
            return token.strip() if kind.lower() == "bearer" else None
        path = conf.REMOTE_TOKEN_FOR
        user = None if context is None else context.user
        try:
            token = None if path is None else imported(path)(user, server)
            if not isinstance(token, str | None):
                raise TypeError(f"it returned {type(token).__name__}, not str or None")
        except Exception as why:
            logger.exception("MCP_BRIDGE['REMOTE_TOKEN_FOR'] (%s) failed", path)
            raise Unsendable("cannot be used: the site could not find a credential") from why
        if not token and context is not None:
            raise Unsendable("requires your own credential, which this site does not have")
        return token or None


# By the key of the server, with the values of its rows.
_gateways: dict[int, tuple[object, Gateway]] = {}


def gateway_of(server: RemoteServer) -> Gateway:
    """Return the gateway of this process to a server, a new one if its rows have changed."""
    headers = list(server.headers.all())
    fields = ("url", "auth", "credential", "first_byte_s", "whole_call_s", "idle_s")
    of_server = [getattr(server, name) for name in (*fields, "max_body_bytes")]
    parts = ("name", "value", "is_secret", "from_header", "is_required")
    of_headers = [[getattr(each, name) for name in parts] for each in headers]
    # These settings decide which hosts are allowed, and how secrets are decrypted.
    values = (of_server, of_headers, conf.REMOTE_ALLOWED_HOSTS, conf.REMOTE_SECRET_KEYS)
    known = _gateways.get(server.pk)
    if known is None or known[0] != values:
        known = _gateways[server.pk] = values, Gateway(server, headers)
    known[1].server = server
    return known[1]


def status_class(status: int) -> str:
    """Return the class of an HTTP status: "2xx" to "5xx", "error" for 0, or "other"."""
    if status == 0:
        return "error"
    return f"{status // 100}xx" if 200 <= status < 600 else "other"
