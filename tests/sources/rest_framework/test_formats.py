"""Formats of dates, times and addresses: described to models and validated by the views."""

from __future__ import annotations

import json
from typing import Any

import django_filters
import pytest
from django.test import Client
from django.urls import path
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from rest_framework import generics, serializers, viewsets
from rest_framework.response import Response

from mcp_bridge import mcp_tool, mcp_toolset
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article


class AppointmentSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(required=False)
    day = serializers.DateField(required=False)
    time = serializers.TimeField(required=False)
    german = serializers.DateField(required=False, input_formats=["%d.%m.%Y", "iso-8601"])
    british = serializers.DateField(required=False, input_formats=["%d/%m/%Y"])
    clock = serializers.TimeField(required=False, input_formats=["%I:%M %p"])
    stamp = serializers.DateTimeField(
        required=False, allow_null=True, input_formats=["%d/%m/%Y %H:%M"]
    )
    days = serializers.ListField(
        required=False, child=serializers.DateField(input_formats=["%d/%m/%Y"])
    )
    link = serializers.URLField(required=False)
    key = serializers.UUIDField(required=False)


class AppointmentView(generics.GenericAPIView[Any]):
    """Make an appointment."""

    serializer_class = AppointmentSerializer

    @mcp_tool(name="appoint")
    def post(self, request: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Response({"given": sorted(serializer.validated_data)})


class ArticleFilter(FilterSet):
    made = django_filters.DateRangeFilter(field_name="created_at")
    since = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    until = django_filters.DateTimeFilter(field_name="created_at", lookup_expr="lte")
    between = django_filters.DateFromToRangeFilter(field_name="created_at")
    name = django_filters.LookupChoiceFilter(
        field_name="title",
        field_class=django_filters.CharFilter.field_class,
        lookup_choices=[("exact", "is"), ("icontains", "has")],
    )
    day = django_filters.LookupChoiceFilter(
        field_name="created_at__date",
        field_class=django_filters.DateFilter.field_class,
        lookup_choices=["gt", ("lt", "before")],
    )

    class Meta:
        model = Article
        fields: list[str] = []


class ArticleSerializer(serializers.ModelSerializer[Article]):
    class Meta:
        model = Article
        fields = ["slug"]


@mcp_toolset(actions=["list"])
class ArticleView(viewsets.ReadOnlyModelViewSet[Article]):
    """The articles."""

    queryset = Article.objects.order_by("slug")
    serializer_class = ArticleSerializer
    filter_backends = [DjangoFilterBackend]
    filterset_class = ArticleFilter
    permission_classes = []


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    route(
        settings,
        path("appoint/", AppointmentView.as_view()),
        path("articles/", ArticleView.as_view({"get": "list"}), name="found"),
    )
    settings.MCP_BRIDGE = {
        "SOURCES": {"drf": {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"}}
    }


def properties(user: Any, name: str) -> Any:
    tools = {each["name"]: each for each in CheckedClient(user=user).list_tools()}
    return tools[name]["inputSchema"]["properties"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"at": "2024-05-01T10:00:00"},
        {"at": "2024-05-01T10:00Z"},
        {"at": "2024-05-01T10:00:00+02:00"},
        {"time": "12:30:00"},
        {"time": "12:30"},
        {"day": "2024-05-01"},
        {"british": "31/01/2024"},
        {"german": "31.01.2024"},
        {"german": "2024-01-31"},
        {"clock": "11:30 PM"},
        {"stamp": "31/01/2024 10:00"},
        {"stamp": None},
        {"days": ["31/01/2024"]},
        {"link": "https://de.example.org/Käse"},
        {"key": "c0ffee00c0ffee00c0ffee00c0ffee00"},
    ],
    ids=str,
)
def test_values_valid_for_the_view_are_accepted(user: Any, arguments: dict[str, Any]) -> None:
    result = CheckedClient(user=user).call_tool("appoint", arguments)
    assert not result.get("isError"), text_of(result)
    assert result["structuredContent"] == {"given": sorted(arguments)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", "soon"),
        ("day", "2024-13-01"),
        ("time", "25:00"),
        ("british", "2024-01-31"),
        ("link", "nowhere"),
        ("key", "none"),
    ],
)
def test_invalid_value_is_an_argument_error(user: Any, name: str, value: str) -> None:
    result = CheckedClient(user=user).call_tool("appoint", {name: value})
    assert result["isError"]
    assert text_of(result).startswith(f"/{name}: ")
    assert result["_meta"]["mcp-bridge/errors"][0]["path"] == f"/{name}"


def test_input_formats_are_described(user: Any) -> None:
    found = properties(user, "appoint")
    assert found["at"]["format"] == "date-time"
    assert found["german"].get("format") is None
    assert "DD.MM.YYYY" in found["german"]["description"]
    assert "YYYY-MM-DD" in found["german"]["description"]
    assert found["british"] == {"type": "string", "description": "Format: DD/MM/YYYY."}
    assert "format" not in json.dumps(found["stamp"]["anyOf"])
    assert "DD/MM/YYYY" in json.dumps(found["days"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"made": "year"},
        {"made": "today"},
        {"since": "2024-05-01T10:00:00"},
        {"until": "2024-05-01 10:00"},
        {"between_after": "2024-05-01"},
        {"name": "Title", "name_lookup": "icontains"},
        {"day": "2024-05-01", "day_lookup": "gt"},
    ],
    ids=str,
)
def test_filters_accept_the_same_values_as_over_http(user: Any, arguments: dict[str, Any]) -> None:
    result = CheckedClient(user=user).call_tool("found", arguments)
    assert not result.get("isError"), text_of(result)
    answer = Client().get("/articles/", arguments)
    assert (answer.status_code, answer.json()) == (200, result["structuredContent"]["result"])


def test_format_conflicting_with_the_enum_is_dropped(user: Any) -> None:
    made = properties(user, "found")["made"]
    assert "year" in made["enum"]
    assert "format" not in made


def test_filter_with_lookups_has_both_parameters(user: Any) -> None:
    found = properties(user, "found")
    assert found["name"]["type"] == "string"
    assert found["name_lookup"]["enum"] == ["exact", "icontains"]
    assert found["day_lookup"]["enum"] == ["gt", "lt"]
