"""The code of README and of the first pages, run as a new user would run it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.processes import ROOT, run_python, variables

BLOCK = re.compile(r" *```python\n *# (?P<name>[\w/.]+)\n(?P<code>.*?)```", re.DOTALL)
FIRST_TOOL = (ROOT / "docs/start/first-tool.md").read_text()


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the name and the code of each file that a page shows."""
    found = BLOCK.finditer((ROOT / page).read_text())
    return [(each["name"], dedent(each["code"])) for each in found]


# The blocks of README make one site; the last one is for a site with REST views.
*README, REST = blocks("README.md")
STORY = blocks("docs/sources/modernrpc.md")

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

CALL = """
import django
django.setup()
from django.contrib.auth.models import User
from mcp_bridge.testing import MCPClient
reader, clerk = User.objects.get(username="ada"), User.objects.create_superuser("clerk")
print([tool["name"] for tool in MCPClient(user=reader).list_tools()])
client = MCPClient(user=clerk)
print([tool["name"] for tool in client.list_tools()])
print(client.call_tool("find_users", {"name": "a"})["structuredContent"])
"""

TOKEN = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import execute_from_command_line
User.objects.create_user("ada")
execute_from_command_line(["django-admin", "mcp_token", "create", "ada", "--name", "My laptop"])
"""


def made(folder: Path, files: list[tuple[str, str]]) -> Path:
    """Make a Django site of the files of a page, and migrate it."""
    for name, code in files:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    own = (folder / "settings.py").read_text()
    (folder / "settings.py").write_text(SETTINGS + own)
    python(folder, "-m", "django", "migrate", "--verbosity", "0")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the page on django-modern-rpc."""
    return made(tmp_path_factory.mktemp("site"), STORY)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of README, with the app that its tool is in."""
    app = ("library/__init__.py", "")
    folder = made(tmp_path_factory.mktemp("first"), [*README, app])
    with (folder / "settings.py").open("a") as settings:
        settings.write('INSTALLED_APPS += ["library"]\n')
    return folder


def python(site: Path, *arguments: str) -> str:
    return run_python(*arguments, cwd=site, env=variables(site))


@pytest.mark.alone
def test_readme_tool_answers_users_with_its_permission(first: Path) -> None:
    python(first, "-m", "django", "check", "--fail-level", "WARNING")
    python(first, "-c", TOKEN)
    called = python(first, "-c", CALL)
    assert called.splitlines() == ["[]", "['find_users']", "{'result': ['ada']}"]


@pytest.mark.alone
def test_first_tool_has_the_schema_of_its_page(first: Path) -> None:
    assert f"```python\n# {README[-1][0]}\n{README[-1][1]}```" in FIRST_TOOL
    (tool,) = json.loads(python(first, "-m", "django", "mcp_tools", "--json"))
    (schema,) = re.findall(r"```json\n(.*?)```", FIRST_TOOL, re.DOTALL)
    assert tool["inputSchema"] == json.loads(schema)


@pytest.mark.alone
def test_rpc_site_works_as_documented(site: Path) -> None:
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


def test_rpc_site_passes_checks_without_settings(site: Path) -> None:
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


@pytest.mark.alone
def test_readme_token_command_prints_a_secret(tmp_path: Path) -> None:
    secret = python(made(tmp_path, README), "-c", TOKEN)
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
APPS = 'INSTALLED_APPS += ["mcp_bridge", "mcp_bridge.tokens"]\n'


@pytest.mark.parametrize(
    ("block", "files", "listed"),
    [
        (STORY[0], {}, []),
        (STORY[1], dict(STORY[:1]), ["books_lend", "books_list"]),
        (STORY[2], {"settings.py": APPS}, []),
        (REST, {"urls.py": TICKETS, "settings.py": APPS}, ["ticket_list", "ticket_retrieve"]),
    ],
    ids=["procedures", "settings", "urls", "REST"],
)
@pytest.mark.alone
def test_each_block_works_alone(
    block: tuple[str, str], files: dict[str, str], listed: list[str], tmp_path: Path
) -> None:
    name, code = block
    texts = {"urls.py": EMPTY, "settings.py": APPS, **files}
    if name == "settings.py":
        texts[name] = code if APPS.strip() in code else texts[name] + code
    else:
        texts[name] = code
    made(tmp_path, list(texts.items()))
    if name.startswith("library/"):
        python(tmp_path, "-c", f"import {name.removesuffix('.py').replace('/', '.')}")
    found = json.loads(python(tmp_path, "-m", "django", "mcp_tools", "--json"))
    assert [each["name"] for each in found] == listed
