"""What a Context is to those who make one and to tools."""

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


def test_it_does_not_change_and_a_changed_one_is_another() -> None:
    context = Context(user="ada", language="de")
    with pytest.raises(FrozenInstanceError):
        context.user = "bob"  # type: ignore[misc]
    other = replace(context, user="bob", client=Client(info={"name": "x"}))
    assert (context.user, other.user, other.language) == ("ada", "bob", "de")
    assert context == Context(user="ada", language="de")
    assert context != other
    assert other.scratch is context.scratch
    assert Context(user="ada").scratch is not context.scratch


def test_it_takes_no_other_members_and_has_none() -> None:
    with pytest.raises(TypeError, match="tenant"):
        Context(user=None, tenant=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="'Context' object has no attribute 'tenant'"):
        _ = Context(user=None).tenant
    assert not hasattr(Context.__new__(Context), "language")


def test_that_of_a_request_has_every_member() -> None:
    request: Any = RequestFactory().post("/mcp")
    request.user = None
    context = context_of(request)
    with translation.override("de"):
        assert repr(context) == repr(copy.copy(context)) == repr(replace(context))
    assert vars(context).keys() - {"_read_language"} == {each.name for each in fields(Context)}
    made = Context(user=None, request=request, remote_address="127.0.0.1", language="de")
    assert context == made


def test_its_language_is_read_once() -> None:
    request: Any = RequestFactory().post("/mcp")
    request.user = None
    context = context_of(request)
    for language in ("de", "en-gb"):
        with translation.override(language):
            assert context.language == "de"


def test_a_tool_reads_the_language_of_its_request(modern: CheckedClient, settings: Any) -> None:
    def speak(context: Context) -> str:
        """Say which language is active."""
        return context.language

    serve(settings, speak)
    for language in ("de", "en-gb"):
        with translation.override(language):
            assert modern.call_tool("speak")["structuredContent"] == {"result": language}
