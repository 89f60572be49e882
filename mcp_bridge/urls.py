"""
The endpoint and its discovery view; include it once, at the root: ``path("", include(...))``.

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
    page = views.AsyncToolListView if issubclass(view, views.AsyncMCPView) else views.ToolListView
    found: list[URLPattern | URLResolver] = [
        path("mcp", view.as_view(), name="mcp"),
        path("mcp/", view.as_view()),
        path("mcp/tools/list", page.as_view(), name="mcp-tools-list"),
    ]
    below: list[URLPattern] = []
    for name in conf.toolsets:
        below += [
            path(name, view.as_view(toolset=name), name=f"mcp-toolset-{name}"),
            path(f"{name}/", view.as_view(toolset=name)),
            path(f"{name}/tools/list", page.as_view(toolset=name)),
        ]
    # One include, so that requests for the site's later URLs are matched against one pattern only.
    return [*found, path("mcp/", include(below))] if below else found


# At the root of the site, wherever the endpoint is (RFC 9728, section 3.1).
_METADATA = METADATA_PATH.removeprefix("/")
metadata = [
    path(_METADATA, views.ResourceMetadataView.as_view(), name="mcp-resource-metadata"),
    path(f"{_METADATA}/<path:path>", views.ResourceMetadataView.as_view()),
]

urlpatterns = [*endpoint(views.MCPView), *metadata]
