"""How fast tools are served, beside an empty Django view and beside django-mcpz."""

from __future__ import annotations
