"""The weather service, whose operations are tools of the newsroom."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.conf import settings as site
from django.core.management import call_command
from django.test import override_settings

from mcp_bridge.registry.registry import registry
from testproject.newsroom.weather.server import WeatherServer, forecast
from testproject.newsroom.weather.source import DOCUMENT, weather_source

SCHEMA = {
    "type": "object",
    "properties": {
        "place": {
            "type": "string",
            "pattern": "^[A-Za-z -]{1,40}$",
            "description": "A place by the sea, such as Fairhaven.",
        },
        "days": {
            "type": "integer",
            "minimum": 1,
            "maximum": 7,
            "default": 3,
            "description": "For how many days, today being the first.",
        },
    },
    "required": ["place"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def weather() -> Iterator[str]:
    with WeatherServer() as server:
        sources = site.MCP_BRIDGE["SOURCES"] | {"weather": weather_source(server.url)}
        with override_settings(MCP_BRIDGE=site.MCP_BRIDGE | {"SOURCES": sources}):
            registry.reload()
            yield server.url


def test_readers_ask_for_weather_and_only_writers_report_it(reader: Any, author: Any) -> None:
    [tool] = [each for each in reader.list_tools() if each["name"] == "weather_forecasts_read"]
    assert tool["inputSchema"] == SCHEMA
    assert tool["annotations"] == {"readOnlyHint": True}
    assert reader.value("weather_forecasts_read", place="Fairhaven", days=2) == forecast(
        "Fairhaven", 2
    )
    assert "weather_observations_add" not in reader.names()
    picture = b64encode(b"\x89PNG").decode()
    thanks = author.value(
        "weather_observations_add", place="Fairhaven", text="Fog.", picture=picture
    )
    assert thanks == {"thanks": "author"}


def test_refusals_of_the_service_are_passed_on_unchanged(reader: Any) -> None:
    assert reader.complaint("weather_forecasts_read", place="fairhaven") == (
        "No station is at 'fairhaven': names begin in capitals."
    )
    wrong = reader.complaint("weather_forecasts_read", place="../admin", days=8)
    assert [line.split(":")[0] for line in wrong.splitlines()] == ["/days", "/place"]


def test_operations_that_were_not_chosen_are_not_tools(admin: Any) -> None:
    assert [name for name in admin.names() if name.startswith("weather_")] == [
        *("weather_forecasts_read", "weather_observations_add")
    ]


def test_pinned_document_is_that_of_the_service(seeded: Callable[..., Any]) -> None:
    source = DOCUMENT.with_suffix(".yaml")
    call_command("mcp_openapi", "weather", "--check", "--from", str(source), stdout=StringIO())
