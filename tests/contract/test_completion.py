from __future__ import annotations

from typing import Any, Literal

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge import Context, mcp_prompt, mcp_resource
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.serving import messages, set_tool


@mcp_prompt
def review(slug: str, tone: Literal["kind", "strict"] = "kind", count: int = 1) -> str:
    """Review an article."""
    return f"{slug} {tone} {count}"


@review.complete("slug")
def slugs(value: str, tone: str, context: Context) -> list[str]:
    return [f"{value}-{tone}", f"{value}-{context.user}"]


@mcp_resource("teams://{name}/{part}")
def team(name: str, part: Literal["members", "rights"]) -> str:
    """Return a part of a team."""
    return Group.objects.get(name=name).name + part


@team.complete("name")
def names(value: str) -> Any:
    found = Group.objects.filter(name__startswith=value).order_by("name")
    return found.values_list("name", flat=True)


PROMPT = {"type": "ref/prompt", "name": "review"}
TEAM = {"type": "ref/resource", "uri": "teams://{name}/{part}"}


def completed(
    client: CheckedClient, ref: Any, name: str, value: str, **earlier: str
) -> dict[str, Any]:
    params: dict[str, Any] = {"ref": ref, "argument": {"name": name, "value": value}}
    if earlier:
        params["context"] = {"arguments": earlier}
    found: dict[str, Any] = client.post("completion/complete", **params)["completion"]
    return found


def test_choices_are_completed_without_code(settings: Any, client: CheckedClient) -> None:
    serve(settings, review, team)
    assert completed(client, PROMPT, "tone", "S") == {
        "values": ["strict"],
        "total": 1,
        "hasMore": False,
    }
    assert completed(client, PROMPT, "tone", "")["values"] == ["kind", "strict"]
    assert completed(client, TEAM, "part", "r")["values"] == ["rights"]
    assert completed(client, PROMPT, "count", "1")["values"] == []


def test_completer_gets_earlier_arguments_and_the_caller(settings: Any, user: User) -> None:
    serve(settings, review)
    client = CheckedClient(user=user)
    found = completed(client, PROMPT, "slug", "a", tone="strict", other="x")
    assert found["values"] == ["a-strict", f"a-{user}"]


def test_long_table_takes_one_query(settings: Any, user: User) -> None:
    serve(settings, team)
    Group.objects.bulk_create(Group(name=f"g{number:03}") for number in range(150))
    client = CheckedClient(user=user)
    completed(client, TEAM, "name", "g")
    with CaptureQueriesContext(connection) as captured:
        found = completed(client, TEAM, "name", "g")
    assert (len(found["values"]), found["hasMore"], "total" in found) == (100, True, False)
    assert found["values"][:2] == ["g000", "g001"]
    assert len([each for each in captured if "auth_group" in each["sql"]]) == 1


def test_values_that_reading_refuses_are_left_out(settings: Any, user: User) -> None:
    serve(settings, team)
    for name in ("ga", "g/b", "..", "g\\c", "gü"):
        Group.objects.create(name=name)
    client = CheckedClient(user=user)
    assert completed(client, TEAM, "name", "g")["values"] == ["ga", "gü"]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "ref must be"),
        ({"ref": {"type": "ref/tool", "name": "review"}}, "ref must be"),
        ({"ref": {"type": "ref/prompt"}}, "ref must be"),
        ({"ref": {"type": "ref/prompt", "name": "none"}}, "Unknown prompt: none"),
        ({"ref": {"type": "ref/resource", "uri": "teams://a/b"}}, "Resource not found"),
        ({"ref": PROMPT}, "argument.name must be an argument of review"),
        ({"ref": PROMPT, "argument": {"name": "no", "value": ""}}, r"\(slug, tone, count\)"),
        ({"ref": PROMPT, "argument": {"name": "tone"}}, "argument.value must be a string"),
        (
            {"ref": PROMPT, "argument": {"name": "tone", "value": "a" * 10_000}},
            "at most 1000 characters",
        ),
        (
            {"ref": PROMPT, "argument": {"name": "tone", "value": ""}, "context": []},
            "context.arguments must be",
        ),
        (
            {
                "ref": PROMPT,
                "argument": {"name": "tone", "value": ""},
                "context": {"arguments": {"slug": 1}},
            },
            "context.arguments must be",
        ),
    ],
)
def test_invalid_requests_are_refused(
    settings: Any, client: CheckedClient, params: dict[str, Any], told: str
) -> None:
    serve(settings, review, team)
    with pytest.raises(MCPError, match=told) as caught:
        client.post("completion/complete", **params)
    assert caught.value.error["code"] == -32602


