"""An OpenAPI document cut to the operations that a site has chosen, and all they refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import quoted
from mcp_bridge.sources.operations.read import METHODS, Document, Operation, look_up

# Far more than any document has: YAML can write few bytes that mean very many.
_MAX_VALUES: Final = 2_000_000
# More references between path items than this are a circle.
_MAX_HOPS: Final = 32
# The members of a document that stay; of those left out, "servers" is the one that misleads.
_KEPT: Final = ("openapi", "info", "security")
_SCALARS: Final = (str, bool, int, float)
# Members whose values are data and hold no references.
_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
# Members that map names of the author's choice, so that "default" may be one of them.
_NAMED: Final = frozenset(
    {"$defs", "callbacks", "content", "definitions", "dependentSchemas", "encoding", "headers"}
    | {"links", "parameters", "patternProperties", "properties", "responses"}
)
# Those of them in which a name that begins with "x-" is an extension.
_EXTENDED: Final = frozenset({"callbacks", "responses"})
# Where in the components that stands which was somewhere else.
_MOVED: Final = "x-moved"


class Bundle:
    """
    The chosen operations of a document, with all that they refer to in it and in other documents.

    ``load`` returns a document by its address. References are followed from the chosen operations
    alone, and never from extensions, examples and other data. ``data`` is the document, and
    ``missing`` has sentences on the references that lead nowhere. Raises ValueError for a document
    that is none or is too large, and what ``load`` raises.
    """

    def __init__(
        self,
        address: str,
        data: object,
        load: Callable[[str], object],
        chooses: Callable[[Operation], bool],
    ) -> None:
        given: JSONObject = data if isinstance(data, dict) else {}
        # Raises for another version, or for none.
        Document(given)
        self.address = address
        self.missing: list[str] = []
        self._load = load
        self._documents = {address: data}
        self._names: dict[str, str] = {}
        self._values = 0
        # The places in the components that are still to be filled, each with its reference.
        self._waiting: list[tuple[tuple[str, str], str]] = []
        kept = {name: self._plain(given[name]) for name in _KEPT if name in given}
        paths = dict(self._paths(given, chooses))
        filled: dict[str, dict[str, object]] = {}
        if schemes := self._schemes(given):
            filled["securitySchemes"] = schemes
        done = set[tuple[str, str]]()
        while self._waiting:
            place, reference = self._waiting.pop()
            where, fragment = urldefrag(reference)
            if place not in done:
                done.add(place)
                # A missing component is reported by the operation that needs it.
                with suppress(LookupError):
                    copied = self._copy(self._target(where, fragment), where)
                    filled.setdefault(place[0], {})[place[1]] = copied
        self.data: dict[str, object] = {**kept, "paths": paths, "components": filled}

    def _paths(
        self, given: JSONObject, chooses: Callable[[Operation], bool]
    ) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield each path that has chosen operations, with only those."""
        for path, entry in given.get("paths", {}).items():
            if str(path).startswith("x-"):
                continue
            # Members, each with the address of the document that it is in.
            item: dict[str, tuple[object, str]] = {}
            try:
                for part, where in self._item(entry):
                    item = {str(name): (each, where) for name, each in part.items()} | item
            except (LookupError, ValueError) as why:
                self.missing.append(f"the path {quoted(str(path))} cannot be read: {why}")
                continue
            chosen = {
                name: self._copy(*item[name])
                for name in METHODS
                if name in item and chooses(_outline(name, str(path), item[name][0]))
            }
            if chosen:
                shared = item.keys() - {*METHODS, "$ref"}
                yield str(path), {name: self._member(name, *item[name]) for name in shared} | chosen

    def _item(self, entry: object) -> Iterator[tuple[JSONObject, str]]:
        """Yield a path item, and those that it refers to, with the addresses of their documents."""
        where = self.address
        for _ in range(_MAX_HOPS):
            if not isinstance(entry, Mapping):
                raise ValueError("it is no object")
            yield entry, where
            reference = entry.get("$ref")
            if not isinstance(reference, str):
                return
            where, fragment = urldefrag(urljoin(where, reference))
            try:
                entry = self._target(where, fragment)
            except LookupError:
                raise LookupError(f"{quoted(reference)} leads nowhere") from None
        raise ValueError("its references lead round in a circle")

    def _schemes(self, given: JSONObject) -> dict[str, object]:
        """Return the security schemes of the document, used or not."""
        parts = given.get("components")
        schemes = parts.get("securitySchemes") if isinstance(parts, Mapping) else None
        copied = {}
        for name, each in (schemes if isinstance(schemes, Mapping) else {}).items():
            with suppress(ValueError):
                copied[str(name)] = self._copy(each, self.address)
        return copied

    def _copy(self, value: object, address: str, among: str = "") -> object:
        """Return a copy of a value; ``among`` is the member of _NAMED that it is, if it is one."""
        if isinstance(value, list):
            self._count()
            return [self._copy(each, address) for each in value]
        if not isinstance(value, dict):
            return self._plain(value)
        self._count()
        result = {
            str(name): self._member(str(name), each, address, among) for name, each in value.items()
        }
        reference = value.get("$ref")
        if isinstance(reference, str) and not among:
            result["$ref"] = self._place(urljoin(address, reference), reference)
        return result

    def _member(self, name: str, value: object, address: str, among: str = "") -> object:
        is_extension = name.startswith("x-") and (not among or among in _EXTENDED)
        if is_extension or (name in _DATA and not among):
            return self._plain(value)
        return self._copy(value, address, name if name in _NAMED and not among else "")

    def _plain(self, value: object) -> object:
        """Return a copy of data, in which nothing is a reference."""
        self._count()
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, dict):
            return {str(name): self._plain(each) for name, each in value.items()}
        # YAML has more kinds of values than JSON.
        return value if value is None or isinstance(value, _SCALARS) else str(value)

    def _count(self) -> None:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_VALUES} values")

    def _place(self, absolute: str, written: str) -> str:
        """Return the reference in this document to what an absolute one leads to."""
        where, fragment = urldefrag(absolute)
        parts = unquote(fragment).split("/")
        if where == self.address and parts[1:2] == ["components"] and len(parts) > 3:
            kind, name = (each.replace("~1", "/").replace("~0", "~") for each in parts[2:4])
            whole = "/".join(fragment.split("/")[:4])
            self._waiting.append(((kind, name), f"{where}#{whole}"))
            return f"#{fragment}"
        if absolute not in self._names:
            try:
                self._target(where, fragment)
            except LookupError:
                self.missing.append(f"{quoted(written)} leads nowhere")
                return written
            last = re.sub(r"[^A-Za-z0-9_-]+", "_", unquote(absolute.rpartition("/")[2]))
            # By its place from here, so that the name is the same on every machine.
            place = where.removeprefix(self.address.rpartition("/")[0])
            digest = sha256(f"{place}#{fragment}".encode()).hexdigest()
            self._names[absolute] = name = f"{last[:40]}_{digest[:8]}"
            self._waiting.append(((_MOVED, name), absolute))
        return f"#/components/{_MOVED}/{self._names[absolute]}"

    def _target(self, where: str, fragment: str) -> object:
        if where not in self._documents:
            self._documents[where] = self._load(where)
        return look_up(self._documents[where], f"#{fragment}")


def _outline(method: str, path: str, data: object) -> Operation:
    """Return an operation with the members that patterns choose it by."""
    given: JSONObject = data if isinstance(data, Mapping) else {}
    outline = {name: given[name] for name in ("operationId", "tags", "deprecated") if name in given}
    item = {method: outline}
    return Document({"openapi": "3.0.0", "paths": {path: item}}).operation(method, path)
