"""Calls of views: what is sent to them, and what is told of their answers."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from django.test import Client

from mcp_bridge.audit.rows import flush
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Comment, Section
from tests.sources.rest_framework import urls
from tests.sources.rest_framework.conftest import allowed


@pytest.fixture
def root(django_user_model: Any) -> Any:
    return django_user_model.objects.create_superuser("root")


@pytest.fixture
def called(root: Any) -> Any:
    """Calls a tool as the superuser, and returns the structured content."""
    client = CheckedClient(user=root)

    def call(name: str, **arguments: Any) -> Any:
        result = client.call_tool(name, arguments)
        assert not result.get("isError"), text_of(result)
        return result["structuredContent"]

    return call


@pytest.fixture
def refused(root: Any) -> Any:
    """Calls a tool that fails, and returns what is told."""
    client = CheckedClient(user=root)

    def call(name: str, **arguments: Any) -> str:
        result = client.call_tool(name, arguments)
        assert result["isError"]
        return text_of(result)

    return call


def test_a_list_is_filtered_ordered_and_cut_as_over_http(
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


def test_more_pages_are_told(root: Any, articles: list[Article]) -> None:
    content = CheckedClient(user=root).call_tool("article_list")["content"]
    assert content[1]["text"] == 'There is more: call again with {"page":2}.'


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
        for name, path in same.items():
            answer = http.get(path)
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
def test_what_is_written_is_there(
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


def test_a_file_is_sent_as_a_form_with_nested_values(called: Any) -> None:
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


def test_what_a_refused_call_wrote_is_undone(refused: Any, articles: list[Article]) -> None:
    text = refused("remark_create", article=articles[0].pk, text="refuse this")
    assert text == "/text: We do not print that."
    assert not Comment.objects.exists()


def test_what_is_not_there_is_told(refused: Any) -> None:
    assert "No Article matches" in refused("article_retrieve", slug="nowhere")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("conflict", "Somebody was faster."),
        ("login", "The view leads to another page, /accounts/login/, and has no answer."),
        ("message", "You may not edit this page."),
        ("page", "page of HTML"),
        ("endless", "more than"),
    ],
)
def test_other_answers_are_told(root: Any, settings: Any, kind: str, told: str) -> None:
    result = odd(root, settings, kind)
    assert result["isError"]
    assert told in text_of(result)


def odd(root: Any, settings: Any, kind: str) -> dict[str, Any]:
    """What the odd view answers when it is asked for a kind of answer."""
    # The view says nothing of this parameter.
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    schema = {"type": "object", "properties": {"kind": {"type": "string"}}}
    views = {"odd": {"actions": ["get"], "input_schema": schema}}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": {"views": views}}}}
    return CheckedClient(user=root).call_tool("odd_get", {"kind": kind})


def test_answers_that_are_no_json_are_sent(root: Any, settings: Any) -> None:
    assert text_of(odd(root, settings, "text")) == "plain"
    assert text_of(odd(root, settings, "stream")) == "ab"
    assert text_of(odd(root, settings, "")) == "Done (204 No Content)."
    moved = odd(root, settings, "elsewhere")
    assert moved["structuredContent"] == {"location": "/who/"}
    file = odd(root, settings, "file")["content"][0]
    assert "Views of all kinds" in json.dumps(file)


@pytest.mark.parametrize("kind", ["error", "raise"])
def test_an_error_of_the_site_is_logged_and_not_told(
    root: Any, settings: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = odd(root, settings, kind)
    assert result["isError"]
    assert "hidden" not in json.dumps(result)
    assert "the site's log says why" in text_of(result)
    assert "503" in caplog.text or "ObjectDoesNotExist" in caplog.text
    flush()
    assert ToolCallRecord.objects.latest("pk").error_code == "internal_error"


def test_a_view_may_read_the_context(root: Any, settings: Any) -> None:
    assert odd(root, settings, "context")["structuredContent"].keys() == {"client"}


def test_versions_are_filled(called: Any) -> None:
    assert called("by_path") == {"version": "v1"}
    assert called("by_accept") == {"version": "1.0"}
    assert called("by_query") == {"version": "a"}
    assert called("one_named") == {"version": "one"}
    assert called("two_named") == {"version": "two"}


def test_the_setting_says_which_version(root: Any, settings: Any) -> None:
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": {"version": "v2"}}}}
    client = CheckedClient(user=root)
    assert client.call_tool("by_path")["structuredContent"] == {"version": "v2"}
    assert client.call_tool("by_accept")["structuredContent"] == {"version": "1.0"}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_coroutine_views_answer_at_both_endpoints(
    root: Any, settings: Any, asynchronous: bool
) -> None:
    route(settings, *urls.urlpatterns[:-1], asynchronous=asynchronous)
    result = CheckedClient(user=root).call_tool("async")
    assert result["structuredContent"] == {"user": "root"}


def test_a_path_follows_the_language(called: Any, root: Any, settings: Any) -> None:
    assert called("local", word="a")["path"] == "/en/local/a/"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    client = CheckedClient(user=root)
    client.headers["Accept-Language"] = "de"
    result = client.call_tool("local", {"word": "a"})
    assert result["structuredContent"]["path"] == "/de/local/a/"


def test_output_schemas_are_told_where_the_setting_says_so(settings: Any, root: Any) -> None:
    client = CheckedClient(user=root)
    assert all("outputSchema" not in each for each in client.list_tools())
    source = dict(settings.MCP_BRIDGE["SOURCES"]["drf"])
    options = {**source["OPTIONS"], "output_schemas": True}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {**source, "OPTIONS": options}}}
    tools = {each["name"]: each for each in CheckedClient(user=root).list_tools()}
    schema = tools["article_retrieve"]["outputSchema"]
    assert "section_name" in schema["properties"]


def test_middlewares_attributes_and_a_few_headers_reach_the_view(root: Any, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.tenancy"]
    client = CheckedClient(user=root)
    client.headers |= {"User-Agent": "agent/1", "X-Secret": "7f3a"}
    told = client.call_tool("meta", {"word": "a"})["structuredContent"]
    assert told["tenant"] == "acme"
    assert told["agent"] == "agent/1"
    assert told["secret"] == ""
    assert told["authorization"] == f"MCP user-{root.pk}"
    assert told["cookie"] == f"mcp=user-{root.pk}"
    assert told["uri"] == "http://testserver/meta/a/"


def tenancy(get_response: Any) -> Any:
    def middleware(request: Any) -> Any:
        request.tenant = "acme"
        return get_response(request)

    return middleware


def test_a_throttle_counts_calls_and_http_alike(root: Any) -> None:
    http, client = Client(), CheckedClient(user=root)
    http.force_login(root)
    assert http.get("/limited/").status_code == 200
    assert not client.call_tool("limits_get").get("isError")
    text = text_of(client.call_tool("limits_get"))
    assert "throttled" in text
    assert "Try again in" in text
    assert http.get("/limited/").status_code == 429


def test_a_view_without_transactions_has_none(settings: Any, root: Any) -> None:
    from mcp_bridge.registry.registry import registry

    tool = registry.discovered.tools["odd_post"]
    assert tool.non_atomic == frozenset()
