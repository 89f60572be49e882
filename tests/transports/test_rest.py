"""REST: list, describe and call tools without an MCP client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.urls import clear_url_caches, path
from django.utils import translation
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from rest_framework.authentication import BaseAuthentication
from rest_framework.test import APIClient

from mcp_bridge import Context, RejectError, ToolError, mcp_tool
from mcp_bridge.access.scopes import METADATA_PATH
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.protocol.content import CallToolResult, ImageContent, TextContent
from mcp_bridge.protocol.errors import ForbiddenError
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import serve
from mcp_bridge.transports.rest import PROBLEMS
from mcp_bridge.views import MCPView
from tests.support.confirming import RUNS, wipe
from tests.support.processes import ROOT
from tests.support.serving import set_tool
from tests.support.toolsets import serve_toolsets

CALLED: list[Any] = []


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    CALLED.append((a, b))
    return a + b


async def aadd(a: int, b: int = 0) -> int:
    """Add two numbers in a coroutine."""
    return add(a, b)


def fail(how: str) -> Any:
    """Fail in some way."""
    match how:
        case "error":
            raise ToolError("Article 7 is missing.")
        case "result":
            block = ImageContent(b"", "image/png")
            return CallToolResult(
                content=[TextContent("A"), block, TextContent("B")], is_error=True
            )
        case "break":
            raise RuntimeError("secret")
        case "reject":
            raise RejectError("Not today.", 7, {"until": "Monday"})
        case "unsendable":
            return {1, 2}.__iter__
    return how


async def sleep() -> None:
    """Sleep for a long time."""
    await asyncio.sleep(60)


def wait(context: Context) -> str:
    """Require a form."""
    context.require_capability("elicitation")
    return "asked"


@pytest.fixture(params=[False, True], ids=["WSGI", "ASGI"])
def site(request: pytest.FixtureRequest, settings: Any) -> Callable[..., None]:
    """Serve functions under WSGI and under ASGI, with settings."""
    CALLED.clear()
    RUNS.clear()
    cache.clear()

    def set_site(*functions: Any, mark: Any = None, **options: Any) -> None:
        settings.MCP_BRIDGE = options
        serve(settings, *(functions or (add, aadd)), asynchronous=request.param, **(mark or {}))

    set_site()
    return set_site


@pytest.fixture
def http(user: Any) -> APIClient:
    """A client of an ordinary user."""
    client = APIClient()
    client.force_authenticate(user)
    return client


def call(http: APIClient, name: str, arguments: Any = None, **sent: str) -> Any:
    body = arguments if isinstance(arguments, bytes) else json.dumps(arguments or {}).encode()
    path = name if name.startswith("/") else f"/mcp/tools/{name}"
    response = http.generic("POST", path, body, content_type="application/json", headers=sent)
    flush()
    return response


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the members of a problem, which must not be stored."""
    assert (response.status_code, response.headers["Content-Type"]) == (
        status,
        "application/problem+json",
    )
    assert response.headers["Cache-Control"] == "no-store"
    found: dict[str, Any] = json.loads(response.content)
    assert (found["status"], found["code"], found["title"]) == (status, code, PROBLEMS[code][1])
    assert found["type"].endswith(f"/reference/rest/#{code}")
    return found


@pytest.mark.parametrize("name", ["add", "aadd"])
def test_call_returns_the_result_of_the_tool(name: str, site: Any, http: APIClient) -> None:
    response = call(http, name, {"a": 1, "b": 2})
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
    assert response.json() == {
        "content": [{"type": "text", "text": "3"}],
        "structuredContent": {"result": 3},
        "isError": False,
        "resultType": "complete",
    }


