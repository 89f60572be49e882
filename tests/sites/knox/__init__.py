from __future__ import annotations

SITE = None
