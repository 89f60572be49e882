"""Migrations of a site run as without the apps, in separate processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import try_python, variables

pytestmark = pytest.mark.alone

SETTINGS = """
SECRET_KEY = "x" * 50
ROOT_URLCONF = "site_urls"
INSTALLED_APPS = ["rest_framework", "mcp_bridge", "django.contrib.contenttypes",
                  "django.contrib.auth", "stock"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3",
                         "OPTIONS": {"transaction_mode": "IMMEDIATE"}}}
MCP_BRIDGE = {"AUTHENTICATION_CLASSES": []}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
"""
URLS = """
from django import forms
from django.urls import include, path
from modernrpc.server import RpcServer
from mcp_bridge import mcp_tool
from stock.models import Kind

server = RpcServer()

class OrderForm(forms.Form):
    kind = forms.CharField()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # As ContentType.objects.get_for_model() does, a row is made where it is asked for.
        Kind.objects.get_or_create(name="standard")
        print("FORM MADE")

@server.register_procedure
@mcp_tool(public=True, read_only=True)
def order(form: OrderForm) -> str:
    "Order something."
    return "ordered"

urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]
"""
MODELS = """
from django.db import models

class Kind(models.Model):
    name = models.CharField(max_length=10, unique=True)
"""
FIRST = """
from django.db import migrations, models

class Migration(migrations.Migration):
    operations = [migrations.CreateModel("Kind", [
        ("id", models.BigAutoField(primary_key=True, serialize=False, auto_created=True,
                                   verbose_name="ID")),
        ("name", models.CharField(max_length=10, unique=True))])]
"""
SECOND = """
from django.db import migrations

def fill(apps, schema_editor):
    apps.get_model("stock", "Kind").objects.create(name="standard")

class Migration(migrations.Migration):
    dependencies = [("stock", "0001_first")]
    operations = [migrations.RunPython(fill)]
"""
LIST = """
import sys
import django
django.setup()
from django.core.management import call_command
if "migrate" in sys.argv:
    call_command("migrate", verbosity=0)
from mcp_bridge.testing import MCPClient
print([tool["name"] for tool in MCPClient().list_tools()])
"""
FILES = {
    "settings.py": SETTINGS,
    "site_urls.py": URLS,
    "stock/__init__.py": "",
    "stock/models.py": MODELS,
    "stock/migrations/__init__.py": "",
    "stock/migrations/0001_first.py": FIRST,
    "stock/migrations/0002_second.py": SECOND,
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with an empty database; its tool's form and its migrations write to it."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def python(site: Path, *arguments: str, fails: bool = False) -> str:
    status, out, err = try_python("-W", "error", *arguments, cwd=site, env=variables(site))
    assert (status != 0) is fails, err
    return out


def migrate(site: Path, *arguments: str) -> str:
    return python(site, "-m", "django", "migrate", *arguments)


def test_tools_are_not_built_before_all_migrations(site: Path) -> None:
    before, after = migrate(site).split("Applying stock.0002_second... OK")
    assert "FORM MADE" not in before
    # Its row in the admin.
    assert "FORM MADE" in after
    assert python(site, "-c", LIST).splitlines()[-1] == "['order']"


def check_the_site_goes_on(site: Path) -> None:
    """Migrate to the end, and list the tools, in one process."""
    assert python(site, "-c", LIST, "migrate").splitlines()[-1] == "['order']"


@pytest.mark.parametrize("app", ["mcp_bridge", "stock"])
def test_tools_are_not_built_between_two_migrate_runs(site: Path, app: str) -> None:
    first = ["stock", "0001"] if app == "stock" else [app]
    assert "FORM MADE" not in migrate(site, *first)
    test_tools_are_not_built_before_all_migrations(site)


@pytest.mark.parametrize("applied", [["contenttypes"], ["stock", "0001"]])
@pytest.mark.parametrize(
    "asking", [("-c", LIST), ("-m", "django", "mcp_doctor")], ids=["request", "mcp_doctor"]
)
def test_commands_between_two_migrate_runs_build_no_tools(
    site: Path, applied: list[str], asking: tuple[str, ...]
) -> None:
    migrate(site, *applied)
    assert "FORM MADE" not in python(site, *asking, fails=True)
    check_the_site_goes_on(site)


def test_doctor_skips_tools_while_migrations_are_pending(site: Path) -> None:
    migrate(site, "mcp_bridge")
    migrate(site, "stock", "0001")
    found = python(site, "-m", "django", "mcp_doctor", fails=True)
    assert "FORM MADE" not in found
    assert "Unapplied migrations of 'default'" in found
    assert "stock.0002_second" in found
    check_the_site_goes_on(site)
