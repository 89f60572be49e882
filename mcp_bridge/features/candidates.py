"""Candidates: operations of a site that nobody has marked, which an administrator may switch on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.features.tools import AccessRule, Tool


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """
    An operation that is a tool once an administrator has switched it on, whatever NEW_TOOLS says.

    Making one is cheap: it reads no schema and asks no database. ``build`` makes the tool, whose
    ``name`` and ``annotations`` are the candidate's, when it is first shown or switched on. It may
    ask the database. It raises any exception where there can be no tool, with the reason as its
    first line, for administrators; a failure is not kept, and ``build`` is called again later.

    ``members`` are the names of arguments, and of members of the arguments and the result, as far
    as they are known without building. An operation is no candidate where one of these names, or
    its own, is that of a secret; nor is one whose tool has a secret in its schemas. Where the
    result has no schema, the source says by ``members``, or by raising in ``build``, that it holds
    secrets (see ``mcp_bridge.sources.secrets``).
    """

    name: str
    build: Callable[[], Tool]
    # One sentence on what it does, which may be a lazy translation.
    summary: Any = ""
    # The label of the app that it belongs to.
    app: str = ""
    # The hints that are known, by their names in MCP's ToolAnnotations.
    annotations: Mapping[str, bool] = field(default_factory=dict)
    # Who may use it, in a few words, which may be a lazy translation: "authenticated users",
    # "shop.view_order". Commands print it, untranslated.
    who: Any = ""
    # The same as a rule, which the admin says in the words of people; where there is none, ``who``.
    access: AccessRule | None = None
    members: frozenset[str] = frozenset()
    # Where it is defined, and the function or view, as those of a Tool.
    source: str = ""
    function: str = ""
