"""Read the operations of OpenAPI documents, with references resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final

from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import quoted
from mcp_bridge.schemas.openapi import Components, listed
from mcp_bridge.schemas.openapi import Unmappable as Unmappable

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_NAME: Final = 64
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """
    An operation of a document: ``method`` is in lower case, ``path`` has its parameters in braces.

    The parameters are those of the path, overridden by those of the operation. ``error`` is the
    reason if the operation cannot be read; the other fields are then empty.
    """

    method: str
    path: str
    operation_id: str | None = None
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    parameters: tuple[JSONObject, ...] = ()
    body: JSONObject | None = None
    responses: Mapping[str, JSONObject] = field(default_factory=dict)
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


class Document(Components):
    """
    An OpenAPI document of version 3.0 or 3.1 (or later 3.x); its data must not be modified.

    ``errors`` are sentences about unreadable parts. Raises ValueError for any other document.
    """

    def __init__(self, data: JSONObject) -> None:
        version = data.get("openapi")
        if not isinstance(version, str) or not re.match(r"3\.\d", version):
            found = data.get("swagger", version)
            raise ValueError(f"it is not OpenAPI of version 3, but of {quoted(str(found))}")
        if not isinstance(data.get("paths", {}), Mapping):
            raise ValueError("its 'paths' is not an object")
        super().__init__(data, has_bare_references=version.startswith("3.0"))
        self.errors: list[str] = []

    def operations(self) -> Iterator[Operation]:
        """Yield the operations, in the order of the document."""
        yield from self._operations.values()

    def operation(self, method: str, path: str) -> Operation:
        """Return the operation of a method and a path. Raises KeyError if there is none."""
        return self._operations[method.lower(), path]

    @cached_property
    def _operations(self) -> dict[tuple[str, str], Operation]:
        found: dict[tuple[str, str], Operation] = {}
        for path, entry in self.data.get("paths", {}).items():
            if str(path).startswith("x-"):
                continue
            try:
                item = self.resolve(entry, is_item=True)
            except Unmappable as why:
                self.errors.append(f"The path {quoted(str(path))} cannot be read: {why}.")
                continue
            methods = (each for each in METHODS if each in item)
            found |= {(each, path): self._read(each, path, item) for each in methods}
        return found

    def _read(self, method: str, path: str, item: JSONObject) -> Operation:
        data = item[method]
        if not isinstance(data, Mapping):
            return Operation(method=method, path=path, error="it is not an object")
        found = data.get("operationId")
        operation_id = found if isinstance(found, str) else None
        try:
            parameters: dict[tuple[object, object], JSONObject] = {}
            for each in (*listed(item, "parameters"), *listed(data, "parameters")):
                parameter = self.resolve(each)
                parameters[parameter.get("in"), parameter.get("name")] = parameter
            return Operation(
                method=method,
                path=path,
                operation_id=operation_id,
                summary=_text(data, "summary") or _text(item, "summary"),
                description=_text(data, "description") or _text(item, "description"),
                tags=tuple(each for each in listed(data, "tags") if isinstance(each, str)),
                deprecated=data.get("deprecated") is True,
                parameters=tuple(parameters.values()),
                body=self.resolve(data["requestBody"]) if data.get("requestBody") else None,
                responses={
                    str(status): self.resolve(each)
                    for status, each in (data.get("responses") or {}).items()
                    if not str(status).startswith("x-")
                },
            )
        except (Unmappable, AttributeError, TypeError) as why:
            is_ours = isinstance(why, Unmappable)
            text = str(why) if is_ours else f"it is not a valid OpenAPI operation: {why!r}"
            return Operation(method=method, path=path, operation_id=operation_id, error=text)


def tool_name(text: str) -> str:
    """
    Return a text as a tool or argument name that all large clients accept.

    Characters other than A-Z a-z 0-9 _ and - become "_". Names of more than 64 characters are cut
    and end with the beginning of the text's SHA-256, so that they are stable.
    """
    name = _OTHER.sub("_", text).strip("_")
    if len(name) > MAX_NAME:
        name = f"{name[: MAX_NAME - 9]}_{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return name


def operation_name(operation: Operation, prefix: str = "") -> str:
    """Return the name of an operation's tool, from its id or its method and path."""
    own = re.sub(r"^[^A-Za-z0-9]+", "", operation.operation_id or "")
    if not own:
        own = "_".join((operation.method, *re.findall(r"[A-Za-z0-9_-]+", operation.path)))
    return tool_name(prefix + own)


def _text(data: JSONObject, name: str) -> str:
    value = data.get(name)
    return value.strip() if isinstance(value, str) else ""
