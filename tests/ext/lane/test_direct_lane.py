"""The direct lane: requests that it serves, those that it leaves to Django, and its threads."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.core import signals
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache

from mcp_bridge import Context
from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.ext.lane import MCPApplication
from mcp_bridge.ext.lane.threads import RequestThread
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import MCPView
from tests.support.asgi import Exchange, exchange, scope_of, scope_with
from tests.support.wire import strict

# Threads of requests have separate connections, outside the test's transaction.
pytestmark = pytest.mark.django_db(transaction=True)
VARIABLE: ContextVar[str] = ContextVar("VARIABLE")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = [(b"host", b"testserver"), (b"content-type", b"application/json")]
LEFT: list[str] = []


class Marking:
    """Middleware that marks the responses that pass it."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        LEFT.append(request.path)
        response: HttpResponse = self.get_response(request)
        return response


@pytest.fixture(autouse=True)
def marked(settings: Any) -> Iterator[None]:
    settings.MIDDLEWARE = [f"{__name__}.Marking"]
    LEFT.clear()
    yield
    ToolCallRecord.objects.all().delete()


def whoami(context: Context) -> list[str]:
    """Say what the request knows."""
    request = context.request
    return [get_language() or "", request.LANGUAGE_CODE, reverse("mcp"), request.path_info]


def where() -> int:
    """Say which thread this is."""
    return threading.get_ident()


async def awhere() -> int:
    """Say which thread this is, in a coroutine."""
    return threading.get_ident()


def direct(**options: Any) -> MCPApplication:
    return MCPApplication(get_asgi_application(), **options)


def called(tool: str, *sent: tuple[bytes, bytes], **changes: Any) -> Any:
    """Return the structured result of a call."""
    scope, body = scope_of(tool)
    scope["headers"] += sent
    answer = exchange(direct(), {**scope, **changes}, body)
    assert answer.status == 200, answer.body
    return strict(answer.body)["result"]["structuredContent"]["result"]


# Requests it serves.


def test_only_the_endpoint_bypasses_middleware() -> None:
    assert exchange(direct(), scope_with(JSON), PING).status == 200
    assert LEFT == []
    assert exchange(direct(), {**scope_with(JSON), "path": "/nowhere"}, b"").status == 404
    assert LEFT == ["/nowhere"]


