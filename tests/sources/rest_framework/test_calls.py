"""Calls of views: the requests they receive and the results made from their answers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import path
from django_filters import CharFilter
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from rest_framework import generics, serializers
from rest_framework.decorators import api_view
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_bridge import Context, mcp_tool, mcp_toolset
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Comment, Section
from tests.sources.rest_framework import urls
from tests.sources.rest_framework.conftest import allowed
from tests.support.serving import served


@pytest.fixture
def root(django_user_model: Any) -> Any:
    return django_user_model.objects.create_superuser("root")


@pytest.fixture
def called(root: Any) -> Any:
    """A function that calls a tool as the superuser and returns its structured content."""
    client = CheckedClient(user=root)

    def call(name: str, **arguments: Any) -> Any:
        result = client.call_tool(name, arguments)
        assert not result.get("isError"), text_of(result)
        return result["structuredContent"]

    return call


@pytest.fixture
def refused(root: Any) -> Any:
    """A function that calls a failing tool and returns its error text."""
    client = CheckedClient(user=root)

    def call(name: str, **arguments: Any) -> str:
        result = client.call_tool(name, arguments)
        assert result["isError"]
        return text_of(result)

    return call


def test_list_is_filtered_ordered_and_paginated_as_over_http(
    root: Any, called: Any, articles: list[Article]
) -> None:
    http = Client()
    http.force_login(root)
    listed = called("article_list", ordering="-slug")
    assert [each["slug"] for each in listed["results"]] == ["c", "b"]
    assert listed == http.get("/api/articles/?ordering=-slug").json()
    assert called("article_list", search="Title a")["count"] == 1
    second = called("article_list", ordering="-slug", page=2)
    assert [each["slug"] for each in second["results"]] == ["a"]


def test_every_get_answers_as_over_http(
    root: Any, user: Any, articles: list[Article], django_user_model: Any
) -> None:
    staff = django_user_model.objects.create_user("staff", is_staff=True)
    plain = allowed(user, "view_article", "view_section")
    same = {
        "article_list": "/api/articles/",
        "article_count": "/api/articles/count/",
        "article_retrieve": "/api/articles/a/",
        "article_tag_get": "/api/articles/a/tags/x/",
        "desk_section_list": "/api/sections/",
        "who": "/who/",
        "echo_get": "/echo/",
        "anonymous": "/anonymous/",
        "remark_list": "/api/comments/",
        "mine_cookie": "/mine/cookie/",
        "async": "/async/",
    }
    arguments = {"article_retrieve": {"slug": "a"}, "article_tag_get": {"slug": "a", "tag": "x"}}
    compared = 0
    for caller in (root, staff, plain):
        http, client = Client(), CheckedClient(user=caller)
        http.force_login(caller)
        listed = {each["name"] for each in client.list_tools()}
        for name, address in same.items():
            answer = http.get(address)
            if name not in listed:
                continue
            result = client.call_tool(name, arguments.get(name, {}))
            assert not result.get("isError"), (name, caller, text_of(result))
            value = answer.json()
            value = value if isinstance(value, dict) else {"result": value}
            assert result["structuredContent"] == value
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_writes_are_stored(
    root: Any, articles: list[Article], settings: Any, asynchronous: bool
) -> None:
    route(settings, *urls.urlpatterns[:-1], asynchronous=asynchronous)
    client = CheckedClient(user=root)
    given = {"slug": "new", "title": "New", "section": 0, "author": 0, "body": "Text.", "tags": []}
    section = Section.objects.get()
    given |= {"section": section.pk, "author": articles[0].author.pk}
    made = client.call_tool("article_create", given)
    assert made["structuredContent"]["section_name"] == "News"
    client.call_tool("article_partial_update", {"path_slug": "new", "title": "Newer"})
    assert Article.objects.get(slug="new").title == "Newer"
    given |= {"title": "Newest", "path_slug": "new"}
    assert not client.call_tool("article_update", given).get("isError")
    assert Article.objects.get(slug="new").title == "Newest"
    published = client.call_tool("article_publish", {"slug": "new"})
    assert published["structuredContent"] == {"slug": "new", "by": "root"}
    gone = client.call_tool("article_destroy", {"slug": "new"})
    assert text_of(gone) == "Done (204 No Content)."
    assert not Article.objects.filter(slug="new").exists()


def test_nested_values_reach_the_serializer(called: Any, refused: Any) -> None:
    lines = [{"sku": "a", "pieces": 2}, {"sku": "b", "pieces": 3}]
    assert called("order", customer="Ada", lines=lines) == {"pieces": 5}
    text = refused("order", customer="Ada", lines=[{"sku": "a", "pieces": 0}])
    assert "/lines/0/pieces" in text


def test_file_and_nested_values_are_sent_as_a_form(called: Any) -> None:
    data = f"data:text/plain;base64,{b64encode(b'hello').decode()}"
    line = {"sku": "a", "pieces": 2}
    result = called("upload", title="A", file=data, file_filename="a.txt", line=line)
    assert result == {"name": "a.txt", "text": "hello", "line": line}


def test_errors_of_fields_are_lines_with_places(refused: Any, articles: list[Article]) -> None:
    given = {"slug": "a", "title": "A", "section": 999, "author": 999, "body": "Text."}
    text = refused("article_create", **given)
    assert "/slug: " in text
    assert "/section: " in text
    assert "999" in text
    assert "\n" in text


def test_refused_call_is_rolled_back(refused: Any, articles: list[Article]) -> None:
    text = refused("remark_create", article=articles[0].pk, text="refuse this")
    assert text == "/text: We do not print that."
    assert not Comment.objects.exists()


def test_missing_object_is_reported(refused: Any) -> None:
    assert "No Article matches" in refused("article_retrieve", slug="nowhere")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("conflict", "Somebody was faster."),
        ("login", "The view redirects to another page, /accounts/login/, without data."),
        ("message", "You may not edit this page."),
        ("page", "an HTML page"),
        ("endless", "more than"),
    ],
)
def test_other_answers_are_reported(root: Any, settings: Any, kind: str, told: str) -> None:
    result = odd(root, settings, kind)
    assert result["isError"]
    assert told in text_of(result)


def odd(root: Any, settings: Any, kind: str) -> dict[str, Any]:
    """Return the odd view's answer of a kind."""
    # The view says nothing of this parameter.
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    schema = {"type": "object", "properties": {"kind": {"type": "string"}}}
    views = {"odd": {"actions": ["get"], "input_schema": schema}}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": {"views": views}}}}
    return CheckedClient(user=root).call_tool("odd_get", {"kind": kind})


