"""What mcp_doctor examines: the system checks, and the endpoint as a client would try it."""

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
from urllib.request import HTTPErrorProcessor, Request, build_opener

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core import checks
from django.db import connections
from django.http.response import ResponseHeaders

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
# What Django's own deployment checks say of HTTPS.
_HTTPS: Final = ("security.W001", "security.W008", "security.W018", "security.W020")
# Bytes of an answer that are read.
_LONGEST: Final = 8 * 1024 * 1024
# A revision with the legacy handshake, with which most clients begin.
_LEGACY: Final = "2025-11-25"
_OUTSIDE: Final = "https://mcp-doctor.invalid"


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


@dataclass
class Endpoint:
    """
    The endpoint, over the network at ``url`` or else in this process.

    ``token`` is sent as a bearer token, or as it is where it names its scheme ("Token abc").
    ``user`` is whom requests in this process are made as; others are given up after ``timeout``.
    """

    url: str | None
    token: str | None
    user: AbstractBaseUser | None
    timeout: float
    # Whom the answers in this process were for, as far as that is known.
    caller: str = field(default="USERNAME", init=False)

    def __post_init__(self) -> None:
        self.address = self.url or next(iter(reachable()))
        is_bare = self.token and " " not in self.token
        self.credential = f"Bearer {self.token}" if is_bare else self.token

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what to do where it is not well."""

    level: str
    text: str
    remedy: str = ""


ok, info, warning, error = (partial(Finding, level) for level in ("ok", "info", "warning", "error"))
Findings: TypeAlias = Iterator[Finding]

_NO_HEADER: Final = (
    "The Authorization header did not arrive, or no class of AUTHENTICATION_CLASSES reads it: have "
    "the proxy pass it on (Apache: WSGIPassAuthorization On, or CGIPassAuth On)."
)
_HOST: Final = (
    "Add the host of the address to ALLOWED_HOSTS; behind a proxy have it pass the Host header on, "
    "or set USE_X_FORWARDED_HOST."
)
_OTHER: Final = (
    "Another view or the proxy answers at this address, or a firewall refuses POST: give the "
    "endpoint's own, and put its path before any pattern that takes every address "
    "(mcp_bridge.W031)."
)
_BEFORE: Final = (
    "A middleware or the proxy answers in the endpoint's place: exempt the endpoint's path there, "
    "or send what it asks for, such as the host of a tenant."
)
_AS_CALLER: Final = "Give --token, or in this process --user, to try as a caller."
# What an answer that is not the endpoint's means, and what to do, by its status.
_FOREIGN: Final[Mapping[int, tuple[str, str]]] = {
    200: ("a page, not the endpoint's JSON", _OTHER),
    400: ("Django's page for a host that is not allowed, or a proxy's refusal", _HOST),
    401: (
        "another login than the endpoint's",
        "A proxy in front asks for a login of its own: exempt this address there.",
    ),
    403: ("a page that forbids it, such as Django's for CSRF", _OTHER),
    404: (
        "that there is nothing at this address",
        "Give the address under which the URLconf and the proxy have the endpoint.",
    ),
    405: ("that another view is here, which takes no POST", _OTHER),
    413: (
        "that the body is too large for the proxy",
        "Raise the proxy's limit (nginx: client_max_body_size) to MAX_BODY_BYTES.",
    ),
    500: ("an error of the server, in HTML", "The server's log has the traceback."),
    502: ("that the proxy cannot reach the site", "Start the site's server; see its log."),
    503: ("that the site is away", "Start the site's server, or end its maintenance."),
    504: ("that the site does not answer the proxy", "Look for busy workers and slow queries."),
}


def explain(endpoint: Endpoint, answer: Answer, sent: str = "initialize") -> Finding:
    """Return the error that an answer other than a result is."""
    if 300 <= answer.status < 400:
        return _explain_redirect(endpoint, answer)
    told = f"{sent} is answered with status {answer.status}"
    if answer.error:
        return error(f"{told}: {answer.error}", _error_remedy(endpoint, answer))
    text, remedy = _FOREIGN.get(answer.status, ("something else than the endpoint's JSON", _OTHER))
    if answer.told:
        return error(
            f"{told}, not by the endpoint: {answer.told}", _BEFORE if remedy == _OTHER else remedy
        )
    if answer.status in (200, 403, 404, 405) and (known := reachable()):
        remedy += f" This site's URLconf has the endpoint at {', '.join(known)}."
    return error(f"{told}, which is {text}.", remedy)


def _explain_redirect(endpoint: Endpoint, answer: Answer) -> Finding:
    """Return the error of a redirect: a redirected POST becomes a GET, and loses its body."""
    address = endpoint.url or endpoint.origin + endpoint.address
    target = urljoin(address, answer.headers.get("location", ""))
    text = f"The endpoint redirects (status {answer.status}) to {target}: a POST loses its body."
    if "login" in target or "next=" in target:
        remedy = (
            "A middleware or a proxy asks for a login in the browser: exempt the endpoint, which "
            "authenticates its callers itself."
        )
    elif target == address:
        remedy = (
            "Django does not see that the request came over HTTPS: set SECURE_PROXY_SSL_HEADER to "
            "the header that the proxy sends, and have the proxy send it."
        )
    elif target.rstrip("/") == address.rstrip("/"):
        remedy = f"Give clients {target}, or include mcp_bridge.urls, which serves both spellings."
    else:
        remedy = f"Give clients {target}."
    return error(text, remedy)


def _error_remedy(endpoint: Endpoint, answer: Answer) -> str:
    """Return what to do about an error of the endpoint itself."""
    if answer.status == 401 and endpoint.credential:
        if answer.error.startswith("Authentication required"):
            return _NO_HEADER
        return (
            "The header arrived, and the credential does not hold: it is wrong, revoked, expired, "
            "of another SECRET_KEY, or its user is not active (`manage.py mcp_token list`)."
        )
    return {
        400: _HOST,
        401: _AS_CALLER,
        403: "MCP_BRIDGE['ALLOWED_ORIGINS'] names the origins that may call.",
        429: "Wait; MCP_BRIDGE['THROTTLE_RATES'] says how often a caller may call.",
        503: "Run `manage.py migrate`, and look whether the server reaches its database.",
    }.get(answer.status, "The server's log says more.")


def handshake(endpoint: Endpoint) -> Findings:
    """How clients begin: POST ``initialize``."""
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
            "The endpoint answers, and asks for a credential (401): no tool was listed.",
            _AS_CALLER,
        )
    else:
        yield explain(endpoint, answer)


def discovery(endpoint: Endpoint) -> Findings:
    """How clients of the latest revision begin, with headers that a proxy may drop."""
    answer = endpoint.post("server/discover")
    if "result" in answer.reply:
        yield ok(
            f"server/discover: {', '.join(answer.reply['result'].get('supportedVersions', []))}."
        )
    elif not endpoint.asks(answer):
        yield error(
            explain(endpoint, answer, "server/discover").text,
            "initialize is answered, and this is not: have the proxy pass the headers "
            "MCP-Protocol-Version, Mcp-Method and Mcp-Name on.",
        )


def listing(endpoint: Endpoint) -> Findings:
    """The tools that the caller sees, on the first page."""
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
            "tools/list: the caller sees no tool.",
            f"`manage.py mcp_tools --user {endpoint.caller}` says why each is missing.",
        )


def other_verbs(endpoint: Endpoint) -> Findings:
    """GET, which clients try for a stream of events: 405 tells them that there is none."""
    answer = endpoint.send("GET", endpoint.address, b"", {"Accept": "text/event-stream"})
    if answer.status == 405 and "POST" in answer.headers.get("allow", ""):
        yield ok("GET is refused (405, Allow: POST).")
    else:
        yield error(
            f"GET is answered with status {answer.status}, not 405 with Allow: POST: clients take "
            "it for a stream of events, or for another server.",
            "Have the proxy pass every method on to the endpoint, and not serve pages of its own "
            "at this address.",
        )


def slash(endpoint: Endpoint) -> Findings:
    """The other spelling of the address, since people paste both."""
    parts = urlsplit(endpoint.address)
    path = parts.path.removesuffix("/") if parts.path.endswith("/") else f"{parts.path}/"
    address = urlunsplit(parts._replace(path=path))
    try:
        answer = endpoint.post("ping", _LEGACY, address=address)
        how = f"is answered with status {answer.status}"
    except Unreachable as unreachable:
        # Django raises RuntimeError with DEBUG and APPEND_SLASH.
        answer, how = None, unreachable.args[0].removeprefix(f"POST {address} ")
    if answer is not None and answer.reply:
        yield ok(f"{address} is served as well.")
    else:
        yield warning(
            f"{address} {how}: clients that are given it fail.",
            "Include mcp_bridge.urls, which serves both spellings, before any pattern that takes "
            "every address; or name the address exactly.",
        )


def origins(endpoint: Endpoint) -> Findings:
    """The Origin that browsers send: the site's own may call, one from outside may not."""
    answer = endpoint.post("ping", _LEGACY, headers={"Origin": endpoint.origin})
    if answer.status == 403:
        yield error(
            f"The site's own origin {endpoint.origin} is refused (403): Django takes the address "
            "for another one.",
            "Behind a proxy that ends TLS set SECURE_PROXY_SSL_HEADER; have it pass the Host "
            "header on, or set USE_X_FORWARDED_HOST.",
        )
    else:
        yield ok(f"The origin {endpoint.origin} may call.")
    answer = endpoint.post("ping", _LEGACY, headers={"Origin": _OUTSIDE})
    if answer.status == 403:
        yield ok("An origin from outside is refused (403).")
    else:
        yield error(
            f"The origin {_OUTSIDE} is answered with status {answer.status}: a page of any site "
            "may call in its visitor's browser.",
            "Have the proxy pass the Origin header on as it is, and keep check_origin() in a view "
            "of your own.",
        )


