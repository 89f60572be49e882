from __future__ import annotations

import datetime
import json
from io import StringIO
from typing import Annotated, Any, Literal

import pytest
from django.core.management import call_command
from pydantic import Field, SecretStr

from mcp_bridge import mcp_prompt, mcp_tool
from mcp_bridge.admin.tool_calls import call
from mcp_bridge.exceptions import ToolError
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import CallToolResult, TextContent
from mcp_bridge.protocol.content import ImageContent, PromptMessage
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve


@mcp_prompt(title="Review")
def review(
    slug: Annotated[str, Field(description="The article.")],
    tone: Literal["kind", "strict"] = "kind",
) -> str:
    """Review an article."""
    return f"Review {slug}, {tone}."


@mcp_prompt
def typed(
    count: int, day: datetime.date, loud: bool = False, words: list[str] | None = None
) -> str:
    """Say what was read."""
    return f"{count + 1} {day.isoformat()} {loud} {words}"


@mcp_prompt
def chat() -> list[Any]:
    """Return a conversation."""
    return [
        "Hello",
        PromptMessage("How can I help?", role="assistant"),
        TextContent("Draw"),
        ImageContent(b"\x89PNG", "image/png"),
    ]


def test_prompts_are_listed_with_their_arguments(settings: Any, modern: CheckedClient) -> None:
    serve(settings, review, chat)
    assert modern.list_all("prompts/list", "prompts") == [
        {"name": "chat", "description": "Return a conversation."},
        {
            "name": "review",
            "title": "Review",
            "description": "Review an article.",
            "arguments": [
                {"name": "slug", "description": "The article.", "required": True},
                {"name": "tone", "required": False},
            ],
        },
    ]


def test_text_becomes_one_message(settings: Any, client: CheckedClient) -> None:
    serve(settings, review)
    result = client.post("prompts/get", name="review", arguments={"slug": "a", "tone": "strict"})
    message = {"role": "user", "content": {"type": "text", "text": "Review a, strict."}}
    assert (result["messages"], result["description"]) == ([message], "Review an article.")


def test_arguments_are_read_as_forms_read_them(settings: Any, client: CheckedClient) -> None:
    serve(settings, typed)
    given = {"count": " 41 ", "day": "2026-11-28", "loud": "on", "words": '["a","b"]'}
    (message,) = client.get_prompt("typed", **given)
    assert message["content"]["text"] == "42 2026-11-28 True ['a', 'b']"


def test_each_item_of_a_list_is_a_message(settings: Any, client: CheckedClient) -> None:
    serve(settings, chat)
    messages = client.get_prompt("chat")
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "user"]
    kinds = [each["content"]["type"] for each in messages]
    assert kinds == ["text", "text", "text", "image"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, ["/slug"]),
        ({"slug": "a", "tone": "rude"}, ["/tone", "kind", "strict"]),
        ({"slug": 1}, ["slug must be a string"]),
        ({"slug": "a", "more": "b"}, ["/more"]),
        ({"tone": "rude", "more": "b"}, ["/slug", "/tone", "/more"]),
    ],
)
def test_wrong_arguments_are_all_named(
    settings: Any, client: CheckedClient, arguments: dict[str, Any], told: list[str]
) -> None:
    serve(settings, review)
    with pytest.raises(MCPError, match="^Invalid params: ") as caught:
        client.post("prompts/get", name="review", arguments=arguments)
    assert caught.value.error["code"] == -32602
    assert all(each in str(caught.value) for each in told)


def test_unknown_prompt_is_refused(settings: Any, client: CheckedClient) -> None:
    @mcp_tool
    def other() -> None:
        """Do nothing."""

    serve(settings, review, other)
    for name in ("other", "", "Review"):
        with pytest.raises(MCPError, match=f"^Unknown prompt: {name} ") as caught:
            client.get_prompt(name)
        assert caught.value.error["code"] == -32602


