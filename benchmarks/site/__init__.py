"""The Django site that every contestant is served from: one settings module, a URLconf each."""

from __future__ import annotations
