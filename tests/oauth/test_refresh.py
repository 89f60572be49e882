"""Refresh tokens and codes that are sent more than once, one after another and at the same time."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
from django.db.models import F
from django.test import Client
from django.urls import resolve
from oauth2_provider.models import AccessToken, RefreshToken

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.oauth.validator import checksum_of
from tests.conftest import Race
from tests.oauth.clients import CALLBACK, OAuthClient, answered
from tests.oauth.conftest import OAUTH2_PROVIDER
from tests.oauth.test_prune import prune
from tests.oauth.test_tokens import opens

GRACE = 60


@pytest.fixture
def oauth(user: Any) -> OAuthClient:
    return OAuthClient(user)


def wait(seconds: int) -> None:
    """Let so many seconds pass for all tokens."""
    passed = timedelta(seconds=seconds)
    AccessToken.objects.update(expires=F("expires") - passed)
    RefreshToken.objects.filter(revoked__isnull=False).update(revoked=F("revoked") - passed)


def refreshed(oauth: OAuthClient, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a refresh token that holds."""
    answer = oauth.refresh(given["refresh_token"])
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def assert_refused(answer: Any) -> None:
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant"), answer.content


@pytest.mark.requirement("as.refresh-rotated")
@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("seconds", [0, 1, GRACE - 2])
def test_resent_refresh_token_yields_tokens(oauth: OAuthClient, times: int, seconds: int) -> None:
    first = oauth.log_in()
    answers = [refreshed(oauth, first)]
    wait(seconds)
    answers += [refreshed(oauth, first) for _ in range(times - 1)]
    assert all(opens(each["access_token"]) for each in (first, *answers))
    assert all(opens(refreshed(oauth, each)["access_token"]) for each in answers)


@pytest.mark.parametrize("grace", [60, 3600])
@pytest.mark.parametrize("stored", [True, False])
def test_toolkits_grace_period_is_supported(
    user: Any, settings: Any, grace: int, stored: bool
) -> None:
    settings.OAUTH2_PROVIDER = {
        **OAUTH2_PROVIDER,
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": grace,
        "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": stored,
    }
    oauth = OAuthClient(user)
    first = oauth.log_in()
    answers = [refreshed(oauth, first) for _ in range(3)]
    assert all(opens(refreshed(oauth, each)["access_token"]) for each in answers)


def test_refreshed_access_token_ends_after_the_grace(oauth: OAuthClient) -> None:
    first = oauth.log_in()
    second = refreshed(oauth, first)
    assert opens(first["access_token"])
    wait(GRACE + 1)
    assert (opens(first["access_token"]), opens(second["access_token"])) == (False, True)


def test_refresh_does_not_prolong_access_tokens(oauth: OAuthClient) -> None:
    first = oauth.log_in()
    wait(3600 + 1)
    refreshed(oauth, first)
    assert not opens(first["access_token"])


@pytest.mark.requirement("as.refresh-rotated")
@pytest.mark.parametrize("seconds", [GRACE + 1, 3000])
@pytest.mark.parametrize("replays", [1, 3])
def test_replay_after_the_grace_revokes_all_tokens(
    oauth: OAuthClient, seconds: int, replays: int
) -> None:
    first = oauth.log_in()
    others = [refreshed(oauth, first) for _ in range(2)]
    wait(seconds)
    for _ in range(replays):
        assert_refused(oauth.refresh(first["refresh_token"]))
    for each in others:
        assert not opens(each["access_token"])
        assert_refused(oauth.refresh(each["refresh_token"]))


def test_replay_revokes_tokens_kept_by_the_grace(oauth: OAuthClient) -> None:
    first = oauth.log_in()
    second = refreshed(oauth, first)
    wait(GRACE + 1)
    third = refreshed(oauth, second)
    assert opens(second["access_token"])
    assert_refused(oauth.refresh(first["refresh_token"]))
    assert not any(opens(each["access_token"]) for each in (second, third))


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_revoked_login_has_no_grace(oauth: OAuthClient, kind: str, which: int) -> None:
    first = oauth.log_in()
    given = [first, refreshed(oauth, first), refreshed(oauth, first)]
    body = {"token": given[which][kind], "client_id": oauth.client_id}
    assert oauth.http.post("/oauth/revoke/", body, secure=True).status_code == 200
    for each in given:
        assert not opens(each["access_token"])
        assert_refused(oauth.refresh(each["refresh_token"]))


def test_disconnected_client_has_no_grace(oauth: OAuthClient) -> None:
    first = oauth.log_in()
    given = [first, refreshed(oauth, first), refreshed(oauth, first)]
    page = {"client_id": oauth.client_id}
    oauth.browser.handler.enforce_csrf_checks = False
    assert oauth.browser.post("/mcp/connections/", page, secure=True).status_code == 302
    for each in given:
        assert not opens(each["access_token"])
        assert_refused(oauth.refresh(each["refresh_token"]))