@pytest.mark.parametrize("verb", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_another_verb_is_refused_by_the_view(verb: str) -> None:
    answer = exchange(direct(), {**scope_with(JSON), "method": verb}, b"")
    assert (answer.status, LEFT) == (405, ["/mcp"])


def test_websockets_are_passed_on() -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        kinds.append(scope["type"])

    kinds: list[str] = []
    exchange(MCPApplication(other), {"type": "websocket", "path": "/mcp"})
    assert kinds == ["websocket"]


def test_undecodable_query_is_refused_by_django() -> None:
    assert exchange(direct(), {**scope_with(JSON), "query_string": b"\xff"}, PING).status == 400


def test_only_the_given_address_is_served() -> None:
    application = direct(path="/mcp")
    assert exchange(application, {**scope_with(JSON), "path": "/mcp/"}, PING).status == 200
    assert LEFT == ["/mcp/"]


@pytest.mark.parametrize("name", ["get_server", "get_context", "admit", "open"])
def test_overridden_view_methods_are_called(name: str, settings: Any) -> None:
    def overridden(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert Group.objects.count() == 0
        asked.append(name)
        return getattr(MCPView, name)(self, *args, **kwargs)

    asked: list[str] = []
    own = type("Own", (MCPView,), {name: overridden})
    serve(settings, where, public=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("mcp", own.as_view()))
    assert exchange(direct(path="/mcp"), scope_with(JSON), PING).status == 200
    assert (asked, LEFT) == ([name], [])


def test_language_and_script_prefix_follow_the_request(settings: Any) -> None:
    serve(settings, whoami, public=True)
    german = (b"accept-language", b"fr-x;q=0.1, de;q=0.9")
    assert called("whoami", german) == ["de", "de", "/mcp", "/mcp"]
    assert called("whoami", (b"cookie", b"django_language=fr"))[0] == "fr"
    below = {"root_path": "/app", "path": "/app/mcp"}
    assert called("whoami", german, **below) == ["de", "de", "/app/mcp", "/mcp"]
    settings.FORCE_SCRIPT_NAME = "/app"
    assert called("whoami", german, path="/app/mcp")[2] == "/app/mcp"


def test_error_is_logged_as_by_django(caplog: pytest.LogCaptureFixture) -> None:
    assert exchange(direct(), scope_with([*JSON, (b"origin", b"null")]), PING).status == 403
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("django.request", "Forbidden: /mcp")
    ]


def test_error_of_the_view_is_answered(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(self: Any, *known: Any) -> Any:
        raise KeyError("SECRET-MARKER")

    own = type("Own", (MCPView,), {"get_context": broken})
    serve(settings, where, public=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("mcp", own.as_view()))
    answer = exchange(direct(path="/mcp"), scope_with(JSON), PING)
    assert (answer.status, b"-32603" in answer.body) == (200, True)
    assert b"SECRET-MARKER" not in answer.body
    assert "SECRET-MARKER" in caplog.text


# Configurations it cannot serve.


def decorated() -> Any:
    return never_cache(MCPView.as_view())


def dispatching() -> Any:
    return type(
        "Own", (MCPView,), {"dispatch": MCPView.dispatch, "setup": lambda *a: None}
    ).as_view()


@pytest.mark.parametrize("make", [decorated, dispatching])
def test_decorated_view_is_a_configuration_error(make: Any, settings: Any) -> None:
    serve(settings, where, public=True)
    settings.ROOT_URLCONF.urlpatterns[:] = [path("own", make())]
    with pytest.raises(ImproperlyConfigured, match="decorated or overrides"):
        direct()


def test_address_without_an_endpoint_is_an_error() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"'/mpc'.*there, but at /mcp, /mcp/"):
        direct(path="/mpc")


def test_site_without_the_endpoint_is_an_error(settings: Any) -> None:
    serve(settings, where)
    settings.ROOT_URLCONF.urlpatterns.clear()
    with pytest.raises(ImproperlyConfigured, match="The URLconf does not serve"):
        direct()


def test_class_requiring_a_session_is_an_error(settings: Any) -> None:
    name = "rest_framework.authentication.SessionAuthentication"
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": [name]}
    with pytest.raises(ImproperlyConfigured, match=f"without middleware and sessions: {name}"):
        direct()


# Bodies.


@pytest.mark.parametrize("sent", [[], [(b"content-length", b"5")]])
def test_body_is_received_up_to_the_limit(sent: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"MAX_BODY_BYTES": 100}
    answer = exchange(direct(), scope_with(JSON + sent), *[b" " * 60] * 10)
    assert (answer.status, answer.received) == (413, 2)


@pytest.mark.parametrize("length", [b"101", b"9" * 5000])
def test_oversized_body_is_not_read(length: bytes, settings: Any) -> None:
    settings.MCP_BRIDGE = {"MAX_BODY_BYTES": 100}
    answer = exchange(direct(), scope_with([*JSON, (b"content-length", length)]), PING)
    assert (answer.status in (400, 413), answer.received) == (True, 0)


def test_interrupted_body_is_refused() -> None:
    """Servers say of chunks that they cannot read, too, that the client has gone."""
    answer = exchange(direct(), scope_with(JSON), PING[:9], leaves=True)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)


# Lifespan.


def lifespan(application: Any) -> list[str]:
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    one = Exchange({"type": "lifespan"})
    one.events = events
    asyncio.run(one.run(application))
    return [each["type"] for each in one.sent]


def test_lifespan_shutdown_calls_registered_functions() -> None:
    class Flushing(MCPApplication):
        at_shutdown = (partial(LEFT.append, "flushed"),)

    assert lifespan(Flushing(get_asgi_application())) == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert LEFT == ["flushed"]


def test_lifespan_is_passed_to_an_application_supporting_it() -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        heard.extend([(await receive())["type"], (await receive())["type"]])

    class Flushing(MCPApplication):
        at_shutdown = (partial(LEFT.append, "flushed"),)

    heard: list[str] = []
    assert lifespan(Flushing(other)) == []
    assert (heard, LEFT) == (["lifespan.startup", "lifespan.shutdown"], ["flushed"])


