"""The example of docs/sources/openapi.md, unchanged."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import checks
from django.core.management import call_command
from django.utils import timezone

from mcp_bridge.models import PendingCall
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import route
from tests.ext.openapi.calling import called, failed
from tests.support.services import Service
from tests.test_docs_code import block, run

PAGE = "sources/openapi"


@pytest.fixture(autouse=True)
def site(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, at_the_other_end: Service
) -> None:
    module = ModuleType("shop.billing")
    vars(module).update(run(PAGE, "def headers"))
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.billing", module)
    monkeypatch.setenv("BILLING_TOKEN", "of-the-site")
    names: dict[str, Any] = {"BASE_DIR": tmp_path}
    exec(block(PAGE, "OpenAPISource"), names)
    names["MCP_BRIDGE"]["SOURCES"]["billing"]["OPTIONS"]["server"] = at_the_other_end.url
    settings.MCP_BRIDGE = names["MCP_BRIDGE"]
    route(settings)
    document = tmp_path / "service.yaml"
    document.write_text(block(PAGE, "openapi: 3.0.3", "yaml"))
    call_command(
        "mcp_openapi", "billing", "--from", str(document), stdout=StringIO(), stderr=StringIO()
    )


def test_example_calls_as_its_user(user: Any, at_the_other_end: Service) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_user", "change_user"]))
    caller = MCPClient(user=User.objects.get(pk=user.pk))
    assert sorted(each["name"] for each in caller.list_tools()) == [
        *("billing_addLine", "billing_invoices_get")
    ]
    assert failed(caller, "billing_invoices_get", number="7") == (
        "Your account has no email address, by which billing knows you."
    )
    User.objects.filter(pk=user.pk).update(email="ada@example.com")
    caller = MCPClient(user=User.objects.get(pk=user.pk))
    assert called(caller, "billing_invoices_get", number="7/8")["path"] == "/invoices/7%2F8"
    [sent] = at_the_other_end.received
    assert (sent.headers["authorization"], sent.headers["x-on-behalf-of"]) == (
        *("Bearer of-the-site", "ada@example.com"),
    )


def test_example_sends_a_call_after_confirmation(user: Any, at_the_other_end: Service) -> None:
    user.user_permissions.set(Permission.objects.filter(codename="change_user"))
    User.objects.filter(pk=user.pk).update(email="ada@example.com")
    caller = MCPClient(user=User.objects.get(pk=user.pk))
    arguments = {"path_number": "7", "sku": "lamp", "number": 2}
    assert "approval" in text_of(caller.call_tool("billing_addLine", arguments))
    assert at_the_other_end.received == []
    PendingCall.objects.update(status="approved", decided_at=timezone.now())
    caller.call_tool("billing_addLine", arguments)
    [sent] = at_the_other_end.received
    assert (sent.target, json.loads(sent.body)) == (
        "/invoices/7/lines",
        {"sku": "lamp", "number": 2},
    )


def test_example_warns_of_an_unmatched_pattern() -> None:
    found = [each for each in checks.run_checks() if each.id == "mcp_bridge.W061"]
    assert ["'tag:customers'" in each.msg for each in found] == [True]
