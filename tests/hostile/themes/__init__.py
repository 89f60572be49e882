"""The cases by theme, in the order in which a server checks: from the bytes to the tools."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.themes import (
    arguments,
    batches,
    confirmations,
    credentials,
    cursors,
    envelope,
    faults,
    framing,
    headers,
    methods,
    newsroom,
    notifications,
    primitives,
    routing,
    tasks,
    text,
    tools,
    versions,
)

THEMES: list[Theme] = [
    *(framing.THEME, headers.THEME, credentials.THEME, text.THEME, envelope.THEME),
    *(notifications.THEME, batches.THEME, versions.THEME, routing.THEME, methods.THEME),
    *(tools.THEME, arguments.THEME, cursors.THEME, confirmations.THEME, faults.THEME),
    *(newsroom.THEME, primitives.THEME, tasks.THEME),
]
