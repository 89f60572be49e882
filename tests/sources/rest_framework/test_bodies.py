"""Bodies with files: JSON unless a file is given, and JSON values beside one."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import path
from rest_framework import generics, serializers
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.response import Response

from mcp_bridge import mcp_tool
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route

FILE = "data:text/plain;base64,aGVsbG8="


class PartSerializer(serializers.Serializer[Any]):
    extra = serializers.JSONField(required=False)
    sku = serializers.CharField(required=False)


class ParcelSerializer(serializers.Serializer[Any]):
    file = serializers.FileField(required=False, allow_null=True)
    files = serializers.ListField(child=serializers.FileField(), required=False)
    data = serializers.JSONField(required=False, allow_null=True)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    urgent = serializers.BooleanField(required=False)
    note = serializers.CharField(required=False, allow_null=True, allow_blank=True)
    part = PartSerializer(required=False)
    parts = PartSerializer(many=True, required=False)


class ParcelView(generics.GenericAPIView[Any]):
    """Keep a parcel."""

    serializer_class = ParcelSerializer

    def answer(self, request: Any, is_partial: bool) -> Response:
        serializer = self.get_serializer(data=request.data, partial=is_partial)
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        values.pop("files", None)
        if values.get("file"):
            values["file"] = values["file"].name
        return Response(values)

    @mcp_tool(name="keep")
    def post(self, request: Any) -> Response:
        return self.answer(request, False)

    @mcp_tool(name="change")
    def patch(self, request: Any) -> Response:
        return self.answer(request, True)


class FormOnly(ParcelView):
    """Keep a parcel that is sent as a form."""

    parser_classes = [MultiPartParser, FormParser]
    http_method_names = ["post"]

    @mcp_tool(name="keep_form")
    def post(self, request: Any) -> Response:
        return self.answer(request, False)


@pytest.fixture
def called(settings: Any, user: Any) -> Any:
    """A function that calls a tool and returns its structured content."""
    route(settings, path("keep/", ParcelView.as_view()), path("form/", FormOnly.as_view()))
    settings.MCP_BRIDGE = {
        "SOURCES": {"drf": {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"}}
    }

    def call(name: str, **arguments: Any) -> Any:
        result = CheckedClient(user=user).call_tool(name, arguments)
        assert not result.get("isError"), text_of(result)
        return result["structuredContent"]

    return call


@pytest.mark.parametrize("name", ["keep", "change"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"data": {"a": [1]}},
        {"data": "text"},
        {"data": []},
        {"tags": []},
        {"note": None},
        {"note": ""},
        {"urgent": True},
        {"file": None},
        {"part": {"extra": {"a": None}}},
        {"parts": [{"extra": [{}]}, {"sku": "b"}]},
        {},
    ],
    ids=str,
)
def test_body_without_a_file_arrives_unchanged(
    called: Any, name: str, arguments: dict[str, Any]
) -> None:
    assert called(name, **arguments) == arguments


@pytest.mark.parametrize("name", ["keep", "change", "keep_form"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"data": {"a": [1]}},
        {"data": "text"},
        {"data": [1, "b"]},
        {"data": None},
        {"part": {"extra": {"a": {"b": []}}, "sku": "x"}},
        {"parts": [{"extra": [{}]}, {"sku": "b"}]},
    ],
    ids=str,
)
def test_json_beside_a_file_arrives_unchanged(
    called: Any, name: str, arguments: dict[str, Any]
) -> None:
    found = called(name, file=FILE, file_filename="a.txt", urgent=True, **arguments)
    assert found == {"file": "a.txt", "urgent": True, **arguments}


def test_list_of_files_makes_a_form(called: Any) -> None:
    assert called("keep", files=[FILE], tags=["a"], urgent=False) == {
        "tags": ["a"],
        "urgent": False,
    }
    assert called("keep", files=[], data={"a": 1}) == {"data": {"a": 1}}


def test_filename_without_its_file_is_refused(called: Any, user: Any) -> None:
    result = CheckedClient(user=user).call_tool("keep", {"file_filename": "a.txt"})
    assert text_of(result).startswith("/file_filename: names a file that was not sent")


@pytest.mark.parametrize("name", ["keep", "change", "keep_form"])
@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"note": None}, "/note: cannot be null in a form"),
        ({"tags": []}, "/tags: cannot be [] in a form"),
        ({"part": {}}, "/part: cannot be {} in a form"),
        ({"parts": []}, "/parts: cannot be [] in a form"),
        ({"parts": [{"sku": "a"}, {}]}, "/parts/1: cannot be {} in a form"),
    ],
    ids=str,
)
def test_values_without_a_form_encoding_are_refused(
    called: Any, user: Any, name: str, arguments: dict[str, Any], refused: str
) -> None:
    result = CheckedClient(user=user).call_tool(name, {"file": FILE, **arguments})
    assert result["isError"]
    assert text_of(result).startswith(refused)


def test_null_clears_a_file_in_a_form(called: Any) -> None:
    assert called("keep_form", file=None, urgent=True) == {"file": None, "urgent": True}
