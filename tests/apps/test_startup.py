"""Sites of all kinds start with the apps installed, each in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = pytest.mark.alone

SITE = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error")
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF="site_urls",
    INSTALLED_APPS={apps!r},
    REST_FRAMEWORK={rest_framework!r},
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    MIDDLEWARE=[],
    ALLOWED_HOSTS=["testserver"],
)
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from mcp_bridge.testing import MCPClient
print([tool["name"] for tool in MCPClient().list_tools()])
"""
URLS = """
from django.urls import include, path
from modernrpc.server import RpcServer
from mcp_bridge import mcp_tool

server = RpcServer()

@server.register_procedure
@mcp_tool(public=True, read_only=True)
def ping() -> str:
    return "pong"

urlpatterns = [path("rpc", server.view), path("mcp", include("mcp_bridge.urls"))]
"""
MODELS = """
from django.db import models

class Device(models.Model):
    name = models.CharField(max_length=10)
"""
CLASSES = """
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.throttling import BaseThrottle

from devices.models import Device

class DeviceAuthentication(BaseAuthentication):
    devices = Device.objects

class OwnsDevice(BasePermission):
    devices = Device.objects

class DeviceThrottle(BaseThrottle):
    devices = Device.objects
"""
DJANGO = ["django.contrib.contenttypes", "django.contrib.auth"]
BRIDGE = ["rest_framework", "mcp_bridge", "mcp_bridge.tokens"]

CREDENTIALS = "DEFAULT_AUTHENTICATION_CLASSES"
OF_DEVICES = {
    CREDENTIALS: ["devices.classes.DeviceAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["devices.classes.OwnsDevice"],
    "DEFAULT_THROTTLE_CLASSES": ["devices.classes.DeviceThrottle"],
}


def start(folder: Path, apps: list[str], rest_framework: dict[str, list[str]]) -> str:
    """Start a site with these apps and settings of DRF; return what an anonymous caller lists."""
    (folder / "site_urls.py").write_text(URLS)
    (folder / "devices").mkdir()
    (folder / "devices" / "__init__.py").touch()
    (folder / "devices" / "models.py").write_text(MODELS)
    (folder / "devices" / "classes.py").write_text(CLASSES)
    script = SITE.format(apps=apps, rest_framework=rest_framework)
    return run_python("-c", script, str(folder)).strip()


@pytest.mark.parametrize("setting", OF_DEVICES)
@pytest.mark.parametrize("apps", [BRIDGE + DJANGO + ["devices"], ["devices"] + DJANGO + BRIDGE])
def test_site_with_drf_classes_importing_models_starts(
    tmp_path: Path, apps: list[str], setting: str
) -> None:
    assert start(tmp_path, apps, {setting: OF_DEVICES[setting]}) == "['ping']"


@pytest.mark.parametrize(
    ("app", "authentication"),
    [
        ("rest_framework_simplejwt", "rest_framework_simplejwt.authentication.JWTAuthentication"),
        ("knox", "knox.auth.TokenAuthentication"),
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_site_with_an_authentication_library_starts(
    tmp_path: Path, app: str, authentication: str, last: bool
) -> None:
    apps = DJANGO + [app] + BRIDGE if last else BRIDGE + [app] + DJANGO
    assert start(tmp_path, apps, {CREDENTIALS: [authentication]}) == "['ping']"