# Threads.


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often an event loop has handed something to a thread."""
    found: list[str] = []

    def count(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def counted(self: Any, *args: Any) -> Any:
            found.append("hop")
            return original(self, *args)

        monkeypatch.setattr(kind, name, counted)

    count(asyncio.BaseEventLoop, "run_in_executor")
    count(RequestThread, "run")
    return found


def wait_for_threads(application: MCPApplication) -> None:
    """Wait for what the threads of requests do after them."""
    for thread in application.threads._idle:
        thread.submit(int).result(10)


def acts(
    tool: Callable[..., Any], settings: Any, hops: list[str], sent: Any = (), **options: Any
) -> int:
    """Return how many threads a call needs once the administrators' settings are known."""
    serve(settings, tool, **options)
    application = direct()
    scope, body = scope_of(tool.__name__, **dict(sent))

    async def main() -> int:
        assert (await Exchange(scope, body).run(application)).status == 200
        hops.clear()
        assert b'"isError":false' in (await Exchange(scope, body).run(application)).body
        return len(hops)

    return asyncio.run(main())


NO_RECORDS = {"AUDIT": None, "STATE_MAX_AGE": 3600}


def test_public_coroutine_needs_no_thread(settings: Any, hops: list[str]) -> None:
    settings.MCP_BRIDGE = NO_RECORDS
    assert acts(awhere, settings, hops, public=True, read_only=True) == 0


async def alength(text: str) -> int:
    """Return the length of a text, on the event loop."""
    asyncio.get_running_loop()
    return len(text)


@pytest.mark.parametrize(("length", "count"), [(60_000, 0), (70_000, 1)])
def test_large_body_is_read_in_a_thread(
    length: int, count: int, settings: Any, hops: list[str]
) -> None:
    settings.MCP_BRIDGE = NO_RECORDS
    sent = {"text": "x" * length}
    assert acts(alength, settings, hops, sent, public=True, read_only=True) == count


def test_function_needs_one_thread_once(settings: Any, hops: list[str]) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    assert acts(where, settings, hops, public=True, read_only=True) == 1
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0}
    assert acts(where, settings, hops, public=True) == 1


def test_writing_coroutine_uses_a_thread_before_and_after(settings: Any, hops: list[str]) -> None:
    assert acts(awhere, settings, hops, public=True) == 2


@pytest.mark.parametrize(("tool", "count"), [(where, 1), (awhere, 2)])
def test_checking_a_credential_uses_no_extra_thread(
    tool: Any, count: int, settings: Any, user: Any, hops: list[str]
) -> None:
    _, secret = Token.objects.issue(user=user, name="t")
    serve(settings, tool)
    scope, body = scope_of(tool.__name__)
    scope["headers"].append((b"authorization", f"Bearer {secret}".encode()))
    assert b'"isError":false' in exchange(direct(), scope, body).body
    assert len(hops) == count


def test_thread_serves_successive_requests(settings: Any) -> None:
    serve(settings, where, public=True, read_only=True)
    application = direct()
    scope, body = scope_of("where")

    async def main() -> tuple[set[bytes], set[bytes]]:
        one_by_one = {(await Exchange(scope, body).run(application)).body for _ in range(3)}
        both = await asyncio.gather(*[Exchange(scope, body).run(application) for _ in range(2)])
        return one_by_one, {each.body for each in both}

    one_by_one, both = asyncio.run(main())
    assert (len(one_by_one), len(both)) == (1, 2)


def test_background_task_can_use_threads_after_the_answer(settings: Any) -> None:
    async def begin() -> str:
        """Begin what goes on after the answer."""
        later.append(asyncio.ensure_future(go_on()))
        return "begun"

    async def go_on() -> int:
        await answered.wait()
        return await sync_to_async(threading.get_ident)()

    later: list[Any] = []
    answered: asyncio.Event
    serve(settings, begin, public=True, read_only=True)
    scope, body = scope_of("begin")

    async def main() -> int:
        nonlocal answered
        answered = asyncio.Event()
        assert (await Exchange(scope, body).run(direct())).status == 200
        answered.set()
        return await later[0]

    assert asyncio.run(main()) != threading.get_ident()


