"""Commands on broken sites, each in a separate process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.support.processes import ROOT, try_python

pytestmark = pytest.mark.alone

SITE = """
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF="site_urls",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework",
                    "mcp_bridge", "mcp_bridge.tokens", "shelf"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3",
                           "NAME": os.environ["SITE_DATABASE"],
                           "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command":
                               "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}}},
    MIDDLEWARE=[],
    ALLOWED_HOSTS=["library.example"],
)
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
URLS = """
from django.urls import include, path
from modernrpc.server import RpcServer
from mcp_bridge import mcp_tool

server = RpcServer()

@server.register_procedure
@mcp_tool(public=True, read_only=True)
def ping() -> str:
    \"\"\"Answer.\"\"\"
    return "pong"

urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]
"""
MIGRATION = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("{app}", "{name}")]
    operations = []
"""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one app, whose tables have been created."""
    site = tmp_path_factory.mktemp("site")
    (site / "manage.py").write_text(SITE)
    (site / "site_urls.py").write_text(URLS)
    folder = site / "shelf" / "migrations"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    status, _, err = manage(site, "migrate", "-v", "0")
    assert (status, err) == (0, "")
    return site


@pytest.fixture
def site(migrated: Path, tmp_path: Path) -> Path:
    """A copy of that site, which a test breaks."""
    return shutil.copytree(migrated, tmp_path / "site")


def manage(site: Path, *arguments: str, database: str | None = None) -> tuple[int | None, str, str]:
    """Return the exit status, the output and the errors of a command."""
    env = {"PYTHONPATH": str(ROOT), "SITE_DATABASE": database or str(site / "db.sqlite3")}
    return try_python(str(site / "manage.py"), *arguments, env=env)


def test_broken_migration_graph_is_a_one_line_error(site: Path) -> None:
    assert manage(site, "mcp_call", "ping")[0] == 0
    broken = site / "shelf" / "migrations" / "0001_initial.py"
    broken.write_text(MIGRATION.format(app="shelf", name="0000_gone"))
    for command in (["mcp_call", "ping"], ["mcp_tools"], ["mcp_token", "list"]):
        status, out, err = manage(site, *command)
        assert (status, out) == (1, "")
        assert err.startswith("CommandError: The site's migrations cannot be read: ")
        assert "shelf.0001_initial" in err
        assert "shelf', '0000_gone'" in err
        assert err.count("\n") == 1
    broken.unlink()
    assert manage(site, "mcp_call", "ping")[0] == 0


def test_unimportable_migration_is_a_one_line_error(site: Path) -> None:
    folder = site / "shelf" / "migrations"
    (folder / "0001_initial.py").write_text(MIGRATION.format(app="auth", name="0001_initial"))
    (folder / "0002_one.py").write_text("import nothing_of_that_name")
    status, _, err = manage(site, "mcp_call", "ping")
    assert status == 1
    assert err.startswith("CommandError: The site's migrations cannot be read: ")
    assert "nothing_of_that_name" in err


def test_unreachable_database_is_a_one_line_error(site: Path) -> None:
    status, _, err = manage(site, "mcp_tools", database=str(site / "no folder" / "db.sqlite3"))
    assert status == 1
    assert err.startswith("CommandError: The database 'default' cannot be read: ")
    assert err.count("\n") == 1


def examine(site: Path, database: str | None = None) -> tuple[int | None, dict[str, list[str]]]:
    """Return the exit status of mcp_doctor, and its errors and warnings by area."""
    status, out, err = manage(site, "mcp_doctor", "--json", database=database)
    assert "Traceback" not in err
    grave: dict[str, list[str]] = {}
    for finding in json.loads(out)["findings"]:
        if finding["level"] in ("error", "warning"):
            assert finding["remedy"]
            grave.setdefault(finding["area"], []).append(finding["text"])
    return status, grave


def test_doctor_finds_nothing_on_a_sound_site(site: Path) -> None:
    assert examine(site) == (0, {})


def test_doctor_reports_a_broken_migration_graph(site: Path) -> None:
    broken = site / "shelf" / "migrations" / "0001_initial.py"
    broken.write_text(MIGRATION.format(app="shelf", name="0000_gone"))
    status, grave = examine(site)
    assert (status, list(grave)) == (1, ["checks"])
    assert "shelf.0001_initial" in grave["checks"][0]


def test_doctor_reports_missing_migrations(site: Path) -> None:
    status, grave = examine(site, database=str(site / "new.sqlite3"))
    # Further checks would build tools, whose types may write rows.
    assert (status, list(grave)) == (1, ["checks"])
    assert "run `manage.py migrate` first" in grave["checks"][0]


def test_doctor_reports_an_unimportable_urlconf(site: Path) -> None:
    (site / "site_urls.py").write_text("from nowhere import urlpatterns")
    status, grave = examine(site)
    assert status == 1
    assert "No module named 'nowhere'" in grave["checks"][0]


