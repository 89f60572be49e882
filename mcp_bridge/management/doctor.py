"""The checks of mcp_doctor: the system checks, and the endpoint as a client would try it."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from http.client import HTTPException
from typing import Any, Final, TypeAlias
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core import checks
from django.db import connections
from django.http.response import ResponseHeaders
from django.utils import timezone

import mcp_bridge
from mcp_bridge.access.policy import served_host
from mcp_bridge.checks.deployment import TABLES
from mcp_bridge.checks.urls import ADD_ADDRESS, NO_ADDRESS, reachable
from mcp_bridge.management.base import named_user
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.text import cut
from mcp_bridge.sources.base import first_line, own_line
from mcp_bridge.testing import MCPClient

LEVELS: Final = ("error", "warning", "info", "ok")
# Django's own deployment checks of HTTPS.
_HTTPS: Final = ("security.W001", "security.W008", "security.W018", "security.W020")
# The most bytes of a response that are read.
_LONGEST: Final = 8 * 1024 * 1024
# A revision with the legacy handshake, with which most clients begin.
_LEGACY: Final = "2025-11-25"
# The seconds that a task may wait for a worker.
_WAIT: Final = 60
_OUTSIDE: Final = "https://mcp-doctor.invalid"


class Unreachable(Exception):
    """A request failed without a response; has a text with the reason, and one with the remedy."""


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
        """The text of the JSON-RPC error, or ""."""
        return str(self.reply.get("error", {}).get("message", ""))


@dataclass
class Endpoint:
    """
    The endpoint, over the network at ``url`` or else in this process.

    ``token`` is sent as a bearer token, or unchanged if it contains a scheme ("Token abc").
    Requests in this process are made as ``user``; others fail after ``timeout`` seconds.
    """

    url: str | None
    token: str | None
    user: AbstractBaseUser | None
    timeout: float
    # The user of the requests in this process, as far as known.
    caller: str = field(default="USERNAME", init=False)

    def __post_init__(self) -> None:
        self.address = self.url or next(iter(reachable()))
        is_bare = self.token and " " not in self.token
        self.credential = f"Bearer {self.token}" if is_bare else self.token

    @property
    def origin(self) -> str:
        """The origin of a page of the same site."""
        if self.url is None:
            return f"http{'s' * settings.SECURE_SSL_REDIRECT}://{served_host()}"
        return f"{urlsplit(self.url).scheme}://{urlsplit(self.url).netloc}"

    def asks(self, answer: Answer) -> bool:
        """Return whether the endpoint requires a credential and none was given."""
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
        """POST a request with extra headers, or without the credential. Raises Unreachable."""
        client = MCPClient(revision=revision, path=self.address)
        message = client.message(method, **params)
        sent = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            # The legacy handshake begins without a known revision.
            **({} if method == "initialize" else client.mirrored(message)),
            **({"Authorization": self.credential} if self.credential and not anonymous else {}),
            **(headers or {}),
        }
        user = None if anonymous else self.user
        return self.send("POST", address or self.address, json.dumps(message).encode(), sent, user)

    def send(
        self,
        verb: str,
        address: str,
        body: bytes,
        headers: Mapping[str, str],
        user: AbstractBaseUser | None = None,
    ) -> Answer:
        """Send any request and return the response. Raises Unreachable."""
        sent = {"User-Agent": f"mcp_doctor/{mcp_bridge.__version__}", **headers}
        if self.url is not None:
            return _fetch(Request(address, body or None, sent, method=verb), self.timeout)
        client = MCPClient(user=user, path=address)
        # If another page answers, it refuses a POST without a CSRF token.
        client.http.handler.enforce_csrf_checks = True
        disabled = logging.root.manager.disable
        # Refusals are expected here, and failures become findings.
        logging.disable()
        try:
            response = client.send(body, {"Content-Type": None, **sent}, verb=verb)
        except Exception as raised:
            line = own_line(raised)
            raise Unreachable(
                f"{verb} {address} raised {type(raised).__name__}: {raised}",
                f"Fix {line}, or the code that it uses."
                if line
                else "A package raised it: check its settings and MIDDLEWARE.",
            ) from raised
        finally:
            logging.disable(disabled)
        asked_by = getattr(response.wsgi_request, "user", None)
        self.caller = (asked_by and asked_by.get_username()) or self.caller
        return Answer.of(response.status_code, response.headers, response.content)


def _fetch(request: Request, timeout: float) -> Answer:
    """Return the response from the network. Raises Unreachable with a remedy."""
    # The command has checked that the scheme is http or https. Without urllib's other handlers,
    # redirects and errors are responses as well.
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    try:
        with opener.open(request, timeout=timeout) as response:
            return Answer.of(response.status, response.headers, response.read(_LONGEST))
    except (OSError, HTTPException) as failed:
        reason = failed.reason if isinstance(failed, URLError) else failed
        text = f"{request.full_url} cannot be reached: {reason}."
        raise Unreachable(text, _network_remedy(reason)) from failed


def _network_remedy(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            "Clients refuse this certificate too. Use one of a known authority for this name, with "
            "its full chain (fullchain.pem), that has not expired; for your own authority set "
            "SSL_CERT_FILE here, and NODE_EXTRA_CA_CERTS for clients that run on Node."
        )
    if isinstance(reason, ssl.SSLError):
        return "The port may not use TLS: try http://, or the TLS port of the proxy."
    if isinstance(reason, TimeoutError):
        return "A firewall may drop packets, or all workers may be busy: check the server's log."
    return "Start the server, and check the host name and port of the address."


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and its remedy if it is a problem."""

    level: str
    text: str
    remedy: str = ""


