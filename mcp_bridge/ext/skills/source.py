"""The source of skills: each is a resource whose variable is the path of one of its files."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, Final

from django.apps import apps

from mcp_bridge.conf import conf
from mcp_bridge.ext.skills.folders import MANIFEST, Folder, files_in, read_folder
from mcp_bridge.features import AccessRule, Feature, ToolCall
from mcp_bridge.features.marks import options_in
from mcp_bridge.features.resources import Resource
from mcp_bridge.features.uris import UriTemplate
from mcp_bridge.protocol import CallToolResult, JSONObject, Revision
from mcp_bridge.protocol.content import EmbeddedResource
from mcp_bridge.protocol.errors import ResourceNotFoundError
from mcp_bridge.sources.base import Source, first_line

# The folder of an app that is searched for skills.
PLACE: Final = "mcp_skills"
# The options of a skill in SKILLS, beside its path.
_OPTIONS: Final = frozenset({"permissions", "public", "scopes", "throttle", "title"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Skill(Resource):
    """A skill; a list of resources names its SKILL.md, and reading takes any of its files."""

    folder: Folder

    @property
    def listing(self) -> str:
        return "resources"

    @property
    def approved_too(self) -> Mapping[str, Any]:
        return {"files": {name: each.shown for name, each in self.folder.files.items()}}

    def uri_of(self, path: str) -> str:
        """Return the URI of a file or folder of the skill."""
        return self.uri.expand({"path": path})

    def definition(self, revision: Revision) -> dict[str, Any]:
        found = {**super().definition(revision), "uri": self.uri_of(MANIFEST)}
        return {name: each for name, each in found.items() if name != "uriTemplate"}

    @cached_property
    def entry(self) -> JSONObject:
        """Its entry in ``skills/list`` (MCP Skills, "Skill Entries")."""
        files = [
            {"uri": self.uri_of(name), "digest": f"sha256:{each.digest}", "size": each.size}
            for name, each in self.folder.files.items()
        ]
        frontmatter = dict(self.folder.frontmatter)
        return {"uri": self.uri_of(MANIFEST), "frontmatter": frontmatter, "resources": files}

    @cached_property
    def entries(self) -> Mapping[str, bytes]:  # type: ignore[override]
        return {"skills": json.dumps(self.entry, ensure_ascii=False).encode()}


class SkillSource(Source):
    """Skills from the folders ``mcp_skills`` of installed apps, and of the setting SKILLS."""

    known_options = {}

    def version(self, generations: Mapping[int, str]) -> Hashable:
        found: list[Hashable] = []
        for name, folder in self._folders():
            try:
                files = files_in(_as_path(folder))
                found += [(name, each, stat.st_mtime_ns, stat.st_size) for each, stat in files]
            except Exception as why:
                found.append((name, repr(why)))
        return tuple(found)

    def tools(self) -> Sequence[Feature]:
        found = dict[str, Feature]()
        folders = [*self._folders()]
        for name, folder in folders:
            try:
                if name in found:
                    raise ValueError("another skill has the same name")
                found[name] = self._skill(name, _as_path(folder))
            except Exception as why:
                # A folder may be as strange as a file system allows.
                self._leave_out(name, folder, first_line(why))
        wanted = {name for name, given in conf.SKILLS.items() if given is not None}
        for name in sorted(wanted.difference(name for name, _ in folders)):
            self._leave_out(name, PLACE, f"no installed app has the folder {PLACE}/{name}")
        return [*found.values()]

    def _leave_out(self, name: str, folder: object, why: str) -> None:
        self.report(
            "W085",
            f"The skill {name!r} ({folder}) is not served: {why}.",
            "Fix its files, or its entry in MCP_BRIDGE['SKILLS'].",
        )

    def _folders(self) -> Iterator[tuple[str, object]]:
        """Yield the folders of skills by name, also what cannot be one."""
        for config in apps.get_app_configs():
            place = Path(config.path, PLACE)
            try:
                folders = sorted(place.iterdir()) if place.is_dir() else []
            except OSError:
                # Reading it reports why.
                folders = [place]
            for folder in folders:
                is_wanted = conf.SKILLS.get(folder.name, {}) is not None
                if is_wanted and folder.is_dir() and not folder.name.startswith((".", "__")):
                    yield folder.name, folder
        for name, given in conf.SKILLS.items():
            if not isinstance(given, Mapping):
                # None leaves it out.
                yield from [(name, given)] if given is not None else ()
            elif "path" in given:
                yield name, given["path"]

    def _skill(self, name: str, folder: Path) -> Skill:
        """Return the skill in a folder. Raises ValueError, OSError and the errors of a mark."""
        given = {key: each for key, each in (conf.SKILLS.get(name) or {}).items() if key != "path"}
        if unknown := given.keys() - _OPTIONS:
            raise TypeError(f"its option {min(unknown)!r} is unknown")
        options = options_in("skill", given)
        read, uri = read_folder(folder), UriTemplate(f"skill://{name}/{{+path}}")
        for path in read.files:
            if uri.match(uri.expand({"path": path})) != {"path": path}:
                raise ValueError(f"the name of its file {path!r} does not fit into a URI")
        return Skill(
            name=name,
            title=options.title,
            description=read.frontmatter["description"],
            mime_type="text/markdown",
            uri=uri,
            folder=read,
            source=str(folder),
            access=AccessRule.of(options.public, options.permissions, None, None, options.scopes),
            options=options,
            is_foreign=conf.NEW_TOOLS == "disabled",
            is_plain=True,
            input_schema={
                "type": "object",
                "properties": {"path": {"type": "string", "enum": [*read.files]}},
                "required": ["path"],
            },
            check=lambda sent: {"path": sent.get("path")},
            invoke=partial(_read, read),
            encode=_encode,
        )


def _read(folder: Folder, call: ToolCall) -> EmbeddedResource:
    """Return a file of a skill. Raises ResourceNotFoundError for one that is not in the list."""
    path = call.arguments["path"]
    contents = folder.read(path)
    if contents is None:
        raise ResourceNotFoundError("")
    return EmbeddedResource("", contents, folder.files[path].media_type)


def _as_path(given: object) -> Path:
    if not isinstance(given, str | PathLike):
        raise TypeError(f"{given!r} is not a path")
    return Path(given)


def _encode(value: Any) -> CallToolResult:
    if isinstance(value, CallToolResult):
        return value
    # An interceptor may return a text.
    is_file = isinstance(value, EmbeddedResource)
    return CallToolResult(content=[value if is_file else EmbeddedResource("", value, "text/plain")])