def test_jsonrpc_body_has_the_bytes_of_the_endpoint(site: Any, http: APIClient, user: Any) -> None:
    for revision in ("2026-07-28", "2025-06-18", "2025-03-26"):
        client = MCPClient(user=user, revision=revision)
        for arguments in ({"a": 1}, {"a": "x"}, [], 7):
            message = client.message("tools/call", name="add", arguments=arguments)
            body, headers = json.dumps(message).encode(), client.mirrored(message)
            expected = client.send(body, headers)
            found = call(http, "add", body, **headers)
            assert (found.status_code, found.content) == (expected.status_code, expected.content)
            assert found.headers["Content-Type"] == "application/json"


def test_jsonrpc_notification_calls_nothing(site: Any, http: APIClient) -> None:
    body = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "add"}}
    response = call(http, "add", body)
    assert (response.status_code, response.content, CALLED) == (202, b"", [])


RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
BAD = {
    "another name": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "aadd"}},
    "no name": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}},
    "no params": {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
    "a list as params": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ["add"]},
    "another method": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {"name": "add"},
    },
    "a batch": b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}]',
    "an empty array": b"[]",
    "a number": b"1",
    "null": b"null",
    "nothing": b"",
    "a duplicate": b'{"a":1,"a":2}',
    "NaN": b'{"a":NaN}',
    "not UTF-8": b'{"a":"\xff"}',
    "a surrogate": b'{"a":"\\ud800"}',
    "too deep": b'{"a":' + b"[" * 80 + b"]" * 80 + b"}",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_body_is_a_bad_request(body: Any, site: Any, http: APIClient) -> None:
    problem(call(http, "add", body), 400, "invalid_request")
    assert CALLED == []


def test_batch_of_its_revision_is_refused_too(site: Any, http: APIClient) -> None:
    body = BAD["a batch"]
    problem(
        call(http, "add", body, **{"MCP-Protocol-Version": "2025-03-26"}), 400, "invalid_request"
    )


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_calls_are_posted_only(verb: str, site: Any, http: APIClient) -> None:
    response = http.generic(verb, "/mcp/tools/add", b"{}", content_type="application/json")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert verb == "HEAD" or problem(response, 405, "method_not_allowed")


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("view", ["list", "describe"])
def test_lists_are_got_only(verb: str, view: str, site: Any, http: APIClient) -> None:
    response = http.generic(verb, f"/mcp/tools/{view}", b"{}", content_type="application/json")
    assert response.headers["Allow"] == "GET, HEAD"
    problem(response, 405, "method_not_allowed")


def test_description_is_the_entry_of_the_list(site: Any, http: APIClient) -> None:
    response = http.get("/mcp/tools/describe?name=add")
    listed = http.get("/mcp/tools/list").json()["tools"]
    assert [response.json()] == [{"tool": each} for each in listed if each["name"] == "add"]


def test_description_requires_a_name(site: Any, http: APIClient) -> None:
    problem(http.get("/mcp/tools/describe"), 400, "missing_parameter")
    problem(http.get("/mcp/tools/describe?name="), 404, "tool_not_found")


@pytest.mark.parametrize("ask", ["describe", "call"])
def test_hidden_tool_is_answered_as_an_unknown_one(ask: str, site: Any, http: APIClient) -> None:
    def answer() -> Any:
        there = http.get("/mcp/tools/describe?name=add") if ask == "describe" else call(http, "add")
        assert problem(there, 404, "tool_not_found")["detail"] == "Unknown tool: add"
        return there.content, dict(there.headers)

    site(add, mark={"permissions": "auth.add_user"})
    forbidden = answer()
    site(add)
    set_tool("add", enabled=False)
    disabled = answer()
    site(aadd)
    assert forbidden == disabled == answer()


def test_all_errors_of_arguments_are_listed(site: Any, http: APIClient) -> None:
    found = problem(call(http, "add", {"b": "x", "c": 1}), 422, "invalid_arguments")
    assert {each["pointer"] for each in found["errors"]} == {"/a", "/b", "/c"}
    assert all(each.keys() == {"pointer", "type", "detail"} for each in found["errors"])
    assert len(found["detail"].splitlines()) == 3