ok, info, warning, error = (partial(Finding, level) for level in ("ok", "info", "warning", "error"))
Findings: TypeAlias = Iterator[Finding]

_NO_HEADER: Final = (
    "The Authorization header did not arrive, or no class of AUTHENTICATION_CLASSES reads it: "
    "configure the proxy to forward it (Apache: WSGIPassAuthorization On, or CGIPassAuth On)."
)
_HOST: Final = (
    "Add the host of the address to ALLOWED_HOSTS; behind a proxy, forward the Host header or "
    "set USE_X_FORWARDED_HOST."
)
_OTHER: Final = (
    "Another view or the proxy answers at this address, or a firewall blocks POST: use the "
    "endpoint's address, and put its path before any catch-all pattern "
    "(mcp_bridge.W031)."
)
_BEFORE: Final = (
    "A middleware or the proxy answers instead of the endpoint: exempt the endpoint's path "
    "there, or send what it requires, such as the host of a tenant."
)
_AS_CALLER: Final = "Pass --token, or --user in this process, to try as a caller."
# The meaning and remedy of a response that is not the endpoint's, by its status.
_FOREIGN: Final[Mapping[int, tuple[str, str]]] = {
    200: ("a page, not the endpoint's JSON", _OTHER),
    400: ("Django's page for a disallowed host, or a proxy's refusal", _HOST),
    401: (
        "a login that is not the endpoint's",
        "A proxy requires its own login: exempt this address there.",
    ),
    403: ("a 403 page, such as Django's for CSRF", _OTHER),
    404: (
        "a page for an unknown address",
        "Use the address under which the URLconf and the proxy serve the endpoint.",
    ),
    405: ("another view, which does not accept POST", _OTHER),
    413: (
        "a proxy's page for an oversized body",
        "Raise the proxy's limit (nginx: client_max_body_size) to MAX_BODY_BYTES.",
    ),
    500: ("an error page of the server", "The server's log has the traceback."),
    502: ("a proxy's page for an unreachable site", "Start the site's server, and check its log."),
    503: ("a page for an unavailable site", "Start the site's server, or end its maintenance."),
    504: ("a proxy's page for a timeout", "Look for busy workers and slow queries."),
}


