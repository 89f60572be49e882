"""
The endpoint and its REST views; include it once, at the root: ``path("", include(...))``.

The toolsets are those in TOOLSETS when this module is imported.
The endpoint answers with and without a trailing slash, since a redirected POST loses its body.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from mcp_bridge import views
from mcp_bridge.access.scopes import METADATA_PATH
from mcp_bridge.conf import conf


def endpoint(view: type[views.MCPView]) -> list[URLPattern | URLResolver]:
    """Return the URL patterns of an endpoint served by ``view``, and of each of its toolsets."""
    found: list[URLPattern | URLResolver] = [
        path("mcp", view.as_view(), name="mcp"),
        path("mcp/", view.as_view()),
        *_rest(view, "mcp/tools/"),
    ]
    below: list[URLPattern] = []
    for name in conf.toolsets:
        below += [
            path(name, view.as_view(toolset=name), name=f"mcp-toolset-{name}"),
            path(f"{name}/", view.as_view(toolset=name)),
            *_rest(view, f"{name}/tools/", toolset=name),
        ]
    # One include, so that requests for the site's later URLs are matched against one pattern only.
    return [*found, path("mcp/", include(below))] if below else found


def _rest(view: type[views.MCPView], below: str, **options: str) -> list[URLPattern]:
    """Return the REST addresses of an endpoint; those of toolsets do not have names."""
    is_async = issubclass(view, views.AsyncMCPView)
    kinds = {
        "list": views.AsyncToolListView if is_async else views.ToolListView,
        "describe": views.AsyncToolDescriptionView if is_async else views.ToolDescriptionView,
        "<str:name>": views.AsyncToolCallView if is_async else views.ToolCallView,
    }
    return [
        path(
            below + route,
            kind.as_view(**options),
            name=None if options else f"mcp-tools-{'call' if '<' in route else route}",
        )
        for route, kind in kinds.items()
    ]


# At the root of the site, wherever the endpoint is (RFC 9728, section 3.1).
_METADATA = METADATA_PATH.removeprefix("/")
metadata = [
    path(_METADATA, views.ResourceMetadataView.as_view(), name="mcp-resource-metadata"),
    path(f"{_METADATA}/<path:path>", views.ResourceMetadataView.as_view()),
]

urlpatterns = [*endpoint(views.MCPView), *metadata]
