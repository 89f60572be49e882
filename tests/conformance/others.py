"""
The resources and prompts that the official conformance suite names.

Names, texts and addresses are the suite's; each is described in its scenarios
(``conformance list --server``).
"""

from __future__ import annotations

from typing import Any

from modernrpc import RpcNamespace

from mcp_bridge import Context, mcp_prompt, mcp_resource, mcp_tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.content import EmbeddedResource, ImageContent, PromptMessage
from tests.conformance import media
from tests.conformance.questions import answers, form

others = RpcNamespace()


@others.register_procedure
@mcp_resource("test://static-text", mime_type="text/plain", public=True)
def static_text() -> str:
    """A text that does not change."""
    return "This is the content of the static text resource."


@others.register_procedure
@mcp_resource("test://static-binary", mime_type="image/png", public=True)
def static_binary() -> bytes:
    """An image that does not change."""
    return media.red_pixel()


@others.register_procedure
@mcp_resource("test://template/{id}/data", mime_type="application/json", public=True)
def template_data(id: str) -> dict[str, Any]:
    """The data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@others.register_procedure
@mcp_prompt(public=True)
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@others.register_procedure
@mcp_prompt(public=True)
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@test_prompt_with_arguments.complete("arg1")
def arg1(value: str) -> list[str]:
    return [each for each in ("paris", "park", "party") if each.startswith(value)]


@others.register_procedure
@mcp_prompt(public=True)
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A prompt with a resource."""
    resource = EmbeddedResource(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [resource, "Please process the embedded resource above."]


@others.register_procedure
@mcp_prompt(public=True)
def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [ImageContent(media.red_pixel(), "image/png"), "Please analyze the image above."]


@others.register_procedure
@mcp_prompt(public=True)
def test_input_required_result_prompt(context: Context) -> PromptMessage:
    """A prompt that asks the user first."""
    (answer,) = answers(
        context, user_context=form("What context should the prompt use?", "context")
    )
    return PromptMessage(f"Context: {answer['content']['context']}")


def switch(kind: str, name: str) -> str:
    """Enable or disable a feature, as an administrator does."""
    setting, _ = ToolSetting.objects.get_or_create(kind=kind, name=name)
    setting.enabled = not setting.enabled
    setting.save()
    return "switched"


@others.register_procedure
@mcp_tool(public=True)
def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    return switch("tool", "switched_tool")


@others.register_procedure
@mcp_tool(public=True)
def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    return switch("prompt", "switched_prompt")


@others.register_procedure
@mcp_tool(public=True, read_only=True)
def switched_tool() -> str:
    """Do nothing but come and go."""
    return "There."


@others.register_procedure
@mcp_prompt(public=True)
def switched_prompt() -> str:
    """Say nothing but come and go."""
    return "There."