def explain(endpoint: Endpoint, answer: Answer, sent: str = "initialize") -> Finding:
    """Return the error for a response without a result."""
    if 300 <= answer.status < 400:
        return _explain_redirect(endpoint, answer)
    told = f"{sent} returned status {answer.status}"
    if answer.error:
        return error(f"{told}: {answer.error}", _error_remedy(endpoint, answer))
    text, remedy = _FOREIGN.get(answer.status, ("not the endpoint's JSON", _OTHER))
    if answer.told:
        return error(
            f"{told}, not by the endpoint: {answer.told}", _BEFORE if remedy == _OTHER else remedy
        )
    if answer.status in (200, 403, 404, 405) and (known := reachable()):
        remedy += f" This site's URLconf serves the endpoint at {', '.join(known)}."
    return error(f"{told}, which is {text}.", remedy)


def _explain_redirect(endpoint: Endpoint, answer: Answer) -> Finding:
    """Return the error for a redirect: a redirected POST becomes a GET without a body."""
    address = endpoint.url or endpoint.origin + endpoint.address
    target = urljoin(address, answer.headers.get("location", ""))
    text = f"The endpoint redirects (status {answer.status}) to {target}: a POST loses its body."
    if "login" in target or "next=" in target:
        remedy = (
            "A middleware or a proxy requires a login in the browser: exempt the endpoint, which "
            "authenticates its callers itself."
        )
    elif target == address:
        remedy = (
            "Django does not recognise the request as HTTPS: set SECURE_PROXY_SSL_HEADER to the "
            "header that the proxy sends, and configure the proxy to send it."
        )
    elif target.rstrip("/") == address.rstrip("/"):
        remedy = f"Use {target} in clients, or include mcp_bridge.urls, which serves both forms."
    else:
        remedy = f"Use {target} in clients."
    return error(text, remedy)


def _error_remedy(endpoint: Endpoint, answer: Answer) -> str:
    """Return the remedy for an error from the endpoint itself."""
    if answer.status == 401 and endpoint.credential:
        if answer.error.startswith("Authentication required"):
            return _NO_HEADER
        return (
            "The header arrived, but the credential is invalid: wrong, revoked, expired, made with "
            "another SECRET_KEY, or of an inactive user (`manage.py mcp_token list`)."
        )
    return {
        400: _HOST,
        401: _AS_CALLER,
        403: "Add the origin to MCP_BRIDGE['ALLOWED_ORIGINS'] if it may call.",
        429: "Wait and retry; rates are set in MCP_BRIDGE['THROTTLE_RATES'].",
        503: "Run `manage.py migrate`, and check that the server can reach its database.",
    }.get(answer.status, "See the server's log.")


def handshake(endpoint: Endpoint) -> Findings:
    """Check the first request of most clients: POST ``initialize``."""
    client = {"name": "mcp_doctor", "version": mcp_bridge.__version__}
    answer = endpoint.post(
        "initialize", _LEGACY, protocolVersion=_LEGACY, capabilities={}, clientInfo=client
    )
    if result := answer.reply.get("result"):
        server = result.get("serverInfo", {})
        yield ok(
            f"initialize: {server.get('name')} {server.get('version')} speaks "
            f"{result.get('protocolVersion')}."
        )
    elif endpoint.asks(answer):
        yield info(
            "The endpoint works and requires a credential (401): tools were not listed.", _AS_CALLER
        )
    else:
        yield explain(endpoint, answer)


def discovery(endpoint: Endpoint) -> Findings:
    """Check the first request in the latest revision, with headers that a proxy may drop."""
    answer = endpoint.post("server/discover")
    if "result" in answer.reply:
        yield ok(
            f"server/discover: {', '.join(answer.reply['result'].get('supportedVersions', []))}."
        )
    elif not endpoint.asks(answer):
        yield error(
            explain(endpoint, answer, "server/discover").text,
            "initialize works, but this does not: configure the proxy to forward the headers "
            "MCP-Protocol-Version, Mcp-Method and Mcp-Name.",
        )


def listing(endpoint: Endpoint) -> Findings:
    """Check the tools that the caller sees, on the first page."""
    answer = endpoint.post("tools/list", _LEGACY)
    if endpoint.asks(answer):
        return
    if "result" not in answer.reply:
        yield explain(endpoint, answer, "tools/list")
    elif count := len(answer.reply["result"]["tools"]):
        more = " on the first page" if "nextCursor" in answer.reply["result"] else ""
        yield ok(f"tools/list: {count} tools{more}.")
    else:
        yield warning(
            "tools/list: the list is empty.",
            f"`manage.py mcp_tools --user {endpoint.caller}` shows why each tool is missing.",
        )


