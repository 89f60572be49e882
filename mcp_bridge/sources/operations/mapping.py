"""Map an operation to a tool with a flat input schema, and arguments to requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.text import pointer, quoted
from mcp_bridge.schemas.openapi import PLAIN, Schema, Side, nested, nullable
from mcp_bridge.sources.operations import values
from mcp_bridge.sources.operations.read import Document, Operation, Unmappable, tool_name
from mcp_bridge.sources.operations.values import Body, Parameter

TAGS_KEY: Final = "mcp_bridge/tags"
# The properties of methods (RFC 9110, section 9.2) as MCP's ToolAnnotations.
HINTS: Final[Mapping[str, Mapping[str, bool]]] = {
    **dict.fromkeys(("get", "head", "options", "trace"), {"readOnlyHint": True}),
    "put": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "patch": {"readOnlyHint": False, "destructiveHint": True},
    "delete": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
}
_MAX_TITLE: Final = 100


@dataclass(frozen=True)
class OperationRequest:
    """
    A request for an operation, made from arguments.

    ``path`` has the text of each path parameter, and ``query`` is a query string or "": both are
    percent-encoded (a space as ``%20``). ``content_type`` is None without a body.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedOperation:
    """
    An operation mapped to a tool; ``notes`` are sentences about parts that could not be mapped.

    ``input_schema`` is flat: parameters and the members of the body are side by side. It may share
    parts with those of other operations, so it must not be modified.
    """

    operation: Operation
    input_schema: JSONSchema
    description: str
    title: str | None = None
    output_schema: JSONSchema | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    meta: JSONObject | None = None
    notes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None

    def request(self, arguments: JSONObject) -> OperationRequest:
        """Return the request for arguments. Raises InvalidArguments for invalid Base64."""
        path: dict[str, str] = {}
        headers: dict[str, str] = {}
        query: list[str] = []
        for each in self.parameters:
            if each.argument not in arguments:
                continue
            value = arguments[each.argument]
            if each.location == "query":
                query += each.query(value)
            elif each.location == "path":
                path[each.name] = each.simple(value)
            elif value is not None:
                headers[each.name] = each.simple(value)
        body, content_type = (b"", None) if self.body is None else self.body.write(arguments)
        return OperationRequest(path, "&".join(query), headers, body, content_type)

    def argument_path(self, location: str | None, path: Sequence[str | int]) -> str | None:
        """Return the JSON pointer of the argument at a place in requests that a service names."""
        parts = tuple(path)
        body = self.body
        if body is not None and location in ("body", None):
            if body.whole is not None:
                return pointer((body.whole, *parts))
            # Some frameworks prepend the name of the parameter that takes the body.
            for tail in (parts, parts[1:]):
                if tail and str(tail[0]) in body.members:
                    return pointer((body.members[str(tail[0])], *tail[1:]))
        for each in self.parameters:
            if parts and location in (each.location, None) and each.name == str(parts[0]):
                return pointer((each.argument, *parts[1:]))
        return None


def map_operation(
    document: Document,
    operation: Operation,
    *,
    output_schema: bool = False,
    is_dotted: bool = False,
) -> MappedOperation:
    """Return an operation mapped to a tool. Raises Unmappable if that is not possible."""
    if operation.error is not None:
        raise Unmappable(operation.error)
    document.notes = []
    mapping = _Mapping(document, operation, is_dotted)
    try:
        mapping.read_body()
        mapping.read_parameters()
        schema: Schema = {"type": "object", "properties": mapping.properties}
        if mapping.required:
            schema["required"] = mapping.required
        schema["additionalProperties"] = False
        closed = document.within_bounds(schema, mapping.side, "its input schema")
        output = mapping.output() if output_schema else None
    except RecursionError:
        raise Unmappable("one of its schemas is too deep") from None
    except (AttributeError, KeyError, TypeError) as why:
        raise Unmappable(f"it is not a valid OpenAPI operation: {why!r}") from why
    summary, description = operation.summary, operation.description
    starts = description.casefold().startswith(summary.casefold().rstrip(". "))
    return MappedOperation(
        operation=operation,
        input_schema=closed,
        output_schema=output,
        title=summary if 0 < len(summary) <= _MAX_TITLE else None,
        description=description if starts else "\n\n".join(filter(None, (summary, description))),
        annotations=HINTS.get(operation.method, {}),
        meta={TAGS_KEY: list(operation.tags)} if operation.tags else None,
        notes=tuple(dict.fromkeys((*mapping.notes, *document.notes))),
        parameters=tuple(mapping.parameters),
        body=mapping.body,
    )


