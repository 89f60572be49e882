"""Definitions are kept by language only if they differ, and not for every language."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import global_settings
from django.utils import translation
from django.utils.functional import lazystr

from mcp_bridge import mcp_tool
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving

LANGUAGES = [code for code, _ in global_settings.LANGUAGES][:99]


class Spoken:
    """A text that differs in each language."""

    def __str__(self) -> str:
        return f"In {translation.get_language()}"


def numbered(number: int) -> Any:
    function = giving(int, number)
    function.__name__ = f"give_{number:02}"
    return function


def titles(client: CheckedClient, language: str) -> set[str | None]:
    with translation.override(language):
        return {tool.get("title") for tool in client.list_tools()}


def kept() -> int:
    """Return how many texts the snapshot keeps."""
    snapshot = registry.snapshot
    caches = [each for each in vars(snapshot).values() if hasattr(each, "cache_info")]
    assert caches
    return len(snapshot._pages.kept) + sum(each.cache_info().currsize for each in caches)


@pytest.mark.parametrize("title", [None, "Give"])
def test_plain_texts_are_kept_once_for_all_languages(
    title: str | None, settings: Any, modern: CheckedClient
) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, *map(numbered, range(10)), title=title)
    for language in LANGUAGES:
        assert titles(modern, language) == {title}
    assert kept() == 10 + 1


def test_lazy_texts_are_kept_for_some_languages_only(settings: Any, modern: CheckedClient) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    server = serve(settings, *map(numbered, range(10)))
    server.register_procedure(mcp_tool(title=lazystr(Spoken()))(numbered(99)), name="give_99")
    registry.reload()
    assert len(LANGUAGES) == 99
    for _ in range(2):
        for language in LANGUAGES:
            assert titles(modern, language) == {None, f"In {language}"}
    # Pages are bounded by their bytes.
    assert kept() == 10 + 16 + len(LANGUAGES)
