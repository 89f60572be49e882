"""Operations of django-ninja."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import Http404, HttpRequest
from django.urls import URLPattern, path
from ninja import NinjaAPI
from ninja.errors import HttpError

from mcp_bridge import mcp_tool
from tests.sources.offers import MISSING, RUNS, SECRET
from tests.sources.offers.rpc import Number

SOURCE: dict[str, Any] = {
    "BACKEND": "mcp_bridge.sources.ninja.NinjaSource",
    "OPTIONS": {"auth": "mcp_bridge.sources.ninja.caller"},
}
api = NinjaAPI(urls_namespace="offers")


def by_header(request: HttpRequest) -> str | None:
    """Let in who knows the word: over HTTP alone, since no tool sends it."""
    return request.headers.get("X-Word")


@api.get("count", operation_id="count", auth=by_header)
@mcp_tool(public=True)
def count(request: HttpRequest, number: Number) -> dict[str, Any]:
    """Count to a number."""
    return {"number": number, "user": request.user.get_username()}


@api.post("missing", operation_id="missing")
@mcp_tool(public=True)
def missing(request: HttpRequest) -> str:
    """Look for an article."""
    raise HttpError(404, MISSING)


@mcp_tool(public=True)
@api.post("broken", operation_id="broken")
def broken(request: HttpRequest) -> str:
    """Fail."""
    raise RuntimeError(SECRET)


@api.get("guarded/{number}", operation_id="guarded", auth=by_header)
@mcp_tool(permissions="auth.view_user")
def guarded(request: HttpRequest, number: Number) -> dict[str, Any]:
    """Count for some."""
    return {"number": number, "user": request.user.get_username()}


@api.delete("things/{name}", operation_id="wipe")
@mcp_tool(public=True)
def wipe(request: HttpRequest, name: str) -> str:
    """Wipe something."""
    if not name:
        raise Http404
    RUNS.append(name)
    return f"{name} is wiped"


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    yield [path("api/", api.urls)]
