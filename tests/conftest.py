from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test.utils import override_settings
from mcp_types import JSONRPCError, JSONRPCResponse
from mcp_types.methods import validate_server_result

from mcp_bridge.protocol import REVISIONS
from mcp_bridge.testing import MCPClient

EVERY_REVISION = tuple(REVISIONS)
SPOKEN = tuple(version for version in EVERY_REVISION if version != "2024-11-05")


class CheckedClient(MCPClient):
    """An MCPClient whose every answer is read by the official models of its revision."""

    def send(self, body: bytes, headers: Any = None) -> Any:
        response = super().send(body, headers)
        if response.content:
            answers = response.json()
            for answer in answers if isinstance(answers, list) else [answers]:
                (JSONRPCError if "error" in answer else JSONRPCResponse).model_validate(answer)
        return response

    def post(self, method: str, **params: Any) -> dict[str, Any]:
        result = super().post(method, **params)
        validate_server_result(method, self.revision.version, result)
        return result


@pytest.fixture(autouse=True, scope="module")
def test_site(request: pytest.FixtureRequest) -> Iterator[None]:
    """Serve tests/site.py for a whole module: reading it anew for each test takes too long."""
    if "newsroom" in request.node.path.parts:
        yield
        return
    with override_settings(ROOT_URLCONF="tests.site"):
        yield


@pytest.fixture(scope="session")
def live_server(django_db_setup: None, live_server: Any) -> Any:
    """pytest-django's, begun after the database, whose connection its threads then share."""
    return live_server


@pytest.fixture
def user(db: None) -> Any:
    return get_user_model().objects.create_user("ada")


@pytest.fixture(params=SPOKEN)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def client(revision: str, user: Any) -> CheckedClient:
    """A client of an ordinary user, once for every revision."""
    return CheckedClient(user=user, revision=revision)


@pytest.fixture
def modern(user: Any) -> CheckedClient:
    return CheckedClient(user=user)


@pytest.fixture
def legacy(user: Any) -> CheckedClient:
    return CheckedClient(user=user, revision="2025-11-25")


def text_of(result: dict[str, Any]) -> str:
    """The text of a result's only content block."""
    (block,) = result["content"]
    assert block["type"] == "text"
    text: str = block["text"]
    return text


def label(value: Any) -> str:
    """A parameter in a test's id: the same in every process."""
    if isinstance(value, set | frozenset):
        return str(sorted(value, key=str))
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def dumps(message: Any) -> bytes:
    return json.dumps(message).encode()
