"""Serializers of Django REST framework as parameters and results (see serializer_hints)."""

from __future__ import annotations

import sys
from importlib import import_module

from mcp_bridge.schemas.hints import Adapter


class SerializerAdapter(Adapter):
    """Subclasses of Serializer, and lists of one."""

    def parameter(self, hint: object, metadata: tuple[object, ...]) -> object:
        return self._known("parameter", hint, metadata)

    def result(self, hint: object, metadata: tuple[object, ...]) -> object:
        return self._known("result", hint, metadata)

    def _known(self, side: str, *hint: object) -> object:
        # Before the site imports serializers, no hint is one; to import them takes time.
        if "rest_framework.serializers" not in sys.modules:
            return None
        return getattr(import_module("mcp_bridge.schemas.django.serializer_hints"), side)(*hint)
