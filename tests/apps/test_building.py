"""Tools are built with the first request, or at process start if BUILD is "eager"."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = pytest.mark.alone

START = """
import sys
sys.path.insert(0, sys.argv[1])
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF="site_urls",
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "rest_framework",
        "mcp_bridge.tokens", "mcp_bridge",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    MIDDLEWARE=[],
    ALLOWED_HOSTS=["testserver"],
    MCP_BRIDGE={"BUILD": sys.argv[2]},
)
sys.argv[0] = sys.argv[3]
from django.core.wsgi import get_wsgi_application
get_wsgi_application()
from django.db import connection
import colours
print(len(colours.READ), connection.connection is None)
from django.core.management import call_command
call_command("migrate", verbosity=0)
from mcp_bridge.testing import MCPClient
client = MCPClient()
print([tool["name"] for tool in client.list_tools()], len(colours.READ) > 0)
print(client.call_tool("paint", {"colour": "red"})["structuredContent"])
from django.core.checks import run_checks
print([each.id for each in run_checks() if each.id == "mcp_bridge.E006"])
"""
COLOURS = """
READ = []

class Colour(str):
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        READ.append(cls)
        return handler(str)

class Broken:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        raise ValueError("no schema")
"""
URLS = """
from django.urls import include, path
from modernrpc.server import RpcServer
from colours import Broken, Colour
from mcp_bridge import mcp_tool

server = RpcServer()

@server.register_procedure
@mcp_tool(public=True, read_only=True)
def paint(colour: Colour) -> str:
    return colour

@server.register_procedure
@mcp_tool(public=True, read_only=True)
def smash(colour: Broken) -> str:
    return colour

urlpatterns = [path("rpc", server.view), path("mcp", include("mcp_bridge.urls"))]
"""


def start(folder: Path, build: str, program: str) -> list[str]:
    (folder / "colours.py").write_text(COLOURS)
    (folder / "site_urls.py").write_text(URLS)
    return run_python("-c", START, str(folder), build, program).splitlines()


@pytest.mark.parametrize(
    ("build", "program", "is_built"),
    [
        ("lazy", "gunicorn", False),
        ("eager", "gunicorn", True),
        ("eager", "uvicorn", True),
        ("eager", "/srv/site/manage.py", False),
        ("eager", "/usr/bin/django-admin", False),
        ("eager", "/usr/lib/django/__main__.py", False),
    ],
)
def test_build_setting_decides_when_tools_are_built(
    tmp_path: Path, build: str, program: str, is_built: bool
) -> None:
    read, *rest = start(tmp_path, build, program)
    assert (read.split()[0] != "0", read.split()[1]) == (is_built, "True")
    assert rest == ["['paint'] True", "{'result': 'red'}", "['mcp_bridge.E006']"]
