"""Tools made of the methods of a gRPC service, which a descriptor set describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string
from google.protobuf.message_factory import GetMessageClass

from mcp_bridge.conf import conf
from mcp_bridge.ext.grpc.channels import ServiceChannel, checked_metadata, is_local
from mcp_bridge.ext.grpc.descriptors import Descriptor, Descriptors, values_of
from mcp_bridge.ext.grpc.errors import convert_error
from mcp_bridge.ext.grpc.requests import REQUEST, request_checker, result_encoder
from mcp_bridge.ext.grpc.schemas import input_schema, output_schema
from mcp_bridge.features import AccessRule, Tool, ToolCall, ToolOptions
from mcp_bridge.features.marks import options_in
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.sources.base import Source, first_line
from mcp_bridge.sources.operations.mapping import HINTS

TOOL: Final = "mcp_bridge.tool"
_HTTP: Final = "google.api.http"
# By the number of an idempotency_level (google.protobuf.MethodOptions).
_LEVELS: Final[Mapping[int, Mapping[str, bool]]] = {
    1: {"readOnlyHint": True},
    2: {"idempotentHint": True},
}
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Seconds of a call, messages of a stream, bytes of an answer.
_LIMITS: Final = {"timeout": 10, "max_messages": 100, "max_bytes": 4 * 1024 * 1024}


class Method(NamedTuple):
    """A method of the set: its tool, or why it is none."""

    descriptor: Descriptor
    tool: Tool | None
    reason: str = ""
    is_meant: bool = False

    @property
    def path(self) -> str:
        return f"{self.descriptor.containing_service.full_name}/{self.descriptor.name}"


class GRPCSource(Source):
    """
    Methods of gRPC services that have the option ``mcp_bridge.tool``, or that ``methods`` names.

    OPTIONS: ``descriptors``, the path of a descriptor set; ``target`` and ``credentials`` of the
    channel; ``metadata``, a function that takes a ToolCall and returns the pairs to send with it,
    or ``anonymous``; ``methods``, names such as "acme.v1.Orders/*"; ``insecure``, ``prefix``,
    ``timeout``, ``max_messages`` and ``max_bytes``.
    """

    is_outside = True
    known_options = {
        "descriptors": (str | Path, "the path of a descriptor set"),
        "target": (str, "the target of a channel, as dns:///orders.internal:443"),
        "credentials": (str | Callable | None, "a dotted path of a function, or None"),
        "metadata": (str | Callable | None, "a dotted path of a function, or None"),
        "anonymous": (bool, "True or False"),
        "insecure": (bool, "True or False"),
        "methods": (list | tuple | Mapping, "a list of methods, or a mapping of them to options"),
        "prefix": (str, "a string"),
        "timeout": (int | float, "a number of seconds"),
        "max_messages": (int, "a number"),
        "max_bytes": (int, "a number"),
    }

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        for name in ("descriptors", "target"):
            if not options.get(name):
                raise TypeError(f"its option {name!r} is missing: {self.known_options[name][1]}")
        self.limits = {name: options.get(name, value) for name, value in _LIMITS.items()}
        for name, value in self.limits.items():
            if value <= 0:
                raise ValueError(f"its option {name!r} has to be more than 0")
        self.target = options["target"]
        credentials = self._function("credentials")
        if credentials is None and not is_local(self.target) and not options.get("insecure"):
            raise ValueError(
                f"its target {self.target} is another machine, and there are no 'credentials': "
                "name a function that returns grpc.ssl_channel_credentials(), or write "
                "'insecure': True where the network is safe"
            )
        self._metadata = self._function("metadata")
        if (self._metadata is None) is not options.get("anonymous", False):
            raise ValueError(
                "it has to have either 'metadata', a function that says to the service who calls, "
                "or 'anonymous': True"
            )
        named = options.get("methods", ())
        self._named = {
            pattern: self._read(f"its methods {pattern!r}", given)
            for pattern, given in (
                named if isinstance(named, Mapping) else dict.fromkeys(named, {})
            ).items()
        }
        self.channel = ServiceChannel(self.target, credentials, self.limits["max_bytes"])

    def _function(self, name: str) -> Callable[..., Any] | None:
        given = self.options.get(name)
        function = import_string(given) if isinstance(given, str) else given
        if function is not None and not callable(function):
            raise TypeError(f"its option {name!r}, {given!r}, is no function")
        return function

    @property
    def path(self) -> Path:
        """Return where the descriptor set is."""
        return Path(self.options["descriptors"])

    def tools(self) -> Sequence[Tool]:
        return [each.tool for each in self.methods() if each.tool is not None]

    def no_tools(self) -> tuple[str, str]:
        return (
            f"no method in {self.path} has the option (mcp_bridge.tool)",
            'Annotate methods in the .proto file, or name them in OPTIONS["methods"].',
        )

    def methods(self) -> Sequence[Method]:
        """Return all methods of the set, with their tools; ``messages`` has what is the matter."""
        try:
            descriptors = Descriptors(self.path.read_bytes())
        except (OSError, ValueError) as exception:
            why = exception.strerror if isinstance(exception, OSError) else first_line(exception)
            what = "cannot be read: " if isinstance(exception, OSError) else ""
            self.messages.append(
                checks.Warning(
                    f"The descriptor set {self.path} of MCP_BRIDGE['SOURCES'][{self.alias!r}] "
                    f"{what}{why}.",
                    hint="Write it with protoc --include_imports --include_source_info "
                    f"--descriptor_set_out, or with manage.py mcp_grpc {self.alias} --reflect.",
                    id="mcp_bridge.W053",
                )
            )
            return []
        methods = [self._method(descriptors, each) for each in descriptors.methods()]
        for each in methods:
            if each.is_meant and each.tool is None:
                self.messages.append(
                    checks.Warning(
                        f"{each.path} ({self.path.name}) is marked as a tool but not served: "
                        f"{each.reason}.",
                        hint="Change its options in the .proto file, or take (mcp_bridge.tool) or "
                        'the line in OPTIONS["methods"] away.',
                        id="mcp_bridge.W054",
                    )
                )
        self._check_patterns(methods)
        self._check_texts(descriptors, methods)
        return methods

    def _method(self, descriptors: Descriptors, descriptor: Descriptor) -> Method:
        options = descriptors.options(descriptor, "Method")
        pattern = self._pattern(f"{descriptor.containing_service.full_name}/{descriptor.name}")
        if TOOL not in options and pattern is None:
            return Method(descriptor, None, "it has no option (mcp_bridge.tool)")
        # A pattern may mean the other methods of the service.
        is_named = TOOL in options or (pattern is not None and "*" not in pattern)
        if descriptor.client_streaming:
            return Method(descriptor, None, "it streams from the client", is_named)
        if descriptor.GetOptions().deprecated and not is_named:
            return Method(descriptor, None, "it is deprecated")
        try:
            given = values_of(options[TOOL]) if TOOL in options else {}
            tool = self._tool(descriptors, descriptor, given, pattern)
        except Exception as exception:
            # One method may not take the others with it, whatever a set has for it.
            return Method(descriptor, None, first_line(exception), True)
        if not tool.options.exposed or tool.options.deprecated:
            return Method(descriptor, None, "its options say so")
        return Method(descriptor, tool, is_meant=True)

    def _pattern(self, path: str) -> str | None:
        return next((each for each in self._named if fnmatchcase(path, each)), None)

    def _read(self, where: str, given: object) -> tuple[ToolOptions, dict[str, Any]]:
        """Return options of a method, and its limits. Raises TypeError and ValueError."""
        if not isinstance(given, Mapping):
            raise TypeError(f"{where} have options that are no mapping")
        own = {name: each for name, each in given.items() if name in ("timeout", "max_messages")}
        for name, value in own.items():
            if not isinstance(value, int | float) or value <= 0:
                raise ValueError(f"{where}: {name} has to be more than 0")
        rest = {name: given[name] for name in given if name not in own}
        return options_in(where, rest), own

    def _tool(
        self, descriptors: Descriptors, descriptor: Descriptor, given: Any, pattern: str | None
    ) -> Tool:
        """Return the tool of a method. Raises TypeError and ValueError where there can be none."""
        service, comment = descriptor.containing_service, descriptors.comment(descriptor.full_name)
        options, own_limits = self._read("(mcp_bridge.tool)", given)
        limits = dict(self.limits)
        if pattern is not None:
            shared, shared_limits = self._named[pattern]
            options, limits = options.under(shared), limits | shared_limits
        limits |= own_limits
        separator = "." if conf.TOOL_NAME_STYLE == "dotted" else "_"
        own = separator.join(_WORDS.sub("_", each.name).lower() for each in (service, descriptor))
        name = self.options.get("prefix", "") + (options.name or own)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"its name {name!r} is refused by clients, which accept 1 to 64 of the characters "
                "A-Z a-z 0-9 _ and -: give a name in its options"
            )
        # Either of these hints in the options replaces all of the service's.
        says = options.annotations.keys() & {"readOnlyHint", "destructiveHint"}
        hints = {} if says else _hints(descriptors, descriptor)
        schema = input_schema(descriptors, descriptor.input_type)
        is_stream = descriptor.server_streaming
        try:
            output = output_schema(descriptors, descriptor.output_type, is_stream)
        except ValueError:
            # Clients do without one, and nothing is held against it.
            output = None
        return Tool(
            name=name,
            title=options.title,
            description=options.description or comment.text,
            input_schema=schema,
            output_schema=output,
            annotations={**hints, **options.annotations},
            icons=options.icons,
            meta=options.meta,
            check=request_checker(descriptors, descriptor.input_type, schema),
            is_plain=True,
            invoke=self._invoker(descriptor, limits),
            encode=result_encoder(descriptors, descriptor.output_type),
            convert_error=convert_error,
            access=AccessRule.of(options.public, options.permissions, None, None, options.scopes),
            target=f"/{service.full_name}/{descriptor.name} at {self.target}",
            # It writes into none, and no transaction may wait for another machine.
            non_atomic=frozenset(settings.DATABASES),
            source=f"{service.file.name}:{comment.line}" if comment.line else self.path.name,
            function=f"{service.full_name}.{descriptor.name}",
            options=options,
        )

    def _invoker(
        self, descriptor: Descriptor, limits: Mapping[str, Any]
    ) -> Callable[[ToolCall], Any]:
        path = f"/{descriptor.containing_service.full_name}/{descriptor.name}"
        request, answer = (
            GetMessageClass(each) for each in (descriptor.input_type, descriptor.output_type)
        )
        codec = {
            "request_serializer": request.SerializeToString,
            "response_deserializer": answer.FromString,
        }
        timeout, most, most_bytes = (limits[name] for name in _LIMITS)

        def sent(call: ToolCall) -> dict[str, Any]:
            pairs = self._metadata(call) if self._metadata is not None else ()
            return {"timeout": timeout, "metadata": checked_metadata(pairs, call)}

        def invoke(call: ToolCall) -> Any:
            method = self.channel.get().unary_unary(path, **codec)
            return method(call.arguments[REQUEST], **sent(call))

        def invoke_stream(call: ToolCall) -> Any:
            method = self.channel.get().unary_stream(path, **codec)
            stream = method(call.arguments[REQUEST], **sent(call))
            messages, size = [], 0
            try:
                for message in stream:
                    messages.append(message)
                    size += message.ByteSize()
                    if len(messages) >= most or size > most_bytes:
                        return messages, True
            finally:
                stream.cancel()
            return messages, False

        return invoke_stream if descriptor.server_streaming else invoke

    def _check_patterns(self, methods: Sequence[Method]) -> None:
        for pattern in self._named:
            if not any(fnmatchcase(each.path, pattern) for each in methods):
                self.messages.append(
                    checks.Warning(
                        f"MCP_BRIDGE['SOURCES'][{self.alias!r}] names the methods {pattern!r}, "
                        f"and {self.path.name} has none of that name.",
                        hint='Write package.Service/Method; "*" stands for anything.',
                        id="mcp_bridge.W051",
                    )
                )

    def _check_texts(self, descriptors: Descriptors, methods: Sequence[Method]) -> None:
        served = [each for each in methods if each.tool is not None]
        if bare := [each.path for each in served if each.tool and not each.tool.description]:
            is_lost = not descriptors.has_comments
            self.messages.append(
                checks.Warning(
                    f"{self.path.name} has no descriptions of {len(bare)} methods that are tools"
                    + (", since it was written without comments" if is_lost else "")
                    + f": {', '.join(bare[:10])}{', …' if len(bare) > 10 else ''}.",
                    hint="Write it with protoc --include_source_info, or give the option's "
                    "description."
                    if is_lost
                    else "Write a comment above each method that tells a model what it does and "
                    "when to use it, or give (mcp_bridge.tool).description.",
                    id="mcp_bridge.W050",
                )
            )
        if large := [each.path for each in served if each.tool and not each.tool.output_schema]:
            self.messages.append(
                checks.Warning(
                    f"The answers of {', '.join(large)} are described by more than clients take, "
                    "so that these tools have no output schema.",
                    hint="Models read the answers all the same; divide the message to have one.",
                    id="mcp_bridge.W052",
                )
            )


def _hints(descriptors: Descriptors, descriptor: Descriptor) -> dict[str, bool]:
    """Return the hints that a method's HTTP method and idempotency level give."""
    rule = descriptors.options(descriptor, "Method").get(_HTTP)
    method = "" if rule is None else rule.WhichOneof("pattern") or ""
    level = descriptor.GetOptions().idempotency_level
    return {**HINTS.get(method, {}), **_LEVELS.get(level, {})}
