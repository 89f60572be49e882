"""The tools of the conformance suite that run as tasks."""

from __future__ import annotations

from modernrpc import RpcNamespace
from pydantic import BaseModel

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.elicitation import elicit
from mcp_bridge.protocol.errors import InternalError
from tests.conformance.questions import answers, form

tasks = RpcNamespace()


class Confirmation(BaseModel):
    confirm: bool


@tasks.register_procedure
@mcp_tool(public=True, read_only=True)
def greet(name: str) -> str:
    """Greet someone within the request."""
    return f"Hello, {name}!"


@tasks.register_procedure
@mcp_tool(public=True, read_only=True, task=True)
def slow_compute(context: Context, seconds: float, label: str = "") -> str:
    """Wait, unless the task is cancelled."""
    context.sleep(seconds)
    return f"{label} took {seconds:g} seconds."


@tasks.register_procedure
@mcp_tool(public=True, read_only=True, task="required")
def failing_job(context: Context) -> str:
    """Fail after a second, always."""
    context.sleep(1)
    raise ToolError("This job fails for testing")


@tasks.register_procedure
@mcp_tool(public=True, read_only=True, task=True)
def protocol_error_job() -> str:
    """Raise an error of the protocol, always."""
    raise InternalError("This job ends with a protocol error for testing")


@tasks.register_procedure
@mcp_tool(public=True, task=True)
def confirm_delete(context: Context, filename: str) -> str:
    """Ask one question."""
    is_confirmed = elicit(context, f"Delete {filename}?", Confirmation).confirm
    return f"{filename} was {'deleted' if is_confirmed else 'kept'}."


@tasks.register_procedure
@mcp_tool(public=True, read_only=True, task=True)
def multi_input(context: Context) -> str:
    """Ask two questions at once."""
    asked = {"first": form("First name?", "name"), "second": form("Second name?", "name")}
    names = [each["content"]["name"] for each in answers(context, **asked)]
    return " and ".join(names)


@tasks.register_procedure
@mcp_tool(public=True, read_only=True, task=lambda call: bool(call.context.input_responses))
def test_tool_with_task(context: Context) -> str:
    """Ask within the request, and greet in a task."""
    (name,) = answers(context, user_name=form("What is your name?", "name"))
    return f"Hello, {name['content']['name']}!"
