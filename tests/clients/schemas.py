"""
Write every tool definition that the converters are given to a JSON file, as tools/list sends it.

``python -m tests.clients.schemas FILE [GOOGLE]``: the newsroom's tools as an administrator sees
them, and those of ``kinds``; GOOGLE is the file for the clients whose sites have Google's setting.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import django

# The settings of a site whose clients are Google's.
GOOGLE: dict[str, Any] = {"SCHEMA_STYLE": "google"}


def main(plain: Path, google: Path) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.clients.settings")
    django.setup()
    # The app registry is only ready now.
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test.utils import override_settings

    from mcp_bridge.testing import MCPClient

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_superuser("schemas")
    for path, more in ((plain, {}), (google, GOOGLE)):
        tools = []
        for urls in ("testproject.urls", "tests.clients.kinds"):
            bridge = {**settings.MCP_BRIDGE, **more}
            with override_settings(
                MCP_BRIDGE=bridge, ROOT_URLCONF=urls, ALLOWED_HOSTS=["testserver"]
            ):
                tools += MCPClient(user=user).list_tools()
        path.write_text(json.dumps(tools))


if __name__ == "__main__":
    # Pydantic warns of kinds that are odd on purpose.
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
