"""The source of chosen operations of a pinned OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import connections
from django.utils.module_loading import import_string

from mcp_bridge.features import AccessRule, Tool, ToolCall, ToolOptions
from mcp_bridge.features.marks import options_in
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol import CallToolResult, JSONObject
from mcp_bridge.sources.base import LeftOut, OperationSource, first_line, mend_import
from mcp_bridge.sources.marked import operation_tool
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, Operation, operation_name

if TYPE_CHECKING:
    from mcp_bridge.ext.openapi.client import Headers


class OpenAPISource(OperationSource[Operation]):
    """Operations of another service, from a document that ``manage.py mcp_openapi`` wrote."""

    is_outside = True
    known_options = {
        "document": ((str, Path), "a path"),
        "server": (str, "a URL"),
        "operations": (list | tuple | Mapping, "a list of patterns, or a mapping to options"),
        "headers": (str, "the dotted path of a function"),
        "anonymous": (bool, "True or False"),
        "insecure": (bool, "True or False"),
        "output_schemas": (bool, "True or False"),
        "prefix": (str, "a string"),
        "permissions": ((list, tuple), "a list of permissions"),
        "timeout": ((int, float), "a number of seconds"),
        "max_bytes": (int, "a number of bytes"),
        "ca_file": ((str, Path), "a path"),
    }

    lines_in = "operations"
    not_served = "", "W060", "Remove it from 'operations', or have the document fixed."
    unused = "W061", "Write an operationId, a method and a path (GET /reports/*), or tag:name."

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        for name in ("document", "server", "operations"):
            if not options.get(name):
                raise TypeError(f"it requires the option {name!r}")
        if bool(options.get("headers")) is options.get("anonymous", False):
            raise TypeError(
                "it requires either the option 'headers', a function that identifies the caller to "
                "the service, or 'anonymous': True, but not both"
            )
        if not re.fullmatch(r"[A-Za-z0-9_-]*", options.get("prefix", "")):
            raise TypeError("its option 'prefix' has characters other than A-Z a-z 0-9 _ and -")
        if not is_https_or_loopback(options["server"]) and not options.get("insecure", False):
            raise TypeError(
                "its server does not use TLS, so others could read and change requests: set an "
                "https URL, or 'insecure': True"
            )
        shared: Mapping[str, object] = {"permissions": options.get("permissions", [])}
        self._shared = options_in("operations", shared if options.get("permissions") else {})
        for line in self.lines:
            if not line.pattern.strip("*"):
                raise TypeError(f"{line.pattern!r} matches everything: name the operations")
        # The document, which replaces that in the file, and its mapped operations.
        self.document: Document | None = None
        self.mapped: dict[str, MappedOperation] = {}
        # Takes an operation and a call of it.
        self._send: Callable[[MappedOperation, ToolCall], CallToolResult] | None = None

    def no_tools(self) -> tuple[str, str] | None:
        return "its document has none of its operations", "Name operations of the document."

    def found(self) -> Iterable[Operation]:
        if self.document is None:
            self._send = self._sender()
            try:
                self.document = read_document(Path(self.options["document"]))
            except ValueError as why:
                text = f"Its document cannot be read: {first_line(why)}."
                hint = f"Write it with manage.py mcp_openapi {self.alias} --from FILE or URL."
                # A build may create the document later, so this must not stop commands.
                self.report("W063", f"{self.place}: {text}", hint)
            if self._send is None or self.document is None:
                return []
        operations = list(self.document.operations())
        for each in self.document.errors:
            hint = "Have the document fixed; the other paths are served."
            self.report("W062", f"{self.place}: {each}", hint)
        return operations

    def options_of(self, operation: Operation) -> ToolOptions:
        # A deprecated operation must be named exactly.
        tags = [] if operation.deprecated else [f"tag:{each}" for each in operation.tags]
        names = [each for each in (str(operation), operation.operation_id, *tags) if each]
        options = self.chosen_by(None, names, guarded=operation.deprecated)
        if options is None:
            raise LeftOut("no line of 'operations' matches it")
        return options.under(self._shared)

    def chooses(self, operation: Operation) -> bool:
        """Return whether a line matches an operation."""
        try:
            return self.options_of(operation) is not None
        except LeftOut:
            return False

    def name_of(self, operation: Operation, options: ToolOptions) -> str:
        prefix: str = self.options.get("prefix", "")
        return prefix + options.name if options.name else operation_name(operation, prefix)

    def where(self, operation: Operation) -> str:
        return f"{operation} ({Path(self.options['document']).name})"

    def build(self, operation: Operation, options: ToolOptions, name: str) -> Tool:
        assert self.document is not None
        output_schema = self.options.get("output_schemas", False)
        mapped = map_operation(self.document, operation, output_schema=output_schema)
        self.mapped[name] = mapped
        # Hints of a line are not mixed with hints from the method.
        says = options.annotations.keys() & {"readOnlyHint", "destructiveHint"}
        return operation_tool(
            name,
            mapped,
            options,
            invoke=lambda call: self._send(mapped, call),  # type: ignore[misc]
            hints={} if says else mapped.annotations,
            access=AccessRule.of(options.public, options.permissions, None, None, options.scopes),
            target=f"{operation} at {self.options['server']}",
            # It does not write to databases, and transactions must not wait for another service.
            non_atomic=frozenset(connections),
            source=f"{Path(self.options['document']).name}: {operation}",
        )

    def _sender(self) -> Callable[[MappedOperation, ToolCall], CallToolResult] | None:
        """Return the function that sends calls to the service, or None with a message."""
        try:
            from mcp_bridge.ext.openapi.client import call_service
            from mcp_bridge.outbound.client import Outbound
        except ImportError as why:
            text = f"{self.place}: A package is missing: {first_line(why)}."
            self.report("E060", text, 'Run pip install "django-mcp-bridge[openapi]".')
            return None
        path, ca_file = self.options.get("headers"), self.options.get("ca_file")
        hint = "Set the dotted path of a function that takes a ToolCall and returns a mapping."
        try:
            hook: Headers | None = import_string(path) if path else None
            if path and not callable(hook):
                raise ImportError(f"{path} is not a function")
            hint = "Set URLs such as https://service.example/v2, and files that exist."
            outbound = Outbound(
                self.options["server"],
                timeout=self.options.get("timeout", 10),
                max_bytes=self.options.get("max_bytes", 2_000_000),
                ca_file=None if ca_file is None else str(ca_file),
            )
        except Exception as why:
            # The hook's module belongs to the site and may raise any exception.
            text = f"{self.place}: It cannot reach its service: {first_line(why)}."
            mend = mend_import(why)
            # The certificate file is not part of the site's code.
            is_file = isinstance(why, OSError) and mend is None
            self.report("W064" if is_file else "E062", text, mend or hint)
            return None
        return partial(call_service, outbound, hook)


def read_document(path: Path) -> Document:
    """Return the document in a file. Raises ValueError if it cannot be read."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as why:
        raise ValueError(f"{path}: {why.strerror}") from why
    except (ValueError, RecursionError) as why:
        raise ValueError(f"{path} is not JSON: {first_line(why)}") from why
    if not isinstance(data, dict):
        raise ValueError(f"{path} does not contain an object")
    return Document(data)
