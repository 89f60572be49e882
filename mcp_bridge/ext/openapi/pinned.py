"""Cut an OpenAPI document to the operations that a site has chosen and all they refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final, cast
from urllib.parse import unquote

from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import quoted
from mcp_bridge.schemas.openapi import nested
from mcp_bridge.sources.operations.read import METHODS, Document, Operation, Unmappable

# Far more than real documents have; few bytes of YAML can expand to very many values.
_MAX_VALUES: Final = 2_000_000
# The members of a document that are kept; "servers" is omitted since it would mislead.
_KEPT: Final = ("openapi", "info", "security")
_SCALARS: Final = (str, bool, int, float)
# Members whose values are data without references.
_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
# Members that map arbitrary names, so that "default" may be one of them.
_NAMED: Final = frozenset(
    {"$defs", "callbacks", "content", "definitions", "dependentSchemas", "encoding", "headers"}
    | {"links", "parameters", "patternProperties", "properties", "responses"}
)
# Those in which names that begin with "x-" are extensions.
_EXTENDED: Final = frozenset({"callbacks", "responses"})
# The key in the components for parts from elsewhere in the document.
_MOVED: Final = "x-moved"


class Cut:
    """
    The chosen operations of a document, with everything that they refer to in it.

    References are followed only from the chosen operations, and never from extensions, examples and
    other data. ``data`` is the document, ``missing`` are sentences about unresolved references.
    Raises ValueError for a document that is invalid, is too large, or refers to other documents.
    """

    def __init__(self, given: object, chooses: Callable[[Operation], bool]) -> None:
        # Raises for an unknown or missing version.
        self._document = Document(given if isinstance(given, dict) else {})
        self.missing: list[str] = []
        self._values = 0
        # The places in the components to be filled, each with its reference.
        self._waiting: list[tuple[tuple[str, str], str]] = []
        whole = self._document.data
        kept = {name: self._copy(whole[name], is_data=True) for name in _KEPT if name in whole}
        paths = dict(self._paths(chooses))
        filled: dict[str, dict[str, object]] = {}
        if schemes := nested(nested(whole, "components"), "securitySchemes"):
            # All of them, used or not.
            copies = {str(name): self._copy(each) for name, each in schemes.items()}
            filled["securitySchemes"] = copies
        done = set[tuple[str, str]]()
        while self._waiting:
            place, reference = self._waiting.pop()
            if place not in done:
                done.add(place)
                # A missing component is reported by the operation that needs it.
                with suppress(Unmappable):
                    copied = self._copy(self._document.target(reference))
                    filled.setdefault(place[0], {})[place[1]] = copied
        self.data: dict[str, object] = {**kept, "paths": paths, "components": filled}

    def _paths(
        self, chooses: Callable[[Operation], bool]
    ) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield each path that has chosen operations, with only those."""
        for path, entry in self._document.data.get("paths", {}).items():
            if str(path).startswith("x-"):
                continue
            if isinstance(entry, Mapping):
                _refuse_outside(entry.get("$ref"))
            try:
                item = self._document.resolve(entry, is_item=True)
            except Unmappable as why:
                self.missing.append(f"the path {quoted(str(path))} cannot be read: {why}")
                continue
            chosen = {
                name: self._copy(item[name])
                for name in METHODS
                if name in item and chooses(_outline(name, str(path), item[name]))
            }
            if chosen:
                shared = {name: item[name] for name in item.keys() - {*METHODS, "$ref"}}
                yield str(path), cast("dict[str, object]", self._copy(shared)) | chosen

    def _copy(self, value: object, among: str = "", *, is_data: bool = False) -> object:
        """Return a copy; data does not have references. ``among`` is a member of _NAMED, or ""."""
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_VALUES} values")
        if isinstance(value, list):
            return [self._copy(each, is_data=is_data) for each in value]
        if not isinstance(value, dict):
            # YAML has more types than JSON.
            return value if value is None or isinstance(value, _SCALARS) else str(value)
        result: dict[str, object] = {}
        for name, each in ((str(key), each) for key, each in value.items()):
            is_extension = name.startswith("x-") and (not among or among in _EXTENDED)
            holds_data = is_data or is_extension or (name in _DATA and not among)
            below = name if name in _NAMED and not among else ""
            result[name] = self._copy(each, "" if holds_data else below, is_data=holds_data)
        reference = value.get("$ref")
        if isinstance(reference, str) and not among and not is_data:
            _refuse_outside(reference)
            result["$ref"] = self._place(reference)
        return result

    def _place(self, reference: str) -> str:
        """Return the reference in the cut document to the target of a reference."""
        parts = unquote(reference).split("/")
        if parts[:2] == ["#", "components"] and len(parts) > 3:
            kind, name = (each.replace("~1", "/").replace("~0", "~") for each in parts[2:4])
            self._waiting.append(((kind, name), "/".join(reference.split("/")[:4])))
            return reference
        try:
            self._document.target(reference)
        except Unmappable:
            self.missing.append(f"{quoted(reference)} does not exist")
            return reference
        last = re.sub(r"[^A-Za-z0-9_-]+", "_", parts[-1])
        name = f"{last[:40]}_{sha256(reference.encode()).hexdigest()[:8]}"
        self._waiting.append(((_MOVED, name), reference))
        return f"#/components/{_MOVED}/{name}"


def _refuse_outside(reference: object) -> None:
    if isinstance(reference, str) and not reference.startswith("#"):
        raise ValueError(
            f"it refers to {quoted(reference)}, in another document: bundle them first, for "
            "example with npx @redocly/cli bundle FILE -o ONE.json"
        )


def _outline(method: str, path: str, data: object) -> Operation:
    """Return an operation with only the members that patterns match."""
    given: JSONObject = data if isinstance(data, Mapping) else {}
    outline = {name: given[name] for name in ("operationId", "tags", "deprecated") if name in given}
    item = {method: outline}
    return Document({"openapi": "3.0.0", "paths": {path: item}}).operation(method, path)
