from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.test import APIClient

from mcp_bridge import Context
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.serving import giving

CALLS: list[str] = []
DRF = "rest_framework.authentication"


def whoami(context: Context) -> list[str]:
    """Return the caller, and the kind of credential."""
    CALLS.append("whoami")
    return [context.user.get_username(), type(context.auth).__name__]


@pytest.fixture
def ada(db: None) -> Any:
    CALLS.clear()
    return get_user_model().objects.create_user("ada", password="correct horse")


@pytest.fixture
def guarded(settings: Any) -> None:
    serve(settings, whoami)


def authenticated_by(settings: Any, *paths: str) -> None:
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": list(paths)}


def refused(client: CheckedClient, method: str = "tools/list", **params: Any) -> Any:
    """Return the response to a request that is refused."""
    with pytest.raises(MCPError):
        client.post(method, **params)
    assert client.response["Content-Type"] == "application/json"
    assert client.response.json()["id"] is None
    return client.response


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.mark.usefixtures("ada", "guarded")
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "nothing"])
def test_missing_credential_is_401_without_public_tools(method: str, revision: str) -> None:
    client = CheckedClient(revision=revision)
    response = refused(client, method, **({"name": "whoami"} if method == "tools/call" else {}))
    assert (response.status_code, response["WWW-Authenticate"]) == (401, 'Bearer realm="mcp"')


@pytest.mark.usefixtures("ada", "guarded")
def test_discovery_view_is_as_guarded_as_the_endpoint() -> None:
    response = APIClient().get("/mcp/tools/list")
    assert (response.status_code, response["WWW-Authenticate"]) == (401, 'Bearer realm="mcp"')
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.usefixtures("guarded")
def test_no_middleware_is_needed(ada: Any, settings: Any) -> None:
    settings.MIDDLEWARE = []
    client = CheckedClient(token=Token.objects.issue(user=ada, name="test")[1])
    assert client.call_tool("whoami")["structuredContent"] == {"result": ["ada", "Token"]}
    assert refused(CheckedClient()).status_code == 401


@pytest.mark.usefixtures("ada", "guarded")
def test_login_required_middleware_makes_no_redirect(settings: Any) -> None:
    required = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, required]
    assert refused(CheckedClient()).status_code == 401
    assert APIClient().get("/mcp/tools/list").status_code == 401


def test_public_tool_admits_callers_without_a_credential(db: None, settings: Any) -> None:
    serve(settings, giving(int, 1), public=True)
    assert CheckedClient().call_tool("give")["structuredContent"] == {"result": 1}


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Basic x", "nonsense", "Bearer a b"])
def test_invalid_credential_is_401_despite_public_tools(
    header: str, db: None, settings: Any
) -> None:
    serve(settings, giving(int, 1), public=True)
    client = CheckedClient()
    client.headers["Authorization"] = header
    response = refused(client)
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="mcp", error="invalid_token"'
    assert header.encode() not in response.content


@pytest.mark.requirement("security.no-session-auth")
@pytest.mark.usefixtures("guarded")
def test_user_of_a_middleware_does_not_count(ada: Any) -> None:
    client = CheckedClient()
    client.http.force_login(ada)
    assert refused(client).status_code == 401
    assert CALLS == []


@pytest.mark.usefixtures("guarded")
def test_token_comes_before_the_user_of_a_middleware(ada: Any) -> None:
    bob = get_user_model().objects.create_user("bob")
    client = CheckedClient(token=Token.objects.issue(user=bob, name="test")[1])
    client.http.force_login(ada)
    assert client.call_tool("whoami")["structuredContent"] == {"result": ["bob", "Token"]}


@pytest.mark.usefixtures("ada", "guarded")
@pytest.mark.parametrize(
    ("credential", "status"),
    [("ada:correct horse", 200), ("ada:wrong", 401), ("nobody:x", 401), ("", 401), (None, 401)],
)
def test_basic_authentication_of_drf(credential: str | None, status: int, settings: Any) -> None:
    authenticated_by(settings, f"{DRF}.BasicAuthentication")
    client = CheckedClient()
    client.headers.update(basic(credential) if credential is not None else {})
    if status == 200:
        assert client.call_tool("whoami")["structuredContent"] == {"result": ["ada", "NoneType"]}
    else:
        assert refused(client)["WWW-Authenticate"] == 'Basic realm="api"'
    assert client.response.status_code == status


