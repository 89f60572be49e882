"""Serializers of Django REST framework as parameters and results (see serializer_hints)."""

from __future__ import annotations

import sys

from mcp_bridge.schemas.hints import Adapter, Side


class SerializerAdapter(Adapter):
    """Subclasses of Serializer, and lists of one."""

    def adapted(self, hint: object, metadata: tuple[object, ...], side: Side) -> object:
        # Before the site imports serializers, no hint is one; to import them takes time.
        if "rest_framework.serializers" not in sys.modules:
            return None
        from mcp_bridge.schemas.django.serializer_hints import adapted

        return adapted(hint, metadata, side)
