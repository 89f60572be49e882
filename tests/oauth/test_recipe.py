"""Follow the recipes of docs/access/oauth.md and oauth-clients.md in a new site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docs import BLOCK, ROOT, SETTINGS, python

pytestmark = pytest.mark.alone

RECIPE = {
    block["name"]: block["code"]
    for page in ("oauth.md", "oauth-clients.md")
    for block in BLOCK.finditer((ROOT / "docs" / "access" / page).read_text())
}
# The settings of a site before the recipe.
SITE = """
DEBUG = False
SECRET_KEY = "only-for-this-test, and as long and as varied as a real one: 0123456789"
LOGIN_URL = "admin:login"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SILENCED_SYSTEM_CHECKS = ["oauth2_provider.W008", "mcp_bridge.W015"]
"""
URLS = """
from django.contrib import admin
from django.urls import include, path
from modernrpc.server import RpcServer
from mcp_bridge import mcp_tool

server = RpcServer(auth=lambda request: request.user.is_authenticated)

@server.register_procedure(context_target="context")
@mcp_tool(read_only=True, scopes="mcp")
def whoami(context) -> str:
    "Say who calls."
    return context.request.user.get_username()

urlpatterns = [path("admin/", admin.site.urls), path("rpc", server.view)]
"""
SESSION = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core import checks
from mcp_bridge.testing import MCPClient, text_of
from tests.oauth.clients import OAuthClient
print([each for each in checks.run_checks(include_deployment_checks=True)
       if each.id.startswith(("mcp_bridge.", "oauth2_provider.")) and not each.is_silenced()])
metadata = MCPClient().http.get("/.well-known/oauth-protected-resource/mcp").json()
print(metadata["resource"], metadata["authorization_servers"], metadata["scopes_supported"])
client = OAuthClient(User.objects.create_user("ada"))
token = client.log_in(resource=metadata["resource"])["access_token"]
print(text_of(MCPClient(token=token).call_tool("whoami")))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "settings.py").write_text(SETTINGS + RECIPE["settings.py"] + SITE)
    (folder / "urls.py").write_text(URLS + RECIPE["urls.py"])
    python(folder, "-m", "django", "migrate", "--verbosity", "0")
    return folder


def test_site_built_by_the_recipe_accepts_clients(site: Path) -> None:
    assert python(site, "-c", SESSION).splitlines() == [
        "[]",
        "https://example.com/mcp ['https://example.com'] ['mcp']",
        "ada",
    ]


def test_recipe_is_short() -> None:
    lines = [*RECIPE["settings.py"].splitlines(), *RECIPE["urls.py"].splitlines()]
    assert len([line for line in lines if line.strip()]) < 15


def test_documented_subclass_is_valid(tmp_path: Path) -> None:
    code = RECIPE["mysite/oauth.py"]
    names: dict[str, object] = {}
    exec(compile(code, "docs/access/oauth-clients.md", "exec"), names)
    assert "zed://oauth/callback" in names["WithZed"].private_use_uris  # type: ignore[attr-defined]
