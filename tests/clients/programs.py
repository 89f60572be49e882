"""
The clients that are programs, set up and run as a user would, each in a separate home folder.

Those that need a model get a fake one (``model``). The table shows each call as that model received
it.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.clients.environments import (
    HOME,
    NODE,
    NPM,
    ROOT,
    SERVERS,
    npm_program,
    programs,
    search_path,
)
from tests.clients.model import Model
from tests.clients.serving import Failure, Server

TIMEOUT = 120


@dataclass(frozen=True)
class Seat:
    """Resources of a program: the site, its own token, a model, an empty home folder."""

    server: Server
    client: str
    model: Model
    home: Path

    @property
    def mine(self) -> dict[str, Any]:
        return self.server.seats[self.client]

    @property
    def token(self) -> str:
        return str(self.mine["token"])

    @property
    def bad(self) -> str:
        return f"mcp_bad_{self.client}"

    @property
    def steps(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return {
            "called": ("articles_list", {"page_size": 2}),
            "wrong": ("articles_list", {"page": 0, "order": "best"}),
            "image": ("media_show", {"media": self.mine["media"]}),
            "wait": ("articles_delete", {"slug": self.mine["slug"]}),
        }

    def run(self, program: str, *arguments: str, **env: str) -> tuple[int, str]:
        """Run an npm package's program; return its exit status, and its whole output."""
        surroundings = {"HOME": str(self.home), "PATH": search_path(), "NO_COLOR": "1", **env}
        try:
            done = subprocess.run(
                [npm_program(program), *arguments],
                cwd=self.home,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"{program} did not end within {TIMEOUT} s") from expired
        return done.returncode, f"{done.stdout}\n{done.stderr}".strip()

    def write(self, path: str, content: Any) -> None:
        """Write a file in the home folder; other content than text is written as JSON."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def approved(self) -> bool:
        """Approve the call that waits; return whether there was one."""
        command = self.server.approval(self.client)
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0

    def ask_model(self) -> str:
        """Plan the steps; return the model's address."""
        return self.model.expect(self.client, list(self.steps.values()), cache(self.approved))

    def told(self, bad: str, output: str) -> dict[str, Any]:
        """Return the answer of a client with a model, once it has run."""
        told = self.model.told.get(self.client, [])
        if len(told) < len(self.steps):
            raise Failure(
                f"{self.client} has told its model of {len(told)} calls:\n{output[-2000:]}"
            )
        answer: dict[str, Any] = {"listed": sorted(self.model.tools.get(self.client, {}))}
        for step, text in zip([*self.steps, "repeated"], told, strict=False):
            answer[step] = {"text": text}
        answer["image"]["kinds"] = ["image"] if self.client in self.model.pictures else ["text"]
        return {**answer, "asked": [], "bad": {"error": True, "text": bad}}


def claude_code(seat: Seat) -> dict[str, Any]:
    def add(name: str, token: str) -> None:
        header = f"Authorization: Bearer {token}"
        seat.run("claude", "mcp", "add", "--transport", "http", name, url, "--header", header)

    url = seat.server.url
    add("newsroom", seat.token)
    _must_say("✔ Connected", seat.run("claude", "mcp", "get", "newsroom")[1])
    _, output = seat.run(
        *("claude", "-p", "go", "--allowedTools", "mcp__newsroom", "--output-format", "json"),
        ANTHROPIC_BASE_URL=seat.ask_model(),
        ANTHROPIC_API_KEY="none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        ENABLE_TOOL_SEARCH="false",
    )
    seat.run("claude", "mcp", "remove", "newsroom")
    add("bad", seat.bad)
    return seat.told(_line("bad:", seat.run("claude", "mcp", "list")[1]), output)


