"""OAuth scopes: which exist, which tools require them, and which a credential lacks."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.db import router

from mcp_bridge.calls.credentials import scopes_of
from mcp_bridge.conf import conf
from mcp_bridge.features import Feature
from mcp_bridge.models import Scope
from mcp_bridge.registry.registry import has_database, registry

# Inserted between the host and the path of a resource (RFC 9728, section 3.1).
METADATA_PATH = "/.well-known/oauth-protected-resource"
# The request attribute with the name of the addressed toolset.
TOOLSET = "mcp_toolset"


def missing_scopes(scopes: Iterable[str], auth: object) -> list[str]:
    """Return the scopes that a credential lacks; [] if its kind does not use scopes."""
    granted = scopes_of(auth)
    return [] if granted is None else sorted(set(scopes) - _with_included(granted))


def could_be_granted(auth: object) -> bool:
    """Return whether a client with this credential can ask its user for more scopes."""
    return bool(conf.AUTHORIZATION_SERVERS) and getattr(auth, "can_gain_scopes", True)


def bearer_challenge(
    request: object,
    challenge: str = 'Bearer realm="mcp"',
    *,
    error: str = "",
    scopes: Iterable[str] = (),
) -> str:
    """
    Return a WWW-Authenticate header with all that a client needs to get a token.

    Adds what a Bearer ``challenge`` lacks: the metadata address of the requested resource
    (RFC 9728, section 5.1), the ``error`` (RFC 6750, section 3.1), and the scopes to request,
    DEFAULT_SCOPES if none are given.
    """
    scope = " ".join(scopes or conf.DEFAULT_SCOPES)
    parameters = {"error": error, "scope": scope, "resource_metadata": metadata_url(request)}
    for name, value in parameters.items():
        if value and f"{name}=" not in challenge:
            challenge += f', {name}="{value}"'
    return challenge


def resource_of(request: object) -> str | None:
    """Return the requested resource: its toolset's, RESOURCE, or None if it is not set."""
    return conf.resources.get(getattr(request, TOOLSET, None))


def as_configured(resource: str) -> str:
    """Return a resource as spelled in the settings, or unchanged if it is unknown."""
    # Scheme and host are case-insensitive (RFC 3986, section 6.2.2.1), the rest is not.
    known = {_in_lower_case(each): each for each in conf.resources.values()}
    return known.get(_in_lower_case(resource), resource)


def _in_lower_case(resource: str) -> str:
    scheme, _, rest = resource.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}/{path}"


def metadata_url(request: object) -> str:
    """Return the metadata address (RFC 9728) of the requested resource, or ""."""
    resource = resource_of(request)
    # Metadata names at least one server (MCP, "Authorization Server Discovery").
    if resource is None or not conf.AUTHORIZATION_SERVERS:
        return ""
    url = urlsplit(resource)
    return url._replace(path=METADATA_PATH + url.path.removesuffix("/")).geturl()


def resource_metadata(resource: str) -> dict[str, object]:
    """Return the metadata of a resource (RFC 9728, section 2), without empty members."""
    metadata: dict[str, object] = {
        "resource": resource,
        "authorization_servers": list(conf.AUTHORIZATION_SERVERS),
        "scopes_supported": list(supported_scopes()),
        "bearer_methods_supported": ["header"],
        "resource_name": conf.server_title,
    }
    return {name: value for name, value in metadata.items() if value}


def supported_scopes() -> dict[str, str]:
    """Return the scopes of the settings, the tools and the admin, with descriptions."""
    scopes = dict.fromkeys((*conf.DEFAULT_SCOPES, *features_by_scope()), "")
    scopes |= {
        name: given if isinstance(given, str) else given["description"]
        for name, given in conf.SCOPES.items()
    }
    if has_database():
        rows = Scope.objects.using(router.db_for_write(Scope))
        scopes |= dict(rows.values_list("name", "description"))
    return {name: text or name for name, text in scopes.items()}


def features_by_scope() -> dict[str, list[Feature]]:
    """Return the served features by each scope that they require."""
    found: dict[str, list[Feature]] = {}
    for feature in registry.snapshot:
        for scope in feature.access.scopes:
            found.setdefault(scope, []).append(feature)
    return found


def _with_included(granted: Iterable[str]) -> set[str]:
    """Return scopes and those that they include according to SCOPES."""
    found, pending = set[str](), list(granted)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            given = conf.SCOPES.get(name, "")
            pending += () if isinstance(given, str) else given.get("includes", ())
    return found