def test_grace_applies_to_the_same_client_only(oauth: OAuthClient, user: Any) -> None:
    first = oauth.log_in()
    refreshed(oauth, first)
    assert_refused(OAuthClient(user).refresh(first["refresh_token"]))


def test_narrowed_scopes_persist_within_the_grace(oauth: OAuthClient) -> None:
    first = oauth.log_in(scope="mcp mcp:write")
    body = {"grant_type": "refresh_token", "client_id": oauth.client_id, "scope": "mcp"}
    body["refresh_token"] = first["refresh_token"]
    answers = [oauth.http.post("/oauth/token/", body, secure=True).json() for _ in range(2)]
    assert [each["scope"] for each in answers] == ["mcp", "mcp"]
    again = {**body, "refresh_token": answers[1]["refresh_token"], "scope": "mcp:write"}
    refused = oauth.http.post("/oauth/token/", again, secure=True)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")


def test_prune_deletes_replaced_access_tokens(oauth: OAuthClient) -> None:
    first = oauth.log_in()
    second = refreshed(oauth, first)
    wait(GRACE + 1)
    prune()
    assert AccessToken.objects.count() == 1
    assert opens(refreshed(oauth, second)["access_token"])
    assert_refused(oauth.refresh(first["refresh_token"]))


def test_inactive_user_gets_no_tokens(oauth: OAuthClient, user: Any) -> None:
    first = oauth.log_in()
    second = refreshed(oauth, first)
    code = answered(oauth.decide(oauth.ask()))["code"]
    number = AccessToken.objects.count()
    get_user_model().objects.update(is_active=False)
    # Unused, and used within the grace.
    for each in (second, first):
        assert_refused(oauth.refresh(each["refresh_token"]))
    assert_refused(oauth.exchange(code))
    assert AccessToken.objects.count() == number


@pytest.mark.parametrize("refreshes", [0, 1, 2])
def test_reused_code_revokes_its_tokens(oauth: OAuthClient, refreshes: int) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    given = [oauth.exchange(code).json()]
    for _ in range(refreshes):
        given.append(refreshed(oauth, given[-1]))
    other = oauth.log_in()
    assert_refused(oauth.exchange(code))
    for each in given:
        assert not opens(each["access_token"])
        assert_refused(oauth.refresh(each["refresh_token"]))
    assert opens(other["access_token"])
    assert opens(refreshed(oauth, other)["access_token"])


@pytest.mark.parametrize("changed", [{"code_verifier": "x" * 64}, {"redirect_uri": "https://a.b/"}])
def test_stolen_reused_code_revokes_its_tokens(oauth: OAuthClient, changed: dict[str, str]) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    given = oauth.exchange(code).json()
    assert oauth.exchange(code, **changed).status_code == 400
    assert not opens(given["access_token"])


def test_reused_code_of_another_client_revokes_nothing(oauth: OAuthClient, user: Any) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    given = oauth.exchange(code).json()
    assert_refused(OAuthClient(user).exchange(code))
    assert opens(given["access_token"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"grant_type": "authorization_code"},
        {"grant_type": "authorization_code", "code": "\0"},
        {"grant_type": "authorization_code", "code": "\0", "client_id": "\0"},
        {"grant_type": "refresh_token"},
        {"grant_type": "refresh_token", "refresh_token": "\0\ud800".encode("utf-8", "replace")},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "x"},
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_invalid_exchanges_are_client_errors(
    oauth: OAuthClient, body: dict[str, Any], known: bool
) -> None:
    sent = {"client_id": oauth.client_id, **body} if known else body
    answer = oauth.http.post("/oauth/token/", sent, secure=True)
    assert answer.status_code in (400, 401, 404), answer.content
    assert answer.json()["error"]


# At the same time.


def post(**body: str) -> Any:
    """Return the answer of the token endpoint, with a new client."""
    client = Client(raise_request_exception=False)
    return client.post("/oauth/token/", body, secure=True)


@pytest.mark.parametrize("number", [5, 64])
@pytest.mark.alone
def test_login_survives_concurrent_refreshes(race: Race, user: Any, number: int) -> None:
    oauth = OAuthClient(user)
    first = oauth.log_in()
    answers = race(lambda: oauth.refresh(first["refresh_token"]), number)
    assert [each.status_code for each in answers] == [200] * number
    given = [each.json() for each in answers]

    def hold() -> list[bool]:
        return [opens(each["access_token"]) for each in (first, *given[:5])]

    assert race(hold, 1) == [[True] * 6]
    again = race(lambda: [oauth.refresh(each["refresh_token"]) for each in given[:5]], 1)
    assert [each.status_code for each in again[0]] == [200] * 5


