"""What people enter in each client so that it reaches this site; docs/clients/ says the same."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
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


# Where to enter something, by what clients.toml calls it.
_WHERE: Final = {
    "terminal": _("In a terminal:"),
    "Claude Desktop": _("In claude_desktop_config.json (Settings › Developer › Edit Config):"),
    "connectors": _("In Settings › Connectors › Add custom connector, as the address:"),
    "mcp.json of Cursor": _("In .cursor/mcp.json of a project, or in ~/.cursor/mcp.json:"),
    "environment of Cursor": _("In the environment that Cursor is started with:"),
    "mcp.json of VS Code": _("In .vscode/mcp.json:"),
    "question of VS Code": _("What VS Code asks for when it first starts the server:"),
    "config.toml": _("In ~/.codex/config.toml:"),
    "settings.json": _("In ~/.gemini/settings.json:"),
    "inspector.json": _("In a file inspector.json:"),
}


def _read() -> Iterator[Client]:
    """Yield the clients of clients.toml."""
    for client in tomllib.loads(files(__package__).joinpath("clients.toml").read_text())["client"]:
        token, login = (
            tuple(Step(_WHERE[each["where"]], each["code"].strip()) for each in steps)
            for steps in (client.get("token", ()), client.get("login", ()))
        )
        yield Client(client["key"], client["title"], token, login)


CLIENTS: Final = tuple(_read())


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
