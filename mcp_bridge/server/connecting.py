"""Settings that connect each MCP client to this site; docs/clients/ has the same."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mcp_bridge.conf import conf

# Placeholder for a secret that is not shown (again).
TOKEN: Final = "TOKEN"


class _Text(Template):
    # JSON and shells use "$" themselves.
    delimiter = "@"


class Step(NamedTuple):
    """One step: ``code`` is what to enter, ``where`` says in words where to enter it."""

    where: str | Promise
    code: str


@dataclass(frozen=True, slots=True)
class Client:
    """
    An MCP client and the steps that connect it.

    The steps in ``token`` send a token; those in ``login`` let the user log in, if the site
    supports that; those in ``stdio`` start the site as a command. Each is empty if the client does
    not support it. In all, ``@url``, ``@name`` and so on become the values of a Connection.
    """

    key: str
    title: str
    token: tuple[Step, ...] = ()
    login: tuple[Step, ...] = ()
    stdio: tuple[Step, ...] = ()
    install: str = ""


class Way(NamedTuple):
    """How a client connects, in steps or by one link; empty if it cannot."""

    client: Client
    login: list[Step]
    token: list[Step]
    stdio: list[Step]
    install: str


# Where to enter a step, by the names that clients.toml uses.
_WHERE: Final = {
    "terminal": _("In a terminal:"),
    "Claude Desktop": _("In claude_desktop_config.json (Settings › Developer › Edit Config):"),
    "connectors": _("In Settings › Connectors › Add custom connector, as the address:"),
    "mcp.json of Cursor": _("In .cursor/mcp.json of a project, or in ~/.cursor/mcp.json:"),
    "environment of Cursor": _("In the environment that Cursor is started with:"),
    "mcp.json of VS Code": _("In .vscode/mcp.json:"),
    "question of VS Code": _("When VS Code first starts the server and asks for the token:"),
    "config.toml": _("In ~/.codex/config.toml:"),
    "settings.json": _("In ~/.gemini/settings.json:"),
    "inspector.json": _("In a file inspector.json:"),
}


def _read() -> Iterator[Client]:
    """Yield the clients of clients.toml."""
    for client in tomllib.loads(files(__package__).joinpath("clients.toml").read_text())["client"]:
        token, login, stdio = (
            tuple(Step(_WHERE[each["where"]], each["code"].strip()) for each in client.get(way, ()))
            for way in ("token", "login", "stdio")
        )
        install = client.get("install", "")
        yield Client(client["key"], client["title"], token, login, stdio, install)


CLIENTS: Final = tuple(_read())


@dataclass(frozen=True)
class Connection:
    """
    A connection to this site: the address of the endpoint, the secret of a token, and the log-in.

    ``TOKEN`` is for a secret that is not known, "" for no token. ``has_login`` says whether clients
    have their users log in: by default if the site has AUTHORIZATION_SERVERS. ``user`` is the
    caller of a client that starts the site as a command, ``settings`` the module of its settings
    if that is not the one in manage.py.
    """

    url: str
    secret: str = ""
    has_login: bool = field(default_factory=lambda: bool(conf.AUTHORIZATION_SERVERS))
    user: str = "USER"
    settings: str = ""

    @cached_property
    def values(self) -> Mapping[str, str]:
        """
        The values of the placeholders in clients.toml.

        The name is that of SERVER_INFO or else the host, reduced to a-z, 0-9 and hyphens.
        """
        given = conf.SERVER_INFO.get("name") or urlsplit(self.url).hostname
        name = re.sub(r"[^a-z0-9]+", "-", str(given).lower()).strip("-") or "site"
        # Shell variables cannot begin with a digit.
        name = f"site-{name}" if name[0].isdecimal() else name
        variable = f"{name.upper().replace('-', '_')}_TOKEN"
        manage = Path(sys.argv[0]) if sys.argv[0].endswith("manage.py") else Path("manage.py")
        command = {"python": Path(sys.executable).as_posix(), "manage": manage.resolve().as_posix()}
        named = {"url": self.url, "name": name, "token": self.secret, "variable": variable}
        given = ["--settings", self.settings] if self.settings else []
        options = "".join(f" {each}" for each in given)
        quoted = "".join(f', "{each}"' for each in given)
        return {**named, **command, "user": self.user, "options": options, "quoted": quoted}

    @property
    def clients(self) -> list[Way]:
        """The clients that can connect, each with its steps, complete."""
        return [each for each in self._ways if each.login or each.token]

    @property
    def commands(self) -> list[Way]:
        """The clients that can start the site as a command, with these steps alone."""
        return [each._replace(login=[], token=[]) for each in self._ways if each.stdio]

    @cached_property
    def _ways(self) -> list[Way]:
        ways = []
        for client in CLIENTS:
            possible = client.login * self.has_login, client.token * bool(self.secret), client.stdio
            login, token, stdio = (
                [Step(where, _Text(code).substitute(self.values)) for where, code in steps]
                for steps in possible
            )
            steps = login or token
            install = self._install(client, steps[0].code) if steps else ""
            ways.append(Way(client, login, token, stdio, install))
        return ways

    def _install(self, client: Client, code: str) -> str:
        """Return the link that adds the server of a configuration file to its client, or ""."""
        if not client.install:
            return ""
        found: dict[str, Any] = json.loads(code)
        (server,) = found.pop("servers", found.pop("mcpServers", {})).values()
        named = json.dumps({"name": self.values["name"], **server, **found})
        encoded = quote(b64encode(json.dumps(server).encode()), safe="")
        return _Text(client.install).substitute(self.values, base64=encoded, quoted=quote(named))


def endpoint_url(request: HttpRequest) -> str:
    """
    Return the address of the endpoint for this site's clients: RESOURCE if it is set.

    "" if the site gave the endpoint's view a name other than that in mcp_bridge.urls.
    """
    try:
        return conf.RESOURCE or request.build_absolute_uri(reverse("mcp"))
    except NoReverseMatch:
        return ""
