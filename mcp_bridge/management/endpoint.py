"""The endpoint as mcp_doctor tries it: over the network, or in this process without one."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPErrorProcessor, Request, build_opener

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.http.response import ResponseHeaders

import mcp_bridge
from mcp_bridge.access.policy import served_host
from mcp_bridge.checks.urls import reachable
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.text import cut
from mcp_bridge.sources.base import own_line
from mcp_bridge.testing import MCPClient

# Bytes of an answer that are read.
_LONGEST: Final = 8 * 1024 * 1024


class Unreachable(Exception):
    """There is no answer: a text that says why, and one that says what to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    An HTTP response; ``reply`` is its JSON-RPC message, or empty for any other body.

    ``told`` is the beginning of a body that is neither such a message nor HTML.
    """

    status: int
    headers: Message | ResponseHeaders
    reply: Mapping[str, Any]
    told: str = ""

    @classmethod
    def of(cls, status: int, headers: Message | ResponseHeaders, body: bytes) -> Answer:
        try:
            reply = json.loads(body)
        except ValueError:
            reply = {}
        if isinstance(reply, dict) and "jsonrpc" in reply:
            return cls(status, headers, reply)
        text = body.decode("utf-8", "replace").strip()
        return cls(status, headers, {}, "" if text.startswith("<") else cut(text, 200))

    @property
    def error(self) -> str:
        """Return the text of the JSON-RPC error, if it is one."""
        return str(self.reply.get("error", {}).get("message", ""))


class Endpoint:
    """
    The endpoint, over the network at ``url`` or else in this process.

    ``token`` is sent as a bearer token, or as it is where it names its scheme ("Token abc").
    ``user`` is whom requests in this process are made as; others are given up after ``timeout``.
    """

    def __init__(
        self, url: str | None, token: str | None, user: AbstractBaseUser | None, timeout: float
    ) -> None:
        self.url = url
        self.timeout = timeout
        self.address = url or next(iter(reachable()))
        self.user = user
        self.credential = token and (token if " " in token else f"Bearer {token}")
        # Whom the answers in this process were for, as far as that is known.
        self.caller = "USERNAME"

    @property
    def origin(self) -> str:
        """Return the origin of a page of the same site."""
        if self.url is None:
            return f"http{'s' * settings.SECURE_SSL_REDIRECT}://{served_host()}"
        return f"{urlsplit(self.url).scheme}://{urlsplit(self.url).netloc}"

    def asks(self, answer: Answer) -> bool:
        """Return whether the endpoint asks for a credential that nobody has given."""
        return answer.status == 401 and bool(answer.error) and not (self.credential or self.user)

    def post(
        self,
        method: str,
        revision: str = LATEST.version,
        *,
        address: str | None = None,
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
        **params: Any,
    ) -> Answer:
        """POST one request, with further headers or without the credential. Raises Unreachable."""
        client = MCPClient(revision=revision, path=self.address)
        message = client.message(method, **params)
        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            # What begins the legacy era knows no revision yet.
            **({} if method == "initialize" else client.mirrored(message)),
            **({"Authorization": self.credential} if self.credential and not anonymous else {}),
            **(headers or {}),
        }
        user = None if anonymous else self.user
        return self.send("POST", address or self.address, json.dumps(message).encode(), sent, user)

    def get(self) -> Answer:
        """GET it as a client does that looks for a stream of events. Raises Unreachable."""
        return self.send("GET", self.address, b"", {"Accept": "text/event-stream"})

    def send(
        self,
        verb: str,
        address: str,
        body: bytes,
        headers: Mapping[str, str],
        user: AbstractBaseUser | None = None,
    ) -> Answer:
        """Return the answer to any request. Raises Unreachable."""
        sent = {"User-Agent": f"mcp_doctor/{mcp_bridge.__version__}", **headers}
        if self.url is not None:
            return _fetch(Request(address, body or None, sent, method=verb), self.timeout)
        http = MCPClient(user=user, path=address).http
        # A page in the place of the endpoint refuses a POST without a token of its forms.
        http.handler.enforce_csrf_checks = True
        disabled = logging.root.manager.disable
        # What is refused here is refused on purpose, and what fails is a finding.
        logging.disable()
        try:
            response = http.generic(
                verb,
                address,
                body,  # type: ignore[arg-type]
                content_type=sent.pop("Content-Type", ""),
                secure=settings.SECURE_SSL_REDIRECT,
                headers=sent,
            )
        except Exception as raised:
            line = own_line(raised)
            raise Unreachable(
                f"{verb} {address} raised {type(raised).__name__}: {raised}",
                f"Mend {line}, or what it stands on."
                if line
                else "A package raised it: look at its settings, and at MIDDLEWARE.",
            ) from raised
        finally:
            logging.disable(disabled)
        asked_by = getattr(response.wsgi_request, "user", None)
        self.caller = (asked_by and asked_by.get_username()) or self.caller
        return Answer.of(response.status_code, response.headers, response.content)


class _AsItIs(HTTPErrorProcessor):
    """Returns every response: those that redirect or refuse are what is looked for."""

    def http_response(self, request: Request, response: Any) -> Any:
        return response

    https_response = http_response


def _fetch(request: Request, timeout: float) -> Answer:
    """Return the answer of the network. Raises Unreachable, which says what to do."""
    # The command has seen to it that the scheme is http or https.
    try:
        with build_opener(_AsItIs).open(request, timeout=timeout) as response:
            return Answer.of(response.status, response.headers, response.read(_LONGEST))
    except (OSError, HTTPException) as failed:
        reason = failed.reason if isinstance(failed, URLError) else failed
        text = f"{request.full_url} cannot be reached: {reason}."
        raise Unreachable(text, _network_remedy(reason)) from failed


def _network_remedy(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            "Clients refuse this certificate too. Serve one of a known authority for this name, "
            "with its whole chain (fullchain.pem), that has not expired; for an authority of your "
            "own set SSL_CERT_FILE here, and NODE_EXTRA_CA_CERTS where a client runs on Node."
        )
    if isinstance(reason, ssl.SSLError):
        return "The port may not speak TLS: try http://, or the port of the proxy that does."
    if isinstance(reason, TimeoutError):
        return "A firewall may drop packets, or every worker may be busy: look at the server's log."
    return "Start the server, and look at the name and the port in the address."
