"""
Tasks in place of results, for tests that are unaware of them.

With WAY=tasks in the environment (``make contract``) each tool has ``task=True``, and calls of
``MCPClient.post`` in the latest revision become tasks, which run at once in this process. The
client has what a task ends with in place of the task, and its questions as those of a call.
"""

from __future__ import annotations

from typing import Any

from mcp_bridge.features import ToolOptions
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.working import work
from mcp_bridge.testing import MCPClient, MCPError


def install() -> None:
    """Run calls as tasks."""
    post = MCPClient.post
    ToolOptions.__init__.__kwdefaults__["task"] = True  # type: ignore[index]

    def posting(client: MCPClient, method: str, **params: Any) -> Any:
        if method != "tools/call" or not client.revision.modern:
            return post(client, method, **params)
        declared = client.capabilities
        client.capabilities = {**declared, "extensions": {TASKS: {}}}
        try:
            key = params.get("requestState", "")
            if task := McpTask.objects.filter(pk=key).first():
                given = params["inputResponses"]
                answers = {each: given[own(each)] for each in task.questions if own(each) in given}
                post(client, "tasks/update", taskId=key, inputResponses=answers)
            else:
                called = post(client, method, **params)
                if called["resultType"] != "task":
                    return called
                key = called["taskId"]
            work(key)
            return ended(post(client, "tasks/get", taskId=key))
        finally:
            client.capabilities = declared

    MCPClient.post = posting  # type: ignore[assignment, method-assign]


def ended(task: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a task, or its questions. Raises MCPError for a failed one."""
    if task["status"] == "failed":
        raise MCPError(task["error"])
    if task["status"] == "input_required":
        return {
            "resultType": "input_required",
            "inputRequests": {own(key): each for key, each in task["inputRequests"].items()},
            "requestState": task["taskId"],
        }
    result: dict[str, Any] = task["result"]
    return result


def own(key: str) -> str:
    """Return the tool's own key of a question, without the number of its round."""
    return key.rpartition(".")[0]
