"""Times and durations in results fit their schema, also for clients that assert formats."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from django.urls import path
from django.utils import timezone
from jsonschema import Draft202012Validator
from ninja import NinjaAPI, Schema
from pydantic import AwareDatetime, Field
from rest_framework import serializers
from typing_extensions import TypedDict

from mcp_bridge import mcp_tool
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.support.schemas import ASSERTED
from tests.support.serving import giving

NAIVE = dt.datetime(2024, 1, 2, 3, 4, 5)
CALLER = "mcp_bridge.sources.ninja.caller"
AWARE = NAIVE.replace(tzinfo=dt.UTC)
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))


@dataclass
class Shift:
    starts: dt.datetime
    opens: dt.time
    lasts: dt.timedelta | None


class Break(TypedDict):
    at: Annotated[dt.time, Field(description="When it begins.")]
    lasts: dt.timedelta


class ShiftSerializer(serializers.Serializer[Any]):
    starts = serializers.DateTimeField()
    opens = serializers.TimeField()
    lasts = serializers.DurationField()


SHIFT = Shift(NAIVE, dt.time(8, 30), dt.timedelta(seconds=4.5))


TIMES: list[tuple[Any, Any]] = [
    (dt.datetime, NAIVE),
    (dt.datetime, NAIVE.replace(microsecond=6)),
    (dt.datetime | None, AWARE),
    (dt.time, dt.time(8, 30)),
    (dt.time, dt.time(8, 30, 0, 6, EAST)),
    (dict[str, dt.time], {"opens": dt.time(8, 30)}),
    (dt.timedelta, dt.timedelta(seconds=4.5)),
    (dt.timedelta, -dt.timedelta(days=400, seconds=1)),
    (list[dt.timedelta], [dt.timedelta(0), dt.timedelta.max]),
    (dict[dt.datetime, int], {NAIVE: 1}),
    (tuple[dt.datetime, dt.time], (NAIVE, dt.time(8))),
    (Shift, SHIFT),
    (list[Shift], [SHIFT]),
    (list[Break], [{"at": dt.time(1), "lasts": dt.timedelta(microseconds=1)}]),
]


def formats(schema: Any) -> set[str]:
    """Return every format in a schema."""
    if isinstance(schema, list):
        return set().union(*map(formats, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["format"]} if isinstance(schema.get("format"), str) else set()
    return own.union(*map(formats, schema.values()))


def given(client: CheckedClient, name: str = "give") -> tuple[dict[str, Any], Any]:
    """Return the output schema of a tool, and its result, which has to fit it."""
    [tool] = [each for each in client.list_tools() if each["name"] == name]
    answer = client.call_tool(name)
    assert answer["isError"] is False, answer
    schema, structured = tool["outputSchema"], answer["structuredContent"]
    Draft202012Validator(schema, format_checker=ASSERTED).validate(structured)
    return schema, structured


@pytest.mark.parametrize(("hint", "value"), TIMES)
def test_naive_times_and_durations_fit_their_schema(
    hint: Any, value: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, value))
    schema, _ = given(modern)
    assert formats(schema) == set()


@pytest.mark.parametrize("hint", [AwareDatetime, list[AwareDatetime] | None])
def test_aware_datetimes_keep_their_format(hint: Any, modern: CheckedClient, settings: Any) -> None:
    value = AWARE if hint is AwareDatetime else [AWARE.astimezone(EAST)]
    serve(settings, giving(hint, value))
    assert formats(given(modern)[0]) == {"date-time"}


@pytest.mark.parametrize("use_tz", [True, False])
def test_serializers_times_fit_their_schema(
    use_tz: bool, modern: CheckedClient, settings: Any
) -> None:
    settings.USE_TZ = use_tz
    serve(settings, giving(ShiftSerializer, SHIFT))
    schema, structured = given(modern)
    assert formats(schema) == ({"date-time"} if use_tz else set())
    assert structured["opens"] == "08:30:00"


@pytest.mark.parametrize("use_tz", [True, False])
def test_ninjas_times_fit_their_schema(use_tz: bool, modern: CheckedClient, settings: Any) -> None:
    class ShiftOut(Schema):
        starts: dt.datetime
        opens: dt.time
        lasts: dt.timedelta

    settings.USE_TZ = use_tz
    api = NinjaAPI(urls_namespace=f"shifts-{use_tz}")

    @mcp_tool
    @api.get("/shift", response=ShiftOut, operation_id="give")
    def give(request: Any) -> Any:
        """Give a shift."""
        return {"starts": timezone.now(), "opens": SHIFT.opens, "lasts": SHIFT.lasts}

    options = {"BACKEND": "mcp_bridge.sources.ninja.NinjaSource", "OPTIONS": {"auth": CALLER}}
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": options}}
    route(settings, path("api/", api.urls))
    schema, structured = given(modern)
    assert formats(schema) == set()
    assert structured["opens"] == "08:30:00"