@pytest.mark.parametrize(
    ("how", "status", "code", "detail"),
    [
        ("error", 422, "tool_error", "Article 7 is missing."),
        ("result", 422, "tool_error", "A\nB"),
        ("break", 500, "internal_error", "The tool fail failed"),
        ("unsendable", 500, "internal_error", "The tool fail returned a result that cannot"),
        ("reject", 403, "rejected", "Not today."),
    ],
)
def test_errors_of_tools_are_problems(
    how: str, status: int, code: str, detail: str, site: Any, http: APIClient
) -> None:
    site(fail)
    found = problem(call(http, "fail", {"how": how}), status, code)
    assert found["detail"].startswith(detail)
    assert found.get("data") == ({"until": "Monday"} if how == "reject" else None)
    assert "secret" not in str(found)


def test_tools_that_ask_cannot_be_called(site: Any, http: APIClient) -> None:
    site(wait)
    found = problem(call(http, "wait"), 400, "invalid_request")
    assert found["data"] == {"requiredCapabilities": {"elicitation": {}}}


def test_time_limit_is_504(site: Any, http: APIClient) -> None:
    site(sleep, CALL_TIMEOUT=0.05)
    found = problem(call(http, "sleep"), 504, "timed_out")
    assert "time limit of 0.05 seconds" in found["detail"]


def test_rpc_body_is_not_streamed(site: Any, http: APIClient, user: Any) -> None:
    client = MCPClient(user=user)
    message = client.message("tools/call", name="add", arguments={"a": 1})
    message["params"]["_meta"]["progressToken"] = 1
    headers = {**client.mirrored(message), "Accept": "application/json, text/event-stream"}
    response = call(http, "add", json.dumps(message).encode(), **headers)
    assert response.json()["result"]["structuredContent"] == {"result": 1}


def test_rate_of_a_tool_is_429(site: Any, http: APIClient) -> None:
    site(THROTTLE_RATES={"add": "1/hour"})
    assert call(http, "add", {"a": 1}).status_code == 200
    response = call(http, "add", {"a": 1})
    problem(response, 429, "throttled")
    assert 0 < int(response.headers["Retry-After"]) <= 3600
    # An MCP client's call counts as well.
    assert MCPClient(user=get_user_model().objects.get()).call_tool("add", {"a": 1})["isError"]


def test_rate_of_requests_is_429(site: Any, http: APIClient) -> None:
    throttle = "rest_framework.throttling.UserRateThrottle"
    site(THROTTLE_CLASSES=[throttle], THROTTLE_RATES={"user": "2/hour"})
    assert call(http, "add", {"a": 1}).status_code == 200
    assert http.get("/mcp/tools/describe?name=add").status_code == 200
    for response in (call(http, "add", {"a": 1}), http.get("/mcp/tools/list")):
        problem(response, 429, "throttled")
        assert int(response.headers["Retry-After"]) > 0


def test_call_runs_once_a_person_approved_it(site: Any, http: APIClient, user: Any) -> None:
    site(wipe, mark={"confirm": True})
    found = problem(call(http, "wipe", {"name": "all"}), 409, "unconfirmed")
    row = PendingCall.objects.get()
    address = f"http://testserver/admin/mcp_bridge/pendingcall/{row.pk}/change/"
    assert found["pending"] in ({"id": row.pk, "url": address}, {"id": row.pk})
    assert problem(call(http, "wipe", {"name": "all"}), 409, "unconfirmed") == found
    assert RUNS == []
    row.decide(using="default", status=PendingCall.Status.APPROVED, decided_by=user)
    assert call(http, "wipe", {"name": "all"}).json()["structuredContent"] == {
        "result": "all is wiped"
    }
    assert RUNS == [("all", 1)]


