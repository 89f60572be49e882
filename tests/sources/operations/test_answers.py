"""Answers of a service as results and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.exceptions import InvalidArguments, ToolError
from mcp_bridge.protocol.content import EmbeddedResource, ImageContent, TextContent
from mcp_bridge.sources.operations.answers import MAYBE, Answer, read_answer
from tests.sources.operations.documents import STRING, json_body, mapped, of_object, parameter
from tests.support.values import UNREADABLE

TOOL = mapped(
    {
        "parameters": [
            *(parameter(name, schema={"type": "integer"}) for name in ("page", "offset")),
            parameter("slug", "path", required=True),
        ],
        **json_body(of_object(slug=STRING, lines={"type": "array"}, title=STRING)),
        "responses": {"200": {"content": {"application/json": {}}}},
    },
    "/{slug}",
)


def answer(
    body: Any = b"", status: int = 200, kind: str = "application/json", **more: str
) -> Answer:
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {
        "content-type": kind,
        **{name.replace("_", "-"): each for name, each in more.items()},
    }
    return Answer(status=status, headers=headers, body=written)


def failed(body: Any, status: int, kind: str = "application/json", **more: str) -> str:
    with pytest.raises(ToolError) as raised:
        read_answer(answer(body, status, kind, **more), TOOL)
    return str(raised.value)


def texts(found: Any) -> list[str]:
    return [each.text for each in found.content if isinstance(each, TextContent)]


def test_json_answers_are_sent_unchanged() -> None:
    written = b'{"a": 1.10, "big": 123456789012345678901234567890, "s": "\\u00e9"}'
    result = read_answer(answer(written), TOOL)
    assert result.structured == written
    assert texts(result) == [written.decode()]


def test_only_indentation_is_removed() -> None:
    written = b'{\n    "a":\t1.10,\r\n    "s": "two  spaces \\" \\n and: more",\n    "l": [ ]\n}\n'
    result = read_answer(answer(written), TOOL)
    assert result.structured == b'{"a":1.10,"s":"two  spaces \\" \\n and: more","l":[]}'


@pytest.mark.parametrize(
    ("body", "text"), [(b"[1, 2]", "[1, 2]"), (b'"x\\ny"', "x\ny"), (b"null", "null"), (b"3", "3")]
)
def test_non_object_answers_are_wrapped(body: bytes, text: str) -> None:
    result = read_answer(answer(body), TOOL)
    assert result.structured == b'{"result":' + body + b"}"
    assert texts(result) == [text]


@pytest.mark.parametrize(
    "kind", ["application/problem+json", "application/json; charset=utf-8", ""]
)
def test_json_is_recognised_by_media_type_or_content(kind: str) -> None:
    assert read_answer(answer({"a": 1}, kind=kind), TOOL).structured == b'{"a": 1}'


def test_other_answers_become_text_pictures_and_resources() -> None:
    assert texts(read_answer(answer(b"", 204, ""), TOOL)) == ["Done (204 No Content)."]
    assert texts(
        read_answer(answer("é".encode("latin-1"), 200, "text/csv; charset=latin-1"), TOOL)
    ) == ["é"]
    [picture] = read_answer(answer(b"\x89PNG", 200, "image/png"), TOOL).content
    assert picture == ImageContent(b"\x89PNG", "image/png")
    [file] = read_answer(
        answer(b"%PDF", 200, "application/pdf", content_disposition='attachment; filename="a.pdf"'),
        TOOL,
    ).content
    assert file == EmbeddedResource("attachment:///a.pdf", b"%PDF", "application/pdf")


@pytest.mark.parametrize(
    "charset",
    [
        *("utf-8", "unknown", "hex", "", "5\x00", "idna", "punycode", "undefined"),
        *("unicode_escape", "raw-unicode-escape", "utf-7"),
    ],
)
def test_unknown_character_set_is_read_as_utf_8(charset: str) -> None:
    # Some of Python's codecs raise, some take minutes, and some return invalid characters.
    body = "é a\\ud800 +2AA-".encode()
    kind = f"text/plain; charset={charset}"
    assert texts(read_answer(answer(body, 200, kind), TOOL)) == [body.decode()]
    assert failed(body, 400, kind) == body.decode()


@pytest.mark.parametrize(
    "parameters", ["charset*; charset*1", "charset*=UTF\0-8''latin-1", "a*" + "9" * 5000 + "=b"]
)
def test_non_text_codec_is_read_as_utf_8(parameters: str) -> None:
    found = read_answer(answer("é".encode(), 200, f"text/plain; {parameters}"), TOOL)
    assert texts(found) == ["é"]


@pytest.mark.parametrize("named", UNREADABLE)
def test_unreadable_filename_is_dropped(named: str) -> None:
    sent = answer(b"%PDF", 200, "application/pdf", content_disposition=f"attachment; {named}")
    [file] = read_answer(sent, TOOL).content
    assert file == EmbeddedResource("attachment:///result-1.pdf", b"%PDF", "application/pdf")


@pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 5000])
def test_invalid_json_is_an_error(body: bytes) -> None:
    assert failed(body, 200) == ("The service answered with invalid JSON (200 OK).")


def test_html_is_an_error_unless_documented() -> None:
    page = b"<html>Log in</html>"
    assert failed(page, 200, "text/html") == (
        "The service answered with an HTML page (200 OK) instead of data."
    )
    tool = mapped({"responses": {"200": {"content": {"text/html": {}}}}}, method="get")
    assert texts(read_answer(answer(page, kind="text/html"), tool)) == ["<html>Log in</html>"]


def test_redirect_is_an_error() -> None:
    assert failed(b"", 302) == "The service answered with a redirect (302 Found): not followed."


# Errors


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (
            {"title": ["Too long."], "lines": [{}, {"sku": ["Unknown."]}]},
            ["/title: Too long.", "/lines/1/sku: Unknown."],
        ),
        ({"errors": {"title": ["Too long."]}}, ["/title: Too long."]),
        (
            {"title": ["Too long."], "non_field_errors": ["Both."]},
            ["/title: Too long.", "/: Both."],
        ),
        ({"title": ["No."], "other": ["Why?"]}, ["/title: No.", "/: other: Why?"]),
        (
            {"detail": [{"loc": ["body", "lines", 0, "sku"], "msg": "No.", "type": "x"}]},
            ["/lines/0/sku: No."],
        ),
        ({"detail": [{"loc": ["path", "slug"], "msg": "No."}]}, ["/path_slug: No."]),
        ({"detail": [{"loc": ["body", "payload", "title"], "msg": "No."}]}, ["/title: No."]),
        (
            {"title": "Invalid", "errors": [{"pointer": "#/lines/0", "detail": "No."}]},
            ["/lines/0: No."],
        ),
        ({"errors": [{"field": "title", "message": "No."}]}, ["/title: No."]),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_argument_errors_are_lines_like_schema_errors(
    status: int, body: Any, lines: list[str]
) -> None:
    with pytest.raises(InvalidArguments) as raised:
        read_answer(answer(body, status), TOOL)
    assert str(raised.value).splitlines() == lines


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (404, {"detail": "Not found."}, "Not found."),
        # One argument is called "title".
        (400, {"title": "Bad Request", "status": 400, "detail": "Too late."}, "Too late."),
        (409, {"type": "x", "title": "Conflict", "detail": "Taken."}, "Taken."),
        (400, {"error": {"message": "No such card."}}, "No such card."),
        (400, {"error": "invalid", "error_description": "Why."}, "Why."),
        (400, ["a", "b"], "/: a\n/: b"),
        (400, {"stock": ["None left."]}, "/: stock: None left."),
        (400, {"a": {"b": ["No."]}}, "/: a.b: No."),
        (404, b"", "The service refused this (404 Not Found)."),
        (404, b"<html>", "The service refused this (404 Not Found)."),
        (400, b"{", "The service refused this (400 Bad Request)."),
        (418, {"x": "y" * 3000}, '{"x":"' + "y" * 1994 + "…"),
        (599, b"", f"The service failed (599). {MAYBE}"),
        (
            503,
            {"detail": "secret"},
            f"The service failed (503 Service Unavailable). {MAYBE}",
        ),
    ],
)
def test_other_errors_are_returned_as_text(status: int, body: Any, text: str) -> None:
    assert failed(body, status) == text


def test_retry_after_is_returned() -> None:
    assert failed({"detail": "Slow down."}, 429, retry_after="30") == (
        "Slow down. Try again in 30 seconds."
    )
    assert failed(b"Slow down.", 429, "text/plain", retry_after="soon") == "Slow down."
