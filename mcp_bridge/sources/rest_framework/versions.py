"""The version of a versioned API that a tool is of."""

from __future__ import annotations

from typing import NamedTuple

from rest_framework import versioning

from mcp_bridge.sources.rest_framework.endpoints import Endpoint


class Version(NamedTuple):
    """The version of an API that a tool is of, and the parameter of it in a path or a query."""

    value: str
    in_path: str = ""
    in_query: str = ""
    in_accept: str = ""


def version_of(endpoint: Endpoint, wanted: str | None) -> Version | None:
    """Return the version of a versioned view that its tool is of: the wanted one, or a default."""
    route = endpoint.route
    kind = route.initkwargs.get("versioning_class", route.kind.versioning_class)
    if kind is None:
        return None
    scheme, name = kind(), kind.version_param
    if issubclass(kind, versioning.NamespaceVersioning):
        named = [part for each in route.namespaces for part in each.split(":")]
        value = next((each for each in named if scheme.is_allowed_version(each)), None)
        value = value or kind.default_version
    elif wanted is not None and scheme.is_allowed_version(wanted):
        value = wanted
    else:
        value = kind.default_version or next(iter(kind.allowed_versions or ()), None)
    if value is None:
        return None
    is_in_path = issubclass(kind, versioning.URLPathVersioning) and name in route.parameters
    return Version(
        str(value),
        in_path=name if is_in_path else "",
        in_query=name if issubclass(kind, versioning.QueryParameterVersioning) else "",
        in_accept=name if issubclass(kind, versioning.AcceptHeaderVersioning) else "",
    )