def test_failures_of_prompts_are_errors(settings: Any, client: CheckedClient) -> None:
    @mcp_prompt
    def failing(kind: str) -> str:
        """Fail."""
        if kind == "known":
            raise ToolError("No article has that name.")
        raise KeyError("hidden")

    serve(settings, failing)
    with pytest.raises(MCPError, match=r"^No article has that name. \(-32602\)$"):
        client.get_prompt("failing", kind="known")
    with pytest.raises(MCPError, match=r"The prompt failing failed: .* \(-32603\)$"):
        client.get_prompt("failing", kind="other")


@pytest.fixture
def templates(settings: Any) -> None:
    """Serve two templates from memory."""
    written = {"review.md": "Review <{{ slug }}>{# quietly #}.", "broken.md": "{% if %}"}
    loaders = [("django.template.loaders.locmem.Loader", written)]
    backend = "django.template.backends.django.DjangoTemplates"
    settings.TEMPLATES = [{"BACKEND": backend, "OPTIONS": {"loaders": loaders}}]


@pytest.mark.usefixtures("templates")
def test_template_is_rendered_without_escapes(settings: Any, client: CheckedClient) -> None:
    @mcp_prompt(template="review.md")
    def rendered(slug: str) -> dict[str, Any]:
        """Review an article, by a template."""
        return {"slug": slug}

    serve(settings, rendered)
    (message,) = client.get_prompt("rendered", slug="a&b")
    assert message["content"]["text"] == "Review <a&b>."


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("name", ["missing.md", "broken.md"])
def test_unusable_template_is_an_error(settings: Any, modern: CheckedClient, name: str) -> None:
    @mcp_prompt(template=name)
    def rendered() -> dict[str, Any]:
        """Review an article, by a template."""
        return {}

    serve(settings, rendered, review)
    assert [each.name for each in registry.snapshot] == ["review"]
    (message,) = [each for each in registry.discovered.messages if each.id == "mcp_bridge.E006"]
    assert f"its template {name!r} cannot be loaded" in message.msg


@pytest.mark.parametrize("way", ["call", "result", "returned"])
def test_result_of_an_interceptor_becomes_messages(
    settings: Any, client: CheckedClient, way: str
) -> None:
    @mcp_prompt
    def plain() -> Any:
        """Say it."""
        return CallToolResult(content=[TextContent("a")]) if way == "returned" else "a"

    if way != "returned":
        settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.{way.title()}"]}
    serve(settings, plain)
    (message,) = client.get_prompt("plain")
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    assert message["content"]["text"] == ("a" if way == "returned" else "changed")


class Call:
    def call(self, call: Any) -> Any:
        return CallToolResult(content=[TextContent("changed")])
        yield call


class Result:
    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        return CallToolResult(content=[TextContent("changed")])


@pytest.mark.parametrize("confirm", [False, True])
def test_admin_and_command_send_texts(user: Any, settings: Any, rf: Any, confirm: bool) -> None:
    @mcp_prompt(confirm=confirm)
    def numbered(number: int, words: list[str]) -> str:
        """Say it."""
        return f"{number + 1} {words}"

    serve(settings, numbered)
    request = rf.post("/admin/")
    request.user = user
    sent = {"number": 1, "words": ["a"]}
    outcome = call("prompt:numbered", sent, request, confirmed=True)
    assert outcome.result is not None, outcome.refusal
    assert outcome.result["content"][0]["content"]["text"] == "2 ['a']"
    if not confirm:
        out = StringIO()
        written = json.dumps(sent)
        call_command("mcp_call", "prompt:numbered", written, user=user.username, stdout=out)
        assert "2 ['a']" in out.getvalue()


def test_secrets_of_hidden_prompts_are_redacted(settings: Any, user: Any) -> None:
    @mcp_prompt(permissions="auth.view_user")
    def login(code: SecretStr) -> str:
        """Log in."""
        return "x"

    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve(settings, login, review)
    with pytest.raises(MCPError, match="Unknown prompt"):
        CheckedClient(user=user).get_prompt("login", code="hunter2")
    assert "hunter2" not in ToolCallRecord.objects.get().arguments
