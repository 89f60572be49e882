"""The README's code, run as a new user would run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes import ROOT, run_python, variables

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"```python\n# (?P<name>[\w/.]+)\n(?P<code>.*?)```", re.DOTALL)
# The blocks of the story, which make one site; the last one is for a site with REST views.
*STORY, REST = BLOCK.finditer(README)

SETTINGS = """
SECRET_KEY = "only-for-this-test"
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "urls"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                  "django.contrib.sessions", "django.contrib.messages", "modernrpc"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware",
              "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
              "OPTIONS": {"context_processors": [
                  "django.template.context_processors.request",
                  "django.contrib.auth.context_processors.auth",
                  "django.contrib.messages.context_processors.messages"]}}]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3",
                         "OPTIONS": {"transaction_mode": "IMMEDIATE"}}}
"""

SESSION = """
import django
django.setup()
from django.contrib.auth.models import User
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
reader, _ = User.objects.get_or_create(username="reader")
clerk = User.objects.create_superuser("clerk")
_, secret = Token.objects.issue(user=reader, name="test")
client = MCPClient(token=secret)
print([tool["name"] for tool in client.list_tools()])
print([tool["name"] for tool in MCPClient(user=clerk).list_tools()])
print(client.call_tool("books_list", {"shelf": "novel"})["structuredContent"])
print(client.call_tool("books_list", {"shelf": "drama", "limit": 0})["content"][0]["text"])
print(MCPClient(user=clerk).call_tool("books_lend", {"title": "Dracula"})["content"][0]["text"])
print(MCPClient(user=clerk).call_tool("books_lend", {"title": "Emma"})["content"][0]["text"])
"""

TOKEN = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import execute_from_command_line
User.objects.create_user("ada")
execute_from_command_line(["django-admin", "mcp_token", "create", "ada", "--name", "My laptop"])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Django site made of the README's blocks and of its install lines, and migrated."""
    folder = tmp_path_factory.mktemp("site")
    for block in STORY:
        path = folder / block["name"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(block["code"])
    own = (folder / "settings.py").read_text()
    (folder / "settings.py").write_text(SETTINGS + own)
    python(folder, "-m", "django", "migrate", "--verbosity", "0")
    return folder


def python(site: Path, *arguments: str) -> str:
    return run_python(*arguments, cwd=site, env=variables(site))


@pytest.mark.alone
def test_readme_site_works_as_told(site: Path) -> None:
    python(site, "-m", "django", "check", "--fail-level", "WARNING")
    lines = python(site, "-c", SESSION).splitlines()
    assert lines == [
        "['books_list']",
        "['books_lend', 'books_list']",
        "{'result': ['Emma', 'Persuasion']}",
        "/limit: Input should be greater than or equal to 1",
        "/shelf: Input should be 'novel' or 'poetry'",
        "There is no book 'Dracula': list a shelf to see the titles.",
        "Emma is lent to clerk until Friday.",
    ]


def test_readme_site_with_rpc_needs_no_setting_and_hears_what_is_open(site: Path) -> None:
    (site / "at_rpc.py").write_text(
        "from settings import *\ndel MCP_BRIDGE\nROOT_URLCONF = 'own'\n"
    )
    (site / "own.py").write_text(
        "from urls import *\nfrom library.procedures import server\n"
        'urlpatterns.insert(0, path("rpc", server.view))\n'
    )
    assert python(site, "-m", "django", "mcp_tools", "--settings", "at_rpc").count("source: ") == 2
    heard = python(site, "-m", "django", "mcp_doctor", "--json", "--settings", "at_rpc")
    (open_there,) = (each for each in json.loads(heard)["findings"] if "W033" in each["text"])
    assert "books.lend (library/procedures.py:" in open_there["text"]
    assert "books.list" not in open_there["text"]
    assert "auth=" in open_there["remedy"]


def test_readme_token_command_prints_a_secret(site: Path) -> None:
    secret = python(site, "-c", TOKEN)
    assert secret.startswith("mcp_")


TICKETS = """
from django.contrib.auth.models import User
from django.urls import include, path
from rest_framework import routers, serializers, viewsets

class TicketSerializer(serializers.ModelSerializer):
    class Meta:
        model = User
        fields = ["username"]

class TicketViewSet(viewsets.ModelViewSet):
    \"\"\"Tickets.\"\"\"
    queryset = User.objects.order_by("pk")
    serializer_class = TicketSerializer

router = routers.SimpleRouter()
router.register("tickets", TicketViewSet, basename="ticket")
urlpatterns = [path("api/", include(router.urls)), path("", include("mcp_bridge.urls"))]
"""
EMPTY = """
from django.urls import include, path
urlpatterns = [path("", include("mcp_bridge.urls"))]
"""
APPS = 'INSTALLED_APPS += ["rest_framework", "mcp_bridge", "mcp_bridge.tokens"]\n'


@pytest.mark.parametrize(
    ("block", "files", "listed"),
    [
        (STORY[0], {}, []),
        (STORY[1], {STORY[0]["name"]: STORY[0]["code"]}, ["books_lend", "books_list"]),
        (STORY[2], {"settings.py": APPS}, []),
        (REST, {"urls.py": TICKETS, "settings.py": APPS}, ["ticket_list", "ticket_retrieve"]),
    ],
    ids=["procedures", "settings", "urls", "REST"],
)
@pytest.mark.alone
def test_each_block_stands_by_itself(
    block: re.Match[str], files: dict[str, str], listed: list[str], tmp_path: Path
) -> None:
    texts = {"urls.py": EMPTY, "settings.py": APPS, **files}
    own = "" if block["name"] != "settings.py" else block["code"]
    texts["settings.py"] = SETTINGS + (own if APPS.strip() in own else texts["settings.py"] + own)
    if not own:
        texts[block["name"]] = block["code"]
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if block["name"].startswith("library/"):
        python(tmp_path, "-c", f"import {block['name'].removesuffix('.py').replace('/', '.')}")
    python(tmp_path, "-m", "django", "migrate", "--verbosity", "0")
    found = json.loads(python(tmp_path, "-m", "django", "mcp_tools", "--json"))
    assert [each["name"] for each in found] == listed
