"""Every client that the gate runs, and those of the documentation that it cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.clients import programs
from tests.clients.programs import Seat, driven


@dataclass(frozen=True)
class Client:
    """A client: its title, the package whose version is shown, its page, and how it is driven."""

    name: str
    title: str
    package: str
    page: str
    drive: Callable[[Seat], dict[str, Any]]
    # Whether it declines without asking if no user is there.
    declines: bool = False


def _python(name: str, title: str, package: str, page: str, environment: str = "agents") -> Client:
    driver = name.removeprefix("python_")
    return Client(name, title, package, page, driven(environment, driver))


def _node(name: str, title: str, package: str, page: str) -> Client:
    return Client(name, title, package, page, driven("node", name.removeprefix("typescript_")))


SDK = "Official Python client"
TYPESCRIPT = "Official TypeScript client"
CLIENTS = [
    _python("python_official", SDK, "mcp", "python"),
    _python("python_official_legacy", f"{SDK}, legacy mode", "mcp", "python"),
    _python("python_official_1", f"{SDK} 1.x", "mcp 1", "python", "google"),
    _node("typescript_official", TYPESCRIPT, "@modelcontextprotocol/client", "typescript"),
    _node(
        "typescript_official_legacy",
        f"{TYPESCRIPT}, legacy mode",
        "@modelcontextprotocol/client",
        "typescript",
    ),
    _node("typescript_official_1", f"{TYPESCRIPT} 1.x", "@modelcontextprotocol/sdk", "typescript"),
    _python("fastmcp", "FastMCP", "fastmcp", "fastmcp"),
    _python("langchain", "LangChain", "langchain-mcp-adapters", "langchain", "google"),
    _python("pydantic_ai", "Pydantic AI", "pydantic-ai-slim", "pydantic-ai"),
    _python("openai_agents", "OpenAI Agents SDK", "openai-agents", "openai-agents"),
    _python("llama_index", "LlamaIndex", "llama-index-tools-mcp", "llama-index"),
    _python("google_adk", "Google ADK", "google-adk", "google-adk", "google"),
    _node("ai_sdk", "AI SDK", "@ai-sdk/mcp", "ai-sdk"),
    Client("n8n", "n8n", "@n8n/n8n-nodes-langchain", "n8n", driven("n8n", "n8n")),
    _python("mcp_remote", "mcp-remote", "mcp-remote", "mcp-remote"),
    Client(
        "inspector",
        "MCP Inspector",
        "@modelcontextprotocol/inspector",
        "inspector",
        programs.inspector,
    ),
    Client(
        "claude_code",
        "Claude Code",
        "@anthropic-ai/claude-code",
        "claude-code",
        programs.claude_code,
    ),
    Client("codex", "Codex", "@openai/codex", "codex", programs.codex),
    Client("gemini_cli", "Gemini CLI", "@google/gemini-cli", "gemini-cli", programs.gemini_cli),
    Client(
        "copilot_cli",
        "Copilot CLI",
        "@github/copilot",
        "copilot-cli",
        programs.copilot_cli,
        declines=True,
    ),
    Client("opencode", "opencode", "opencode-ai", "opencode", programs.opencode),
]

# Title, page, and why it is not run.
NOT_RUN = [
    ("Claude Desktop", "claude-desktop", "an application with a screen and an account"),
    ("claude.ai", "claude-desktop", "a service that calls from outside, with an account"),
    ("ChatGPT", "chatgpt", "a service that calls from outside, with an account"),
    ("Cursor", "cursor", "an editor with a screen and an account"),
    ("VS Code", "vs-code", "an editor with a screen and an account"),
    ("Zed", "zed", "an editor with a screen"),
]
