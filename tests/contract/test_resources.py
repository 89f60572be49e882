from __future__ import annotations

import enum
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.http import Http404

from mcp_bridge import mcp_resource
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import TextContent
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
    @mcp_resource("articles://{year}-{month}")
    def by_month(year: int, month: int) -> str:
        """Return a month."""
        return ""

    serve(settings, article, by_month, latest)
    assert [each.name for each in registry.snapshot] == ["latest"]
    (message,) = [each for each in registry.discovered.messages if each.id == "mcp_bridge.E028"]
    assert "articles://{slug}" in message.msg
    assert "articles://{year}-{month}" in message.msg
