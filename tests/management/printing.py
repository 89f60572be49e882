"""An app that prints when it is imported."""

from __future__ import annotations

print("printed by an app", flush=True)