def test_refused_call_waits_for_nothing(site: Any, http: APIClient, user: Any) -> None:
    site(wipe, mark={"confirm": True})
    call(http, "wipe", {"name": "all"})
    (row,) = PendingCall.objects.all()
    row.decide(using="default", status=PendingCall.Status.REFUSED, decided_by=user)
    found = problem(call(http, "wipe", {"name": "all"}), 409, "unconfirmed")
    assert ("pending" in found, RUNS) == (False, [])


class Scoped(BaseAuthentication):
    """Authenticate with a credential that has one scope."""

    def authenticate(self, request: Any) -> Any:
        if "HTTP_AUTHORIZATION" not in request.META:
            return None
        auth = type("Auth", (), {"scopes": ["read"], "name": "Laptop"})()
        return get_user_model().objects.get(), auth

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


def test_missing_scope_is_403_with_a_challenge(site: Any, user: Any) -> None:
    oauth = {"RESOURCE": "http://testserver/mcp", "AUTHORIZATION_SERVERS": ["http://testserver"]}
    scoped = {"AUTHENTICATION_CLASSES": [f"{__name__}.Scoped"], "REQUIRE_AUDIENCE": False}
    site(add, mark={"scopes": "write"}, **oauth, **scoped)
    response = call(APIClient(), "add", {"a": 1}, Authorization="Bearer x")
    problem(response, 403, "insufficient_scope")
    assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]


@pytest.mark.django_db
def test_credential_and_origin_are_checked_first(site: Any) -> None:
    site(
        RESOURCE="http://testserver/mcp",
        AUTHORIZATION_SERVERS=["http://testserver"],
    )
    http = APIClient()
    for response in (
        call(http, "add", b"["),
        http.get("/mcp/tools/list"),
        http.get("/mcp/tools/describe"),
    ):
        problem(response, 401, "unauthenticated")
        assert METADATA_PATH in response.headers["WWW-Authenticate"]
    evil = call(http, "add", {"a": 1}, Origin="http://evil.example")
    problem(evil, 403, "forbidden")
    assert ToolCallRecord.objects.filter(error_code="unauthenticated").count() == 1


def test_session_requires_a_csrf_token(site: Any, user: Any) -> None:
    site(AUTHENTICATION_CLASSES=["rest_framework.authentication.SessionAuthentication"])
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(user)
    problem(call(browser, "add", {"a": 1}), 403, "forbidden")
    assert browser.get("/mcp/tools/list").status_code == 200
    assert CALLED == []


@pytest.mark.parametrize(
    ("kind", "accept", "status", "code"),
    [
        ("text/plain", "*/*", 415, "unsupported_media_type"),
        ("application/x-www-form-urlencoded", "*/*", 415, "unsupported_media_type"),
        ("application/json", "text/html", 406, "not_acceptable"),
    ],
)
def test_media_types_are_checked(
    kind: str, accept: str, status: int, code: str, site: Any, http: APIClient
) -> None:
    sent = {"Accept": accept}
    response = http.generic("POST", "/mcp/tools/add", b"{}", content_type=kind, headers=sent)
    problem(response, status, code)


def test_large_body_is_413(site: Any, http: APIClient) -> None:
    site(MAX_BODY_BYTES=10)
    problem(call(http, "add", {"a": 1, "b": 2}), 413, "payload_too_large")


FIELDS = ("user", "user_name", "credential", "tool", "outcome", "error_code", "revision")


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": "x"}])
def test_record_has_the_fields_of_an_mcp_call(
    arguments: Any, site: Any, http: APIClient, user: Any
) -> None:
    call(http, "add", arguments, **{"User-Agent": "curl/8"})
    MCPClient(user=user).call_tool("add", arguments)
    rest, mcp = ToolCallRecord.objects.order_by("pk")
    assert [getattr(rest, each) for each in FIELDS] == [getattr(mcp, each) for each in FIELDS]
    assert (rest.client_name, rest.arguments_bytes) == ("curl/8", mcp.arguments_bytes)


SEEN: list[str] = []


