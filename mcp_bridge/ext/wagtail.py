"""Values of Wagtail's StreamField as results: a list of their blocks, each as Wagtail stores it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from mcp_bridge.schemas.hints import Adapter, register


def register_adapters() -> None:
    """Register the adapter of these values; a second call changes nothing."""
    register(StreamFieldAdapter())


class StreamFieldAdapter(Adapter):
    """The raw data of a StreamValue: ``{"type": …, "value": …, "id": …}`` for each block."""

    def items(self, value: Any) -> Iterable[object] | None:
        # Where nobody imported Wagtail, nothing can be of it.
        blocks: Any = sys.modules.get("wagtail.blocks")
        is_stream = blocks is not None and isinstance(value, blocks.StreamValue)
        return value.raw_data if is_stream else None
