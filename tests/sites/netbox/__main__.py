"""
Serve all of NetBox's REST API as tools: ``make netbox``.

The database that MCP_BRIDGE_TEST_DATABASE_URL names must be empty, and MCP_BRIDGE_TEST_CACHE_URL
names the Redis; ``.ci/services make netbox`` starts both. The first run migrates for some ten
minutes; its result is kept in .venv-netbox for the next ones. Each tool that reads is compared with
its address over HTTP, and the cost of so many tools is printed as a table. Exits with 1 if an
answer differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sites.run import URLS, Failure, Run
from tests.sites.site import Interface, Site, rest_framework

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = Path(sys.executable).parent
DATABASE = os.environ["MCP_BRIDGE_TEST_DATABASE_URL"]
KEPT = PROGRAMS.parent / "migrated.dump"
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "site_.settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, "mcp_bridge", "mcp_bridge.tokens"]
ROOT_URLCONF = "site_.urls"
MCP_BRIDGE = {bridge!r}
"""
BRIDGE = {
    "SOURCES": {
        "drf": rest_framework("users.api.views.TokenProvisionView", "users.api.views.TokenViewSet")
    },
    "TOOLSETS": {
        "inventory": {
            "tools": [f"api_dcim_api_{name}_*" for name in ("site", "rack", "device")],
            "read_only": True,
        }
    },
}
SEEN = {"admin": "a superuser", "reader": "a user who may view one model"}
"""Whose lists are measured, and what the table calls them."""

NETBOX = Site(
    name="netbox",
    create=(),
    own_settings="from netbox.settings import *\n",
    own_urls="from netbox.urls import urlpatterns\n",
    files={
        "manage.py": MANAGE,
        "site_/__init__.py": "",
        "configuration.py": (HERE / "configuration.py").read_text(),
    },
    seed="netbox/seed.py",
    procedures="",
    pages=(),
    listed={},
    calls=(),
    publish=None,
    env={
        "NETBOX_CONFIGURATION": "configuration",
        "NETBOX_ROOT": ".",
        "SITE_DATABASE_URL": DATABASE,
        "SITE_CACHE_URL": os.environ["MCP_BRIDGE_TEST_CACHE_URL"],
    },
    interface=Interface(
        sources=BRIDGE["SOURCES"],
        operations=1255,
        values={
            **dict.fromkeys(("pk", "id"), [1, 99999]),
            "limit": [1],
            "brief": [True],
            # The state of a queue, of a worker, and of any row.
            "name": ["default"],
            **dict.fromkeys(("peer_device", "peer_interface"), ["one"]),
        },
    ),
)


class NetBox(Run):
    """The steps that need no server."""

    patience = 3600

    def whole(self) -> str:
        with tempfile.TemporaryDirectory(prefix="site-netbox-") as folder:
            self.folder = Path(folder)
            (self.folder / "site_").mkdir()
            self.make()
            with (self.folder / self.site.settings).open("a") as settings:
                settings.write(SETTINGS.format(bridge=BRIDGE))
            with (self.folder / self.site.urls).open("a") as urls:
                urls.write(URLS)
            self.manage("migrate", "-v", "0")
            code = (HERE / "figures.py").read_text()
            plan = json.dumps({"users": SEEN})
            print(self.manage("shell", "-v", "0", "-c", code, stdin=plan), flush=True)
            return self.hold()

    def migrate(self) -> None:
        if KEPT.exists():
            self.run_on_database("pg_restore", "--no-owner", KEPT)
        super().migrate()
        if not KEPT.exists():
            part = KEPT.with_suffix(".part")
            self.run_on_database("pg_dump", "--format=custom", "--file", part)
            part.rename(KEPT)

    def run_on_database(self, program: str, *arguments: str | Path) -> None:
        subprocess.run([program, "--dbname", DATABASE, *arguments], check=True)


def main() -> int:
    try:
        print(NetBox(NETBOX, PROGRAMS).whole())
    except Failure as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
