"""Query parameters of Wagtail's API v2, tested with a view like its own."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import path
from rest_framework import serializers, viewsets
from rest_framework.response import Response

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Section
from tests.support.serving import served

pytestmark = pytest.mark.django_db
SOURCE = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ("slug", "name")


class WagtailLike(viewsets.GenericViewSet[Section]):
    """The sections, like pages in Wagtail's API: its views name their query parameters."""

    model = Section
    queryset = Section.objects.order_by("slug")
    serializer_class = SectionSerializer
    known_query_parameters = frozenset({"limit", "fields", "search_operator", "_", "format"})
    find_query_parameters = frozenset({"id"})

    @classmethod
    def get_available_fields(cls, model: Any, db_fields_only: bool = False) -> list[str]:
        return ["slug", "name"] if db_fields_only else ["slug", "name", "url"]

    def listing_view(self, request: Any) -> Response:
        return Response(dict(request.query_params.items()))

    detail_view = find_view = listing_view


def test_wagtail_query_parameters_are_recognised(settings: Any, user: Any) -> None:
    actions = ("listing_view", "detail_view", "find_view")
    route(
        settings,
        *(path(f"{name}/", WagtailLike.as_view({"get": name}), name=name) for name in actions),
    )
    options = {"views": {"*_view": {}}}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {"BACKEND": SOURCE, "OPTIONS": options}}}
    listing = served("listing_view").input_schema["properties"]
    assert listing.keys() == {"fields", "limit", "name", "search_operator", "slug"}
    assert listing["search_operator"]["enum"] == ["and", "or"]
    assert served("detail_view").input_schema["properties"].keys() == {"fields"}
    assert served("find_view").input_schema["properties"].keys() == {"id"}
    sent = {"limit": 3, "slug": "news"}
    told = CheckedClient(user=user).call_tool("listing_view", sent)["structuredContent"]
    assert told == {"limit": "3", "slug": "news"}
