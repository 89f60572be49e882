"""
The direct lane in place of Django's handler, for tests that are unaware of it.

With WAY=lane in the environment (``make contract``) each POST of a test client to the endpoint goes
this way, and so do the ASGI applications of ``tests.support.asgi``.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.asgi import get_asgi_application
from django.http import HttpRequest

IS_ON = os.environ.get("WAY") == "lane"


def application() -> Any:
    """Return the site under ASGI: Django's application, or the direct lane around it."""
    django = get_asgi_application()
    if not IS_ON:
        return django
    from mcp_bridge.ext.lane import MCPApplication

    return MCPApplication(django)


def scope_of(request: HttpRequest) -> dict[str, Any]:
    """Return the scope that an ASGI server would make of a request."""
    sent = {
        name.removeprefix("HTTP_"): value
        for name, value in request.META.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value != ""
    }
    return {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "root_path": request.META.get("SCRIPT_NAME", ""),
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "scheme": request.scheme,
        "client": (request.META.get("REMOTE_ADDR", "127.0.0.1"), 50000),
        "server": (request.META["SERVER_NAME"], int(request.META["SERVER_PORT"])),
        "headers": [
            (name.lower().replace("_", "-").encode(), encoded(str(value)))
            for name, value in sent.items()
        ],
    }


def encoded(value: str) -> bytes:
    """Return the bytes of a header, which a server reads as Latin-1 in any case."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()
