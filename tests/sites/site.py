"""A site under test: how it is made, and the requirements on it afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

PASSWORD = "a-long-password-7"
USERS = ("reader", "editor", "admin")
OWN = "api_"
"""Prefix of the names of tools that are operations of a site's own interface."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by a user, and a text that its answer contains."""

    user: str
    tool: str
    arguments: dict[str, object]
    contains: str


@dataclass(frozen=True, slots=True)
class Write:
    """
    A call that changes something, and the address where the same user then sees that over HTTP.

    ``seen`` is not in the status and body of GET ``address`` before the call, and is after it.
    """

    user: str
    tool: str
    arguments: dict[str, object]
    address: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """
    The site's own interfaces for programs, of which all operations are served as tools.

    ``values`` are the values of parameters, by name: each is used at least once, the rest with the
    first ones; ``arguments`` are those of single tools instead, by patterns of names. ``differs``
    are patterns of names of tools that answer otherwise than over HTTP, each with the reason;
    ``changing`` are members of answers that change with the time. ``credential`` is code: the
    function ``credential(user)`` returns the META of requests of a user beside the session.
    """

    sources: dict[str, dict[str, object]]
    """The value of MCP_BRIDGE["SOURCES"], whose names all begin with OWN."""
    operations: int
    """Number of the operations."""
    values: dict[str, list[object]] = field(default_factory=dict)
    arguments: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    differs: dict[str, str] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    credential: str = "def credential(user): return {}"
    warned: frozenset[str] = frozenset({"W002"})
    """Ids of the checks that report on it: at least that of operations without a description."""
    pages: tuple[str, ...] = ()
    """Addresses as those of the site, asked for with the name and password of the owner."""
    calls: tuple[Call, ...] = ()
    """Calls through the official client."""
    confirmed: tuple[Call, ...] = ()
    """Calls that ask their user first."""
    refused: tuple[Call, ...] = ()
    """Calls that the site refuses; the text is its own."""
    writes: tuple[Write, ...] = ()


def rest_framework(*credentials: str) -> dict[str, object]:
    """Return a source of all views of a site: views that handle credentials are listed by name."""
    return {
        "BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource",
        "OPTIONS": {"views": {"*": {}, **dict.fromkeys(credentials, {})}, "prefix": OWN},
    }


UNMARKED: dict[str, object] = {
    "BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource",
    "OPTIONS": {"prefix": OWN},
}
"""The views of a site that is served with EXPOSE = "all"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """
    A site that was written without the bridge.

    ``create`` are the commands that make it in an empty folder, ``settings`` and ``urls`` the files
    there to which the library's own installation page, and then the bridge's, add lines. ``apps``
    are its own models, ``seed`` makes the three users and some content, ``procedures`` holds the
    ten tools, if the site gets any: files of this folder. Sites with the same ``requirements`` have
    one environment.
    """

    name: str
    requirements: str = "requirements.txt"
    create: tuple[tuple[str, ...], ...]
    settings: str = "site_/settings.py"
    urls: str = "site_/urls.py"
    own_settings: str = ""
    own_urls: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """Further files of the site, by name."""
    apps: dict[str, str] = field(default_factory=dict)
    seed: str
    procedures: str = ""
    bridge: dict[str, object] = field(default_factory=dict)
    """Settings of MCP_BRIDGE beside SOURCES."""
    token_url: str | None = None
    """Address at which the site issues credentials; None if they are the bridge's tokens."""
    token_key: str = ""
    scheme: str = "Bearer"
    names: dict[str, str] = field(default_factory=lambda: {user: user for user in USERS})
    """The name that each user logs in with."""
    pages: tuple[str, ...]
    """Addresses that must answer as before, byte for byte."""
    changing_headers: frozenset[str] = frozenset({"date", "connection"})
    """Headers of these pages that differ between any two answers."""
    listed: dict[str, set[str]] = field(default_factory=lambda: {user: set() for user in USERS})
    """The tools that each user sees, but for those of the interface."""
    calls: tuple[Call, ...] = ()
    publish: Call | None = None
    """A call that asks its user first, by a tool marked ``confirm``."""
    interface: Interface | None = None
    admins: dict[str, str] = field(default_factory=dict)
    """The files ``admin.py`` of ``apps``, by app."""
    compares_admin: bool = False
    """Whether the tools of its admin are compared with the pages."""
    env: dict[str, str] = field(default_factory=dict)


class Database:
    """A separate PostgreSQL database of a site, beside the one in MCP_BRIDGE_TEST_DATABASE_URL."""

    def __init__(self, name: str) -> None:
        code = f"""
import os
import psycopg

with psycopg.connect(os.environ["SITE_DATABASE_URL"], autocommit=True) as connection:
    connection.execute("DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    connection.execute("CREATE DATABASE {name}")
"""
        self.create = ("python", "-c", code)
        self.settings = f"""
import os
import dj_database_url
DATABASES = {{"default": dj_database_url.parse(os.environ["SITE_DATABASE_URL"])}}
DATABASES["default"]["NAME"] = "{name}"
"""
        self.env = {"SITE_DATABASE_URL": os.environ.get("MCP_BRIDGE_TEST_DATABASE_URL", "")}


STARTPROJECT = (("django-admin", "startproject", "site_", "."),)