class _Mapping:
    """The arguments of one operation, as collected so far."""

    def __init__(self, document: Document, operation: Operation, is_dotted: bool) -> None:
        self.document = document
        self.operation = operation
        self.is_dotted = is_dotted
        self.side = Side.PATCH if operation.method == "patch" else Side.INPUT
        self.properties: dict[str, JSONSchema] = {}
        self.required: list[str] = []
        self.parameters: list[Parameter] = []
        self.body: Body | None = None
        self.notes: list[str] = []

    def read_body(self) -> None:
        """Read the body first: its members keep their names."""
        data = self.operation.body
        if data is None:
            return
        media = values.choose_media(data.get("content"), self._has_files)
        is_required = data.get("required") is True
        schema = self.document.convert(media.data.get("schema"), self.side)
        root = self._object(schema) if media.kind not in ("bytes", "text") else None
        members = {} if root is None else root.get("properties", {})
        wanted = () if root is None or self.side is Side.PATCH else root.get("required", ())
        is_empty = root is not None and root.get("additionalProperties") is False
        names: dict[str, str] = {}
        filenames: dict[str, str] = {}
        whole: str | None = None
        if root is None or (not members and not is_empty) or (wanted and not is_required):
            whole, members = self._add_whole(media, schema if root is None else root, is_required)
        roots = {name: self._root(each) for name, each in members.items()}
        is_multipart = media.kind == "multipart"
        files = {name for name, each in roots.items() if is_multipart and values.is_file(each)}
        for name, each in members.items() if whole is None else ():
            argument = self._add(name, each, name in wanted)
            names[name] = argument
            if name in files:
                self._tell_file(argument)
                if roots[name].get("type") != "array":
                    text = {"type": "string"}
                    filenames[argument] = self._add(f"{argument}_filename", text, False)
        # The JSON alternative to a form with files, if it has these members.
        if media.plain is not None:
            json = self._object(self.document.convert(media.plain.data.get("schema"), self.side))
            if json is None or not json.get("properties", {}).keys() >= members.keys() - files:
                media = media._replace(plain=None)
        objects = {
            name
            for name, each in roots.items()
            if any(self._root(it).get("type") == "object" for it in each.get("anyOf", [each]))
        }
        self.body = Body(
            media=media,
            is_required=is_required,
            members=names,
            whole=whole,
            files=frozenset(files),
            filenames=filenames,
            objects=frozenset(objects),
            is_dotted=self.is_dotted,
        )

    def _add_whole(
        self, media: values.Media, schema: JSONSchema, is_required: bool
    ) -> tuple[str, Mapping[str, JSONSchema]]:
        """Add the body as one argument if it cannot be flat; return its name and members."""
        members: Mapping[str, JSONSchema] = {}
        if media.kind == "bytes":
            schema = {"type": "string", "description": values.FILE_NOTE}
        elif media.kind == "text":
            schema = {"type": "string"}
        elif media.kind != "json":
            schema = schema or {"type": "object"}
            members = self._root(schema).get("properties", {})
        if self.side is Side.PATCH:
            schema = {key: each for key, each in schema.items() if key != "required"}
        return self._add("body", schema, is_required), members

    def read_parameters(self) -> None:
        """Read the parameters of the path, the query string and the headers."""
        template = self.operation.path
        order = ("path", "query", "header")
        found = [each for each in self.operation.parameters if self._is_read(each)]
        for data in sorted(found, key=lambda each: order.index(each["in"])):
            name, location = str(data["name"]), str(data["in"])
            if location == "path" and f"{{{name}}}" not in template:
                self.notes.append(f"The parameter {quoted(name)} is not in the path.")
                continue
            content = nested(data, "content")
            schema = data.get("schema", nested(content, next(iter(content), "")).get("schema"))
            converted = self.document.member(name, schema, Side.INPUT)
            text = data.get("description")
            if isinstance(text, str) and text.strip():
                converted = {**converted, "description": text.strip()}
            if data.get("deprecated") is True:
                converted = {**converted, "deprecated": True}
            is_required = data.get("required") is True or location == "path"
            argument = self._add(name, converted, is_required, location)
            self.parameters.append(Parameter.read(data, argument))
        described = {each.name for each in self.parameters if each.location == "path"}
        for name in re.findall(r"\{([^}]*)", template):
            if name not in described:
                raise Unmappable(f"its path has {{{name}}}, which is not described")

    def _is_read(self, data: JSONObject) -> bool:
        """Return whether a parameter becomes an argument."""
        name, location = data.get("name"), data.get("in")
        if not isinstance(name, str) or not name:
            raise Unmappable("it has a parameter without a name")
        if location == "cookie":
            if data.get("required") is True:
                raise Unmappable(f"it requires the cookie {quoted(name)}, but none are sent")
            self.notes.append(f"The cookie {quoted(name)} is not sent.")
            return False
        if location == "header":
            return name.lower() not in values.OWN_HEADERS
        if location not in ("path", "query"):
            raise Unmappable(f"its parameter {quoted(name)} is in {quoted(str(location))}")
        return True

    def output(self) -> JSONSchema | None:
        """Return a schema for all successful responses, or None if that is not possible."""
        told = [each for status, each in self.operation.responses.items() if status[:1] == "2"]
        types = nested(told[0], "content") if len(told) == 1 else {}
        found = [each for name, each in types.items() if "json" in name or name == "*/*"]
        if len(types) != 1 or not found or not isinstance(found[0], Mapping):
            return None
        try:
            schema = self.document.convert(found[0].get("schema"), Side.OUTPUT)
            root = self._root(schema, Side.OUTPUT)
            kind = root.get("type")
            if kind is None:
                return None
            if kind != "object":
                root = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
            return self.document.within_bounds(root, Side.OUTPUT, "its output schema")
        except Unmappable as why:
            self.notes.append(f"It lacks an output schema: {why}.")
            return None

    def _add(self, name: str, schema: JSONSchema, is_required: bool, location: str = "") -> str:
        """Add an argument under the first free name, and return that name."""
        own = argument_name(name)
        wanted = argument_name(f"{location}_{own}") if location else own
        numbered = (argument_name(f"{wanted}_{number}") for number in count(2))
        legal = next(each for each in chain((own, wanted), numbered) if each not in self.properties)
        self.properties[legal] = schema
        if is_required:
            self.required.append(legal)
        return legal

    def _tell_file(self, argument: str) -> None:
        """Describe an argument as a file, instead of the requirements for its bytes."""
        schema = self._root(self.properties[argument])
        told = f"{schema.get('description', '')}\n{values.FILE_NOTE}".strip()
        plain: Schema = {"type": "string"}
        if schema.get("type") == "array":
            bounds = {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
            plain = {"type": "array", "items": plain, **bounds}
        if {"type": "null"} in schema.get("anyOf", ()):
            plain = nullable(plain)
        self.properties[argument] = {**plain, "description": told}

    def _has_files(self, schema: object) -> bool:
        root = self._object(self.document.convert(schema, self.side))
        members = {} if root is None else root.get("properties", {})
        return any(values.is_file(self._root(each)) for each in members.values())

    def _root(self, schema: JSONSchema, side: Side | None = None) -> JSONSchema:
        """Return a converted schema merged with the target of its reference and its allOf."""
        return self.document.root(schema, side or self.side)

    def _object(self, schema: JSONSchema) -> JSONSchema | None:
        """Return the root of a body that is a plain object, or None."""
        root = self._root(schema)
        kind = root.get("type", "object" if "properties" in root else None)
        if kind != "object" or root.keys() - PLAIN:
            return None
        # Members of arbitrary names cannot be mixed with parameters.
        others = root.get("additionalProperties")
        return None if isinstance(others, Mapping) and others else root


def argument_name(name: str) -> str:
    """Return a name that clients accept for an argument: unchanged if it is valid."""
    is_legal = re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name, re.ASCII)
    return name if is_legal else tool_name(name) or "value"