def test_context_variables_propagate_to_threads_and_back(settings: Any) -> None:
    def change() -> str:
        """Change a context variable."""
        seen = VARIABLE.get()
        VARIABLE.set("of the tool")
        return seen

    def finished(**known: Any) -> None:
        heard.append(VARIABLE.get())

    heard: list[str] = []
    serve(settings, change, public=True, read_only=True)
    scope, body = scope_of("change")

    async def main() -> bytes:
        VARIABLE.set("of the server")
        return (await Exchange(scope, body).run(direct())).body

    signals.request_finished.connect(finished)
    try:
        assert b'"result":"of the server"' in asyncio.run(main())
    finally:
        signals.request_finished.disconnect(finished)
    assert heard == ["of the tool"]


def test_function_can_call_coroutines_on_the_event_loop(settings: Any) -> None:
    def call() -> list[int]:
        """Say which threads a coroutine of a function and its function run in."""
        return [threading.get_ident(), *async_to_sync(awhere_twice)()]

    async def awhere_twice() -> list[int]:
        return [threading.get_ident(), await sync_to_async(threading.get_ident)()]

    serve(settings, call, public=True, read_only=True)
    own, on_loop, in_thread = called("call")
    assert (on_loop, in_thread) == (threading.get_ident(), own)


def test_error_in_a_thread_is_logged_with_its_traceback(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        """Raise."""
        raise KeyError("SECRET-MARKER")

    serve(settings, broken, public=True, read_only=True)
    scope, body = scope_of("broken")
    answer = exchange(direct(), scope, body)
    assert b'"isError":true' in answer.body
    assert b"SECRET-MARKER" not in answer.body
    assert "in broken\n" in caplog.text


@pytest.mark.parametrize("max_age", [0, None])
def test_connections_respect_conn_max_age(
    max_age: int | None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(self: Any) -> None:
        closed.add(threading.current_thread())

    def query() -> int:
        """Query the database."""
        return Group.objects.count()

    closed: set[threading.Thread] = set()
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", max_age)
    monkeypatch.setattr(type(connections["default"]), "close", close)
    serve(settings, query, public=True, read_only=True)
    application = direct()
    scope, body = scope_of("query")
    exchange(application, scope, body)
    wait_for_threads(application)
    # A thread of another test may be ending now.
    own = {thread for each in application.threads._idle for thread in each._threads}
    assert own
    assert closed & own == (own if max_age == 0 else set())
    monkeypatch.undo()
    application.threads.stop()


def test_call_fails_if_a_connection_cannot_be_checked(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def query() -> int:
        """Query the database."""
        return Group.objects.count()

    serve(settings, query, public=True, read_only=True)
    application, (scope, body) = direct(), scope_of("query")
    assert b'"isError":false' in exchange(application, scope, body).body
    with monkeypatch.context() as patched:
        patched.setattr(type(connections["default"]), "close_if_unusable_or_obsolete", None)
        assert b'"code":-32603' in exchange(application, scope, body).body
    assert b'"isError":false' in exchange(application, scope, body).body


# Signals.


def test_request_signals_are_sent(settings: Any) -> None:
    def started(**known: Any) -> None:
        heard.append(known["scope"]["path"])

    async def finished(**known: Any) -> None:
        heard.append("finished")

    heard: list[str] = []
    serve(settings, awhere, public=True)
    signals.request_started.connect(started)
    signals.request_finished.connect(finished)
    try:
        called("awhere")
    finally:
        signals.request_started.disconnect(started)
        signals.request_finished.disconnect(finished)
    assert heard == ["/mcp", "finished"]


def test_custom_server_can_answer(settings: Any) -> None:
    class Own(MCPServer):
        async def handle(self, *known: Any) -> Any:
            await in_thread()
            assert Group.objects.count() == 0
            return {"own": True}

    own = type("Own", (MCPView,), {"get_server": lambda self: Own()})
    serve(settings, where, public=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("mcp", own.as_view()))
    assert b'"own":true' in exchange(direct(path="/mcp"), scope_with(JSON), PING).body