def codex(seat: Seat) -> dict[str, Any]:
    provider = f'name = "gate"\nbase_url = "{seat.ask_model()}/v1"\nwire_api = "responses"'
    seat.write(
        ".codex/config.toml",
        f'model = "gate"\nmodel_provider = "gate"\napproval_policy = "never"\n'
        f'sandbox_mode = "danger-full-access"\n[model_providers.gate]\n{provider}\n'
        f'env_key = "GATE_KEY"\n[mcp_servers.newsroom]\nurl = "{seat.server.url}"\n'
        f'bearer_token_env_var = "NEWSROOM_TOKEN"\n',
    )
    go = ("codex", "exec", "--skip-git-repo-check", "--json", "go")
    _must_say("newsroom", seat.run("codex", "mcp", "list")[1])
    _, output = seat.run(*go, GATE_KEY="none", NEWSROOM_TOKEN=seat.token)
    _, bad = seat.run(*go, GATE_KEY="none", NEWSROOM_TOKEN=seat.bad)
    return seat.told(_line("rmcp::", bad), output)


def gemini_cli(seat: Seat) -> dict[str, Any]:
    def configure(token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        server = {"httpUrl": seat.server.url, "headers": headers, "trust": True}
        auth = {"auth": {"selectedType": "gemini-api-key"}}
        seat.write(".gemini/settings.json", {"security": auth, "mcpServers": {"newsroom": server}})

    env = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": seat.ask_model()}
    env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    configure(seat.token)
    _must_say("Connected", seat.run("gemini", "mcp", "list", **env)[1])
    _, output = seat.run("gemini", "-p", "go", "--yolo", "-m", "gemini-2.5-flash", **env)
    configure(seat.bad)
    return seat.told(_line("newsroom:", seat.run("gemini", "mcp", "list", **env)[1]), output)


def opencode(seat: Seat) -> dict[str, Any]:
    options = {"baseURL": f"{seat.ask_model()}/v1", "apiKey": "none"}
    models = {"gate": {"name": "gate", "tool_call": True, "attachment": True}}
    models["gate"]["modalities"] = {"input": ["text", "image"], "output": ["text"]}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}

    def configure(token: str) -> None:
        server = {"type": "remote", "url": seat.server.url, "oauth": False}
        server["headers"] = {"Authorization": f"Bearer {token}"}
        config = {"model": "gate/gate", "small_model": "gate/gate", "provider": {"gate": provider}}
        config |= {"autoupdate": False, "permission": "allow", "mcp": {"newsroom": server}}
        seat.write("opencode.json", config)

    env = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    configure(seat.token)
    _must_say("connected", seat.run("opencode", "mcp", "list", **env)[1])
    _, output = seat.run("opencode", "run", "--format", "json", "go", **env)
    configure(seat.bad)
    shown = seat.run("opencode", "mcp", "list", **env)[1]
    return seat.told(_line("failed", shown) + ": " + _line("error", shown), output)


def copilot_cli(seat: Seat) -> dict[str, Any]:
    def configure(token: str) -> None:
        server: dict[str, Any] = {"type": "http", "url": seat.server.url, "tools": ["*"]}
        server["headers"] = {"Authorization": f"Bearer {token}"}
        seat.write(".copilot/mcp-config.json", {"mcpServers": {"newsroom": server}})

    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{seat.ask_model()}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "gate",
        "COPILOT_OFFLINE": "true",
    }
    go = ("copilot", "-p", "go", "--allow-all-tools", "--disable-builtin-mcps")
    configure(seat.token)
    _, output = seat.run(*go, **env)
    configure(seat.bad)
    seat.run(*go, **env)
    # Nothing is said of the server; the model has none of its tools.
    return seat.told("nothing: the tools are missing", output)


