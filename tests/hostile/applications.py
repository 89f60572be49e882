"""
The applications that the servers run: Django's WSGI and ASGI applications, and the direct one.
"""

from __future__ import annotations

from typing import Any

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application


def wsgi() -> Any:
    return get_wsgi_application()


def asgi() -> Any:
    return get_asgi_application()


def direct() -> Any:
    django = get_asgi_application()
    # It needs the models, which are loaded by now.
    from mcp_bridge.ext.lane import MCPApplication

    return MCPApplication(django)
