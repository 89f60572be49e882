"""What people enter in each client so that it reaches this site; docs/clients/ says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Template
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf

# In place of a secret that is not shown (again).
TOKEN: Final = "TOKEN"


class _Text(Template):
    # JSON and shells have uses of their own for "$".
    delimiter = "@"


class Step(NamedTuple):
    """One thing to do: ``code`` is what to enter, ``where`` is where, in words."""

    where: str | Promise
    code: str


@dataclass(frozen=True, slots=True)
class Client:
    """
    A client, and the steps that connect it.

    Those with ``token`` send one; those with ``login`` have the user log in, where a site lets
    clients do that; either is empty where the client cannot. In both, ``@url``, ``@name``,
    ``@token`` and ``@variable`` stand for what a Connection has.
    """

    key: str
    title: str
    token: tuple[Step, ...] = ()
    login: tuple[Step, ...] = ()


_TERMINAL: Final = _("In a terminal:")

CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        "claude-code",
        "Claude Code",
        token=(
            Step(
                _TERMINAL,
                "claude mcp add --transport http @name @url "
                '--header "Authorization: Bearer @token"\nclaude mcp get @name',
            ),
        ),
        login=(
            Step(_TERMINAL, "claude mcp add --transport http @name @url\nclaude mcp login @name"),
        ),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        token=(
            Step(
                _("In claude_desktop_config.json (Settings › Developer › Edit Config):"),
                """\
{"mcpServers": {"@name": {
  "command": "npx",
  "args": ["mcp-remote", "@url", "--header", "Authorization:${AUTH}"],
  "env": {"AUTH": "Bearer @token"}
}}}""",
            ),
        ),
        login=(
            Step(_("In Settings › Connectors › Add custom connector, as the address:"), "@url"),
        ),
    ),
    Client(
        "cursor",
        "Cursor",
        token=(
            Step(
                _("In .cursor/mcp.json of a project, or in ~/.cursor/mcp.json:"),
                """\
{"mcpServers": {"@name": {
  "url": "@url",
  "headers": {"Authorization": "Bearer ${env:@variable}"}
}}}""",
            ),
            Step(_("In the environment that Cursor is started with:"), "@variable=@token"),
        ),
        login=(
            Step(
                _("In .cursor/mcp.json of a project, or in ~/.cursor/mcp.json:"),
                '{"mcpServers": {"@name": {"url": "@url"}}}',
            ),
        ),
    ),
    Client(
        "vs-code",
        "VS Code",
        token=(
            Step(
                _("In .vscode/mcp.json:"),
                """\
{
  "inputs": [
    {"type": "promptString", "id": "token", "description": "@name token", "password": true}
  ],
  "servers": {"@name": {
    "type": "http",
    "url": "@url",
    "headers": {"Authorization": "Bearer ${input:token}"}
  }}
}""",
            ),
            Step(_("What VS Code asks for when it first starts the server:"), "@token"),
        ),
        login=(
            Step(
                _("In .vscode/mcp.json:"), '{"servers": {"@name": {"type": "http", "url": "@url"}}}'
            ),
        ),
    ),
    Client(
        "codex",
        "Codex CLI",
        token=(
            Step(
                _("In ~/.codex/config.toml:"),
                """\
[mcp_servers.@name]
url = "@url"
bearer_token_env_var = "@variable\"""",
            ),
            Step(_TERMINAL, "@variable=@token codex"),
        ),
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        token=(
            Step(
                _("In ~/.gemini/settings.json:"),
                """\
{"mcpServers": {"@name": {
  "httpUrl": "@url",
  "headers": {"Authorization": "Bearer @token"}
}}}""",
            ),
            Step(_TERMINAL, "gemini mcp list"),
        ),
    ),
    Client(
        "inspector",
        "MCP Inspector",
        token=(
            Step(
                _("In a file inspector.json:"),
                """\
{"mcpServers": {"@name": {
  "type": "streamable-http",
  "url": "@url",
  "protocolEra": "auto",
  "headers": {"Authorization": "Bearer @token"}
}}}""",
            ),
            Step(
                _TERMINAL,
                "npx @@modelcontextprotocol/inspector --cli --config inspector.json "
                "--server @name --method tools/list --strict",
            ),
        ),
    ),
    Client(
        "curl",
        "curl",
        token=(Step(_TERMINAL, 'curl @url/tools/list -H "Authorization: Bearer @token"'),),
    ),
)


@dataclass(frozen=True)
class Connection:
    """
    A way to this site: the address of the endpoint, and the secret of a token.

    ``TOKEN`` stands for a secret that is not known; without any, clients have their users log in.
    """

    url: str
    secret: str = ""

    @cached_property
    def values(self) -> Mapping[str, str]:
        """
        What the texts of the clients leave open.

        The name is that of SERVER_INFO, or else the host, as clients take it: a-z, 0-9 and hyphens.
        """
        given = conf.SERVER_INFO.get("name") or urlsplit(self.url).hostname
        name = re.sub(r"[^a-z0-9]+", "-", str(given).lower()).strip("-") or "site"
        # A variable of a shell begins with a letter.
        name = f"site-{name}" if name[0].isdecimal() else name
        variable = f"{name.upper().replace('-', '_')}_TOKEN"
        return {"url": self.url, "name": name, "token": self.secret, "variable": variable}

    @property
    def clients(self) -> list[tuple[Client, list[Step]]]:
        """The clients that can take this way, each with its steps, in which nothing is open."""
        found = [(each, each.token if self.secret else each.login) for each in CLIENTS]
        return [
            (client, [Step(where, _Text(code).substitute(self.values)) for where, code in steps])
            for client, steps in found
            if steps
        ]


def endpoint_url(request: HttpRequest) -> str:
    """
    Return the address of the endpoint as clients of this site have it: RESOURCE, where it is set.

    Empty where the site has given the endpoint's view another name than that of mcp_bridge.urls.
    """
    try:
        return conf.RESOURCE or request.build_absolute_uri(reverse("mcp"))
    except NoReverseMatch:
        return ""