@pytest.mark.usefixtures("guarded")
def test_basic_authentication_of_an_inactive_user_is_401(ada: Any, settings: Any) -> None:
    authenticated_by(settings, f"{DRF}.BasicAuthentication")
    get_user_model().objects.update(is_active=False)
    client = CheckedClient()
    client.headers.update(basic("ada:correct horse"))
    assert refused(client).status_code == 401


class DirectoryAway(exceptions.APIException):
    """The error of a directory of users that does not answer."""

    status_code = 503

    def __init__(self, detail: str, wait: float | None = None) -> None:
        super().__init__(detail)
        self.wait = wait


class Teapot(exceptions.APIException):
    status_code = 418


class KeyAuthentication(BaseAuthentication):
    """An API key in a separate header, as third-party classes have it."""

    keyword = "Key"

    def authenticate(self, request: Any) -> Any:
        key = request.META.get("HTTP_X_KEY")
        match key:
            case None:
                return None
            case "not authenticated":
                raise exceptions.NotAuthenticated
            case "forbidden":
                raise exceptions.PermissionDenied("Not from here.")
            case "throttled":
                raise exceptions.Throttled(wait=3)
            case "away":
                raise DirectoryAway("SECRET-MARKER")
            case "bad gateway" | "gateway timeout":
                failed = DirectoryAway("SECRET-MARKER")
                failed.status_code = 502 if key == "bad gateway" else 504
                raise failed
            case "away for long":
                raise DirectoryAway("SECRET-MARKER", wait=89.5)
            case "error":
                raise exceptions.APIException("SECRET-MARKER")
            case "teapot":
                raise Teapot("SECRET-MARKER")
            case "unknown":
                raise exceptions.AuthenticationFailed
            case "broken":
                raise AttributeError("SECRET-MARKER")
        return get_user_model().objects.get(username=key), self

    def authenticate_header(self, request: Any) -> str:
        return self.keyword


KEY = f"{__name__}.KeyAuthentication"


class PlaceAuthentication(KeyAuthentication):
    """A key whose challenge names the address."""

    def authenticate_header(self, request: Any) -> str:
        return f'Key realm="{request.path}"'


@pytest.mark.usefixtures("ada", "guarded")
def test_class_makes_its_challenge_for_the_request(settings: Any) -> None:
    authenticated_by(settings, f"{__name__}.PlaceAuthentication")
    assert refused(CheckedClient())["WWW-Authenticate"] == 'Key realm="/mcp"'


@pytest.mark.usefixtures("ada", "guarded")
def test_challenge_is_of_the_scheme_that_was_used(settings: Any) -> None:
    def challenge(*paths: str, sent: str = "", **others: Any) -> str:
        settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": list(paths), **others}
        client = CheckedClient()
        client.headers |= {"Authorization": sent} if sent else {}
        return str(refused(client)["WWW-Authenticate"])

    all_three = KEY, f"{DRF}.BasicAuthentication", TOKENS
    assert challenge(*all_three) == challenge(*all_three, sent="Other x") == "Key"
    assert challenge(*all_three, sent="basic x") == 'Basic realm="api"'
    bearer = 'Bearer realm="mcp", error="invalid_token"'
    assert challenge(*all_three, sent="BEARER x") == bearer
    assert challenge() == 'Bearer realm="mcp"'
    assert challenge(f"{DRF}.SessionAuthentication") == 'Bearer realm="mcp"'
    place = {"RESOURCE": "http://testserver/mcp", "AUTHORIZATION_SERVERS": ["https://i.example"]}
    metadata = 'resource_metadata="http://testserver/.well-known/oauth-protected-resource/mcp"'
    assert challenge(KEY, **place) == f'Bearer realm="mcp", {metadata}, Key'
    assert metadata in challenge(TOKENS, sent="Bearer x", **place)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize(
    ("scheme", "status"),
    [("Bearer", 200), ("bearer", 200), ("Bearer ", 200), ("Token", 401), ("Basic", 401)],
)
def test_token_is_sent_as_a_bearers(scheme: str, status: int, ada: Any) -> None:
    client = CheckedClient()
    client.headers["Authorization"] = f"{scheme} {Token.objects.issue(user=ada, name='test')[1]}"
    message = client.message("tools/list")
    client.send(json.dumps(message).encode(), client.mirrored(message))
    assert client.response.status_code == status


@pytest.mark.usefixtures("ada", "guarded")
def test_credential_of_another_scheme_explains_bearer_tokens() -> None:
    client = CheckedClient()
    client.headers.update(basic("ada:correct horse"))
    message = refused(client).json()["error"]["message"]
    assert message.endswith(" Send it as `Authorization: Bearer TOKEN`.")


