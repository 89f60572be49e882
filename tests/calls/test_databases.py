"""Additional databases: a call starts a transaction in one when it first uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.server.test_elicitation import Name
from tests.support.confirming import FORM

pytestmark = pytest.mark.django_db(transaction=True)


def configure(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a further database, on SQLite."""
    defaults = {**connections.settings["default"], "OPTIONS": {}, "TEST": {}}
    values = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "ATOMIC_REQUESTS": False}
    monkeypatch.setitem(connections.settings, name, {**defaults, **values})


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A database that cannot be reached."""
    configure("away", tmp_path / "no" / "such" / "folder", monkeypatch)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A second database, with one table."""
    configure("other", tmp_path / "other.sqlite3", monkeypatch)
    connection = connections["other"]
    # Django's test cases do not open databases that were configured after they started.
    connection.connect()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE note (text varchar(100))")
    yield connection
    connection.close()
    del connections["other"]


def add(text: str) -> None:
    with connections["other"].cursor() as cursor:
        cursor.execute("INSERT INTO note VALUES (%s)", [text])


def notes() -> list[str]:
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT text FROM note")
        return [text for (text,) in cursor.fetchall()]


def note(context: Context, text: str, name: str = "") -> str:
    """Write a note to the other database, and ask for a name if none is given."""
    Group.objects.create(name=text)
    add(text)
    return name or elicit(context, "For whom?", Name).name


def note_atomically(context: Context, text: str) -> str:
    """Write a note in a transaction of the tool's own, and ask there."""
    with transaction.atomic(using="other"):
        add(text)
        return elicit(context, "For whom?", Name).name


def greet(context: Context) -> str:
    """Greet the caller."""
    return f"Hello {context.user.get_username()}"


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    return CheckedClient(user=user, capabilities=FORM)


@pytest.mark.parametrize("read_only", [True, False])
def test_context_tool_ignores_an_unreachable_unused_database(
    read_only: bool, asker: CheckedClient, settings: Any, away: None
) -> None:
    serve(settings, greet, read_only=read_only)
    assert text_of(asker.call_tool("greet")) == "Hello ada"


def test_question_rolls_back_a_further_database(
    asker: CheckedClient, settings: Any, other: Any
) -> None:
    serve(settings, note)
    assert asker.call_tool("note", {"text": "asked"})["resultType"] == "input_required"
    assert (notes(), Group.objects.filter(name="asked").exists()) == ([], False)
    assert not asker.call_tool("note", {"text": "kept", "name": "Ada"})["isError"]
    assert (notes(), Group.objects.filter(name="kept").exists()) == (["kept"], True)


def test_question_rolls_back_its_own_transaction(
    asker: CheckedClient, settings: Any, other: Any
) -> None:
    serve(settings, note_atomically)
    result = asker.call_tool("note_atomically", {"text": "asked"})
    assert (result["resultType"], notes()) == ("input_required", [])


def test_failing_tool_rolls_back_a_further_database(
    asker: CheckedClient, settings: Any, other: Any
) -> None:
    def fail(context: Context) -> None:
        """Write, then fail."""
        add("failed")
        raise RuntimeError

    serve(settings, fail)
    assert asker.call_tool("fail")["isError"]
    assert notes() == []
