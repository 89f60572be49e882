"""Datetimes are received as by Django's forms, through the endpoint."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import pytest
from django import forms
from django.utils import timezone
from pydantic import AwareDatetime, NaiveDatetime
from rest_framework import serializers

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.calls.test_arguments import errors_of
from tests.schemas.kinds import CLOCK
from tests.schemas.structures import Box
from tests.support.serving import taking
from tests.support.values import label

NAIVE, AWARE = "2024-07-01T12:00:00", "2024-07-01T12:00:00+05:00"


@dataclass
class Event:
    start: dt.datetime
    ends: list[dt.datetime]


@pytest.fixture
def call(modern: CheckedClient, settings: Any) -> Any:
    """A function that returns the received value of a parameter with a hint, or the refusal."""
    settings.TIME_ZONE = "Europe/Berlin"

    def call(hint: Any, value: Any) -> Any:
        received: list[Any] = []

        def take(value):  # type: ignore[no-untyped-def]
            """Take a value."""
            received.append(value)

        take.__annotations__ = {"value": hint}
        serve(settings, take)
        answer = modern.call_tool("take", {"value": value})
        return received[0] if received else answer

    return call


def test_naive_datetime_gets_the_current_time_zone(call: Any) -> None:
    with timezone.override("America/New_York"):
        assert call(dt.datetime, NAIVE).isoformat() == "2024-07-01T12:00:00-04:00"
    assert call(dt.datetime | None, NAIVE).isoformat() == "2024-07-01T12:00:00+02:00"
    assert call(dt.datetime, AWARE).isoformat() == AWARE


def test_aware_datetime_is_converted_without_use_tz(call: Any, settings: Any) -> None:
    settings.USE_TZ = False
    assert call(dt.datetime, AWARE).isoformat() == "2024-07-01T09:00:00"
    assert call(list[dt.datetime], [NAIVE])[0].isoformat() == NAIVE


def test_datetimes_inside_classes_are_converted_too(call: Any) -> None:
    event = call(Event, {"start": NAIVE, "ends": [NAIVE]})
    assert [each.isoformat()[-6:] for each in (event.start, *event.ends)] == ["+02:00"] * 2
    assert call(Box[dt.datetime], {"item": NAIVE}).item.isoformat()[-6:] == "+02:00"


@pytest.mark.parametrize("use_tz", [True, False])
def test_hints_with_an_explicit_zone_are_respected(call: Any, settings: Any, use_tz: bool) -> None:
    settings.USE_TZ = use_tz
    assert call(AwareDatetime, AWARE).isoformat() == AWARE
    assert call(NaiveDatetime, NAIVE).isoformat() == NAIVE


@pytest.mark.parametrize("skipped_or_twice", ["2024-03-31T02:30:00", "2024-10-27T02:30:00"])
def test_ambiguous_local_time_is_an_argument_error(call: Any, skipped_or_twice: str) -> None:
    answer = call(dt.datetime, skipped_or_twice)
    assert errors_of(answer) == [("/value", "datetime_zone")]
    text = "is skipped or ambiguous in the time zone Europe/Berlin; send it with an offset"
    assert text_of(answer) == f"/value: {text}"


def test_out_of_range_time_is_an_argument_error(call: Any, settings: Any) -> None:
    settings.USE_TZ = False
    answer = call(dt.datetime, "0001-01-01T00:00:00+05:00")
    assert errors_of(answer) == [("/value", "datetime_range")]


@dataclass
class Opening:
    at: dt.time | None


class OpeningForm(forms.Form):
    at = forms.TimeField()


class OpeningSerializer(serializers.Serializer[Any]):
    at = serializers.TimeField()


@pytest.mark.parametrize("sent", ["10:00:00Z", "10:00:00+02:00", "10:00:00.5-03:30"])
@pytest.mark.parametrize(
    ("hint", "around"),
    [
        (dt.time, "{}"),
        (dt.time | None, "{}"),
        (list[dt.time], "[{}]"),
        (Opening, '{{"at": {}}}'),
        (OpeningForm, '{{"at": {}}}'),
        (OpeningSerializer, '{{"at": {}}}'),
    ],
    ids=label,
)
def test_times_with_an_offset_are_argument_errors(
    call: Any, hint: Any, around: str, sent: str
) -> None:
    answer = call(hint, json.loads(around.format(json.dumps(sent))))
    assert [kind for _, kind in errors_of(answer)] == ["time_offset"]
    assert "has an offset from UTC; leave it out" in text_of(answer)
    assert not isinstance(call(hint, json.loads(around.format('"10:00:00.5"'))), dict)


def test_clock_times_have_no_format(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(Opening))
    [tool] = modern.list_tools()
    times = tool["inputSchema"]["properties"]["value"]["properties"]["at"]["anyOf"][0]
    assert times == {"type": "string", "pattern": CLOCK}


def test_result_is_written_unchanged(modern: CheckedClient, settings: Any) -> None:
    def give() -> dt.datetime:
        """Give a time."""
        return dt.datetime.fromisoformat(NAIVE)

    serve(settings, give, taking(int))
    assert modern.call_tool("give")["structuredContent"] == {"result": NAIVE}
