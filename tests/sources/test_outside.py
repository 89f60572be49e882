"""A fault of an installed package is a warning with the text of the error in a site's own code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.urls import path
from django.utils.module_loading import import_string

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.serving import route

SOURCES = "mcp_bridge.sources"
PUT: dict[str, str] = {
    "hint": """
from mcp_bridge import mcp_tool
@mcp_tool
def broken(x: "Nowhere") -> str:
    \"\"\"Fail.\"\"\"
""",
    "module": "import nothing_of_that_name",
    "view": """
from rest_framework import generics, serializers
class Broken(serializers.Serializer):
    def get_fields(self):
        raise RuntimeError("no fields today")
class View(generics.CreateAPIView):
    serializer_class = Broken
view = View.as_view()
""",
    "operation": """
from ninja import NinjaAPI
from ninja.security import HttpBearer
from mcp_bridge import mcp_tool
class Key(HttpBearer):
    def authenticate(self, request, token):
        return token
api = NinjaAPI(urls_namespace="others", auth=Key())
@api.get("/things")
@mcp_tool
def things(request) -> int:
    \"\"\"Count them.\"\"\"
""",
}


@pytest.fixture
def found(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], checks.CheckMessage]]:
    """The one message on a module of that kind, in a folder of that name."""

    def find(kind: str, folder: str) -> checks.CheckMessage:
        package = tmp_path / folder / "others"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "api.py").write_text(PUT[kind])
        monkeypatch.syspath_prepend(tmp_path / folder)
        patterns = []
        if kind == "view":
            view = import_string("others.api.view")
            backend, options = "rest_framework.RESTFrameworkSource", {"views": {"broken": {}}}
            patterns = [path("broken/", view, name="broken")]
        elif kind == "operation":
            backend, options = "ninja.NinjaSource", {}
            patterns = [path("api/", import_string("others.api.api").urls)]
        else:
            backend, options = "functions.FunctionSource", {"modules": ["others.api"]}
        source = {"BACKEND": f"{SOURCES}.{backend}", "OPTIONS": options}
        settings.MCP_BRIDGE = {"SOURCES": {"others": source}}
        route(settings, *patterns)
        (message,) = registry.discovered.messages
        return message

    yield find
    for name in [each for each in sys.modules if each.split(".")[0] == "others"]:
        del sys.modules[name]


@pytest.mark.parametrize("folder", ["project", "site-packages", "dist-packages"])
@pytest.mark.parametrize(
    ("kind", "error", "warning", "why"),
    [
        ("hint", "E006", "W017", "marked, but not served"),
        ("module", "E010", "W026", "No module named 'nothing_of_that_name'"),
        ("view", "E070", "W079", "no fields today"),
        ("operation", "E080", "W083", "its authentication is custom (Key)"),
    ],
)
def test_faults_of_installed_packages_are_warnings(
    found: Callable[[str, str], checks.CheckMessage],
    folder: str,
    kind: str,
    error: str,
    warning: str,
    why: str,
) -> None:
    message = found(kind, folder)
    is_own = folder == "project"
    assert message.id == f"mcp_bridge.{error if is_own else warning}"
    assert message.level == (checks.ERROR if is_own else checks.WARNING)
    assert why in message.msg
    assert message.hint