class Watching:
    def request(self, request: Any, context: Any) -> None:
        SEEN.append(request.method)
        if context.user_agent == "evil":
            raise RejectError("Not you.")

    def call(self, call: Any) -> Any:
        result = yield call._replace(sent={"a": 40, "b": 2})
        return result


def test_interceptors_see_every_request(site: Any, http: APIClient) -> None:
    site(INTERCEPTORS=[f"{__name__}.Watching"])
    SEEN.clear()
    assert call(http, "add", {"a": 1}).json()["structuredContent"] == {"result": 42}
    paths = ["/mcp/tools/list", "/mcp/tools/describe?name=add"]
    assert [http.get(each).status_code for each in paths] == [200, 200]
    assert SEEN == ["tools/call", "tools/list", "tools/list"]
    evil = {"User-Agent": "evil"}
    for response in [
        call(http, "add", {}, **evil),
        *(http.get(each, headers=evil) for each in paths),
    ]:
        assert problem(response, 403, "rejected")["detail"] == "Not you."


def test_rest_can_be_switched_off(site: Any, http: APIClient, settings: Any) -> None:
    paths = ["/mcp/tools/list", "/mcp/tools/describe?name=add", "/mcp/tools/add"]
    site(REST=False)
    settings.MCP_BRIDGE = {"REST": False}
    assert [http.get(each).status_code for each in paths] == [404, 404, 404]
    assert call(http, "add", {"a": 1}).status_code == 404
    assert http.get("/mcp/tools/list").content == http.get("/nothing").content.replace(
        b"/nothing", b"/mcp/tools/list"
    )
    settings.MCP_BRIDGE = {}
    assert [http.get(each).status_code for each in paths] == [200, 200, 405]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_toolsets_have_the_same_addresses(
    asynchronous: bool, http: APIClient, settings: Any
) -> None:
    toolsets = {"sums": ["add"], "tools": ["*"], "none": ["nothing"]}
    serve_toolsets(settings, toolsets, mcp_tool(add), mcp_tool(aadd), asynchronous=asynchronous)
    assert [each["name"] for each in http.get("/mcp/sums/tools/list").json()["tools"]] == ["add"]
    assert http.get("/mcp/sums/tools/describe?name=add").status_code == 200
    problem(http.get("/mcp/sums/tools/describe?name=aadd"), 404, "tool_not_found")
    assert call(http, "/mcp/sums/tools/add", {"a": 1}).status_code == 200
    assert call(http, "/mcp/tools/tools/aadd", {"a": 1}).status_code == 200
    problem(call(http, "/mcp/sums/tools/aadd", {"a": 1}), 404, "tool_not_found")
    chosen = http.get("/mcp/tools/list", headers={"X-MCP-Toolset": "sums"})
    assert len(chosen.json()["tools"]) == 1
    assert "X-MCP-Toolset" in chosen.headers["Vary"]
    unknown = {"X-MCP-Toolset": "unknown"}
    problem(call(http, "add", {"a": 1}, **unknown), 400, "invalid_request")


@pytest.mark.parametrize("path", ["/mcp/tools/list", "/mcp/tools/describe?name=add"])
def test_unchanged_body_is_304(path: str, site: Any, http: APIClient) -> None:
    first = http.get(path)
    etag = first.headers["ETag"]
    kept = ("ETag", "Vary", "Cache-Control")
    for sent in (etag, f'"other", W/{etag}', "*"):
        again = http.get(path, headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b"")
        assert [again.headers[each] for each in kept] == [first.headers[each] for each in kept]
    assert first.headers["Cache-Control"] == "private"
    assert set(first.headers["Vary"].split(", ")) >= {"Authorization", "Cookie", "Accept-Language"}
    assert http.get(path, headers={"If-None-Match": '"other"'}).content == first.content


