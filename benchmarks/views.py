"""
What views of Django REST framework cost as tools: a call, a tool built, and a list of a thousand;
and what a call of a plain function costs beside one of the same procedure.

All in one process, without a server: a call beside the view alone, given a request that is made
before; a list, over all pages, beside one of as many procedures that ask for the same permissions.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from benchmarks.recording import site
from benchmarks.wire import META, REVISION

WORD: Final = "views"
ROUNDS: Final = 30
CALLS: Final = 50
GIVEN: Final = {"first": 1, "second": 2}
SOURCES: Final[dict[str, Any]] = {
    "views": {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"},
    "procedures": {"OPTIONS": {"servers": ["benchmarks.site.rest.server"]}},
}
FUNCTIONS: Final[dict[str, Any]] = {
    "BACKEND": "mcp_bridge.sources.functions.FunctionSource",
    "OPTIONS": {"modules": ["benchmarks.site.rest"]},
}


def measure() -> str:
    """The figures, as Markdown."""
    with site():
        return _measured()


@contextmanager
def served(name: str) -> Iterator[None]:
    """The tools of one source alone."""
    from django.test import override_settings

    from benchmarks.site import rest

    urlconf = ModuleType("benchmarks.site.addresses")
    vars(urlconf)["urlpatterns"] = [*rest.views, rest.endpoint]
    sources = {**SOURCES, "functions": FUNCTIONS}
    alone = {"functions": None, "rpc": None, name: sources[name]}
    bridge = {"SOURCES": alone, "STATE_MAX_AGE": 3600}
    with override_settings(ROOT_URLCONF=urlconf, MCP_BRIDGE=bridge):
        yield


def seconds(work: Callable[[], object], times: int = 1) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def call_of(name: str) -> Callable[[], object]:
    """Return what calls a tool that is served now."""
    from django.contrib.auth.models import AnonymousUser
    from django.test import RequestFactory

    from mcp_bridge.features import Context, ToolCall
    from mcp_bridge.registry.registry import registry

    tool = registry.discovered.tools[name]
    request = RequestFactory(SERVER_NAME="127.0.0.1").post("/mcp")
    context = Context(user=AnonymousUser(), request=request)

    def call() -> object:
        call = ToolCall(tool=tool, arguments=tool.check(GIVEN), context=context, sent=GIVEN)
        return tool.encode(tool.invoke(call))

    return call


def in_turn(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that each takes, as medians of rounds in which they take turns."""
    found: dict[Any, list[float]] = {first: [], second: []}
    for work in found:
        work()
    for number in range(ROUNDS):
        for work in (first, second)[:: -1 if number % 2 else 1]:
            found[work].append(seconds(work, CALLS))
    whole, alone = (statistics.median(each) for each in found.values())
    return whole, alone


def call_figures() -> tuple[float, float]:
    """Seconds that a call takes, and of them those of the view alone."""
    from django.test import RequestFactory

    from benchmarks.site import rest

    post = RequestFactory(SERVER_NAME="127.0.0.1").post
    waiting = [post("/add", GIVEN, "application/json") for _ in range(ROUNDS * CALLS + 1)]
    return in_turn(call_of("add"), lambda: rest.add(waiting.pop()).render())


def list_seconds(user: Any) -> float:
    """Seconds that a list takes at the endpoint, over all pages."""
    from django.test import RequestFactory

    from mcp_bridge.views import MCPView

    view, spent, cursor, count = MCPView.as_view(), 0.0, {}, 0
    requests = RequestFactory(SERVER_NAME="127.0.0.1")
    headers = {"MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/list"}
    headers["Authorization"] = f"Bearer {user.key}"
    while True:
        params = {"_meta": META, **cursor}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
        request = requests.generic("POST", "/mcp", body, "application/json", headers=headers)
        begun = time.process_time()
        answer = view(request)
        spent += time.process_time() - begun
        result = json.loads(answer.content)["result"]
        count += len(result["tools"])
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
    if count < 1000:
        raise RuntimeError(f"{count} tools are listed, and not a thousand.")
    return spent


def _measured() -> str:
    from django.contrib.auth import get_user_model

    from mcp_bridge.registry.registry import registry
    from mcp_bridge.tokens.models import Token

    user = get_user_model().objects.create_superuser("root")
    user.key = Token.objects.issue(user=user, name="benchmark")[1]
    lists: dict[str, list[float]] = {}
    for name in SOURCES:
        with served(name):
            registry.reload()
            # The first one imports what it needs.
            count = len(registry.discovered)
            registry.reload()
            built = seconds(lambda: registry.discovered) / count
            if name == "views":
                whole, alone = call_figures()
                each = built
            list_seconds(user)
            lists[name] = [list_seconds(user) for _ in range(ROUNDS)]
            if name == "procedures":
                procedure = call_of("plain_add")
    with served("functions"):
        registry.reload()
        of_function, of_procedure = in_turn(call_of("plain_add"), procedure)
    views, procedures = (statistics.median(lists[name]) for name in SOURCES)
    return (
        "## Views of Django REST framework\n\n"
        f"A call with a body of JSON takes {whole * 1e6:.0f} µs, of which the view alone takes "
        f"{alone * 1e6:.0f} µs: {(whole - alone) * 1e6:.0f} µs are the bridge's, the request, its "
        f"address and the answer as a result. A tool is built in {each * 1000:.1f} ms of processor "
        f"time. A list of 1,000 takes {views * 1000:.1f} ms over all pages, one of as many "
        f"procedures {procedures * 1000:.1f} ms: {views / procedures:.2f} times that. A plain "
        f"function is checked, called and answered for in {of_function / of_procedure:.2f} times "
        f"what it takes as a procedure. Medians of {ROUNDS} rounds.\n"
    )