def other_verbs(endpoint: Endpoint) -> Findings:
    """Check GET, with which clients try to open an event stream; 405 means there is none."""
    answer = endpoint.send("GET", endpoint.address, b"", {"Accept": "text/event-stream"})
    if answer.status == 405 and "POST" in answer.headers.get("allow", ""):
        yield ok("GET is refused (405, Allow: POST).")
    else:
        yield error(
            f"GET returned status {answer.status}, not 405 with Allow: POST: clients treat it as "
            "an event stream, or as another server.",
            "Configure the proxy to forward every method to the endpoint, and not to serve its own "
            "pages at this address.",
        )


def slash(endpoint: Endpoint) -> Findings:
    """Check the address with or without a slash, since people use both."""
    parts = urlsplit(endpoint.address)
    path = parts.path.removesuffix("/") if parts.path.endswith("/") else f"{parts.path}/"
    address = urlunsplit(parts._replace(path=path))
    try:
        answer = endpoint.post("ping", _LEGACY, address=address)
        how = f"returned status {answer.status}"
    except Unreachable as unreachable:
        # Django raises RuntimeError with DEBUG and APPEND_SLASH.
        answer, how = None, unreachable.args[0].removeprefix(f"POST {address} ")
    if answer is not None and answer.reply:
        yield ok(f"{address} is served too.")
    else:
        yield warning(
            f"{address} {how}: clients that use it fail.",
            "Include mcp_bridge.urls, which serves both spellings, before any catch-all pattern, "
            "or use the exact address.",
        )


def origins(endpoint: Endpoint) -> Findings:
    """Check Origin headers: the site's own is allowed, a foreign one is not."""
    answer = endpoint.post("ping", _LEGACY, headers={"Origin": endpoint.origin})
    if answer.status == 403:
        yield error(
            f"The site's own origin {endpoint.origin} is refused (403): Django sees another "
            "address.",
            "Behind a proxy that terminates TLS, set SECURE_PROXY_SSL_HEADER; forward the Host "
            "header, or set USE_X_FORWARDED_HOST.",
        )
    else:
        yield ok(f"The origin {endpoint.origin} is allowed.")
    answer = endpoint.post("ping", _LEGACY, headers={"Origin": _OUTSIDE})
    if answer.status == 403:
        yield ok("A foreign origin is refused (403).")
    else:
        yield error(
            f"A call from the origin {_OUTSIDE} returned status {answer.status}: any website can "
            "call the endpoint in its visitors' browsers.",
            "Configure the proxy to forward the Origin header unchanged, and keep check_origin() "
            "in your own view.",
        )


def anonymous(endpoint: Endpoint) -> Findings:
    """Check a caller without a credential, and the WWW-Authenticate header it gets."""
    answer = endpoint.post("ping", _LEGACY, anonymous=True)
    if answer.status == 401 and "www-authenticate" in answer.headers:
        yield ok("Without a credential, the response is 401 with WWW-Authenticate.")
    elif answer.status == 401:
        yield warning(
            "Without a credential, the response is 401 without WWW-Authenticate, which clients "
            "need to authenticate.",
            "Configure the proxy to forward WWW-Authenticate.",
        )
    elif "result" in answer.reply:
        yield info(
            "Anonymous callers are accepted.",
            "This is expected if a tool is public: see `manage.py mcp_tools`.",
        )
        wrong = {"Authorization": "Bearer mcp-doctor-wrong"}
        if endpoint.post("ping", _LEGACY, anonymous=True, headers=wrong).status == 401:
            yield ok("A wrong credential is refused (401).")
        else:
            level = error if endpoint.credential else warning
            yield level(
                "A wrong credential is not refused: every caller is treated as anonymous.",
                _NO_HEADER,
            )
    else:
        yield explain(endpoint, answer, "A call without a credential")


def encryption(endpoint: Endpoint) -> Findings:
    """Check that credentials are not sent unencrypted."""
    if endpoint.url and not is_https_or_loopback(endpoint.url):
        yield warning(
            "The address is plain HTTP: tokens and results are sent unencrypted.",
            "Serve the site over HTTPS, and use that address in clients.",
        )


