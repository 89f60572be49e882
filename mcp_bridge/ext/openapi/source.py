"""The operations of a pinned OpenAPI document that a site has chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.core import checks
from django.db import connections
from django.utils.module_loading import import_string

from mcp_bridge.features import AccessRule, Tool, ToolOptions
from mcp_bridge.features.marks import options_in
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol import JSONObject
from mcp_bridge.sources.base import Source, first_line, mend_import
from mcp_bridge.sources.mapped import operation_tool
from mcp_bridge.sources.messages import IllegalName, illegal_name
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, Operation, operation_name

if TYPE_CHECKING:
    from mcp_bridge.ext.openapi.client import Headers, Service

# What a line of "operations" may say of a tool, as mcp_tool() does.
_OF_A_TOOL: Final = frozenset(
    {"confirm", "description", "destructive", "icons", "idempotent", "meta", "name", "open_world"}
    | {"permissions", "public", "read_only", "scopes", "throttle", "title"}
)


class OpenAPISource(Source):
    """
    Operations of another service, from an OpenAPI document that ``manage.py mcp_openapi`` wrote.

    ``options``: ``document``, the path of that file; ``server``, where the service is (never what
    the document says); ``operations``, patterns of what is served ("getInvoice", "GET /reports/*",
    "tag:customers"), or a mapping of them to options of ``mcp_tool``; ``headers``, the dotted path
    of a function that returns the headers of a call (ToolCall), or ``anonymous``; ``prefix`` of
    the names; ``permissions`` of all tools; ``timeout`` of a call in all (10 seconds);
    ``max_bytes`` of an answer (2,000,000); ``ca_file`` for the service's certificate; ``insecure``
    for a server without TLS; ``output_schemas`` to tell what the document says of answers.
    """

    is_outside = True
    known_options = {
        "document": ((str, Path), "a path"),
        "server": (str, "an address"),
        "operations": (
            (list, tuple, Mapping),
            "a list of patterns, or a mapping of them to options",
        ),
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

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        for name in ("document", "server", "operations"):
            if not options.get(name):
                raise TypeError(f"it needs the option {name!r}")
        if bool(options.get("headers")) is options.get("anonymous", False):
            raise TypeError(
                "it needs the option 'headers', a function that says to the service who asks, or "
                "'anonymous': True, and not both"
            )
        if not re.fullmatch(r"[A-Za-z0-9_-]*", options.get("prefix", "")):
            raise TypeError("its option 'prefix' has other characters than A-Z a-z 0-9 _ and -")
        if not is_https_or_loopback(options["server"]) and not options.get("insecure", False):
            raise TypeError(
                "its server is reached without TLS, where others may read and change what is "
                "sent: give an address with https, or 'insecure': True"
            )
        shared: Mapping[str, object] = {"permissions": options.get("permissions", [])}
        self._shared = options_in("operations", shared if options.get("permissions") else {})
        chosen = options["operations"]
        lines = chosen if isinstance(chosen, Mapping) else dict.fromkeys(chosen, {})
        self._patterns: dict[str, ToolOptions] = {}
        for pattern, own in lines.items():
            if not isinstance(pattern, str) or not pattern.strip("*"):
                raise TypeError(f"{pattern!r} is no operation: name those that are served")
            if not isinstance(own, Mapping) or own.keys() - _OF_A_TOOL:
                known = ", ".join(sorted(_OF_A_TOOL))
                raise TypeError(f"the operation {pattern!r} has other options than {known}")
            self._patterns[pattern] = options_in("operations", own)

    def tools(self) -> Sequence[Tool]:
        service, document = self._service(), self._document()
        if service is None or document is None:
            return []
        made = [self._tool(each, service) for each in self.chosen(document)]
        return [tool for tool in made if tool is not None]

    def no_tools(self) -> tuple[str, str] | None:
        return "its document has none of its operations", "Name operations that are there."

    def chosen(self, document: Document) -> Iterator[MappedOperation]:
        """Yield the chosen operations; what cannot be one is among the messages."""
        found = set[str]()
        operations = list(document.operations())
        for each in document.errors:
            hint = "Have the document mended; the other paths are served."
            self.messages.append(
                checks.Warning(self._where + each, hint=hint, id="mcp_bridge.W062")
            )
        for operation in operations:
            patterns = self.patterns_of(operation)
            found.update(patterns)
            if not patterns:
                continue
            try:
                self.options_for(operation)
                output_schema = self.options.get("output_schemas", False)
                yield map_operation(document, operation, output_schema=output_schema)
            except ValueError as why:
                text = f"The operation {operation} is no tool: {first_line(why)}."
                hint = "Take it out of 'operations', or have the document mended."
                self.messages.append(
                    checks.Warning(self._where + text, hint=hint, id="mcp_bridge.W060")
                )
        for pattern in self._patterns:
            if pattern not in found:
                text = f"No operation is meant by {pattern!r}."
                hint = "Write an operationId, a method and a path (GET /reports/*), or tag:name."
                self.messages.append(
                    checks.Warning(self._where + text, hint=hint, id="mcp_bridge.W061")
                )

    def patterns_of(self, operation: Operation) -> list[str]:
        """Return the patterns that mean an operation; a deprecated one has to be named exactly."""
        tags = [f"tag:{tag}" for tag in operation.tags]
        exact = [operation.operation_id or "", str(operation)]
        if operation.deprecated:
            return [each for each in self._patterns if each in exact]
        return [
            pattern
            for pattern in self._patterns
            if any(pattern == name or fnmatchcase(name, pattern) for name in (*exact, *tags))
        ]

    def options_for(self, operation: Operation) -> ToolOptions:
        """Return the options of an operation's tool: later patterns win over earlier ones."""
        own = [self._patterns[each] for each in self.patterns_of(operation)]
        return reduce(lambda shared, each: each.under(shared), own, self._shared)

    def name_of(self, operation: Operation) -> str:
        """Return the name of an operation's tool."""
        prefix = self.options.get("prefix", "")
        name = self.options_for(operation).name
        return prefix + name if name else operation_name(operation, prefix)

    def _tool(self, mapped: MappedOperation, service: Service) -> Tool | None:
        operation = mapped.operation
        options = self.options_for(operation)
        # What a line says of it is not mixed with what its method promises.
        says = options.annotations.keys() & {"readOnlyHint", "destructiveHint"}
        hints = {} if says else mapped.annotations
        needs = (options.public, options.permissions, None, None, options.scopes)
        source = f"{Path(self.options['document']).name}: {operation}"
        try:
            return operation_tool(
                self.name_of(operation),
                mapped,
                options,
                where=source,
                invoke=partial(service.call, mapped),
                hints=hints,
                access=AccessRule.of(*needs),
                target=f"{operation} at {self.options['server']}",
                # Nothing is written here, and no transaction is to wait for another service.
                non_atomic=frozenset(connections),
                source=source,
            )
        except IllegalName as exception:
            self.messages.append(illegal_name(exception))
            return None

    def _document(self) -> Document | None:
        """Return the document, or None where it cannot be read, which is among the messages."""
        try:
            return read_document(Path(self.options["document"]))
        except ValueError as why:
            text = f"Its document cannot be read: {first_line(why)}."
            hint = f"Write it with manage.py mcp_openapi {self.alias} --from FILE or URL."
            # The document may come with each build: no command stops for it.
            self.messages.append(
                checks.Warning(self._where + text, hint=hint, id="mcp_bridge.W063")
            )
            return None

    def _service(self) -> Service | None:
        """Return the service at the other end, or None, as for the document."""
        try:
            from mcp_bridge.ext.openapi.client import Service
            from mcp_bridge.outbound.client import Outbound
        except ImportError as why:
            text = f"A package is missing: {first_line(why)}."
            self.messages.append(
                checks.Error(
                    self._where + text,
                    hint='Run pip install "django-mcp-bridge[openapi]".',
                    id="mcp_bridge.E060",
                )
            )
            return None
        path, ca_file = self.options.get("headers"), self.options.get("ca_file")
        hint = "Give the dotted path of a function that takes a ToolCall and returns a mapping."
        try:
            hook: Headers | None = import_string(path) if path else None
            if path and not callable(hook):
                raise ImportError(f"{path} is no function")
            hint = "Give addresses such as https://service.example/v2, and files that are there."
            outbound = Outbound(
                self.options["server"],
                timeout=self.options.get("timeout", 10),
                max_bytes=self.options.get("max_bytes", 2_000_000),
                ca_file=None if ca_file is None else str(ca_file),
            )
        except Exception as why:
            # The module of the hook is the site's own, and may raise anything.
            text = self._where + f"It cannot reach its service: {first_line(why)}."
            mend = mend_import(why)
            if isinstance(why, OSError) and mend is None:
                # The certificate file is not part of the site's code.
                found: checks.CheckMessage = checks.Warning(text, hint=hint, id="mcp_bridge.W064")
            else:
                found = checks.Error(text, hint=mend or hint, id="mcp_bridge.E062")
            self.messages.append(found)
            return None
        return Service(outbound, hook)

    @property
    def _where(self) -> str:
        return f"MCP_BRIDGE['SOURCES'][{self.alias!r}]: "


def read_document(path: Path) -> Document:
    """Return the document in a file. Raises ValueError where there is none."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as why:
        raise ValueError(f"{path}: {why.strerror}") from why
    except (ValueError, RecursionError) as why:
        raise ValueError(f"{path} is no JSON: {first_line(why)}") from why
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds no object")
    return Document(data)
