"""A Context, for the code that makes one and for tools."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import translation

from mcp_bridge import Context
from mcp_bridge.features import Client
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.transports.http import context_of


def test_context_is_immutable_and_replaceable() -> None:
    context = Context(user="ada", language="de")
    with pytest.raises(FrozenInstanceError):
        context.user = "bob"  # type: ignore[misc]
    other = replace(context, user="bob", client=Client(info={"name": "x"}))
    assert (context.user, other.user, other.language) == ("ada", "bob", "de")
    assert context == Context(user="ada", language="de")
    assert context != other
    assert other.scratch is context.scratch
    assert Context(user="ada").scratch is not context.scratch


def test_context_has_no_unknown_members() -> None:
    with pytest.raises(TypeError, match="tenant"):
        Context(user=None, tenant=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="'Context' object has no attribute 'tenant'"):
        _ = Context(user=None).tenant
    assert not hasattr(Context.__new__(Context), "language")


def test_context_of_a_request_has_every_member() -> None:
    request: Any = RequestFactory().post("/mcp")
    request.user = None
    context = context_of(request)
    with translation.override("de"):
        assert repr(context) == repr(copy.copy(context)) == repr(replace(context))
    assert vars(context).keys() - {"_read_language"} == {each.name for each in fields(Context)}
    made = Context(user=None, request=request, remote_address="127.0.0.1", language="de")
    assert context == made


def test_context_reads_its_language_once() -> None:
    request: Any = RequestFactory().post("/mcp")
    request.user = None
    context = context_of(request)
    for language in ("de", "en-gb"):
        with translation.override(language):
            assert context.language == "de"


def test_tool_reads_the_language_of_its_request(modern: CheckedClient, settings: Any) -> None:
    def speak(context: Context) -> str:
        """Return the active language."""
        return context.language

    serve(settings, speak)
    for language in ("de", "en-gb"):
        with translation.override(language):
            assert modern.call_tool("speak")["structuredContent"] == {"result": language}
