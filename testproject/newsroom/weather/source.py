"""What the newsroom serves of the weather service, and as whom it asks there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mcp_bridge.features import ToolCall

DOCUMENT: Final = Path(__file__).parent / "openapi.json"
# A real newsroom would read it from the environment.
KEY: Final = "of-the-newsroom"


def weather_source(url: str) -> dict[str, Any]:
    """The source in SOURCES, for a service at this address."""
    return {
        "BACKEND": "mcp_bridge.ext.openapi.OpenAPISource",
        "OPTIONS": {
            "document": DOCUMENT,
            "server": url,
            "operations": {
                "forecasts/*": {"scopes": "news:read", "title": "Weather forecast"},
                "observations/add": {"permissions": "newsroom.add_article", "scopes": "news:write"},
            },
            "headers": f"{__name__}.headers",
            "prefix": "weather_",
            "output_schemas": True,
        },
    }


def headers(call: ToolCall) -> dict[str, str]:
    """Who asks: the newsroom, for one of its users."""
    return {"X-Key": KEY, "X-Asked-By": call.context.user.get_username()}