PROBES: Final[Mapping[str, Callable[[Endpoint], Findings]]] = {
    "handshake": handshake,
    "discovery": discovery,
    "tools": listing,
    "methods": other_verbs,
    "slash": slash,
    "origin": origins,
    "credential": anonymous,
    "HTTPS": encryption,
}


def examined(
    url: str | None, token: str | None, user: str | None, timeout: float
) -> Iterator[tuple[str, Finding]]:
    """Yield each finding with its area: first those of the site, then those of the endpoint."""
    found = sorted(dict.fromkeys(_checked()), key=lambda each: LEVELS.index(each.level))
    yield from (("checks", each) for each in found)
    if not any(each.level in ("error", "warning") for each in found):
        yield "checks", ok("The system checks passed.")
    if any(each.text.startswith(TABLES) for each in found):
        # The following checks build the tools, which may write rows that break a migration.
        return
    if apps.is_installed("mcp_bridge.tasks"):
        yield from (("tasks", each) for each in _findings(_queue))
    if not url:
        where = next(_findings(_located))
        yield "URLs" if where.level == "ok" else "endpoint", where
        if where.level == "error":
            return
    endpoint = Endpoint(url, token, named_user(user) if user else None, timeout)
    for area, probe in PROBES.items():
        findings = list(_findings(partial(probe, endpoint)))
        yield from ((f"endpoint, {area}", finding) for finding in findings)
        if area == "handshake" and any(each.level == "error" for each in findings):
            # Another server answers there.
            return


def _checked() -> Findings:
    """Run the system checks: all of this package, and those of others that stop commands."""
    known = checks.registry.registry
    for check in known.get_checks(include_deployment_checks=True):
        is_ours, stops = "mcp_bridge" in check.tags, check in known.get_checks()
        if is_ours or stops or checks.Tags.security in check.tags:
            yield from _findings(partial(_messages, check, is_ours, stops))


def _messages(check: Callable[..., Any], is_ours: bool, stops: bool) -> Findings:
    # With databases, checks of tools are skipped until migrations are applied.
    for each in check(app_configs=None, databases=list(connections)):
        text = f"{each.id}: {each.msg}"
        if each.is_silenced():
            continue
        if is_ours or (stops and each.level >= checks.ERROR):
            level = error if each.level >= checks.ERROR else warning
            level = info if each.level < checks.WARNING else level
            yield level(text, str(each.hint or "It stops every command."))
        elif each.id in _HTTPS:
            yield info(text, "Tokens are sent with every call. See `check --deploy`.")


def _queue() -> Findings:
    """Check that a worker takes tasks from the queue, by the oldest one that waits for it."""
    task: Any = apps.get_model("mcp_bridge_tasks", "McpTask")
    oldest = task.waiting().order_by("updated_at").first()
    if oldest is None:
        yield ok("None of the tasks waits for a worker.")
        return
    waited = round((timezone.now() - oldest.updated_at).total_seconds())
    text = f"The task {oldest.pk} ({oldest.tool}) has waited for a worker for {waited} s."
    if waited < _WAIT:
        yield ok(text)
    else:
        yield warning(
            text,
            "Start a worker, or more: `manage.py db_worker --queue-name mcp` with django_tasks_db. "
            "If the queue has lost the task, `manage.py mcp_tasks expire` queues it again.",
        )


def _located() -> Findings:
    if addresses := reachable():
        yield ok(f"The endpoint is at {', '.join(addresses)}.")
    else:
        yield error(f"{NO_ADDRESS}, so it was not tried.", ADD_ADDRESS)


def _findings(examine: Callable[[], Findings]) -> Findings:
    """Yield the findings of a check, and an error if the check fails."""
    try:
        yield from examine()
    except Unreachable as unreachable:
        yield error(*unreachable.args)
    except Exception as raised:
        yield error(
            f"This check failed: {type(raised).__name__}: {first_line(raised)}.",
            "Fix this and the findings above, then run mcp_doctor again.",
        )
