from __future__ import annotations

import datetime
import enum
import io
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.management import CommandError, call_command
from django.http import Http404
from pydantic import SecretStr

from mcp_bridge import mcp_resource
from mcp_bridge.features.resources import Resource, overlapping
from mcp_bridge.features.uris import UriTemplate
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import CallToolResult, TextContent
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve


class Section(enum.Enum):
    SPORT = "sport"
    ARTS = "arts"


@mcp_resource("articles://{slug}", mime_type="text/markdown")
def article(slug: str) -> str:
    """Return the text of one article."""
    if slug == "gone":
        raise Http404
    return f"# {slug}"


@mcp_resource("articles://latest", title="Latest", ttl=30)
def latest() -> dict[str, int]:
    """Return the numbers of the latest articles."""
    return {"sport": 1}


@mcp_resource("pages://{number}/of/{section}")
def page(number: int, section: Section = Section.SPORT) -> str:
    """Return a page of a section."""
    return f"{number + 1} {section.name}"


@mcp_resource("files://{+path}")
def file(path: str) -> Any:
    """Return a file."""
    return ContentFile(b"\x89PNG", name=path)


@mcp_resource("raw://bytes")
def raw() -> bytes:
    """Return bytes."""
    return b"\x00\xff"


def counted(work: Callable[[], object]) -> int:
    """Return how many lines of Python and calls of C functions a function takes."""
    events = 0

    def trace(frame: Any, event: str, given: Any) -> Any:
        nonlocal events
        events += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return events


RESOURCES = article, latest, page, file, raw


def test_fixed_and_template_uris_are_two_lists(settings: Any, client: CheckedClient) -> None:
    serve(settings, *RESOURCES)
    fixed = client.list_all("resources/list", "resources")
    assert [each["uri"] for each in fixed] == ["articles://latest", "raw://bytes"]
    templates = client.list_all("resources/templates/list", "resourceTemplates")
    assert [each["uriTemplate"] for each in templates] == [
        "articles://{slug}",
        "files://{+path}",
        "pages://{number}/of/{section}",
    ]
    assert templates[0] == {
        "uriTemplate": "articles://{slug}",
        "name": "article",
        "description": "Return the text of one article.",
        "mimeType": "text/markdown",
    }


@pytest.mark.parametrize(
    ("uri", "contents"),
    [
        ("articles://a-b", {"text": "# a-b", "mimeType": "text/markdown"}),
        ("articles://%C3%BC%252e", {"text": "# ü%2e", "mimeType": "text/markdown"}),
        ("articles://latest", {"text": '{"sport":1}', "mimeType": "application/json"}),
        ("pages://41/of/arts", {"text": "42 ARTS", "mimeType": "text/plain"}),
        ("files://a/b.png", {"blob": "iVBORw==", "mimeType": "image/png"}),
        ("raw://bytes", {"blob": "AP8=", "mimeType": "application/octet-stream"}),
    ],
)
def test_contents_have_the_requested_uri(
    settings: Any, client: CheckedClient, uri: str, contents: dict[str, str]
) -> None:
    serve(settings, *RESOURCES)
    assert client.read_resource(uri) == [{"uri": uri, **contents}]


@pytest.mark.parametrize(
    "uri",
    [
        *("articles://gone", "articles://a%2Fb", "articles://../x", "articles://%2e%2e/x"),
        *("articles://..", "articles://", "articles:///", f"articles://{'a' * 10_000}"),
        *("articles://a#b", "ARTICLES://a", "articles://a\0", "articles://a%00"),
        *("articles://{slug}", "article", "pages://one/of/arts", "pages://1/of/news", ""),
        *("files://a/../b", "files:///etc/passwd", "files://a/%2e%2e/b", "files://a%5cb"),
        *("articles://%ff", "articles://a?b", "articles://ü"),
    ],
)
def test_all_that_cannot_be_read_is_not_found(
    settings: Any, client: CheckedClient, uri: str
) -> None:
    serve(settings, *RESOURCES)
    with pytest.raises(MCPError) as caught:
        client.read_resource(uri)
    error = caught.value.error
    assert (error["code"], error["message"]) == (-32602, "Resource not found")
    assert uri.startswith(error["data"]["uri"].removesuffix("…"))


