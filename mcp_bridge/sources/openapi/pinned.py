"""An OpenAPI document cut to the operations that a site has chosen, and all they refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import quoted
from mcp_bridge.sources.operations.read import METHODS, Document, Operation, look_up

# Far more than any document has: YAML can write few bytes that mean very many.
_MAX_VALUES: Final = 2_000_000
# The members of a document that stay; of those left out, "servers" is the one that misleads.
_KEPT: Final = ("openapi", "info", "security")
_SCALARS: Final = (str, bool, int, float)
# Where in the components that stands which was somewhere else.
_MOVED: Final = "x-moved"


class Bundle:
    """
    A document with all that it refers to in other documents, which ``load`` returns by address.

    ``missing`` are the references that lead nowhere. Raises ValueError for a document that is too
    large, and what ``load`` raises.
    """

    def __init__(self, address: str, data: object, load: Callable[[str], object]) -> None:
        self.address = address
        self.missing: list[str] = []
        self._load = load
        self._documents = {address: data}
        self._names: dict[str, str] = {}
        self._values = 0
        self._waiting: list[tuple[str, str]] = []
        copied = self._copy(data, address)
        self.data: dict[str, object] = copied if isinstance(copied, dict) else {}
        moved: dict[str, object] = {}
        while self._waiting:
            name, reference = self._waiting.pop()
            where, fragment = urldefrag(reference)
            moved[name] = self._copy(self._target(where, fragment), where)
        if moved:
            components = self.data.get("components")
            parts = components if isinstance(components, dict) else {}
            self.data["components"] = {**parts, _MOVED: moved}

    def _copy(self, value: object, address: str) -> object:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_VALUES} values")
        if isinstance(value, list):
            return [self._copy(each, address) for each in value]
        if not isinstance(value, dict):
            # YAML has more kinds of values than JSON.
            return value if value is None or isinstance(value, _SCALARS) else str(value)
        result = {str(name): self._copy(each, address) for name, each in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str):
            result["$ref"] = self._place(urljoin(address, reference), reference)
        return result

    def _place(self, absolute: str, written: str) -> str:
        """Return the reference in this document to what an absolute one leads to."""
        where, fragment = urldefrag(absolute)
        if where == self.address and fragment.startswith("/components/"):
            return f"#{fragment}"
        if absolute not in self._names:
            try:
                if where not in self._documents:
                    self._documents[where] = self._load(where)
                self._target(where, fragment)
            except LookupError:
                self.missing.append(f"{quoted(written)} leads nowhere")
                return written
            last = re.sub(r"[^A-Za-z0-9_-]+", "_", unquote(absolute.rpartition("/")[2]))
            # By its place from here, so that the name is the same on every machine.
            place = where.removeprefix(self.address.rpartition("/")[0])
            digest = sha256(f"{place}#{fragment}".encode()).hexdigest()
            self._names[absolute] = name = f"{last[:40]}_{digest[:8]}"
            self._waiting.append((name, absolute))
        return f"#/components/{_MOVED}/{self._names[absolute]}"

    def _target(self, where: str, fragment: str) -> object:
        return look_up(self._documents[where], f"#{fragment}")


def cut_document(document: Document, chosen: Iterable[Operation]) -> dict[str, object]:
    """Return a document of nothing but the chosen operations and what they refer to."""
    data = document.data
    paths: dict[str, dict[str, object]] = {}
    for operation in chosen:
        item = document.resolve(data["paths"][operation.path], is_item=True)
        if operation.path not in paths:
            shared = {name: each for name, each in item.items() if name not in METHODS}
            paths[operation.path] = shared
        paths[operation.path][operation.method] = item[operation.method]
    result: dict[str, object] = {name: data[name] for name in _KEPT if name in data}
    result["paths"] = paths
    result["components"] = _components(data, paths)
    return result


def _components(data: JSONObject, paths: object) -> dict[str, dict[str, object]]:
    """Return the components that are referred to, from one to the next; what logs in stays too."""
    given = data.get("components")
    given = given if isinstance(given, dict) else {}
    kept: dict[str, dict[str, object]] = {}
    if isinstance(given.get("securitySchemes"), dict):
        kept["securitySchemes"] = dict(given["securitySchemes"])
    waiting = [paths, kept]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            reference = value.get("$ref")
            parts = reference.split("/") if isinstance(reference, str) else []
            if parts[:2] != ["#", "components"] or len(parts) < 4:
                continue
            kind, name = (
                unquote(each).replace("~1", "/").replace("~0", "~") for each in parts[2:4]
            )
            group = given.get(kind)
            if isinstance(group, dict) and name in group and name not in kept.get(kind, {}):
                kept.setdefault(kind, {})[name] = group[name]
                waiting.append(group[name])
    return kept
