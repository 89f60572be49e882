from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction
from django.test import Client, override_settings
from django.utils import timezone

from mcp_bridge.models import PendingCall
from mcp_bridge.testing.checked import CheckedClient
from testproject import settings as newsroom_settings

# Other tests are without the newsroom's skills (tests/conftest.py).
SKILLS = {"skills": {"BACKEND": "mcp_bridge.ext.skills.source.SkillSource"}}


class Desk(CheckedClient):
    """A client whose calls return the value itself, and whose user agrees to all of them."""

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments or {}}
        result = self.post("tools/call", **params)
        if result.get("resultType") == "input_required":
            yes = {"action": "accept", "content": {"confirm": True}}
            state = result["requestState"]
            return self.post(
                "tools/call", **params, inputResponses={"confirm": yes}, requestState=state
            )
        waiting = PendingCall.objects.filter(tool=name, status="waiting")
        if result["isError"] and waiting.update(status="approved", decided_at=timezone.now()):
            return self.post("tools/call", **params)
        return result

    def value(self, name: str, **arguments: Any) -> Any:
        result = self.call_tool(name, arguments)
        text = result["content"][0]["text"]
        assert not result["isError"], text
        # A value that structuredContent wraps is unwrapped in the text.
        structured = result.get("structuredContent")
        if structured is None or list(structured) == ["result"]:
            return text if _is_plain(text) else json.loads(text)
        return structured

    def complaint(self, name: str, **arguments: Any) -> str:
        result = self.call_tool(name, arguments)
        assert result["isError"], result
        return result["content"][0]["text"]

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.list_tools()]


def _is_plain(text: str) -> bool:
    return not text.startswith(("{", "[", '"'))


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    """Check that the newsroom is the site of the settings, with all its sources."""
    options = newsroom_settings.MCP_BRIDGE
    with override_settings(MCP_BRIDGE={**options, "SOURCES": {**options["SOURCES"], **SKILLS}}):
        yield


@pytest.fixture(scope="package")
def seeded(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """
    Seed a newsroom for all tests of this folder, in a transaction around theirs.

    Each test has a savepoint in it, so that all find the newsroom as it was seeded.
    """
    with ExitStack() as stack:
        with django_db_blocker.unblock():
            stack.enter_context(transaction.atomic())
            call_command("seed_newsroom", verbosity=0)
        yield
        with django_db_blocker.unblock():
            transaction.set_rollback(True)
            stack.close()


@pytest.fixture
def newsroom(seeded: None, db: None) -> None:
    """Provide the newsroom as it was seeded."""


@pytest.fixture
def user(newsroom: None) -> Callable[[str], Any]:
    return lambda name: get_user_model().objects.get(username=name)


@pytest.fixture
def desk(user: Callable[[str], Any]) -> Callable[..., Desk]:
    """Return a client for the user of a role, or an anonymous one."""
    return lambda name=None, **options: Desk(
        user=user(name) if name else None, capabilities={"elicitation": {}}, **options
    )


@pytest.fixture
def reader(desk: Callable[..., Desk]) -> Desk:
    return desk("reader")


@pytest.fixture
def author(desk: Callable[..., Desk]) -> Desk:
    return desk("author")


@pytest.fixture
def editor(desk: Callable[..., Desk]) -> Desk:
    return desk("editor")


@pytest.fixture
def admin(desk: Callable[..., Desk]) -> Desk:
    return desk("admin")


@pytest.fixture
def rpc(user: Callable[[str], Any]) -> Callable[..., Any]:
    """Call a procedure at /rpc, as a user who is signed in to the site."""
    browser = Client()

    def call(username: str | None, method: str, **params: Any) -> Any:
        if username:
            browser.force_login(user(username))
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = browser.post("/rpc", message, content_type="application/json").json()
        return answer.get("result", answer.get("error"))

    return call
