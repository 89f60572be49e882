"""Resources and templates of resources, of every source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from mcp_bridge.features.feature import Feature
from mcp_bridge.features.uris import UriTemplate
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource(Feature):
    """
    A resource, or a template of resources (MCP, "Resources").

    Its arguments are the values of the variables of ``uri``, as text. ``mime_type`` is the media
    type of its contents, "" if they decide. ``ttl`` are the seconds for which a client may keep
    what it has read; None: CACHE_TTL.
    """

    kind: ClassVar[str] = "resource"

    uri: UriTemplate
    mime_type: str = ""
    ttl: float | None = None

    @property
    def listing(self) -> str:
        """The member of the list that it is in."""
        return "resourceTemplates" if self.uri.variables else "resources"

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in a list (MCP schema, ``Resource`` or ``ResourceTemplate``)."""
        fields: dict[str, Any] = {
            "uriTemplate" if self.uri.variables else "uri": self.uri.text,
            "name": self.name,
            "title": None if self.title is None else str(self.title),
            "description": str(self.description),
            "mimeType": self.mime_type or None,
            "icons": list(self.icons) or None,
            "_meta": self.meta,
        }
        known = revision.tool_fields | {"uri", "uriTemplate", "mimeType"}
        return {name: each for name, each in fields.items() if each is not None and name in known}


def overlapping(resources: Iterable[Resource]) -> Iterator[tuple[Resource, Resource]]:
    """Yield the pairs of resources that one URI can mean; a fixed URI precedes templates."""
    fixed, templates = dict[str, Resource](), list[Resource]()
    for each in resources:
        if each.uri.variables:
            templates.append(each)
        elif (other := fixed.setdefault(each.uri.text, each)) is not each:
            yield other, each
    yield from (pair for pair in combinations(templates, 2) if pair[0].uri.overlaps(pair[1].uri))
