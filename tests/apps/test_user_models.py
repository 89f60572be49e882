"""Sites with a custom user model, each in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = pytest.mark.alone

MODELS = """
import uuid
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models

class PersonManager(BaseUserManager):
    pass

class Person(AbstractBaseUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = True
    objects = PersonManager()
    USERNAME_FIELD = "email"

    def has_perm(self, perm, obj=None):
        return self.email == "boss@example.com"

    def has_module_perms(self, app_label):
        return self.email == "boss@example.com"

class Bare(AbstractBaseUser):
    code = models.CharField(max_length=20, primary_key=True)
    objects = PersonManager()
    USERNAME_FIELD = "code"

class Member(AbstractBaseUser, PermissionsMixin):
    login = models.CharField(max_length=20, primary_key=True)
    objects = PersonManager()
    USERNAME_FIELD = "login"
"""
PROCEDURES = '''
from django.contrib import admin
from django.urls import include, path
from modernrpc.server import RpcServer
from mcp_bridge import mcp_tool

server = RpcServer(auth=lambda request: request.user.is_authenticated)

@server.register_procedure
@mcp_tool(permissions="auth.change_group")
def rename() -> str:
    """Rename a group."""
    return "renamed"

@server.register_procedure
@mcp_tool
def ping() -> str:
    """Answer."""
    return "pong"

urlpatterns = [
    path("admin/", admin.site.urls), path("rpc", server.view), path("", include("mcp_bridge.urls"))
]
'''
START = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error")
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="site_urls", ALLOWED_HOSTS=["testserver"],
    AUTH_USER_MODEL="people." + sys.argv[2], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib." + name for name in
        ("contenttypes", "auth", "sessions", "messages", "staticfiles", "admin")
    ] + ["people", "rest_framework", "mcp_bridge", "mcp_bridge.tokens"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    STATIC_URL="/static/",
    SILENCED_SYSTEM_CHECKS=["mcp_bridge.W025"] if sys.argv[2] == "Bare" else [],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages"]}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
import django
django.setup()
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("check", fail_level="WARNING")
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.tokens.models import Token
User = get_user_model()

def credential(user):
    return Token.objects.issue(user=user, name="x")[1]

def tools(user):
    return [tool["name"] for tool in MCPClient(token=credential(user)).list_tools()]

def post(client, path, **data):
    response = client.post(path, data, follow=True)
    assert response.status_code == 200, (path, response.status_code)
    return response

def page(client, path):
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()
"""
PERSON = """
boss, ada = (User.objects.create(email=name + "@example.com") for name in ("boss", "ada"))
assert tools(boss) == ["ping", "rename"]
assert tools(ada) == ["ping"]
assert text_of(MCPClient(token=credential(ada)).call_tool("ping", {})) == "pong"
assert ToolCallRecord.objects.get(tool="ping").user == ada
client = Client()
client.force_login(boss)
tokens = "/admin/mcp_bridge_tokens/token/"
assert "ada@example.com" in page(client, tokens + "?q=ada")
assert "0 tokens" in page(client, tokens + "?q=nobody")
assert '<input type="text" name="user"' in page(client, tokens + "add/")
made = post(client, tokens + "add/", user=str(boss.pk), name="mine")
assert "it will not be shown again" in made.content.decode()
refused = post(client, tokens + "add/", user=str(ada.pk), name="hers")
assert "You can issue tokens only for yourself." in refused.content.decode()
page(client, tokens + "%s/change/" % Token.objects.filter(user=ada).first().pk)
page(client, "/admin/mcp_bridge/toolcallrecord/?q=ada")
page(client, "/admin/mcp_bridge/toolcallrecord/%s/change/" % ToolCallRecord.objects.first().pk)
page(client, "/admin/mcp_bridge/toolsetting/?q=ping")
setting = "/admin/mcp_bridge/toolsetting/%s/change/"
from mcp_bridge.models import ToolSetting
for row in ToolSetting.objects.all():
    page(client, setting % row.pk)
call_command("mcp_tools", "--user", "ada@example.com")
call_command("mcp_call", "ping", "{}", "--user", "ada@example.com")
call_command("mcp_token", "list", "--user", "ada@example.com")
"""
BARE = """
user = User.objects.create(code="a/b c")
assert tools(user) == ["ping"]
assert text_of(MCPClient(token=credential(user)).call_tool("ping", {})) == "pong"
try:
    MCPClient(token=credential(user)).call_tool("rename", {})
except MCPError as error:
    assert "Unknown tool: rename" in str(error)
assert ToolCallRecord.objects.get(tool="ping").user == user
from django.core import checks
(said,) = [each for each in checks.run_checks() if each.id == "mcp_bridge.W025"]
assert said.msg.startswith("people.Bare lacks has_perm(), so users lack all permissions")
assert said.msg.endswith("the tools rename cannot be called.")
"""
MEMBER = """
boss = User.objects.create(login="boss", is_superuser=True)
ada = User.objects.create(login="ada", is_superuser=False)
assert tools(boss) == ["ping", "rename"]
assert tools(ada) == ["ping"]
"""


@pytest.mark.parametrize(
    ("model", "story"), [("Person", PERSON), ("Bare", BARE), ("Member", MEMBER)]
)
def test_site_with_a_custom_user_model_works(tmp_path: Path, model: str, story: str) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "__init__.py").touch()
    (tmp_path / "people" / "models.py").write_text(MODELS)
    (tmp_path / "site_urls.py").write_text(PROCEDURES)
    run_python("-c", START + story, str(tmp_path), model)