@pytest.mark.usefixtures("ada", "guarded")
def test_any_class_works_by_its_dotted_path(settings: Any) -> None:
    authenticated_by(settings, KEY)
    client = CheckedClient()
    client.headers["X-Key"] = "ada"
    expected = {"result": ["ada", "KeyAuthentication"]}
    assert client.call_tool("whoami")["structuredContent"] == expected


@pytest.mark.usefixtures("ada", "guarded")
def test_classes_are_tried_in_their_order(settings: Any) -> None:
    authenticated_by(settings, KEY, f"{DRF}.BasicAuthentication")
    client = CheckedClient()
    client.headers.update({**basic("ada:correct horse"), "X-Key": "ada"})
    expected = {"result": ["ada", "KeyAuthentication"]}
    assert client.call_tool("whoami")["structuredContent"] == expected
    del client.headers["X-Key"]
    assert client.call_tool("whoami")["structuredContent"] == {"result": ["ada", "NoneType"]}


@pytest.mark.usefixtures("ada", "guarded")
@pytest.mark.parametrize(
    ("key", "status", "code", "retry"),
    [
        ("not authenticated", 401, 401, None),
        ("forbidden", 403, 403, None),
        ("teapot", 403, 403, None),
        ("throttled", 429, 429, "3"),
        ("away", 503, -32603, "1"),
        ("bad gateway", 503, -32603, "1"),
        ("gateway timeout", 503, -32603, "1"),
        ("away for long", 503, -32603, "90"),
        ("error", 200, -32603, None),
    ],
)
def test_exception_of_a_class_keeps_its_status(
    key: str,
    status: int,
    code: int,
    retry: str | None,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authenticated_by(settings, KEY)
    client = CheckedClient()
    client.headers["X-Key"] = key
    response = refused(client, "tools/call", name="whoami")
    assert (response.status_code, CALLS) == (status, [])
    assert response.json()["error"]["code"] == code
    assert response.get("Retry-After") == retry
    message = response.json()["error"]["message"]
    unavailable = "The server cannot check requests right now: try again later."
    assert (message == unavailable) == (status == 503)
    assert ("A request could not be authenticated or counted" in caplog.text) == (status == 503)
    assert ("WWW-Authenticate" in response) == (status == 401)
    assert b"SECRET-MARKER" not in response.content
    assert ("The request failed (reference" in caplog.text) == (key == "error")
    assert (message == "The request was refused.") == (key == "teapot")
    assert (message == "Forbidden: Not from here.") == (key == "forbidden")
    # The log shows the administrator why all logins fail.
    assert ("SECRET-MARKER" in caplog.text) == (code == -32603)


class AnyBearer(BaseAuthentication):
    """
    A class that accepts any credential as ada's or, if it is a machine's, as one without a user.
    """

    def authenticate(self, request: Any) -> Any:
        CALLS.append("AnyBearer")
        token = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        if token == "machine":
            return None, token
        return (get_user_model().objects.get(username="ada"), token) if token else None

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


ANY = f"{__name__}.AnyBearer"
TOKENS = "mcp_bridge.tokens.authentication.TokenAuthentication"


@pytest.mark.usefixtures("ada", "guarded")
@pytest.mark.parametrize(
    ("key", "status"),
    [
        *(("not authenticated", 200), ("unknown", 200)),
        *(("forbidden", 403), ("teapot", 403), ("throttled", 429), ("away", 503)),
    ],
)
def test_next_class_is_tried_only_after_a_401(key: str, status: int, settings: Any) -> None:
    authenticated_by(settings, KEY, ANY)
    client = CheckedClient()
    client.headers.update({"X-Key": key, "Authorization": "Bearer x"})
    if status == 200:
        expected = {"result": ["ada", "str"]}
        assert client.call_tool("whoami")["structuredContent"] == expected
    else:
        assert (refused(client).status_code, CALLS) == (status, [])


@pytest.mark.parametrize(("key", "invalid"), [("not authenticated", False), ("unknown", True)])
def test_401_remains_if_other_classes_find_no_caller(
    key: str, invalid: bool, db: None, settings: Any
) -> None:
    serve(settings, giving(int, 1), public=True)
    authenticated_by(settings, KEY, TOKENS)
    client = CheckedClient()
    client.headers["X-Key"] = key
    response = refused(client)
    assert (response.status_code, b"not valid" in response.content) == (401, invalid)


@pytest.mark.usefixtures("guarded")
def test_invalid_token_is_not_passed_to_other_classes(ada: Any, settings: Any) -> None:
    token, secret = Token.objects.issue(user=ada, name="test")
    token.revoke()
    authenticated_by(settings, TOKENS, ANY)
    assert refused(CheckedClient(token=secret)).status_code == 401
    assert CALLS == []
    expected = {"result": ["ada", "str"]}
    assert CheckedClient(token="x").call_tool("whoami")["structuredContent"] == expected


@pytest.mark.usefixtures("ada", "guarded")
def test_credential_without_a_user_opens_only_public_tools(settings: Any) -> None:
    authenticated_by(settings, ANY)
    client = CheckedClient(token="machine")
    response = refused(client)
    assert (response.status_code, b"does not belong to a user" in response.content) == (403, True)
    serve(settings, giving(int, 1), public=True)
    assert client.call_tool("give")["structuredContent"] == {"result": 1}


@pytest.mark.usefixtures("ada", "guarded")
def test_error_of_a_class_is_logged_and_refused(settings: Any) -> None:
    authenticated_by(settings, KEY)
    client = CheckedClient()
    client.headers["X-Key"] = "broken"
    response = refused(client, "tools/call", name="whoami")
    assert response.json()["error"]["code"] == -32603
    assert (b"SECRET-MARKER" in response.content, CALLS) == (False, [])


class Decoding(BaseAuthentication):
    """A class that reads every credential as text, as classes of libraries do."""

    def authenticate(self, request: Any) -> Any:
        CALLS.append("Decoding")
        get_authorization_header(request).decode("utf-8")


@pytest.mark.usefixtures("ada", "guarded")
@pytest.mark.parametrize(
    "header", ["Token \xff\xfe", "Bearer caf\xe9", "Bearer \u20ac", "Bearer \0"]
)
def test_header_that_is_not_text_is_401_unread(header: str, settings: Any, caplog: Any) -> None:
    authenticated_by(settings, f"{__name__}.Decoding", TOKENS)
    client = CheckedClient()
    client.headers["Authorization"] = header
    response = refused(client)
    assert (response.status_code, CALLS) == (401, [])
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert "not valid" in response.json()["error"]["message"]
    assert 'error="invalid_token"' in response["WWW-Authenticate"]


@pytest.mark.usefixtures("guarded")
def test_site_without_classes_refuses_all_callers(ada: Any, settings: Any) -> None:
    authenticated_by(settings)
    client = CheckedClient(token=Token.objects.issue(user=ada, name="test")[1])
    assert refused(client).status_code == 401


def with_session(user: Any, settings: Any) -> CheckedClient:
    authenticated_by(settings, f"{DRF}.SessionAuthentication")
    client = CheckedClient()
    client.http = APIClient(enforce_csrf_checks=True)
    client.http.force_login(user)
    return client


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 32])
def test_session_without_csrf_token_is_403_and_runs_nothing(
    token: str | None, ada: Any, settings: Any
) -> None:
    client = with_session(ada, settings)
    if token is not None:
        client.http.cookies["csrftoken"] = "a" * 32
        client.headers["X-CSRFToken"] = token
    response = refused(client, "tools/call", name="whoami")
    assert (response.status_code, CALLS) == (403, [])