def test_non_json_answers_are_sent(root: Any, settings: Any) -> None:
    assert text_of(odd(root, settings, "text")) == "plain"
    assert text_of(odd(root, settings, "stream")) == "ab"
    assert text_of(odd(root, settings, "")) == "Done (204 No Content)."
    moved = odd(root, settings, "elsewhere")
    assert moved["structuredContent"] == {"location": "/who/"}
    file = odd(root, settings, "file")["content"][0]
    assert "Views of all kinds" in json.dumps(file)


@pytest.mark.parametrize("kind", ["error", "raise"])
def test_unexpected_error_is_logged_and_hidden(
    root: Any, settings: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = odd(root, settings, kind)
    assert result["isError"]
    assert "hidden" not in json.dumps(result)
    assert "the site's log says why" in text_of(result)
    assert "503" in caplog.text or "ObjectDoesNotExist" in caplog.text
    flush()
    assert ToolCallRecord.objects.latest("pk").error_code == "internal_error"


def test_view_can_read_the_context(root: Any, settings: Any) -> None:
    assert odd(root, settings, "context")["structuredContent"].keys() == {"client"}


def test_version_arguments_are_filled_in(called: Any) -> None:
    assert called("by_path") == {"version": "v1"}
    assert called("by_accept") == {"version": "1.0"}
    assert called("by_query") == {"version": "a"}
    assert called("one_named") == {"version": "one"}
    assert called("two_named") == {"version": "two"}


def test_version_option_selects_the_version(root: Any, settings: Any) -> None:
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": {"version": "v2"}}}}
    client = CheckedClient(user=root)
    assert client.call_tool("by_path")["structuredContent"] == {"version": "v2"}
    assert client.call_tool("by_accept")["structuredContent"] == {"version": "1.0"}


# A coroutine's record is written by another thread, which does not see the test's transaction.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_coroutine_views_answer_at_both_endpoints(
    root: Any, settings: Any, asynchronous: bool
) -> None:
    route(settings, *urls.urlpatterns[:-1], asynchronous=asynchronous)
    result = CheckedClient(user=root).call_tool("async")
    assert result["structuredContent"] == {"user": "root"}


