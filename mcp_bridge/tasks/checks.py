"""System checks of tasks."""

from __future__ import annotations

from typing import Any


def check_tasks(**kwargs: Any) -> list[Any]:
    """Check the queue, and the tools that run as tasks."""
    return []