@pytest.mark.usefixtures("guarded")
def test_session_with_a_csrf_token_is_admitted(ada: Any, settings: Any) -> None:
    client = with_session(ada, settings)
    client.http.cookies["csrftoken"] = "a" * 32
    client.headers["X-CSRFToken"] = "a" * 32
    assert client.call_tool("whoami")["structuredContent"] == {"result": ["ada", "NoneType"]}


@pytest.mark.usefixtures("guarded")
def test_session_is_checked_without_reading_the_body(ada: Any, settings: Any) -> None:
    client = with_session(ada, settings)
    client.http.cookies["csrftoken"] = "a" * 32
    response = client.send(b"{no json", {"X-CSRFToken": "a" * 32})
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)


@pytest.mark.usefixtures("guarded")
def test_session_of_another_site_is_refused(ada: Any, settings: Any) -> None:
    client = with_session(ada, settings)
    client.http.cookies["csrftoken"] = "a" * 32
    client.headers.update({"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"})
    response = refused(client, "tools/call", name="whoami")
    assert (response.status_code, CALLS) == (403, [])


@pytest.mark.usefixtures("guarded")
def test_session_of_an_inactive_user_is_401(ada: Any, settings: Any) -> None:
    client = with_session(ada, settings)
    get_user_model().objects.update(is_active=False)
    assert refused(client).status_code in (401, 403)
    assert CALLS == []