def test_hidden_resource_is_not_found(settings: Any, user: User) -> None:
    @mcp_resource("secrets://one", permissions="auth.view_user")
    def secret() -> str:
        """Return a secret."""
        return "secret"

    serve(settings, secret, article)
    client = CheckedClient(user=user)
    assert client.list_all("resources/list", "resources") == []
    errors = []
    for uri in ("secrets://one", "secrets://two"):
        with pytest.raises(MCPError) as caught:
            client.read_resource(uri)
        errors.append((caught.value.error["code"], caught.value.error["message"]))
    assert errors == [(-32602, "Resource not found")] * 2


def test_uri_must_be_a_string(settings: Any, client: CheckedClient) -> None:
    serve(settings, article)
    for params in ({}, {"uri": 1}):
        with pytest.raises(MCPError, match="uri must be a URI") as caught:
            client.post("resources/read", **params)
        assert caught.value.error["code"] == -32602


def test_site_without_resources_lacks_the_methods(client: CheckedClient) -> None:
    for method in ("resources/list", "resources/templates/list", "resources/read", "prompts/list"):
        with pytest.raises(MCPError) as caught:
            client.post(method)
        assert caught.value.error["code"] == -32601


def test_modern_reading_may_be_kept_for_its_time(settings: Any, modern: CheckedClient) -> None:
    settings.MCP_BRIDGE = {"CACHE_TTL": 5}
    serve(settings, *RESOURCES)
    for uri, seconds in (("articles://latest", 30), ("articles://a", 5)):
        result = modern.post("resources/read", uri=uri)
        assert (result["ttlMs"], result["cacheScope"]) == (seconds * 1000, "private")


