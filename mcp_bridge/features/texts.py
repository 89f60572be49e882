"""Texts of a definition: those that may change while the process runs, and names of code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp_bridge.protocol.text import storable


class CurrentText(str):
    """
    A text of a definition of which a part may change while the process runs.

    As a str it is what holds always: that is compared and approved. ``read`` returns what holds
    now, for those that are to call the tool.
    """

    read: Callable[[], str]


def has_current_text(value: object) -> bool:
    """Return whether a part of a JSON value is a CurrentText."""
    if isinstance(value, Mapping | list):
        return any(map(has_current_text, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, CurrentText)


def with_current_texts(value: Any) -> Any:
    """Return a JSON value with each CurrentText in it read; raises what reading it raises."""
    if isinstance(value, Mapping):
        return {key: with_current_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_current_texts(each) for each in value]
    return storable(value.read()) if isinstance(value, CurrentText) else value


def dotted_name(value: Any) -> str:
    """Return the dotted name of a function or a class; for another object that of its class."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