@pytest.mark.alone
def test_concurrent_replays_revoke_without_an_error(race: Race, user: Any) -> None:
    oauth = OAuthClient(user)
    first = oauth.log_in()
    second = refreshed(oauth, first)
    wait(GRACE + 1)
    for answer in race(lambda: oauth.refresh(first["refresh_token"]), 64):
        assert_refused(answer)
    assert race(lambda: opens(second["access_token"]), 1) == [False]


@pytest.mark.alone
def test_concurrently_sent_code_yields_one_token(race: Race, user: Any) -> None:
    oauth = OAuthClient(user)
    code = answered(oauth.decide(oauth.ask()))["code"]
    body = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    body |= {"client_id": oauth.client_id, "code_verifier": oauth.verifier}
    answers = race(lambda: post(**body), 64)
    assert sorted(each.status_code for each in answers) == [200, *[400] * 63]
    assert {each.json().get("error") for each in answers} == {None, "invalid_grant"}


@pytest.mark.alone
def test_concurrent_tokens_of_one_login_cause_no_error(race: Race, user: Any) -> None:
    oauth = OAuthClient(user)
    given = [oauth.log_in()]
    for _ in range(4):
        given.append(refreshed(oauth, given[-1]))
    # The tokens of the first half are replays, which revoke those the others request.
    old = [each["refresh_token"] for each in given[:2]]
    for token in old:
        rows = RefreshToken.objects.filter(token_checksum=checksum_of(token))
        rows.update(revoked=F("revoked") - timedelta(seconds=GRACE + 1))
    tokens = [each["refresh_token"] for each in given] * 8
    answers = race(lambda: oauth.refresh(tokens.pop()), len(tokens))
    assert {each.status_code for each in answers} <= {200, 400}
    latest = [each.json() for each in answers if each.status_code == 200]
    assert race(lambda: oauth.refresh(old[0]).status_code, 1) == [400]
    assert not any(race(lambda: [opens(each["access_token"]) for each in latest], 1)[0])


class Asking(MD5PasswordHasher):
    """A hasher that notes whether a transaction is open."""

    algorithm = "asking"
    asked: ClassVar[list[bool]] = []

    def verify(self, password: str, encoded: str) -> bool:
        self.asked.append(connection.in_atomic_block)
        return super().verify(password, encoded)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
@pytest.mark.parametrize("is_right", [True, False])
def test_client_secret_is_checked_outside_a_transaction(
    user: Any, settings: Any, method: str, is_right: bool
) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.Asking"]
    oauth = OAuthClient(user, token_endpoint_auth_method=method)
    secret = oauth.registered["client_secret"] if is_right else "wrong"
    if method == "client_secret_basic":
        credentials = b64encode(f"{oauth.client_id}:{secret}".encode()).decode()
        oauth.http.defaults["HTTP_AUTHORIZATION"] = f"Basic {credentials}"
        sent: dict[str, str | None] = {"client_id": None}
    else:
        sent = {"client_secret": secret, "client_id": oauth.client_id}
    code = answered(oauth.decide(oauth.ask()))["code"]
    Asking.asked.clear()
    answer = oauth.exchange(code, **sent)
    if not is_right:
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    else:
        again = oauth.refresh(answer.json()["refresh_token"], **sent)
        body = {name: each for name, each in sent.items() if each}
        body["token"] = again.json()["refresh_token"]
        assert oauth.http.post("/oauth/revoke/", body, secure=True).status_code == 200
        assert not opens(again.json()["access_token"])
        assert len(Asking.asked) == 3
    assert not any(Asking.asked)
    ToolCallRecord.objects.all().delete()


@pytest.mark.parametrize("path", ["/oauth/token/", "/oauth/revoke/"])
def test_exchange_ignores_atomic_requests(path: str) -> None:
    assert resolve(path).func._non_atomic_requests == {"default"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["authorize", "token", "revoke"])
def test_nul_is_refused_before_the_database(oauth: OAuthClient, path: str) -> None:
    send = oauth.browser.get if path == "authorize" else oauth.http.post
    sent = {**oauth.authorization(), "grant_type": "authorization_code"}
    for name in ("client_id", "code", "nonce"):
        for value in ("\0", ["\0", "x"]):
            answer = send(f"/oauth/{path}/", {**sent, name: value}, secure=True)
            assert answer.status_code == 400
    basic = {"Authorization": f"Basic {b64encode(bytes(1) + b':x').decode()}"}
    assert send(f"/oauth/{path}/", sent, secure=True, headers=basic).status_code < 500
