"""The registration of Django's types with the schema engine."""

from __future__ import annotations

from collections import Counter

from mcp_bridge.schemas.django import SerializerAdapter, register_adapters
from mcp_bridge.schemas.django.forms import FormAdapter
from mcp_bridge.schemas.django.models import ChoicesAdapter, ModelAdapter
from mcp_bridge.schemas.hints import ADAPTERS


def test_app_registers_each_adapter_once() -> None:
    before = list(ADAPTERS)
    registered = Counter(map(type, before))
    for adapter in (ChoicesAdapter, FormAdapter, ModelAdapter, SerializerAdapter):
        assert registered[adapter] == 1
    register_adapters()
    assert before == ADAPTERS