def inspector(seat: Seat) -> dict[str, Any]:
    def ask(method: str, *options: str, token: str = seat.token) -> tuple[int, str]:
        server = {"type": "streamable-http", "url": seat.server.url, "protocolEra": "auto"}
        headers = {"headers": {"Authorization": f"Bearer {token}"}}
        seat.write("inspector.json", {"mcpServers": {"newsroom": {**server, **headers}}})
        return seat.run(
            *("mcp-inspector", "--cli", "--config", str(seat.home / "inspector.json")),
            *("--server", "newsroom", "--stored-auth-only", "--format", "json"),
            *("--method", method, *options),
            MCP_INSPECTOR_SECRET_STORE="memory",
        )

    answer: dict[str, Any] = {"asked": []}
    tools = _result(ask("tools/list")[1])["tools"]
    answer["listed"] = sorted(tool["name"] for tool in tools)

    def show(step: str, tool: str, arguments: dict[str, Any]) -> None:
        options = [f"{name}={json.dumps(each).strip(chr(34))}" for name, each in arguments.items()]
        flags = [part for option in options for part in ("--tool-arg", option)]
        _, output = ask("tools/call", "--tool-name", tool, *flags)
        try:
            content = _result(output)["content"]
        except (ValueError, KeyError):
            answer[step] = {"error": True, "text": output}
        else:
            text = " ".join(block.get("text", "") for block in content)
            answer[step] = {"text": text, "kinds": [block["type"] for block in content]}

    with ThreadPoolExecutor(1) as pool:
        for step, call in seat.steps.items():
            going = pool.submit(show, step, *call)
            while step == "wait" and not going.done() and not seat.approved():
                time.sleep(0.2)
            going.result()
    answer["follows"] = True
    status, output = ask("tools/list", token=seat.bad)
    answer["bad"] = {"error": status != 0, "text": _line('{"error"', output)}
    return answer


def strict_warnings(seat: Seat) -> list[tuple[str, str, str]]:
    """Return the findings of MCP Inspector's check for strict clients: tool, path, issue."""
    headers = {"Authorization": f"Bearer {seat.token}"}
    server = {"type": "streamable-http", "url": seat.server.url, "headers": headers}
    seat.write("inspector.json", {"mcpServers": {"newsroom": server}})
    _, output = seat.run(
        *("mcp-inspector", "--cli", "--config", str(seat.home / "inspector.json")),
        *("--server", "newsroom", "--stored-auth-only", "--format", "json"),
        *("--method", "tools/list", "--strict"),
        MCP_INSPECTOR_SECRET_STORE="memory",
    )
    if "errors, " not in output and "No schema" not in output and '"tools"' not in output:
        raise Failure(f"Inspector has not listed the tools:\n{output[-2000:]}")
    finding = r'^(?:Warning|Error): tool "(\S+)"\n  Path: (\S+)\n  Issue: (.*)'
    return re.findall(finding, output, re.MULTILINE)


def refused_results(seat: Seat, client: str) -> tuple[int, list[tuple[str, str]]]:
    """Return how many tools the official client has called, and those with a refused result."""
    done = subprocess.run(
        [programs(SERVERS) / "node", NODE / "results.mjs", client],
        cwd=ROOT,
        env={"HOME": str(seat.home), "PATH": search_path()},
        input=json.dumps({"url": seat.server.url, "token": seat.token}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise Failure(f"{client} has ended with {done.returncode}: {done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    if not answer["called"]:
        raise Failure(f"{client} has called no tool")
    return answer["called"], [(tool, why) for tool, why in answer["wrong"]]


def driven(environment: str, name: str) -> Callable[[Seat], dict[str, Any]]:
    """Drive a client that is a package, by a program of ours in its environment."""

    def drive(seat: Seat) -> dict[str, Any]:
        if environment in NPM:
            script = HOME / environment / "clients.mjs"
            command = [programs(SERVERS) / "node", script, name]
        else:
            command = [programs(environment) / "python", "-m", "tests.clients.drivers", name]
        plan = {"url": seat.server.url, "token": seat.token, "bad": seat.bad}
        plan |= {"steps": seat.steps, "approval": seat.server.approval(seat.client)}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={
                "HOME": str(seat.home),
                "PATH": search_path(),
                "PYTHONWARNINGS": "ignore",
                "MCP_REMOTE": str(npm_program("mcp-remote")),
            },
            input=json.dumps(plan),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise Failure(f"{seat.client} has ended with {done.returncode}: {done.stderr[-2000:]}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    return drive


def _result(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.JSONDecoder().raw_decode(output, output.index("{"))[0]["result"]
    return found


def _must_say(text: str, output: str) -> None:
    if text not in output:
        raise Failure(f"{text!r} is not in:\n{output[-2000:]}")


def _line(text: str, output: str) -> str:
    """Return the line of an output that contains a text."""
    return next((line.strip() for line in output.splitlines() if text in line), output[-300:])