def test_hidden_features_are_not_completed(settings: Any, user: User) -> None:
    @mcp_prompt(permissions="auth.view_user")
    def secret(kind: Literal["a"]) -> str:
        """Say a secret."""
        return kind

    serve(settings, secret, review)
    with pytest.raises(MCPError, match="Unknown prompt: secret"):
        completed(CheckedClient(user=user), {"type": "ref/prompt", "name": "secret"}, "kind", "")
    root = get_user_model().objects.create_superuser("root")
    found = completed(
        CheckedClient(user=root), {"type": "ref/prompt", "name": "secret"}, "kind", ""
    )
    assert found["values"] == ["a"]


def test_completions_are_counted_apart_from_calls(settings: Any, modern: CheckedClient) -> None:
    @mcp_prompt(throttle="2/min")
    def limited(kind: Literal["a"]) -> str:
        """Say it."""
        return kind

    serve(settings, limited)
    ref = {"type": "ref/prompt", "name": "limited"}
    for _ in range(2):
        completed(modern, ref, "kind", "")
    with pytest.raises(MCPError, match="Too many completions") as caught:
        completed(modern, ref, "kind", "")
    assert caught.value.error["code"] == 429
    assert modern.get_prompt("limited", kind="a")


def test_failing_completer_has_a_reference(settings: Any, client: CheckedClient) -> None:
    @mcp_prompt
    def failing(kind: str) -> str:
        """Say it."""
        return kind

    @failing.complete("kind")
    def fail(value: str) -> list[str]:
        raise KeyError("hidden")

    serve(settings, failing)
    with pytest.raises(MCPError, match="under the reference") as caught:
        completed(client, {"type": "ref/prompt", "name": "failing"}, "kind", "")
    assert caught.value.error["code"] == -32603
    assert "hidden" not in str(caught.value)


def test_completer_of_an_unknown_parameter_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"complete\('no'\)"):
        review.complete("no")


def test_completion_needs_the_scopes_of_the_feature(settings: Any, user: User) -> None:
    settings.MCP_BRIDGE = {
        "AUTHORIZATION_SERVERS": ["https://auth.example.com"],
        "RESOURCE": "https://example.com/mcp",
        "SCOPES": {"secrets:read": "Read secrets", "other": "Do other things"},
    }

    @mcp_prompt(scopes="secrets:read")
    def secret(kind: Literal["a"]) -> str:
        """Say a secret."""
        return kind

    serve(settings, secret)
    ref = {"type": "ref/prompt", "name": "secret"}
    for scope in ("secrets:read", "other"):
        _, token = Token.objects.issue(user=user, name="Laptop", scopes=[scope])
        client = CheckedClient(token=token)
        if scope == "other":
            with pytest.raises(MCPError):
                completed(client, ref, "kind", "")
        else:
            assert completed(client, ref, "kind", "")["values"] == ["a"]


def test_rates_by_name_hold_for_completion(settings: Any, modern: CheckedClient) -> None:
    @mcp_prompt(throttle="slow")
    def slowed(kind: Literal["b"]) -> str:
        """Say it."""
        return kind

    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"slowed": "1/min"}}
    serve(settings, slowed)
    ref = {"type": "ref/prompt", "name": "slowed"}
    completed(modern, ref, "kind", "")
    with pytest.raises(MCPError, match="Too many completions"):
        completed(modern, ref, "kind", "")


@pytest.mark.parametrize(
    ("completer", "error"),
    [
        (lambda self, value: [], "and not self"),
        (lambda: [], "takes the beginning of the value first"),
    ],
)
def test_unusable_completer_is_an_error(settings: Any, completer: Any, error: str) -> None:
    @mcp_prompt
    def prompt(kind: str) -> str:
        """Say it."""
        return kind

    prompt.complete("kind")(completer)
    serve(settings, prompt, review)
    (message,) = messages("mcp_bridge.E006")
    assert error in message


def test_hidden_features_take_as_many_queries(settings: Any, user: User) -> None:
    @mcp_prompt
    def grouped(kind: Literal["a"]) -> str:
        """Say it."""
        return kind

    serve(settings, grouped, review)
    set_tool("grouped", kind="prompt", restricted=True)
    client, counts = CheckedClient(user=user), set()
    completed(client, PROMPT, "tone", "")
    for name in ("grouped", "nothing"):
        with (
            CaptureQueriesContext(connection) as captured,
            pytest.raises(MCPError, match="Unknown prompt"),
        ):
            completed(client, {"type": "ref/prompt", "name": name}, "kind", "")
        counts.add(len([each for each in captured if "auth_" in each["sql"]]))
    assert len(counts) == 1