@pytest.mark.parametrize("path", ["/mcp/tools/list", "/mcp/tools/describe?name=add"])
def test_head_has_the_headers_of_get(path: str, site: Any, http: APIClient) -> None:
    got, head = http.get(path), http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["ETag"] == got.headers["ETag"]
    assert http.head(path, headers={"If-None-Match": got.headers["ETag"]}).status_code == 304


def test_etag_depends_on_the_language(site: Any, http: APIClient) -> None:
    site(add, mark={"title": gettext_lazy("Monday")})
    found = {}
    for language in ("en", "de"):
        with translation.override(language):
            response = http.get("/mcp/tools/list")
        found[response.headers["ETag"]] = response.json()["tools"][0]["title"]
    assert [*found.values()] == ["Monday", "Montag"]


def test_discovery_requires_its_permission(site: Any, http: APIClient, user: Any) -> None:
    site(DISCOVERY_PERMISSION="auth.view_user")
    paths = ["/mcp/tools/list", "/mcp/tools/describe?name=add", "/mcp/tools/describe?name=x"]
    for response in map(http.get, paths):
        assert "auth.view_user" in problem(response, 403, "forbidden")["detail"]
    client = MCPClient(user=user)
    assert client.list_tools() == []
    assert call(http, "add", {"a": 1}).status_code == 200
    assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 1}
    with pytest.raises(MCPError):
        client.post("tools/list", cursor="?")
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    trusted = APIClient()
    trusted.force_authenticate(get_user_model().objects.get())
    assert [trusted.get(each).status_code for each in paths] == [200, 200, 404]
    assert len(MCPClient(user=get_user_model().objects.get()).list_tools()) == 2


def test_discovery_without_a_user_is_forbidden(site: Any) -> None:
    site(add, mark={"public": True}, DISCOVERY_PERMISSION="auth.view_user")
    http = APIClient()
    problem(http.get("/mcp/tools/list"), 403, "forbidden")
    assert MCPClient().list_tools() == []
    assert call(http, "add", {"a": 1}).status_code == 200


def test_every_problem_is_documented() -> None:
    page = (ROOT / "docs/reference/rest.md").read_text()
    rows = [f'| <a id="{code}"></a>`{code}` | {status} |' for code, (status, _) in PROBLEMS.items()]
    assert [each for each in rows if each not in page] == []


class Guarded(MCPView):
    """An endpoint that refuses everybody."""

    def admit(self, request: Any, server: Any = None) -> Any:
        raise ForbiddenError("Not from here.")


class Overridden(MCPView):
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)


@pytest.mark.parametrize(
    ("view", "status"),
    [(Guarded.as_view(), 403), (Overridden.as_view(), 404), (never_cache(MCPView.as_view()), 404)],
)
def test_own_endpoint_is_not_bypassed(settings: Any, view: Any, status: int) -> None:
    def say() -> str:
        """Say."""
        return "said"

    serve(settings, say, public=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("mcp", view))
    clear_url_caches()
    client = APIClient()
    answers = [
        client.get("/mcp/tools/list"),
        client.get("/mcp/tools/describe?name=say"),
        client.post("/mcp/tools/say", {}, format="json"),
    ]
    assert [each.status_code for each in answers] == [status] * 3


def test_query_with_many_parameters_is_a_bad_request(settings: Any) -> None:
    def say() -> str:
        """Say."""
        return "said"

    serve(settings, say, public=True)
    response = APIClient().get("/mcp/tools/list?" + "&".join(f"a{n}=1" for n in range(1001)))
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


class Closed(MCPView):
    """An endpoint that refuses bodies."""

    def open(self, request: Any, server: Any = None) -> Any:
        raise ForbiddenError("No bodies.")


def test_own_open_applies_to_calls(settings: Any) -> None:
    def say() -> str:
        """Say."""
        return "said"

    serve(settings, say, public=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("mcp", Closed.as_view()))
    clear_url_caches()
    assert APIClient().post("/mcp/tools/say", {}, format="json").status_code == 403
