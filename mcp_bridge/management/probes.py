"""What mcp_doctor tries of the endpoint, and what its answers mean: findings with remedies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit, urlunsplit

import mcp_bridge
from mcp_bridge.checks.urls import reachable
from mcp_bridge.management.endpoint import Answer, Endpoint, Unreachable
from mcp_bridge.outbound.addresses import is_https_or_loopback

# A revision with the legacy handshake, with which most clients begin.
_LEGACY: Final = "2025-11-25"
_OUTSIDE: Final = "https://mcp-doctor.invalid"


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
        return
    if not endpoint.asks(answer):
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
    answer = endpoint.get()
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
