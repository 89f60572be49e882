"""An approval also covers a tool's access rule and the target of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.urls import path
from modernrpc.server import RpcServer
from ninja import NinjaAPI
from ninja.security import SessionAuthIsStaff, SessionAuthSuperUser
from oauth2_provider.contrib.rest_framework import IsAuthenticatedOrTokenHasScope
from rest_framework.permissions import AllowAny, BasePermission, IsAdminUser, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_bridge import mcp_tool
from mcp_bridge.admin.approvals import changes
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.fingerprints import canonical_definition
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from tests.support.protobuf import compiled, proto3
from tests.support.serving import served

DRF = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"
NINJA = "mcp_bridge.sources.ninja.NinjaSource"
OPENAPI = "mcp_bridge.ext.openapi.OpenAPISource"
GRPC = "mcp_bridge.ext.grpc.GRPCSource"
Serve = Callable[[Any, Path], None]


class IsEditor(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return True


class IsAuthor(IsEditor):
    pass


class IsNobody(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return False


def view(
    *permissions: Any,
    at: str = "drafts/",
    method: str = "delete",
    fixed: dict[str, Any] | None = None,
    **more: Any,
) -> Serve:
    """Return a view of Django REST framework, with ``more`` members and options of its mark."""
    options = {"confirm": True, "name": "wipe", "description": "Wipe.", "destructive": True}
    options |= more.pop("options", {})

    def serve(settings: Any, folder: Path) -> None:
        def handler(self: Any, request: Any, **values: Any) -> Response:
            return Response({})

        members = {method: mcp_tool(**options)(handler), **more}
        kind = type("Wiping", (APIView,), {"permission_classes": permissions, **members})
        settings.MCP_BRIDGE = {"SOURCES": {"drf": {"BACKEND": DRF}}}
        route(settings, path(at, kind.as_view(), fixed, name="wiping"))

    return serve


def is_known(request: HttpRequest) -> bool:
    return True


def is_anybody(request: HttpRequest) -> bool:
    return True


def check_one(name: str) -> None:
    pass


def check_other(name: str) -> None:
    pass


def procedure(auth: Any = None, **options: Any) -> Serve:
    """Return a procedure of django-modern-rpc, with its ``auth`` and options of its mark."""

    def serve(settings: Any, folder: Path) -> None:
        server = RpcServer(register_system_procedures=False)

        @server.register_procedure(auth=auth)
        @mcp_tool(confirm=True, name="wipe", **options)
        def wipe(name: str) -> str:
            """Wipe."""
            return name

        settings.MCP_BRIDGE = {}
        route(settings, path("rpc", server.view))

    return serve


def operation(auth: Any, at: str = "/drafts") -> Serve:
    """Return an operation of django-ninja."""

    def serve(settings: Any, folder: Path) -> None:
        api = NinjaAPI(urls_namespace="approved")

        def wipe(request: Any) -> str:
            """Wipe."""
            return ""

        api.delete(at, auth=auth, operation_id="wipe")(mcp_tool(confirm=True)(wipe))
        settings.MCP_BRIDGE = {"SOURCES": {"ninja": {"BACKEND": NINJA}}}
        route(settings, path("api/", api.urls))

    return serve


def document(at: str, server: str = "https://a.example", method: str = "delete") -> Serve:
    """Return an operation of another service, with one operationId wherever it is."""

    def serve(settings: Any, folder: Path) -> None:
        name = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        told = {"operationId": "wipe", "summary": "Wipe.", "parameters": [name], "responses": {}}
        info = {"title": "Other", "version": "1"}
        file = folder / "other.json"
        text = {"openapi": "3.1.0", "info": info, "paths": {at: {method: told}}}
        file.write_text(json.dumps(text))
        options = {"document": file, "server": server, "anonymous": True}
        options["operations"] = {"wipe": {"confirm": True, "destructive": True}}
        settings.MCP_BRIDGE = {"SOURCES": {"o": {"BACKEND": OPENAPI, "OPTIONS": options}}}
        route(settings)

    return serve


def method(service: str, target: str = "localhost:1") -> Serve:
    """Return a method of gRPC, under the same name for every service."""

    def serve(settings: Any, folder: Path) -> None:
        tool = 'option (mcp_bridge.tool) = {name: "wipe", confirm: true};'
        text = f"service {service} {{ rpc Wipe(Asked) returns (Asked) {{ {tool} }} }}"
        file = folder / "tested.binpb"
        file.write_bytes(compiled(proto3("message Asked { int32 number = 1; }", text)))
        options = {"descriptors": file, "target": target, "anonymous": True}
        settings.MCP_BRIDGE = {"SOURCES": {"g": {"BACKEND": GRPC, "OPTIONS": options}}}
        route(settings)

    return serve


SCOPED = [IsAuthenticatedOrTokenHasScope]
CHANGES: dict[str, tuple[Serve, Serve, str, str]] = {
    "staff": (view(IsAdminUser), view(IsAuthenticated), "conditions", "staff"),
    "any class": (view(IsEditor), view(IsAuthor), "conditions", "IsEditor"),
    "none": (view(IsEditor), view(AllowAny), "conditions", "IsEditor"),
    "either": (
        view(IsAdminUser & IsEditor),
        view(IsAdminUser | IsEditor),
        "conditions",
        "staff & ",
    ),
    "not": (view(~IsNobody), view(IsEditor), "conditions", "~"),
    "scopes of a view": (
        view(*SCOPED, required_scopes=["write"]),
        view(*SCOPED, required_scopes=["read"]),
        "scopes",
        "write",
    ),
    "scopes": (
        view(IsEditor, options={"scopes": "write"}),
        view(IsEditor, options={"scopes": "read"}),
        "scopes",
        "write",
    ),
    "path": (view(IsEditor), view(IsEditor, at="accounts/"), "target", "DELETE /drafts/"),
    "fixed argument": (
        view(IsEditor, fixed={"kind": "drafts"}),
        view(IsEditor, fixed={"kind": "accounts"}),
        "target",
        "kind='drafts'",
    ),
    "method": (view(IsEditor), view(IsEditor, method="get"), "target", "DELETE /drafts/"),
    "predicate": (procedure(is_known), procedure(is_anybody), "conditions", "is_known"),
    "no predicate": (procedure(is_known), procedure(), "conditions", "is_known"),
    "predicates": (
        procedure([is_known, is_anybody]),
        procedure(is_anybody),
        "conditions",
        "is_known",
    ),
    "precheck": (procedure(precheck=check_one), procedure(), "precheck", "check_one"),
    "other precheck": (
        procedure(precheck=check_one),
        procedure(precheck=check_other),
        "precheck",
        "check_one",
    ),
    "throttle": (procedure(throttle="1/day"), procedure(throttle="9/min"), "throttle", "1/day"),
    "no throttle": (procedure(throttle="1/day"), procedure(), "throttle", "1/day"),
    "superuser": (
        operation(SessionAuthSuperUser()),
        operation(SessionAuthIsStaff()),
        "conditions",
        "superuser",
    ),
    "operation": (
        operation(SessionAuthIsStaff()),
        operation(SessionAuthIsStaff(), "/accounts"),
        "target",
        "DELETE /api/drafts",
    ),
    "document": (document("/drafts/{id}"), document("/accounts/{id}"), "target", "/drafts/{id}"),
    "server": (
        document("/drafts/{id}"),
        document("/drafts/{id}", "https://b.example"),
        "target",
        "https://a.example",
    ),
    "verb": (document("/d/{id}"), document("/d/{id}", method="put"), "target", "DELETE /d/{id}"),
    "grpc": (method("Drafts"), method("Accounts"), "target", "/tested.Drafts/Wipe"),
    "grpc target": (method("Drafts"), method("Drafts", "localhost:2"), "target", "localhost:1"),
}


@pytest.mark.parametrize(("before", "after", "member", "was"), CHANGES.values(), ids=CHANGES)
def test_changed_access_rule_or_target_requires_approval(
    before: Serve,
    after: Serve,
    member: str,
    was: str,
    settings: Any,
    db: None,
    tmp_path: Path,
) -> None:
    root = get_user_model().objects.create_superuser("root")

    def listed() -> list[str]:
        return [each["name"] for each in MCPClient(user=root).list_tools()]

    before(settings, tmp_path)
    registry.reload()
    assert listed() == ["wipe"]
    approved = ToolSetting.objects.get(name="wipe").approved
    assert approved == canonical_definition(served("wipe"))
    # The definition does not depend on the process.
    before(settings, tmp_path)
    registry.reload()
    assert listed() == ["wipe"]
    after(settings, tmp_path)
    registry.reload()
    assert listed() == []
    found = {each.path: each for each in changes(approved, canonical_definition(served("wipe")))}
    change = found[member]
    assert was in "".join(piece.text for piece in change.before or ())
    assert was not in "".join(piece.text for piece in change.now or ())
    assert change.what != member
