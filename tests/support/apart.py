"""A file with a database for records alone, which other connections see as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from mcp_bridge.conf import Audit
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush


class Apart:
    """Router that writes records to a separate database, and reads them there."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "apart" if model is ToolCallRecord else None

    db_for_read = db_for_write

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == "apart" else None


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a file, for which writers wait a fifth of a second."""
    place = tmp_path_factory.mktemp("apart") / "records.sqlite3"
    config = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    config |= {"NAME": place, "OPTIONS": {"timeout": 0.2}}
    connections.settings["apart"] = config
    yield place
    connections["apart"].close()
    del connections["apart"]
    del connections.settings["apart"]


@pytest.fixture
def database(place: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the file with an empty table of records, to which they are written."""
    # Also if all tests have another default.
    monkeypatch.setattr(Audit, "WRITE", "together")
    settings.DATABASE_ROUTERS = [f"{__name__}.Apart"]
    with connections["apart"].schema_editor() as editor:
        editor.create_model(ToolCallRecord)
    yield place
    flush()
    with connections["apart"].schema_editor() as editor:
        editor.delete_model(ToolCallRecord)
    connections["apart"].close()
