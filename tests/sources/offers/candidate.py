"""Candidates of a custom source, all enabled by an administrator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.urls import URLPattern

from mcp_bridge.features import Tool
from tests.sources.offers.own import OwnSource
from tests.support.serving import set_tool

SOURCE: dict[str, Any] = {"BACKEND": f"{__name__}.CandidateSource"}
OWN = OwnSource("own", {}).tools()


class CandidateSource(OwnSource):
    def tools(self) -> Sequence[Tool]:
        return [
            Tool(name=each.name, description="", is_marked=False, build=partial(next, iter([each])))
            for each in OWN
        ]


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    for each in OWN:
        set_tool(each.name, chosen=True)
    yield []