def test_doctor_reports_a_catch_all(site: Path) -> None:
    urls = site / "site_urls.py"
    well = urls.read_text()
    page = "from django.views.generic import TemplateView\n"
    catch_all = 'path("<path:url>", TemplateView.as_view()), path("", include('
    urls.write_text(page + well.replace('path("", include(', catch_all))
    status, grave = examine(site)
    assert (status, sorted(grave)) == (1, ["checks", "endpoint"])
    assert "mcp_bridge.W031: The address /mcp, /mcp/" in grave["checks"][0]
    urls.write_text(well)
    assert examine(site) == (0, {})


# A mark whose hint is unreadable, and a source whose document is not pinned yet.
BROKEN = """
@server.register_procedure
@mcp_tool(public=True)
def broken(x: "Nowhere") -> str:
    \"\"\"Fail.\"\"\"
    return x
"""
WEATHER = """
    MCP_BRIDGE={"SOURCES": {
        "rpc": {},
        "weather": {"BACKEND": "mcp_bridge.ext.openapi.OpenAPISource", "OPTIONS": {
            "document": os.path.join(os.path.dirname(os.path.abspath(__file__)), "weather.json"),
            "server": "https://weather.example", "operations": ["get*"], "anonymous": True}},
        "orders": {"BACKEND": "mcp_bridge.ext.grpc.GRPCSource", "OPTIONS": {
            "descriptors": "orders.binpb", "target": "localhost:1", "anonymous": True}},
    }},
    MIDDLEWARE=[],
"""
DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Weather", "version": "1"},
    "paths": {"/today": {"get": {"operationId": "getToday", "responses": {}}}},
}


@pytest.fixture
def unreadable(site: Path) -> Path:
    """A site with a tool that cannot be built: ``check`` ends in an error."""
    user = ["--username", "ada", "--email", "ada@library.example"]
    assert manage(site, "createsuperuser", "--noinput", *user)[0] == 0
    urls = site / "site_urls.py"
    urls.write_text(urls.read_text() + BROKEN)
    status, _, err = manage(site, "check")
    assert (status, "mcp_bridge.E006" in err) == (1, True)
    return site


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("mcp_audit", "reap"), 'set to "unknown"'),
        (("mcp_audit", "prune", "--older-than", "1d"), "0 records and 0 decided calls"),
        (("mcp_call", "ping"), '"isError": false'),
        (("mcp_connect", "--url", "https://library.example/mcp"), "library.example/mcp"),
        (("mcp_pending",), "0 calls pending"),
        (("mcp_token", "list"), ""),
        (("mcp_tools",), "1 of 1 tools"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_commands_run_despite_an_unreadable_hint(
    unreadable: Path, command: tuple[str, ...], said: str
) -> None:
    status, out, err = manage(unreadable, *command)
    assert (status, said in out) == (0, True), err


def test_token_can_be_revoked_despite_an_unreadable_hint(unreadable: Path) -> None:
    status, _, err = manage(unreadable, "mcp_token", "create", "ada", "--name", "laptop")
    assert status == 0, err
    status, _, err = manage(unreadable, "mcp_token", "revoke", "1")
    assert status == 0, err
    assert "revoked" in manage(unreadable, "mcp_token", "list")[1]


@pytest.mark.parametrize("command", [("mcp_tools",), ("mcp_call", "ping")])
def test_invalid_setting_is_reported_before_its_consequences(
    site: Path, command: tuple[str, ...]
) -> None:
    program = site / "manage.py"
    program.write_text(SITE.replace("MIDDLEWARE=[]", 'MCP_BRIDGE={"AUDITS": 5}, MIDDLEWARE=[]'))
    status, _, err = manage(site, *command)
    assert (status, "mcp_bridge.E001" in err) == (0, True)
    assert "AUDITS" in err


def test_commands_skip_the_system_checks_unless_they_serve() -> None:
    commands = {
        name: load_command_class(app, name)
        for name, app in get_commands().items()
        if name.startswith("mcp_") and isinstance(app, str)
    }
    assert len(commands) == 14
    checked = {name for name, each in commands.items() if each.requires_system_checks}
    assert checked == {"mcp_stdio"}


@pytest.fixture
def unpinned(site: Path) -> Path:
    """A site with sources whose document and descriptor set are missing."""
    program = site / "manage.py"
    apps = '"shelf", "mcp_bridge.ext.openapi", "mcp_bridge.ext.grpc"]'
    program.write_text(SITE.replace("    MIDDLEWARE=[],\n", WEATHER).replace('"shelf"]', apps))
    return site


def test_missing_document_can_be_pinned(unpinned: Path) -> None:
    given = unpinned / "given.json"
    given.write_text(json.dumps(DOCUMENT))
    status, out, err = manage(unpinned, "mcp_openapi", "weather", "--from", str(given))
    assert status == 0, err
    assert "getToday" in out
    assert "getToday" in (unpinned / "weather.json").read_text()
    assert manage(unpinned, "mcp_openapi", "weather", "--from", str(given), "--check")[0] == 0


@pytest.mark.parametrize("command", ["check", "migrate", "makemigrations"])
def test_commands_run_despite_missing_external_files(unpinned: Path, command: str) -> None:
    (unpinned / "weather.json").write_text("{")
    status, _, err = manage(unpinned, command)
    assert status == 0, err
    assert "mcp_bridge.W063" in err
    assert "mcp_bridge.W053" in err
