"""Views of Django REST framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.urls import URLPattern, path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view
from rest_framework.exceptions import NotFound
from rest_framework.response import Response

from mcp_bridge import mcp_tool
from tests.sources.offers import MISSING, RUNS, SECRET

SOURCE: dict[str, Any] = {
    "BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource",
}
NUMBER = OpenApiParameter(
    "number", {"type": "integer", "minimum": 1, "maximum": 100}, required=True
)


class Wipe(serializers.Serializer[Any]):
    name = serializers.CharField()


@mcp_tool(public=True)
@extend_schema(parameters=[NUMBER], responses=OpenApiTypes.OBJECT)
@api_view(["GET"])
def count(request: Any) -> Response:
    """Count up to a number."""
    user = request.user.get_username()
    return Response({"number": int(request.query_params["number"]), "user": user})


@mcp_tool(permissions="auth.view_user")
@extend_schema(parameters=[NUMBER], responses=OpenApiTypes.OBJECT)
@api_view(["GET"])
def guarded(request: Any) -> Response:
    """Count up to a number, for some."""
    user = request.user.get_username()
    return Response({"number": int(request.query_params["number"]), "user": user})


@mcp_tool(public=True)
@api_view(["GET"])
def missing(request: Any) -> Response:
    """Find what is not there."""
    raise NotFound(MISSING)


@mcp_tool(public=True)
@api_view(["GET"])
def broken(request: Any) -> Response:
    """Fail."""
    raise RuntimeError(SECRET)


@mcp_tool(public=True, destructive=True)
@extend_schema(request=Wipe, responses=OpenApiTypes.OBJECT)
@api_view(["POST"])
def wipe(request: Any) -> Response:
    """Wipe something."""
    RUNS.append(request.data["name"])
    return Response({"name": request.data["name"]})


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    views = {"count": count, "guarded": guarded, "missing": missing, "broken": broken, "wipe": wipe}
    yield [path(f"{name}/", view, name=name) for name, view in views.items()]
