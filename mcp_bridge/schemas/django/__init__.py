"""Support Django's types as parameters and results: models, choices, forms, serializers."""

from __future__ import annotations

import sys

from mcp_bridge.schemas.django.forms import FormAdapter, in_site_time, without_offset
from mcp_bridge.schemas.django.hints import NOT_YET
from mcp_bridge.schemas.django.models import ChoicesAdapter, Lookup, ModelAdapter
from mcp_bridge.schemas.hints import TRANSIENT, Adapter, Side, register
from mcp_bridge.schemas.strictness import on_receipt

__all__ = ["Lookup", "register_adapters"]


def register_adapters() -> None:
    """Register these types with the schema engine; a second call changes nothing."""
    for adapter in (ChoicesAdapter(), ModelAdapter(), FormAdapter(), SerializerAdapter()):
        register(adapter)
    TRANSIENT.update(NOT_YET)
    on_receipt("datetime", in_site_time)
    on_receipt("time", without_offset)


class SerializerAdapter(Adapter):
    """Subclasses of Serializer of Django REST framework, and lists of one."""

    def adapted(self, hint: object, metadata: tuple[object, ...], side: Side) -> object:
        # A hint cannot be a serializer unless the site has imported them, which is slow.
        if "rest_framework.serializers" not in sys.modules:
            return None
        from mcp_bridge.schemas.django.serializers import adapted

        return adapted(hint, metadata, side)