def test_failure_has_a_reference_and_no_cause(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("broken://{kind}")
    def broken(kind: str) -> Any:
        """Fail."""
        if kind == "raise":
            raise KeyError("hidden cause")
        return object() if kind == "object" else [TextContent("a"), object()]

    serve(settings, broken)
    for kind in ("raise", "object", "list"):
        with pytest.raises(MCPError, match="under the reference") as caught:
            client.read_resource(f"broken://{kind}")
        assert caught.value.error["code"] == -32603
        assert "hidden" not in str(caught.value)


def test_large_resource_is_sent_up_to_the_limit(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("large://{size}")
    def large(size: int) -> str:
        """Return a text of this size."""
        return "a" * size

    serve(settings, large)
    (contents,) = client.read_resource("large://5000000")
    assert len(contents["text"]) == 5_000_000
    with pytest.raises(MCPError, match="has 6000.* bytes, more than") as caught:
        client.read_resource("large://6000000")
    assert caught.value.error["code"] == -32603


def test_reading_is_counted_and_recorded(settings: Any, user: User) -> None:
    @mcp_resource("counted://{name}", throttle="2/min")
    def counted(name: str) -> str:
        """Return the name."""
        return name

    serve(settings, counted)
    client = CheckedClient(user=user)
    client.read_resource("counted://a")
    client.read_resource("counted://b")
    with pytest.raises(MCPError, match="counted"):
        client.read_resource("counted://c")
    rows = ToolCallRecord.objects.order_by("pk")
    found = [(each.kind, each.tool, each.outcome) for each in rows]
    assert found == [("resource", "counted", "succeeded")] * 2 + [
        ("resource", "counted", "refused")
    ]


def test_resource_may_be_a_tool_as_well(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("numbers://{number}", expose_as_tool=True)
    def number(number: int) -> int:
        """Return the number."""
        return number

    serve(settings, number)
    (tool,) = client.list_tools()
    assert tool["name"] == "number"
    assert client.call_tool("number", {"number": 7})["content"][0]["text"] == "7"
    assert client.read_resource("numbers://7")[0]["text"] == "7"


def test_overlapping_templates_are_not_served(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("articles://a-{rest}")
    def by_month(rest: str) -> str:
        """Return what begins so."""
        return ""

    serve(settings, article, by_month, latest)
    assert [each.name for each in registry.snapshot] == ["latest"]
    (message,) = [each for each in registry.discovered.messages if each.id == "mcp_bridge.E028"]
    assert "articles://{slug}" in message.msg
    assert "articles://a-{rest}" in message.msg


def test_text_that_is_not_json_is_plain(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("days://{kind}")
    def value(kind: str) -> Any:
        """Return a value."""
        values = {"day": datetime.date(2026, 1, 2), "section": Section.ARTS, "list": ["a"]}
        return values.get(kind, [TextContent("text")])

    serve(settings, value)
    for kind, text, media in (
        ("day", "2026-01-02", "text/plain"),
        ("section", "arts", "text/plain"),
        ("list", '["a"]', "application/json"),
        ("blocks", "text", "text/plain"),
    ):
        (contents,) = client.read_resource(f"days://{kind}")
        assert (contents["text"], contents["mimeType"]) == (text, media)


def test_error_result_is_an_error(settings: Any, client: CheckedClient) -> None:
    @mcp_resource("failed://one")
    def failed() -> CallToolResult:
        """Fail."""
        return CallToolResult.error("The press has stopped.")

    serve(settings, failed)
    with pytest.raises(MCPError, match=r"^The press has stopped. \(-32603\)$"):
        client.read_resource("failed://one")
    assert ToolCallRecord.objects.latest("pk").outcome == "failed"


@pytest.mark.parametrize(
    "uri", ["a://{x}-{y}", "a://{x}.{y}", "a://{x}{y}", "a://%41{x}", "a://{x}%2F"]
)
def test_templates_that_match_in_two_ways_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="mcp_resource"):
        mcp_resource(uri)


@pytest.mark.parametrize("text", ["-" * 2000, "a/" * 1000, "%41" * 600, "a" * 1990 + "/"])
def test_matching_takes_few_steps(text: str) -> None:
    template = UriTemplate("n://{a}/{b}/x{c}/{+d}")
    steps = counted(lambda: template.match(f"n://{text}#"))
    assert steps < 200


def test_many_templates_are_compared_quickly(settings: Any) -> None:
    resources = [
        Resource(
            name=f"r{number}", description="", uri=UriTemplate(f"r{number}://long/{{a}}/{{b}}")
        )
        for number in range(300)
    ]
    assert counted(lambda: [*overlapping(resources)]) < 20 * 300 * 300


def test_uris_are_not_recorded(settings: Any, user: User) -> None:
    @mcp_resource("reset://{token}", permissions="auth.view_user")
    def reset(token: SecretStr) -> str:
        """Return a secret."""
        return "x"

    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve(settings, reset, article)
    client = CheckedClient(user=user)
    for uri in ("reset://hunter2", "reset://hunter2/..", "other://hunter2"):
        with pytest.raises(MCPError, match="Resource not found"):
            client.read_resource(uri)
    rows = ToolCallRecord.objects.order_by("pk")
    assert [(each.tool, each.kind, each.error_code) for each in rows] == [
        ("reset", "resource", "forbidden"),
        ("reset://…", "resource", "unknown_tool"),
        ("other://…", "resource", "unknown_tool"),
    ]
    assert all("hunter2" not in each.arguments for each in rows)


def test_mcp_call_reads_uris_and_explains_why_not(settings: Any, user: User) -> None:
    @mcp_resource("notes://{slug}", permissions="auth.view_group")
    def note(slug: str) -> str:
        """Return a note."""
        return slug

    def read(name: str, arguments: str = "{}") -> Any:
        out = io.StringIO()
        call_command("mcp_call", name, arguments, user=user.username, stdout=out)
        return json.loads(out.getvalue())["content"]

    serve(settings, article, latest, note)
    assert read("articles://latest") == read("resource:latest")
    assert read("articles://a%20b")[0]["resource"]["text"] == "# a b"
    assert read("articles://sport") == read("resource:article", '{"slug": "sport"}')
    for name, why in (
        ("notes://x", "lacks the permission auth.view_group"),
        ("articles://gone", "Its code did not find the object, or refused it."),
        ("nothing://x", "No marked and registered function has this name or URI."),
        ("resource:articl", "Did you mean 'resource:article'?"),
    ):
        with pytest.raises(CommandError, match=f"Resource not found. .*{re.escape(why)}"):
            read(name)
    with pytest.raises(CommandError, match="Unknown prompt: x. No marked"):
        read("prompt:x")
