"""The floor: a view that parses a JSON-RPC request, runs a function, and dumps the answer."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from benchmarks import tools
from benchmarks.site import stored
from benchmarks.site.models import FloorToken

if settings.JSON == "orjson":
    import orjson

    loads = orjson.loads
    dumps = orjson.dumps
else:
    loads = json.loads

    def dumps(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()


FUNCTIONS = {
    "add": lambda arguments: {"result": tools.add(**arguments)},
    "echo": lambda arguments: tools.echo(**arguments),
    "count_users": lambda arguments: {"result": stored.count_users()},
    "note": lambda arguments: {"result": transaction.atomic(stored.note)(**arguments)},
}


@cache
def listing() -> dict[str, Any]:
    """What the bridge lists: the same bytes, dumped anew for each answer."""
    result: dict[str, Any] = json.loads(Path(settings.DEFINITIONS).read_bytes())
    return result


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    value = FUNCTIONS[name](arguments)
    return {
        "content": [{"type": "text", "text": dumps(value).decode()}],
        "structuredContent": value,
        "isError": False,
        "resultType": "complete",
    }


def answer(body: bytes) -> bytes:
    message = loads(body)
    params = message["params"]
    if message["method"] == "tools/list":
        result = listing()
    else:
        result = call(params["name"], params["arguments"])
    return dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def is_admitted(request: HttpRequest) -> bool:
    secret = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    tokens = FloorToken.objects.select_related("user")
    token = tokens.filter(digest=hashlib.sha256(secret.encode()).hexdigest()).first()
    return token is not None and token.user.is_active


@csrf_exempt
def view(request: HttpRequest) -> HttpResponse:
    if not settings.PUBLIC and not is_admitted(request):
        return HttpResponse(status=401)
    return HttpResponse(answer(request.body), content_type="application/json")


def issue_token(user: Any) -> str:
    secret = "a-secret-of-the-floor"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    FloorToken.objects.create(digest=digest, user=user)
    return secret


urlpatterns = [path("mcp", view)]