def anonymous(endpoint: Endpoint) -> Findings:
    """A caller without a credential, who is told how to authenticate."""
    answer = endpoint.post("ping", _LEGACY, anonymous=True)
    if answer.status == 401 and "www-authenticate" in answer.headers:
        yield ok("Without a credential the answer is 401, with WWW-Authenticate.")
    elif answer.status == 401:
        yield warning(
            "Without a credential the answer is 401 without WWW-Authenticate, by which clients "
            "know how to authenticate.",
            "Have the proxy pass WWW-Authenticate on.",
        )
    elif "result" in answer.reply:
        yield info(
            "Anonymous callers are answered.",
            "So it is where a tool is public: `manage.py mcp_tools` says which.",
        )
        wrong = {"Authorization": "Bearer mcp-doctor-wrong"}
        if endpoint.post("ping", _LEGACY, anonymous=True, headers=wrong).status == 401:
            yield ok("A wrong credential is refused (401).")
        else:
            level = error if endpoint.credential else warning
            yield level(
                "A wrong credential is not refused: every caller is taken for an anonymous one.",
                _NO_HEADER,
            )
    else:
        yield explain(endpoint, answer, "A call without a credential")


def encryption(endpoint: Endpoint) -> Findings:
    """Whether credentials cross the network in the clear."""
    if endpoint.url and not is_https_or_loopback(endpoint.url):
        yield warning(
            "The address is plain HTTP: tokens and results cross the network in the clear.",
            "Serve the site over HTTPS, and give clients that address.",
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
        yield "checks", ok("The system checks find nothing.")
    if any(each.text.startswith(TABLES) for each in found):
        # What follows makes the tools, which may write rows that a migration cannot stand.
        return
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
            # Whatever answers there, it is not the endpoint.
            return


def _checked() -> Findings:
    """Run the system checks: all of this package, and of others what would stop a command."""
    known = checks.registry.registry
    for check in known.get_checks(include_deployment_checks=True):
        is_ours, stops = "mcp_bridge" in check.tags, check in known.get_checks()
        if is_ours or stops or checks.Tags.security in check.tags:
            yield from _findings(partial(_messages, check, is_ours, stops))


def _messages(check: Callable[..., Any], is_ours: bool, stops: bool) -> Findings:
    # With databases, those of the tools wait until migrations are done.
    for each in check(app_configs=None, databases=list(connections)):
        text = f"{each.id}: {each.msg}"
        if each.is_silenced():
            continue
        if is_ours or (stops and each.level >= checks.ERROR):
            level = error if each.level >= checks.ERROR else warning
            level = info if each.level < checks.WARNING else level
            yield level(text, str(each.hint or "Every command stops at it."))
        elif each.id in _HTTPS:
            yield info(
                text, "Tokens cross the network with every call. `check --deploy` says more."
            )


def _located() -> Findings:
    if addresses := reachable():
        yield ok(f"The endpoint is at {', '.join(addresses)}.")
    else:
        yield error(f"{NO_ADDRESS}, so that it was not tried.", ADD_ADDRESS)


def _findings(examine: Callable[[], Findings]) -> Findings:
    """Yield what is found, and an error in place of what cannot be looked at."""
    try:
        yield from examine()
    except Unreachable as unreachable:
        yield error(*unreachable.args)
    except Exception as raised:
        yield error(
            f"This cannot be examined: {type(raised).__name__}: {first_line(raised)}.",
            "Mend that, and what is said above; then run mcp_doctor again.",
        )
