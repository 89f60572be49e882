"""An API of django-ninja with the usual parts: models, files, throttles, routers, auth."""

from __future__ import annotations

from functools import wraps
from typing import Any, Literal

from django.contrib.auth import login
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_headers
from ninja import File, Form, Header, NinjaAPI, Query, Router, Schema, Status, UploadedFile
from ninja.decorators import decorate_view
from ninja.errors import HttpError
from ninja.security import (
    HttpBearer,
    SessionAuth,
    django_auth,
    django_auth_is_staff,
    django_auth_superuser,
)
from ninja.throttling import UserRateThrottle
from pydantic import Field

from mcp_bridge import Context, mcp_tool


class Key(HttpBearer):
    """Custom authentication: a shared key in a header."""

    def authenticate(self, request: HttpRequest, token: str) -> str | None:
        return token if token == "word" else None


class Editors(SessionAuth):
    """Custom session authentication: members of one group."""

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        user = super().authenticate(request, key)
        return user if user and user.groups.filter(name="editors").exists() else None


class Line(Schema):
    sku: str = Field(min_length=2, description="The number of the article.")
    pieces: int = Field(1, ge=1)


class Order(Schema):
    customer: str
    lines: list[Line] = Field(min_length=1)
    note: str | None = None


class Filters(Schema):
    word: str | None = None
    state: Literal["open", "sent"] = "open"
    limit: int = Field(10, le=50)


class Message(Schema):
    detail: str


api = NinjaAPI(auth=Key(), urls_namespace="shop")
orders = Router(tags=["orders"])


@orders.post("", response={201: Order})
@mcp_tool(destructive=False)
def create(request: HttpRequest, order: Order) -> Any:
    """
    Create an order.

    Each line is checked.
    """
    if any(line.sku == "gone" for line in order.lines):
        raise HttpError(409, "The article gone is sold out.")
    return Status(201, order)


@orders.get("/{int:number}", response={200: Order, 404: Message})
@mcp_tool
def get(request: HttpRequest, number: int) -> Any:
    """Get an order."""
    if number == 403:
        raise PermissionDenied
    if number == 404:
        return Status(404, {"detail": "No such order."})
    return {"customer": str(request.auth), "lines": [{"sku": f"n{number}"}]}


@orders.patch("/{int:number}")
@mcp_tool
def change(request: HttpRequest, number: int, order: Order, dry_run: bool = False) -> Any:
    """Change an order."""
    return {"number": number, "order": order.dict(), "dry_run": dry_run}


@orders.get("")
@mcp_tool
def find(request: HttpRequest, filters: Query[Filters], tag: list[str] = Query([])) -> Any:  # noqa: B008
    """Find orders."""
    return {**filters.dict(), "tag": tag}


@api.post("upload")
@mcp_tool
def upload(request: HttpRequest, title: Form[str], file: File[UploadedFile]) -> Any:
    """Upload a file."""
    return {
        "title": title,
        "name": file.name,
        "type": file.content_type,
        "size": len(file.read()),
    }


@api.get("for-staff", auth=django_auth_is_staff)
@mcp_tool
def for_staff(request: HttpRequest) -> str:
    """Say who of the staff calls."""
    return str(request.auth)


@api.get("for-superusers", auth=[django_auth_superuser])
@mcp_tool
def for_superusers(request: HttpRequest) -> str:
    """Say which superuser calls."""
    return str(request.auth)


@api.get("for-users", auth=django_auth)
@mcp_tool
def for_users(request: HttpRequest) -> str:
    """Say which user calls."""
    return str(request.auth)


@api.get("for-editors", auth=Editors())
@mcp_tool
def for_editors(request: HttpRequest) -> str:
    """Say which editor calls."""
    return str(request.auth)


@api.get("moved", auth=django_auth)
@mcp_tool
def moved(request: HttpRequest, where: str = "/acme/api/orders/7") -> Any:
    """Lead to an order, or to where it is said."""
    return redirect(where)


@api.get("for-anybody", auth=None)
@mcp_tool
def for_anybody(request: HttpRequest) -> str:
    """Say who calls, without authentication."""
    return f"{request.user} {hasattr(request, 'auth')}"


@api.get("slow", throttle=[UserRateThrottle("2/h")], auth=django_auth)
@mcp_tool
def slow(request: HttpRequest) -> str:
    """Be called twice an hour."""
    return "done"


@api.get("cached", auth=django_auth)
@mcp_tool
@decorate_view(cache_page(60), vary_on_headers("Authorization"))
def cached(request: HttpRequest) -> str:
    """Say who has called."""
    return str(request.user)


def twice(run: Any) -> Any:
    @wraps(run)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = run(request, *args, **kwargs)
        response["X-Twice"] = "yes"
        response.content += response.content
        return response

    return inner


@api.get("doubled", auth=django_auth)
@mcp_tool
@decorate_view(twice)
def doubled(request: HttpRequest) -> int:
    """Answer with a number, twice."""
    return 7


@api.get("later", auth=django_auth)
@mcp_tool
async def later(request: HttpRequest, word: str) -> str:
    """Answer in a coroutine."""
    return f"{word} {request.auth}"


@api.post("written", auth=django_auth)
@mcp_tool
def written(request: HttpRequest, then: int) -> Any:
    """Write a group, and answer with a status."""
    Group.objects.create(name="written")
    if then >= 400:
        raise HttpError(then, "Written, then refused.")
    return {"in_transaction": transaction.get_connection().in_atomic_block}


@api.post("enter", auth=django_auth)
@mcp_tool
def enter(request: HttpRequest) -> str:
    """Log in."""
    login(request, request.user, backend="django.contrib.auth.backends.ModelBackend")
    request.session["word"] = "kept"
    return "in"


@api.get("asked", auth=django_auth)
@mcp_tool
def asked(request: HttpRequest, x_word: str = Header("none")) -> Any:
    """Say what the tool's context and the headers say."""
    context: Context | None = getattr(request, "mcp_context", None)
    return {
        "revision": context and context.revision.version,
        "cookie": request.META.get("HTTP_COOKIE"),
        "header": x_word,
    }


@api.get("hidden", include_in_schema=False, auth=django_auth)
@mcp_tool
def hidden(request: HttpRequest) -> str:
    """Be no part of the API's documentation."""
    return "seen"


@api.get("old", deprecated=True, auth=django_auth)
@mcp_tool
def old(request: HttpRequest) -> str:
    """Be replaced."""
    return "old"


@api.api_operation(["GET", "PUT"], "both", auth=django_auth)
@mcp_tool
def both(request: HttpRequest, value: int = 0) -> str:
    """Answer to two methods."""
    return f"{request.method} {value}"


@api.get("unmarked", auth=django_auth)
def unmarked(request: HttpRequest) -> str:
    """Be named by a setting, or by nothing."""
    raise Http404


@api.post("reset-password", auth=django_auth)
def reset_password(request: HttpRequest) -> str:
    """Handle credentials."""
    return "sent"


api.add_router("orders", orders)
urlpatterns = [path("<slug:tenant>/api/", api.urls)]
