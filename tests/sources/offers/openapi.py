"""Operations of another service, which an OpenAPI document describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs

from django.urls import URLPattern

from mcp_bridge.features import ToolCall
from tests.sources.offers import MISSING, RUNS, SECRET
from tests.support import services

PUBLIC = {"public": True}
SOURCE: dict[str, Any] = {
    "BACKEND": "mcp_bridge.ext.openapi.OpenAPISource",
    "OPTIONS": {
        "operations": {
            "count": PUBLIC,
            "missing": PUBLIC,
            "broken": PUBLIC,
            "guarded": {"permissions": "auth.view_user"},
            "wipe": PUBLIC | {"destructive": True},
        },
        "headers": f"{__name__}.headers",
    },
}
NUMBER = {
    "name": "number",
    "in": "query",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": 100},
}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def operation(name: str, *parameters: Any, **more: Any) -> dict[str, Any]:
    summary = f"Do what {name} does."
    return {"operationId": name, "summary": summary, "parameters": list(parameters), **more}


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Counting", "version": "1"},
    "paths": {
        "/count": {"get": operation("count", NUMBER)},
        "/guarded": {"get": operation("guarded", NUMBER)},
        "/missing": {"post": operation("missing")},
        "/broken": {"post": operation("broken")},
        "/wipe": {
            "post": operation(
                "wipe",
                requestBody={"required": True, "content": {"application/json": {"schema": NAMED}}},
            )
        },
    },
}


def headers(call: ToolCall) -> dict[str, str]:
    return {"X-User": call.context.user.get_username()}


def count(received: services.Received, handler: Any) -> None:
    number = int(parse_qs(received.query)["number"][0])
    services.send(handler, {"number": number, "user": received.headers["x-user"]})


def missing(received: services.Received, handler: Any) -> None:
    services.send(handler, {"detail": MISSING}, 404)


def broken(received: services.Received, handler: Any) -> None:
    services.send(handler, {"detail": SECRET}, 500)


def wipe(received: services.Received, handler: Any) -> None:
    name = json.loads(received.body)["name"]
    RUNS.append(name)
    services.send(handler, {"name": name})


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    answers = {"count": count, "guarded": count, "missing": missing, "broken": broken, "wipe": wipe}
    with TemporaryDirectory() as folder, services.service(**answers) as running:
        file = Path(folder) / "document.json"
        file.write_text(json.dumps(DOCUMENT))
        SOURCE["OPTIONS"] |= {"document": file, "server": running.url}
        yield []
