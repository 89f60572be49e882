"""Scopes of a credential in views: a call never allows more than the view does over HTTP."""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import path
from django.utils import timezone
from oauth2_provider.contrib.rest_framework import (
    IsAuthenticatedOrTokenHasScope,
    OAuth2Authentication,
    TokenHasReadWriteScope,
    TokenHasResourceScope,
    TokenHasScope,
    TokenMatchesOASRequirements,
)
from oauth2_provider.models import AccessToken
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission, IsAdminUser, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_bridge import mcp_tool
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.admin.test_scopes import in_one_line
from tests.oauth.conftest import MCP_BRIDGE, RESOURCE
from tests.support.administrator import Administrator, row

SOURCE = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"
OURS = "mcp_bridge.tokens.authentication.TokenAuthentication"


class ByAttribute(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return request.auth is None or "news:write" in request.auth.scope.split()


class ByApplication(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return request.auth is None or request.auth.application is None


class ByKind(BasePermission):
    """Treats every credential other than an OAuth token as a session."""

    def has_permission(self, request: Any, view: Any) -> bool:
        token = request.auth
        return not isinstance(token, AccessToken) or token.is_valid(["news:write"])


class ByDefault(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return not getattr(request.auth, "is_limited", False)


class ByAuthenticator(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        if isinstance(request.successful_authenticator, OAuth2Authentication):
            return bool(request.auth.is_valid(["news:write"]))
        return bool(request.user.is_authenticated)


def is_of_oauth(request: Any) -> bool:
    return isinstance(request.successful_authenticator, OAuth2Authentication)


class ByHelper(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return not is_of_oauth(request) or request.auth.is_valid(["news:write"])


class ByType(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return type(request.auth) is not AccessToken or request.auth.is_valid(["news:write"])


def serve_view(settings: Any, permissions: list[Any], scopes: Any = None, **members: Any) -> None:
    """Serve POST /groups/, which makes a group, as the tool "groups"."""

    def post(self: Any, request: Any) -> Response:
        """Make a group."""
        Group.objects.create(name="made")
        return Response({"made": True})

    options: dict[str, Any] = {} if scopes is None else {"scopes": scopes}
    members |= {
        "authentication_classes": [OAuth2Authentication, SessionAuthentication],
        "permission_classes": permissions,
        "post": mcp_tool(**options)(post),
    }
    kind = type("Groups", (APIView,), members)
    settings.MCP_BRIDGE = {
        **MCP_BRIDGE,
        "AUTHENTICATION_CLASSES": [*MCP_BRIDGE["AUTHENTICATION_CLASSES"], OURS],
        "SOURCES": {"drf": {"BACKEND": SOURCE}},
    }
    pages = path("admin/", admin.site.urls)
    route(settings, pages, path("groups/", kind.as_view(), name="groups"))


def token_of(user: Any, scope: str) -> str:
    expires = timezone.now() + timedelta(hours=1)
    AccessToken.objects.create(
        user=user,
        token=f"t {scope}".replace(" ", "-"),
        scope=scope,
        expires=expires,
        resource=[RESOURCE],
    )
    return f"t {scope}".replace(" ", "-")


def writes_by_tool(token: str | None = None, **who: Any) -> bool:
    """Call the tool; whether it has run."""
    Group.objects.all().delete()
    client = MCPClient(token=token, **who)
    try:
        client.call_tool("groups", {})
    except MCPError:
        # Such as 403 insufficient_scope, or an unknown tool.
        assert client.response.status_code < 500
    return Group.objects.exists()


def writes_by_http(user: Any, scope: str | None) -> bool:
    """Send the request over HTTP as the user of a token for nothing in particular."""
    Group.objects.all().delete()
    client, headers = Client(), {}
    if scope is None:
        client.force_login(user)
    else:
        AccessToken.objects.create(
            user=user, token="plain", scope=scope, expires=timezone.now() + timedelta(hours=1)
        )
        headers["Authorization"] = "Bearer plain"
    client.post("/groups/", headers=headers)
    AccessToken.objects.filter(token="plain").delete()
    return Group.objects.exists()


WRITE = {"required_scopes": ["news:write"]}
TOOLKIT: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "or token": ([IsAuthenticatedOrTokenHasScope], WRITE),
    "token": ([TokenHasScope], WRITE),
    "both": ([IsAuthenticated, TokenHasScope], WRITE),
    "method": ([TokenHasReadWriteScope], {"required_scopes": ["news:write"]}),
    "resource": ([TokenHasResourceScope], {"required_scopes": ["news"]}),
    "alternatives": (
        [TokenMatchesOASRequirements],
        {"required_alternate_scopes": {"POST": [["news:write"], ["all"]]}},
    ),
    "and": ([IsAuthenticated & IsAuthenticatedOrTokenHasScope], WRITE),
    "or": ([IsAdminUser | IsAuthenticatedOrTokenHasScope], WRITE),
    "or admin": ([IsAdminUser | TokenHasScope], WRITE),
    "own": ([ByAttribute], {}),
    "kind": ([ByKind], {}),
    "application": ([ByApplication], {}),
    "default": ([ByDefault], {}),
}
SCOPES = ["news:read", "news:write", "news:write write", "mcp", "all"]


@pytest.mark.parametrize(("permissions", "members"), TOOLKIT.values(), ids=TOOLKIT)
@pytest.mark.parametrize("scope", SCOPES)
def test_tool_allows_no_more_than_its_view(
    permissions: list[Any],
    members: dict[str, Any],
    scope: str,
    settings: Any,
    user: Any,
) -> None:
    serve_view(settings, permissions, **members)
    is_open = writes_by_http(user, scope)
    is_run = writes_by_tool(token_of(user, scope))
    assert is_open or not is_run
    if permissions[0] not in (ByKind, ByApplication, ByDefault):
        assert is_run == is_open


@pytest.mark.parametrize(("permissions", "members"), TOOLKIT.values(), ids=TOOLKIT)
def test_unscoped_credential_equals_a_session(
    permissions: list[Any], members: dict[str, Any], settings: Any, user: Any
) -> None:
    serve_view(settings, permissions, **members)
    is_open = writes_by_http(user, None)
    token, secret = Token.objects.issue(user=user, name="all")
    assert writes_by_tool(secret) == writes_by_tool(user=user) == is_open


@pytest.mark.parametrize("name", [name for name in TOOLKIT if name != "default"])
def test_limited_personal_token_is_restricted_to_its_scopes(
    name: str, settings: Any, user: Any
) -> None:
    permissions, members = TOOLKIT[name]
    serve_view(settings, permissions, **members)
    token, secret = Token.objects.issue(user=user, name="part", scopes=["news:read"])
    assert writes_by_tool(secret) is False


@pytest.mark.parametrize("kind", [IsAuthenticatedOrTokenHasScope, TokenHasScope])
def test_challenge_names_the_scopes_of_a_view(kind: Any, settings: Any, user: Any) -> None:
    serve_view(settings, [kind], scopes="mcp", **WRITE)
    client = MCPClient(token=token_of(user, "news:read"))
    with pytest.raises(MCPError):
        client.call_tool("groups", {})
    assert client.response.status_code == 403
    assert 'scope="mcp news:write"' in client.response["WWW-Authenticate"]


@pytest.mark.parametrize("scopes", [None, "mcp"])
def test_admin_pages_name_the_scopes_of_a_view(scopes: str | None, settings: Any) -> None:
    serve_view(settings, [TokenHasScope], scopes=scopes, **WRITE)
    administrator = Administrator()
    administrator.get("changelist")
    named = [*filter(None, [scopes]), "news:write"]
    page = administrator.get("change", row("groups").pk)
    needed = f"Scopes required of OAuth clients {', '.join(named)}"
    assert needed in in_one_line(page)


@pytest.mark.parametrize("kind", [ByAuthenticator, ByHelper, ByType])
def test_view_checking_the_authenticator_requires_scopes(
    kind: Any, settings: Any, user: Any
) -> None:
    serve_view(settings, [kind])
    assert registry.discovered.tools == {}
    (message,) = (each for each in registry.discovered.messages if each.id == "mcp_bridge.E070")
    assert kind.__name__ in message.msg
    assert "scopes=" in message.msg
    serve_view(settings, [kind], scopes="news:write")
    assert writes_by_tool(token_of(user, "news:read")) is False
    assert writes_by_tool(token_of(user, "news:write")) is True


class Helpers:
    """Functions that a permission class reaches by an attribute."""

    is_of_oauth = staticmethod(is_of_oauth)


helpers = ModuleType("helpers")
vars(helpers)["is_of_oauth"] = is_of_oauth


class ByAttributeOfClass(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return not Helpers.is_of_oauth(request) or request.auth.is_valid(["news:write"])


class ByModule(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return not helpers.is_of_oauth(request) or request.auth.is_valid(["news:write"])


class ByView(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(view.may(request))


class ByHeader(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        is_bearer = "Authorization" in request.headers
        return not is_bearer or request.auth.is_valid(["news:write"])


def get_permissions(self: Any) -> list[BasePermission]:
    if isinstance(self.request.successful_authenticator, OAuth2Authentication):
        return [TokenHasScope()]
    return [IsAuthenticated()]


def check_permissions(self: Any, request: Any) -> None:
    if type(request.auth) is AccessToken and not request.auth.is_valid(["news:write"]):
        self.permission_denied(request)


def initial(self: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    if isinstance(request.successful_authenticator, OAuth2Authentication):
        self.permission_denied(request)


def asks(self: Any, request: Any) -> bool:
    return isinstance(request.successful_authenticator, OAuth2Authentication)


ASKING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "attribute of a class": ([ByAttributeOfClass], {}),
    "attribute of a module": ([ByModule], {}),
    "method of the view": ([ByView], {"may": asks}),
    "header": ([ByHeader], {}),
    "get_permissions": ([], {"get_permissions": get_permissions, "required_scopes": ["x"]}),
    "check_permissions": ([IsAuthenticated], {"check_permissions": check_permissions}),
    "initial": ([IsAuthenticated], {"initial": initial}),
}


@pytest.mark.parametrize(("permissions", "members"), ASKING.values(), ids=ASKING)
def test_permissions_reading_the_authentication_require_scopes(
    permissions: list[Any], members: dict[str, Any], settings: Any
) -> None:
    serve_view(settings, permissions, **members)
    assert registry.discovered.tools == {}
    (message,) = (each for each in registry.discovered.messages if each.id == "mcp_bridge.E070")
    assert "reads how the caller was authenticated" in message.msg


@pytest.mark.parametrize("kind", [ByApplication, ByKind, ByDefault])
def test_scopes_of_mcp_tool_replace_undetectable_rules(kind: Any, settings: Any, user: Any) -> None:
    serve_view(settings, [kind], scopes="news:write")
    assert writes_by_tool(token_of(user, "news:read")) is False
    assert writes_by_tool(token_of(user, "news:write")) is (kind is not ByApplication)


def test_view_without_named_scopes_is_an_error(settings: Any, user: Any) -> None:
    serve_view(settings, [TokenHasScope])
    assert registry.discovered.tools == {}
    (message,) = (each for each in registry.discovered.messages if each.id == "mcp_bridge.E070")
    assert "required_scopes" in message.msg
