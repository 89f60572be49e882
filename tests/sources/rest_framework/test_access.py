"""Access to views: which callers see and call them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_bridge import mcp_toolset
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Comment
from tests.sources.rest_framework.conftest import allowed
from tests.support.serving import served

ANYBODY = {"anonymous", "echo_get", "echo_post", "local", "meta"}


def listed(user: Any = None) -> set[str]:
    client = CheckedClient() if user is None else CheckedClient(user=user)
    return {each["name"] for each in client.list_tools()}


def test_views_are_listed_for_permitted_users(user: Any, django_user_model: Any) -> None:
    root = django_user_model.objects.create_superuser("root")
    staff = django_user_model.objects.create_user("staff", is_staff=True)
    everything = listed(root)
    assert "article_publish" in everything
    assert listed() == ANYBODY
    plain = listed(user)
    assert "who" not in plain
    assert "who" in listed(staff)
    assert not {name for name in plain if name.startswith(("article_", "desk_"))}
    assert {"limits_get", "remark_list", "order"} <= plain
    reader = listed(allowed(user, "view_article"))
    assert {"article_list", "article_retrieve"} <= reader
    assert "article_create" not in reader
    writer = listed(allowed(user, "view_article", "add_article", "publish_article"))
    assert {"article_create", "article_publish"} <= writer
    assert "article_destroy" not in writer


def test_drf_permission_classes_add_no_query_to_lists(user: Any) -> None:
    assert served("article_create").access.predicate is None
    assert served("article_create").access.permissions == (
        "newsroom.view_article",
        "newsroom.add_article",
    )
    assert served("async").access.predicate is None
    assert served("remark_list").access.predicate is not None
    with CaptureQueriesContext(connection) as queries:
        listed(user)
    assert not [each for each in queries if "newsroom_" in each["sql"]]


def test_custom_permission_classes_are_checked(django_user_model: Any) -> None:
    outsider = django_user_model.objects.create_user("outsider")
    assert not {name for name in listed(outsider) if name.startswith("remark_")}
    with pytest.raises(MCPError, match="Unknown tool"):
        CheckedClient(user=outsider).call_tool("remark_list")


@pytest.mark.parametrize("refusal", [AuthenticationFailed, NotAuthenticated, PermissionDenied])
def test_permission_that_raises_hides_the_tool(
    refusal: type[Exception], user: Any, settings: Any
) -> None:
    class Never(BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            raise refusal

    @mcp_toolset(actions=["get"])
    class Shelf(APIView):
        """Show the shelf."""

        permission_classes = [Never]

        def get(self, request: Any) -> Response:
            return Response({})

    route(settings, path("shelf/", Shelf.as_view(), name="shelf"))
    assert "shelf" not in listed(user)


def test_permission_reading_arguments_is_checked_at_the_call(user: Any, settings: Any) -> None:
    class OfShelf(BasePermission):
        message = "That shelf is not yours."

        def has_permission(self, request: Any, view: Any) -> bool:
            return bool(view.kwargs["shelf"] == "mine")

    @mcp_toolset(actions=["get"])
    class Shelf(APIView):
        """Show a shelf."""

        permission_classes = [OfShelf]

        def get(self, request: Any, shelf: str) -> Response:
            return Response({"shelf": shelf})

    route(settings, path("shelves/<slug:shelf>/", Shelf.as_view(), name="shelf"))
    client = CheckedClient(user=user)
    assert client.call_tool("shelf", {"shelf": "mine"})["structuredContent"] == {"shelf": "mine"}
    text = text_of(client.call_tool("shelf", {"shelf": "other"}))
    assert text == "That shelf is not yours."


def test_permissions_are_not_probed_if_disabled(settings: Any, django_user_model: Any) -> None:
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": {"probe": False}}}}
    outsider = django_user_model.objects.create_user("outsider")
    assert "remark_list" in listed(outsider)
    result = CheckedClient(user=outsider).call_tool("remark_list")
    assert text_of(result) == "Only the author of a comment may do that."


def test_object_permission_message_is_returned(
    user: Any, articles: list[Article], django_user_model: Any
) -> None:
    other = django_user_model.objects.create_user("other")
    comment = Comment.objects.create(article=articles[0], user=other, text="Mine.")
    result = CheckedClient(user=user).call_tool("remark_destroy", {"pk": comment.pk})
    assert text_of(result) == "Only the author of a comment may do that."
    assert Comment.objects.exists()
    assert not CheckedClient(user=other).call_tool("remark_destroy", {"pk": comment.pk})["isError"]
    assert not Comment.objects.exists()


@pytest.mark.parametrize("name", ["mine_cookie", "mine_header"])
def test_cached_answers_are_not_shared_between_callers(name: str, django_user_model: Any) -> None:
    users = [django_user_model.objects.create_user(name) for name in ("anna", "berta")]
    for caller in (*users, *users):
        result = CheckedClient(user=caller).call_tool(name)
        assert result["structuredContent"] == {"user": caller.username}


def test_calls_do_not_get_answers_cached_over_http(user: Any, django_user_model: Any) -> None:
    other = django_user_model.objects.create_user("other")
    http = Client()
    http.force_login(other)
    assert http.get("/mine/cookie/").json() == {"user": "other"}
    result = CheckedClient(user=user).call_tool("mine_cookie")
    assert result["structuredContent"] == {"user": "ada"}
    assert http.get("/mine/cookie/").json() == {"user": "other"}


def test_http_does_not_get_answers_cached_for_calls(user: Any) -> None:
    name = f"user-{user.pk}"
    for address, header in (
        ("/mine/cookie/", {"Cookie": f"mcp={name}"}),
        ("/mine/header/", {"Authorization": f"MCP {name}"}),
    ):
        tool = address.strip("/").replace("/", "_")
        assert not CheckedClient(user=user).call_tool(tool).get("isError")
        answer = Client().get(address, headers=header)
        assert "ada" not in answer.content.decode()


@pytest.mark.parametrize(
    "value",
    [
        *("../articles", "..", "a/publish", "a?format=api", "%2e%2e", "%2e%2e%2fsections"),
        *("a/tags/x", ".", "", "a%2fpublish", "a#b", "a\n", "//", "a/../b", "\\..\\", "a\x00"),
    ],
)
def test_path_value_cannot_reach_another_view(
    value: str, articles: list[Article], django_user_model: Any
) -> None:
    root = django_user_model.objects.create_superuser("root")
    client = CheckedClient(user=root)
    result = client.call_tool("article_retrieve", {"slug": value})
    assert result["isError"]
    assert not any(each in text_of(result) for each in ("Traceback", "urlpatterns", "^api"))
    result = client.call_tool("article_publish", {"slug": value})
    assert result["isError"]
    assert not Article.objects.filter(status="published").exists()


def test_path_values_arrive_unchanged(django_user_model: Any) -> None:
    root = django_user_model.objects.create_superuser("root")
    for word in ("a b", "ä", "a?b=c", "%2e", "a&b", "#"):
        told = CheckedClient(user=root).call_tool("meta", {"word": word})["structuredContent"]
        assert told["kwargs"] == {"word": word}
        assert told["path"] == f"/meta/{word}/"


def test_unauthenticated_view_stays_anonymous(user: Any) -> None:
    for client in (CheckedClient(user=user), CheckedClient()):
        result = client.call_tool("anonymous")
        assert result["structuredContent"] == {"user": "AnonymousUser", "authenticated": False}


def test_anonymous_caller_sends_no_credentials(user: Any) -> None:
    told = CheckedClient().call_tool("meta", {"word": "a"})["structuredContent"]
    assert (told["authorization"], told["cookie"]) == ("", "")


def test_login_view_sets_no_cookie_and_no_session(user: Any) -> None:
    client = CheckedClient(user=user)
    call = {"name": "session_login", "arguments": {}}
    response = client.send(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    )
    assert "Set-Cookie" not in response.headers
    assert not response.cookies
    result = client.call_tool("session_login")
    assert not result.get("isError"), text_of(result)


def test_inactive_users_see_no_tools(user: Any) -> None:
    client = CheckedClient(user=user)
    assert "limits_get" in {each["name"] for each in client.list_tools()}
    user.is_active = False
    user.save()
    with pytest.raises(MCPError, match="credential"):
        client.list_tools()
