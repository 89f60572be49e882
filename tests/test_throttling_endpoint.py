"""How often the endpoint may be asked, by any throttle class of DRF's kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from rest_framework.exceptions import Throttled
from rest_framework.throttling import BaseThrottle

from mcp_bridge.testing import MCPClient, MCPError
from tests import test_throttling as tools
from tests.conftest import CheckedClient
from tests.serving import serve
from tests.test_throttling import CALLS, DRF, write

anew, limit = tools.anew, tools.limit


class Refusing(BaseThrottle):
    """Refuses all, without a word on when to come back."""

    def allow_request(self, request: Any, view: Any) -> bool:
        CALLS.append(f"{request.user} {view.request.path}")
        return False


class Raising(BaseThrottle):
    """Raises what its view is told, in place of an answer."""

    def allow_request(self, request: Any, view: Any) -> bool:
        raise RAISED[-1]


RAISED: list[Exception] = []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_endpoint_answers_429(
    client: CheckedClient, limit: Callable[..., None], settings: Any, asynchronous: bool
) -> None:
    limit({"user": "2/min"}, THROTTLE_CLASSES=[f"{DRF}.UserRateThrottle"])
    serve(settings, write, asynchronous=asynchronous)
    for _ in range(2):
        client.list_tools()
    with pytest.raises(MCPError, match="Too many requests") as refused:
        client.list_tools()
    assert (refused.value.error["code"], client.response.status_code) == (429, 429)
    assert 1 <= int(client.response["Retry-After"]) <= 60
    # Nobody else's limit is touched, and nothing of a body is read.
    assert len(MCPClient(user=get_user_model().objects.create_user("eve")).list_tools()) == 1
    assert client.send(b"no JSON").status_code == 429


def test_who_tries_tokens_is_counted_by_address(limit: Callable[..., None], user: Any) -> None:
    limit({"anon": "2/min"}, THROTTLE_CLASSES=[f"{DRF}.AnonRateThrottle"])
    wrong = MCPClient(token="mcp_wrong")
    # A session of the browser does not make it somebody.
    wrong.http.force_login(user)
    statuses = []
    for _ in range(3):
        with pytest.raises(MCPError):
            wrong.list_tools()
        statuses.append(wrong.response.status_code)
    assert statuses == [401, 401, 429]
    assert MCPClient(user=user).list_tools()


def test_a_class_of_ones_own_sees_the_request_and_the_view(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit(THROTTLE_CLASSES=[f"{__name__}.Refusing", f"{__name__}.Refusing"])
    with pytest.raises(MCPError, match="Too many requests"):
        modern.list_tools()
    assert "Retry-After" not in modern.response
    assert CALLS == ["ada /mcp"] * 2
    assert modern.http.get("/mcp/tools/list").status_code == 429


@pytest.mark.parametrize(
    ("raised", "rule", "status", "code"),
    [
        (Throttled(), "open", 429, 429),
        (RuntimeError("SECRET-MARKER"), "closed", 503, -32603),
        (RuntimeError("SECRET-MARKER"), "open", 200, None),
        (ImproperlyConfigured("SECRET-MARKER"), "open", 200, -32603),
    ],
)
def test_a_class_that_raises_is_no_yes(
    raised: Exception,
    rule: str,
    status: int,
    code: int | None,
    modern: CheckedClient,
    limit: Callable[..., None],
) -> None:
    limit(THROTTLE_CLASSES=[f"{__name__}.Raising"], THROTTLE_WITHOUT_CACHE=rule)
    RAISED.append(raised)
    message = modern.message("tools/list")
    answer = modern.send(json.dumps(message).encode(), modern.mirrored(message)).json()
    assert modern.response.status_code == status
    assert answer.get("error", {}).get("code") == code
    assert "SECRET-MARKER" not in str(answer)
