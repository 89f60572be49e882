"""Messages for a forgotten step of the installation."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from mcp_bridge.management.base import TablesCommand
from mcp_bridge.testing.serving import route
from tests.support.processes import try_python

UNMIGRATED = """
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="tests.support.site", ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "modernrpc",
                    "rest_framework", "mcp_bridge", "mcp_bridge.tokens"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
import django
django.setup()
import logging, sys
logging.basicConfig(stream=sys.stdout)
from django.core.management import CommandError, call_command
from mcp_bridge.testing import MCPClient
for command in (
    ["mcp_tools"], ["mcp_tools", "--user", "ada"], ["mcp_token", "list"],
    ["mcp_token", "create", "ada", "--name", "x"], ["mcp_audit", "reap"],
    ["mcp_audit", "prune", "--older-than", "1d"], ["mcp_call", "ping_public", "--user", "ada"],
):
    try:
        call_command(*command)
    except CommandError as error:
        assert str(error).startswith("Tables of mcp_bridge are missing"), error
        assert str(error).endswith(": run `manage.py migrate` first."), error
    else:
        raise AssertionError(command)
from django.core.management import ManagementUtility
try:
    ManagementUtility(["manage.py", "mcp_tools", "--json"]).execute()
except SystemExit as exit:
    print("exit", exit.code)
print("commands done")
response = MCPClient().send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', {})
print(response.status_code, response.json()["error"]["message"])
"""


@pytest.mark.alone
def test_missing_migrations_are_reported() -> None:
    status, out, err = try_python("-c", UNMIGRATED)
    assert status == 0, err
    assert "503 The server cannot reach its database just now" in out
    output, log = out.split("commands done")
    # The output, which programs may parse, is empty; the error is on the other stream.
    assert output == "exit 1\n"
    assert err.strip().endswith("run `manage.py migrate` first.")
    assert "ERROR:mcp_bridge.calls:The database is unavailable" in log
    assert "no such table" in log


def test_other_database_errors_are_unchanged() -> None:
    class Command(TablesCommand):
        def handle(self, *args: Any, **options: Any) -> None:
            raise OperationalError("database is locked")

    with pytest.raises(OperationalError, match="database is locked"):
        Command().execute(
            skip_checks=True, force_color=False, no_color=True, stdout=None, stderr=None
        )


INCOMPLETE = """
import sys
from types import ModuleType
from django.conf import settings
urls = sys.modules["site_urls"] = ModuleType("site_urls")
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="site_urls",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework",
                    *sys.argv[2:]],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
import django
django.setup()
from django.core.management import call_command
from django.urls import include, path
from importlib import import_module
if sys.argv[1].endswith(("urls", "urls_async")):
    urls.urlpatterns = [path("", include(sys.argv[1]))]
    call_command("check")
else:
    import_module(sys.argv[1])
"""


@pytest.mark.alone
@pytest.mark.parametrize(
    ("module", "installed", "missing"),
    [
        ("mcp_bridge.urls", [], "mcp_bridge"),
        ("mcp_bridge.urls_async", [], "mcp_bridge"),
        ("mcp_bridge.views", [], "mcp_bridge"),
        ("mcp_bridge.ext.lane.application", [], "mcp_bridge"),
        ("mcp_bridge.tokens.urls", ["mcp_bridge"], "mcp_bridge.tokens"),
        ("mcp_bridge.oauth.urls", ["mcp_bridge"], "mcp_bridge.oauth"),
    ],
)
def test_missing_app_is_named(module: str, installed: list[str], missing: str) -> None:
    status, _, err = try_python("-c", INCOMPLETE, module, *installed)
    assert status == 1
    assert err.strip().splitlines()[-1] == (
        f"django.core.exceptions.ImproperlyConfigured: {missing} is not in INSTALLED_APPS: add "
        f'"{missing}" and run `manage.py migrate`.'
    )


def test_token_without_the_bearer_scheme_gets_a_hint(settings: Any) -> None:
    route(settings)
    for header in ("Token mcp_abc", "mcp_abc", "Basic YTpi", "Bearermcp_abc"):
        response = Client().get("/mcp/tools/list", headers={"Authorization": header})
        assert response.status_code == 401
        assert "Send it as `Authorization: Bearer TOKEN`." in response.json()["detail"]
    response = Client().get("/mcp/tools/list", headers={"Authorization": "bearer mcp_abc"})
    assert response.status_code == 401
    assert "Send it as" not in response.json()["detail"]
