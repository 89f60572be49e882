"""The floor: a view that parses a JSON-RPC request, runs a function, and dumps the answer."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from benchmarks import tools
from benchmarks.site.models import FloorToken

FUNCTIONS = {
    "add": lambda arguments: {"result": tools.add(**arguments)},
    "echo": lambda arguments: tools.echo(**arguments),
}
LISTING = {
    "tools": tools.definitions(settings.TOOLS),
    "resultType": "complete",
    "ttlMs": 300_000,
    "cacheScope": "private",
}


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    value = FUNCTIONS[name](arguments)
    return {
        "content": [{"type": "text", "text": dumps(value)}],
        "structuredContent": value,
        "isError": False,
        "resultType": "complete",
    }


def is_admitted(request: HttpRequest) -> bool:
    secret = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    tokens = FloorToken.objects.select_related("user")
    token = tokens.filter(digest=hashlib.sha256(secret.encode()).hexdigest()).first()
    return token is not None and token.user.is_active


@csrf_exempt
def view(request: HttpRequest) -> HttpResponse:
    if not settings.PUBLIC and not is_admitted(request):
        return HttpResponse(status=401)
    message = json.loads(request.body)
    params = message["params"]
    if message["method"] == "tools/list":
        result = LISTING
    else:
        result = call(params["name"], params["arguments"])
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return HttpResponse(dumps(answer), content_type="application/json")


def issue_token(user: Any) -> str:
    secret = "a-secret-of-the-floor"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    FloorToken.objects.create(digest=digest, user=user)
    return secret


urlpatterns = [path("mcp", view)]
