"""The source of the tools of remote servers, which are rows and never asked for when listed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, router
from django.db.models import Prefetch

from mcp_bridge.calls.arguments import plain_checker
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.models import Generation
from mcp_bridge.protocol import JSONObject, Revision
from mcp_bridge.registry.registry import has_database
from mcp_bridge.remote.definitions import annotations_in, enforced_schema
from mcp_bridge.remote.models import RemoteHeader, RemoteServer, RemoteTool
from mcp_bridge.schemas import header_parameters
from mcp_bridge.sources.base import Source

if TYPE_CHECKING:
    from mcp_bridge.remote.gateway import Gateway

# Members of definitions for what is not relayed: tasks (MCP 2025-11-25).
_NOT_RELAYED: Final = frozenset({"execution"})
# Members that not all revisions have; any other is sent to every client.
_BY_REVISION: Final = frozenset({"title", "outputSchema", "annotations", "icons", "_meta"})


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignTool(Tool):
    """A tool of a remote server; ``given`` is its definition there, sent with all its members."""

    given: JSONObject = field(default_factory=dict)

    def definition(self, revision: Revision) -> dict[str, Any]:
        own = Tool.definition(self, revision)
        output = self.given.get("outputSchema")
        if not revision.modern and isinstance(output, Mapping) and output.get("type") != "object":
            # Legacy clients refuse a list with such a schema.
            own.pop("outputSchema", None)
        skipped = _NOT_RELAYED | _BY_REVISION | own.keys()
        others = {name: each for name, each in self.given.items() if name not in skipped}
        return {**own, **others}


class RemoteSource(Source):
    """
    The tools of the rows of RemoteTool, as candidates that an administrator enables.

    It is a source of every site with mcp_bridge.remote in INSTALLED_APPS.
    """

    is_outside = True
    known_options = {}

    def version(self, generations: Mapping[int, str]) -> Hashable:
        return generations.get(Generation.SOURCES, "")

    def tools(self) -> Sequence[Tool]:
        if not has_database():
            return []
        try:
            from mcp_bridge.remote.gateway import gateway_of
        except ImportError:
            # A check reports the missing package (checks.check_remote).
            return []
        # Not from a replica, which may be behind the generation.
        using = router.db_for_write(RemoteServer)
        offered = RemoteTool.objects.using(using).filter(gone=False, reason="")
        headers = Prefetch("headers", queryset=RemoteHeader.objects.using(using))
        servers = (
            RemoteServer.objects.using(using)
            .filter(enabled=True)
            .prefetch_related(headers, Prefetch("tools", queryset=offered))
        )
        return [
            self._candidate(gateway_of(server), row)
            for server in servers
            for row in server.tools.all()
        ]

    def check_no_tools(self) -> Sequence[Any]:
        # A new site does not have servers.
        return []

    def _candidate(self, gateway: Gateway, row: RemoteTool) -> Tool:
        server, given = gateway.server, row.members
        shown: dict[str, Any] = {
            "name": row.name,
            "title": _text(given.get("title")),
            "description": _text(given.get("description")) or "",
            "annotations": annotations_in(given),
            "source": f"{server.name}: {row.remote_name}",
            "target": f"{row.remote_name} at {server.url}",
            "is_foreign": True,
            "is_marked": False,
            "source_alias": self.alias,
            "access": AccessRule.of(False, (), None, None, ()),
        }
        return Tool(build=partial(self._tool, gateway, row, given, shown), **shown)

    def _tool(
        self, gateway: Gateway, row: RemoteTool, given: JSONObject, shown: Mapping[str, Any]
    ) -> Tool:
        from mcp_bridge.remote.calling import call_tool

        icons, meta = given.get("icons"), given.get("_meta")
        schema = given["inputSchema"]
        return ForeignTool(
            **shown,
            given=given,
            input_schema=schema,
            output_schema=given.get("outputSchema"),
            icons=tuple(icons) if isinstance(icons, list) else (),
            meta=meta if isinstance(meta, dict) else None,
            headers=header_parameters(schema),
            check=plain_checker(enforced_schema(schema), asserts_formats=False),
            invoke=partial(call_tool, gateway, row.remote_name),
            encode=lambda result: result,
            may_elicit=True,
            # It does not write to databases, and transactions must not wait for another server.
            non_atomic=frozenset(connections),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
