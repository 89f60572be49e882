"""The log of bad input: little, on one line, and without an error."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import look
from tests.support.revisions import ERAS
from tests.support.values import dumps
from tests.support.wire import caller
from tests.transports import test_bad_input

FORGED = "x\r\nERROR forged\x1b[31m\x85\u2028\u202eERROR\tforged\x00"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Capture the output of a handler of the root, as a file or a terminal gets it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def test_requests_cannot_forge_a_log_line(
    modern: CheckedClient, settings: Any, log: io.StringIO
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}, "THROTTLE_RATES": {"look": "4/day"}}
    serve(settings, look)
    good = modern.message("tools/call", name="look", arguments={"word": "a"})
    headers = modern.mirrored(good)
    encoded = f"=?base64?{b64encode(FORGED.encode()).decode()}?="
    client_info = {"io.modelcontextprotocol/clientInfo": {"name": FORGED, "version": FORGED}}
    said = {**good["params"]["_meta"], **client_info}
    cases: list[tuple[Any, dict[str, str]]] = [
        ({"method": FORGED}, {"Mcp-Method": FORGED}),
        ({"jsonrpc": FORGED}, {}),
        ({"id": FORGED}, {}),
        ({"params": {**good["params"], "name": FORGED}}, {"Mcp-Name": encoded}),
        ({"params": {**good["params"], "name": FORGED}}, {"Mcp-Name": FORGED}),
        ({"params": {**good["params"], "arguments": {FORGED: FORGED}}}, {}),
        ({"params": {**good["params"], "arguments": {"word": FORGED}}}, {}),
        ({"params": {**good["params"], "requestState": FORGED, "inputResponses": {}}}, {}),
        ({"params": {**good["params"], "_meta": said}}, {}),
        ({}, {"MCP-Protocol-Version": FORGED}),
        ({}, {"Origin": FORGED}),
        ({}, {"Content-Type": FORGED}),
        ({}, {"Accept": FORGED}),
        ({}, {"User-Agent": FORGED, "X-Forwarded-For": FORGED}),
    ]
    for changed, sent in cases * 2:
        before = len(log.getvalue())
        modern.send(dumps({**good, **changed}), {**headers, **sent})
        added = log.getvalue()[before:]
        assert len(added.splitlines()) <= 1, added
        assert added.rstrip("\n").isprintable(), added
        assert "ERROR" not in added
    assert ToolCallRecord.objects.filter(error_code="throttled").exists()
    modern.http.credentials()
    modern.http.force_authenticate(None)
    before = len(log.getvalue())
    for secret in (FORGED, "Bearer " + FORGED, "Bearer wrong"):
        assert modern.send(dumps(good), {**headers, "Authorization": secret}).status_code == 401
    assert len(log.getvalue()[before:].splitlines()) <= 3


def cases(test: Any) -> Iterator[dict[str, Any]]:
    """Return the arguments with which a test is called, but for its fixtures."""
    marks = [each for each in getattr(test, "pytestmark", []) if each.name == "parametrize"]
    for chosen in itertools.product(*(mark.args[1] for mark in marks)):
        found: dict[str, Any] = {}
        for mark, value in zip(marks, chosen, strict=True):
            names = mark.args[0]
            found |= (
                {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
            )
        yield found


@pytest.mark.parametrize("revision", ERAS)
def test_bad_input_with_debug_is_answered_alike_without_errors(
    revision: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DEBUG = True
    settings.ROOT_URLCONF = "tests.support.site"
    sender, sent = caller(revision), 0
    for name, test in vars(test_bad_input).items():
        if name.startswith("test_") and "sender" in inspect.signature(test).parameters:
            for arguments in cases(test):
                # Each of them checks that the answer is JSON with the right content.
                test(sender=sender, **arguments)
                assert sender.response["Content-Type"] == "application/json"
                sent += 1
    assert sent > 150
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert json.loads(sender.response.content)
