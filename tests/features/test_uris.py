"""Templates of URIs, beside a matcher that tries every way to divide a URI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge.features.uris import UriTemplate

NAMES = ("a", "b", "c")
SIMPLE = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+")
PATH = re.compile(r"(?:[A-Za-z0-9._~:/\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
# Few characters, so that literals and values often share them.
LITERALS = st.text("ab/.-", min_size=1, max_size=3)


@st.composite
def templates(draw: st.DrawFn) -> str:
    text = "x://" + draw(st.text("ab/.", max_size=3))
    names = draw(st.integers(0, 3))
    for number, name in enumerate(NAMES[:names]):
        is_last = number == names - 1
        is_path = is_last and draw(st.booleans())
        text += f"{{+{name}}}" if is_path else f"{{{name}}}"
        if not is_last or (not is_path and draw(st.booleans())):
            text += "/" + draw(st.text("ab/.-", max_size=2))
    return text


URIS = st.lists(
    st.sampled_from(["a", "b", "/", ".", "-", "%2F", "%2e", "%00", "%C3%BC", "%ff", "%", "ü", "#"])
).map(lambda parts: "x://" + "".join(parts))


def divided(parts: list[str], uri: str) -> Iterator[list[str]]:
    """Yield every way to give the variables of a template, which are every second part, values."""
    literal, *rest = parts
    if not uri.startswith(literal):
        return
    uri = uri.removeprefix(literal)
    if not rest:
        if not uri:
            yield []
        return
    expression, *others = rest
    allowed = PATH if expression.startswith("+") else SIMPLE
    for end in range(1, len(uri) + 1):
        if allowed.fullmatch(uri[:end]):
            yield from ([uri[:end], *more] for more in divided(others, uri[end:]))


def plainly(text: str, uri: str) -> dict[str, str] | None:
    """Return the values of the variables, by the rules as they are written."""
    parts = re.split(r"\{(.*?)\}", text)
    for found in divided(parts, uri):
        values = {}
        for expression, given_value in zip(parts[1::2], found, strict=True):
            try:
                value = unquote_to_bytes(given_value).decode()
            except UnicodeDecodeError:
                return None
            segments = value.split("/") if expression.startswith("+") else [value]
            if not expression.startswith("+") and "/" in value:
                return None
            if {"", ".", ".."} & {*segments} or re.search(r"[\x00-\x1f\x7f-\x9f\\]", value):
                return None
            values[expression.removeprefix("+")] = value
        return values
    return None


@given(templates(), URIS)
def test_matching_agrees_with_a_plain_matcher(text: str, uri: str) -> None:
    assert UriTemplate(text).match(uri) == plainly(text, uri)


@given(templates(), st.lists(st.text("ab/. %üÄ#?&", min_size=1), min_size=3, max_size=3))
def test_expanded_uri_has_the_values(text: str, values: list[str]) -> None:
    template = UriTemplate(text)
    given_values = dict(zip(NAMES, values, strict=True))
    wanted = {name: given_values[name] for name in template.variables}
    if all(template.accepts(name, value) for name, value in wanted.items()):
        assert template.match(template.expand(wanted)) == wanted


@given(templates(), templates(), URIS)
def test_templates_of_one_uri_overlap(one: str, other: str, uri: str) -> None:
    first, second = UriTemplate(one), UriTemplate(other)
    if first.match(uri) is not None and second.match(uri) is not None:
        assert first.overlaps(second)
        assert second.overlaps(first)
