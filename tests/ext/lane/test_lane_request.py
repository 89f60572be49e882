"""The direct lane makes the same request object as Django for any input."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest

from mcp_bridge.ext.lane.requests import LaneRequest
from tests.support.asgi import scope_with

JSON = [(b"host", b"testserver"), (b"content-type", b"application/json")]


@pytest.mark.parametrize(
    ("headers", "changes"),
    [
        ([], {}),
        ([(b"x-own", b"1"), (b"x-other", "ä".encode("latin-1"))], {}),
        ([(b"x-own", b"1"), (b"x-own", b"2")], {}),
        ([(b"x-own", b"1"), (b"x_own", b"2")], {}),
        ([(b"x_own", b"1")], {}),
        ([(b"X-Own", b"1"), (b"Content-Length", b"5")], {}),
        ([(b"content-length", b"5"), (b"content-length", b"6")], {}),
        ([(b"cookie", b"a=1; "), (b"cookie", b"b=2")], {}),
        ([(b"content-type", b"text/plain")], {}),
        ([], {"headers": [(b"content-type", b'application/json; charset="utf-8"')]}),
        ([], {"headers": []}),
        ([], {"query_string": b"a=1", "scheme": "https"}),
        ([], {"client": None}),
        ([], {"server": None}),
        ([], {"server": ("/run/own.sock", None)}),
        ([], {"root_path": "/app", "path": "/app/mcp"}),
    ],
)
def test_request_equals_djangos(
    headers: list[tuple[bytes, bytes]], changes: dict[str, Any]
) -> None:
    scope = scope_with([*JSON, *headers])
    scope |= {"client": ("192.0.2.1", 50000), "server": ("192.0.2.2", 80), **changes}
    stream = BytesIO()
    for _ in range(2):
        assert vars(LaneRequest(scope, stream)) == vars(ASGIRequest(scope, stream))