def test_path_follows_the_language(called: Any, root: Any, settings: Any) -> None:
    assert called("local", word="a")["path"] == "/en/local/a/"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    client = CheckedClient(user=root)
    client.headers["Accept-Language"] = "de"
    result = client.call_tool("local", {"word": "a"})
    assert result["structuredContent"]["path"] == "/de/local/a/"


def test_output_schemas_are_listed_if_enabled(settings: Any, root: Any) -> None:
    client = CheckedClient(user=root)
    assert all("outputSchema" not in each for each in client.list_tools())
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    options = {**source["OPTIONS"], "output_schemas": True}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": options}}}
    tools = {each["name"]: each for each in CheckedClient(user=root).list_tools()}
    schema = tools["article_retrieve"]["outputSchema"]
    assert "section_name" in schema["properties"]


@pytest.mark.off_lane
def test_middlewares_attributes_and_a_few_headers_reach_the_view(root: Any, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.tenancy"]
    client = CheckedClient(user=root)
    client.headers |= {"User-Agent": "agent/1", "X-Secret": "7f3z"}
    told = client.call_tool("meta", {"word": "a"})["structuredContent"]
    assert told["tenant"] == "acme"
    assert told["agent"] == "agent/1"
    assert told["secret"] == ""
    assert re.fullmatch(r"MCP [0-9a-f]{64}", told["authorization"])
    assert re.fullmatch(r"mcp=[0-9a-f]{64}", told["cookie"])
    assert told["uri"] == "http://testserver/meta/a/"


def tenancy(get_response: Any) -> Any:
    def middleware(request: Any) -> Any:
        request.tenant = "acme"
        return get_response(request)

    return middleware


def test_throttle_counts_calls_and_http_together(root: Any) -> None:
    http, client = Client(), CheckedClient(user=root)
    http.force_login(root)
    assert http.get("/limited/").status_code == 200
    assert not client.call_tool("limits_get").get("isError")
    text = text_of(client.call_tool("limits_get"))
    assert "throttled" in text
    assert "Try again in" in text
    assert http.get("/limited/").status_code == 429


class Later(APIView):
    """Write, and fail."""

    @mcp_tool
    def post(self, request: Any) -> Response:
        Section.objects.create(name="Half", slug="half")
        return Response({"detail": "No."}, status=409)


@pytest.mark.parametrize("is_atomic", [True, False])
def test_error_response_rolls_back_writes(settings: Any, root: Any, is_atomic: bool) -> None:
    view = Later.as_view()
    route(settings, path("later/", view if is_atomic else transaction.non_atomic_requests(view)))
    result = CheckedClient(user=root).call_tool("later")
    assert text_of(result) == "No."
    # The test itself has a transaction, so each call has a savepoint.
    assert not Section.objects.exists()
    assert served("later").non_atomic == (frozenset() if is_atomic else {"default"})


class Choosy(APIView):
    """Say who calls, if authentication is requested."""

    permission_classes = []

    def get_authenticators(self) -> list[Any]:
        asks = "ask" in self.request.GET if self.request else True
        return super().get_authenticators() if asks else []

    @mcp_tool(input_schema={"type": "object", "properties": {"ask": {"type": "string"}}})
    def get(self, request: Any) -> Response:
        return Response({"user": str(request.user)})


def test_view_can_choose_authentication_by_request(settings: Any, user: Any) -> None:
    route(settings, path("choosy/", Choosy.as_view()))
    client = CheckedClient(user=user)
    assert client.call_tool("choosy", {"ask": "1"})["structuredContent"] == {"user": "ada"}
    assert client.call_tool("choosy")["structuredContent"] == {"user": "AnonymousUser"}


class Prefixed(APIView):
    """Return the URL of the view."""

    @mcp_tool
    def get(self, request: Any) -> Response:
        return Response({"path": request.path, "inner": request.path_info})


def test_script_prefix_is_prepended(settings: Any, user: Any) -> None:
    settings.FORCE_SCRIPT_NAME = "/site"
    route(settings, path("prefixed/", Prefixed.as_view()))
    client = CheckedClient(user=user, path="/mcp")
    told = client.call_tool("prefixed")["structuredContent"]
    assert told == {"path": "/site/prefixed/", "inner": "/prefixed/"}


def test_large_file_is_read_and_closed(called: Any, settings: Any) -> None:
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 1000
    content = b"x" * 100_000
    data = f"data:text/plain;base64,{b64encode(content).decode()}"
    result = called("upload", title="A", file=data)
    assert len(result["text"]) == len(content)


def test_precheck_is_given_the_arguments(settings: Any, user: Any) -> None:
    def check(pk: int, caller: Context) -> bool:
        return pk < 10 and caller.user == user

    @mcp_tool(precheck=check)
    @api_view(["GET"])
    def thing(request: Any, pk: int) -> Response:
        """Show it."""
        return Response({"pk": pk})

    route(settings, path("things/<int:pk>/", thing, name="thing"))
    client = CheckedClient(user=user)
    result = client.call_tool("thing", {"pk": 3})
    assert result.get("structuredContent") == {"pk": 3}, result
    assert text_of(client.call_tool("thing", {"pk": 30})).startswith("You do not have permission")


class SectionFilters(FilterSet):
    word = CharFilter(field_name="name", lookup_expr="icontains", help_text="A part of its name.")

    class Meta:
        model = Section
        fields = ("slug",)


class FilteredSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ("slug", "name")


@mcp_toolset(actions=["get"])
class FilteredView(generics.ListAPIView[Section]):
    """The sections, filtered."""

    queryset = Section.objects.order_by("slug")
    serializer_class = FilteredSerializer
    filter_backends = [DjangoFilterBackend]
    filterset_class = SectionFilters


def test_filters_of_django_filter_are_arguments(settings: Any, user: Any) -> None:
    Section.objects.create(name="Local news", slug="local")
    Section.objects.create(name="Sports", slug="sports")
    route(settings, path("filtered/", FilteredView.as_view(), name="filtered"))
    assert served("filtered").input_schema["properties"].keys() == {"slug", "word"}
    assert "A part of its name." in str(served("filtered").input_schema["properties"]["word"])
    client = CheckedClient(user=user)
    found = client.call_tool("filtered", {"word": "sport"})["structuredContent"]
    assert found == {"result": [{"slug": "sports", "name": "Sports"}]}


def test_errors_are_rolled_back_with_atomic_requests(
    refused: Any, called: Any, articles: list[Article], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    text = refused("remark_create", article=articles[0].pk, text="refuse this")
    assert text == "/text: We do not print that."
    assert called("remark_create", article=articles[0].pk, text="Fine.")["text"] == "Fine."
    assert Comment.objects.count() == 1


def test_http_answers_are_unchanged(root: Any, called: Any, articles: list[Article]) -> None:
    http = Client()
    http.force_login(root)
    paths = ("/api/articles/", "/api/articles/a/", "/who/", "/one/v/", "/schema/", "/en/local/a/")

    def answers() -> list[tuple[int, bytes]]:
        return [(each.status_code, each.content) for each in map(http.get, paths)]

    before = answers()
    called("article_list")
    called("article_publish", slug="b")
    Article.objects.filter(slug="b").update(status="draft")
    registry.reload()
    called("who")
    assert answers() == before
