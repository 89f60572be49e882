"""
The authorization server's URLs; include them once, at the root: ``path("", include(...))``.

All but the metadata are below ``/oauth/``, since sites have their own /register/ page. Names
and namespace are those of django-oauth-toolkit, whose code reverses them. If a site needs more
of its URLs, include them after these.
"""

from __future__ import annotations

from django.urls import path

from mcp_bridge.conf import require_app

require_app("mcp_bridge.oauth")

from mcp_bridge.oauth import connections, views  # noqa: E402
from mcp_bridge.oauth.registration import ClientRegistrationView  # noqa: E402

app_name = "oauth2_provider"

_metadata = views.from_any_origin(views.ServerMetadataView.as_view())
_token = views.from_any_origin(views.TokenView.as_view())
_revoke = views.from_any_origin(views.RevokeTokenView.as_view())
_register = views.from_any_origin(ClientRegistrationView.as_view())

urlpatterns = [
    path(".well-known/oauth-authorization-server", _metadata, name="oauth-server-metadata"),
    path(".well-known/oauth-authorization-server/<path:path>", _metadata),
    path("oauth/authorize/", views.AuthorizationView.as_view(), name="authorize"),
    path("oauth/token/", _token, name="token"),
    path("oauth/revoke/", _revoke, name="revoke-token"),
    path("oauth/register/", _register, name="dcr-register"),
    *connections.urlpatterns,
]
