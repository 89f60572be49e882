from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.test import RequestFactory

from mcp_bridge.admin.tool_calls import (
    MAX_COLUMNS,
    MAX_MEDIA,
    MAX_ROWS,
    MAX_TEXT,
    Shown,
    call,
    shown,
)
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.content import CallToolResult, TextContent
from tests.support.page import Page, render
from tests.support.values import label


@pytest.fixture
def show(user: Any) -> Any:
    """The page's view of a result of the tool ``blocks``."""
    request = RequestFactory().post("/")
    request.user = user

    def shown_of(kind: str) -> tuple[Shown, Page]:
        outcome = call("blocks", {"kind": kind}, request)
        assert outcome.result is not None
        result = shown(outcome.result)
        return result, render("result", shown=result)

    return shown_of


def one(**block: Any) -> Page:
    return render("result", shown=shown({"content": [block]}))


def test_every_content_block_is_shown(show: Any) -> None:
    html = {kind: show(kind)[1].html for kind in ("text", "embedded", "blob", "result", "error")}
    assert "<pre>words</pre>" in html["text"]
    assert "test://a" in html["embedded"]
    assert "<pre>text</pre>" in html["embedded"]
    assert "about 3\xa0bytes: not shown" in html["blob"]
    assert "example.com/a" in html["result"]
    assert "The call returned an error." in html["error"]
    (image,) = show("image")[1].all("img")
    assert image["src"].startswith("data:image/png;base64,")
    assert image["alt"] == "Picture in block 1 of the result, image/png, 4\xa0bytes"
    (audio,) = show("audio")[1].all("audio")
    assert audio["src"].startswith("data:audio/wav;base64,")
    (link,) = show("link")[1].all("a")
    assert link["href"] == "https://example.com/a"
    assert len(show("mixed")[0].blocks) == 2


@pytest.mark.parametrize(
    ("block", "note"),
    [
        (
            {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="},
            "for security reasons",
        ),
        ({"type": "image", "mimeType": "text/html", "data": "PHN2Zz4="}, "for security reasons"),
        ({"type": "audio", "mimeType": "image/png", "data": "PHN2Zz4="}, "for security reasons"),
        ({"type": "image", "mimeType": "image/png", "data": '"><script>'}, "not base64"),
        (
            {
                "type": "image",
                "mimeType": "image/png",
                "data": base64.b64encode(bytes(MAX_MEDIA + 1)).decode(),
            },
            "too large to show",
        ),
        ({"type": "image"}, "for security reasons"),
        ({"type": "resource_link", "uri": "javascript:alert(1)", "name": "<b>"}, ""),
        ({"type": "resource_link", "uri": " java\nscript:alert(1)"}, ""),
        ({"type": "resource_link", "uri": "https://[bad"}, ""),
        ({"type": "resource_link", "uri": "//example.com/"}, ""),
        ({"type": "resource"}, "Shown unchanged."),
        ({"type": "<script>"}, "Shown unchanged."),
        ({"type": "text", "text": "<script>alert(1)</script>"}, ""),
        ({"type": "resource", "resource": {"uri": "javascript:1", "text": "<script>"}}, ""),
    ],
    ids=lambda value: label(value)[:60],
)
def test_tool_output_is_not_run_or_fetched(block: dict[str, Any], note: str) -> None:
    page = one(**block)
    assert not page.all("img", "audio", "a", "script", "b")
    assert note in page.html


@pytest.mark.parametrize(
    ("text", "pretty"),
    [
        ('{"a":[1]}', '{\n  "a": [\n    1\n  ]\n}'),
        ('"a"', '"a"'),
        ("{not json", "{not json"),
        ("[" * 100_000, "[" * 100_000),
        (f"[{'9' * 5000}]", f"[{'9' * 5000}]"),
        ("x" * (MAX_TEXT + 5), f"{'x' * MAX_TEXT}\n… and 5 more characters"),
    ],
    ids=lambda value: label(value)[:30],
)
def test_json_text_is_indented(text: str, pretty: str) -> None:
    (block,) = shown({"content": [{"type": "text", "text": text}]}).blocks
    assert block.text == pretty


def test_structured_content_equal_to_the_text_is_folded() -> None:
    def folded(text: str, structured: bytes) -> bool:
        written = CallToolResult(content=[TextContent(text)], structured=structured)
        result = shown(written.to_json(LATEST))
        (details,) = render("result", shown=result).all("details")
        assert ("open" in details) is not result.repeated
        return result.repeated

    assert folded('{"a": 1}', b'{"a":1}')
    assert folded("[1]", b'{"result":[1]}')
    assert folded("word", b'{"result":"word"}')
    assert not folded("other", b'{"result":"word"}')


def test_empty_result_is_labelled() -> None:
    assert "The result is empty." in render("result", shown=shown(b'{"content":[]}')).html


FLAT = [{"a": 1, "b": "x"}, {"b": True, "c": None}]


@pytest.mark.parametrize(
    ("structured", "titles"),
    [
        ({"result": FLAT}, [""]),
        ({"hits": FLAT, "total": 2, "others": FLAT}, ["hits", "others"]),
        (FLAT, [""]),
        ({"result": [*FLAT, {"a": [1]}]}, []),
        ({"result": [*FLAT, 1]}, []),
        ({"result": [{}]}, []),
        ({"result": []}, []),
        ({"a": 1}, []),
        ("text", []),
    ],
    ids=label,
)
def test_flat_objects_are_shown_as_tables(structured: Any, titles: list[str]) -> None:
    content = [{"type": "text", "text": json.dumps(structured)}, {"type": "text", "text": "Note."}]
    is_object = isinstance(structured, dict)
    result = shown(
        {"content": content, "structuredContent": structured}
        if is_object
        else {"content": content[:1]}
    )
    assert [table.name for table in result.tables] == titles
    for table in result.tables:
        assert table.columns == ["a", "b", "c"]
        assert table.rows == [["1", "x", ""], ["", "true", ""]]
    texts = [block.text for block in result.blocks]
    assert len(texts) == is_object + (not titles)
    page = render("result", shown=result)
    assert len(page.all("table")) == len(titles)
    assert all("open" not in each for each in page.all("details"))


def test_large_tables_are_cut() -> None:
    row = {f"column{number}": "x" * 1000 for number in range(MAX_COLUMNS)}
    result = shown({"structuredContent": {"result": [row] * (MAX_ROWS + 7)}})
    (table,) = result.tables
    assert (len(table.columns), len(table.rows)) == (MAX_COLUMNS, MAX_ROWS)
    assert max(len(text) for row in table.rows for text in row) <= 301
    assert "7 more rows are in the JSON." in render("result", shown=result).html


def test_lists_with_many_columns_are_open_json() -> None:
    row = {f"column{number}": number for number in range(MAX_COLUMNS + 1)}
    result = shown({"structuredContent": {"result": [row]}})
    assert result.tables == []
    assert "open" in render("result", shown=result).all("details")[0]
