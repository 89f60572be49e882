"""The source of methods of a gRPC service, described by a descriptor set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

from django.conf import settings
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
from mcp_bridge.sources.base import LeftOut, OperationSource, first_line
from mcp_bridge.sources.operations.mapping import HINTS

TOOL: Final = "mcp_bridge.tool"
_HTTP: Final = "google.api.http"
# MCP's hints by the number of an idempotency_level (google.protobuf.MethodOptions).
_LEVELS: Final = {1: {"readOnlyHint": True}, 2: {"idempotentHint": True}}
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Seconds of a call, messages of a stream, bytes of a response.
_LIMITS: Final = {"timeout": 10, "max_messages": 100, "max_bytes": 4 * 1024 * 1024}


class GRPCSource(OperationSource[Descriptor]):
    """Methods of gRPC services with the option ``mcp_bridge.tool``, or that ``methods`` name."""

    is_outside = True
    known_options = {
        "descriptors": (str | Path, "the path of a descriptor set"),
        "target": (str, "the target of a channel, such as dns:///orders.internal:443"),
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

    lines_in = "methods"
    own = ("timeout", "max_messages")
    not_served = (
        *("", "W054"),
        "Change its options in the .proto file, or remove (mcp_bridge.tool) or the line in "
        'OPTIONS["methods"].',
    )
    unused = "W051", 'Write package.Service/Method; "*" matches any text.'

    def __init__(self, alias: str, options: JSONObject) -> None:
        super().__init__(alias, options)
        for name in ("descriptors", "target"):
            if not options.get(name):
                raise TypeError(f"its option {name!r} is missing: {self.known_options[name][1]}")
        self.limits = {name: options.get(name, value) for name, value in _LIMITS.items()}
        for name, value in self.limits.items():
            if value <= 0:
                raise ValueError(f"its option {name!r} must be more than 0")
        self.target = options["target"]
        credentials = self._function("credentials")
        if credentials is None and not is_local(self.target) and not options.get("insecure"):
            raise ValueError(
                f"its target {self.target} is another machine, but 'credentials' is not set: name "
                "a function that returns grpc.ssl_channel_credentials(), or set 'insecure': True "
                "if the network is safe"
            )
        self._metadata = self._function("metadata")
        if (self._metadata is None) is not options.get("anonymous", False):
            raise ValueError(
                "it requires either 'metadata', a function that identifies the caller to the "
                "service, or 'anonymous': True"
            )
        for line in self.lines:
            _check_limits(f"its methods {line.pattern!r}", line.more)
        self._set: Descriptors | None = None
        self._tools: dict[str, Tool] = {}
        # The name of each method's tool, or why it is not a tool, by path.
        self.outcomes: dict[str, str] = {}
        self.channel = ServiceChannel(self.target, credentials, self.limits["max_bytes"])

    def _function(self, name: str) -> Callable[..., Any] | None:
        given = self.options.get(name)
        function = import_string(given) if isinstance(given, str) else given
        if function is not None and not callable(function):
            raise TypeError(f"its option {name!r}, {given!r}, is not a function")
        return function

    @property
    def path(self) -> Path:
        """The path of the descriptor set."""
        return Path(self.options["descriptors"])

    def no_tools(self) -> tuple[str, str]:
        return (
            f"no method in {self.path} has the option (mcp_bridge.tool)",
            'Annotate methods in the .proto file, or name them in OPTIONS["methods"].',
        )

    def found(self) -> Sequence[Descriptor]:
        try:
            self._set = Descriptors(self.path.read_bytes())
        except (OSError, ValueError) as exception:
            why = exception.strerror if isinstance(exception, OSError) else first_line(exception)
            what = "cannot be read: " if isinstance(exception, OSError) else ""
            self.report(
                "W053",
                f"The descriptor set {self.path} of {self.place} {what}{why}.",
                "Write it with protoc --include_imports --include_source_info "
                f"--descriptor_set_out, or with manage.py mcp_grpc {self.alias} --reflect.",
            )
            return []
        return list(self._set.methods())

    def where(self, operation: Descriptor) -> str:
        return f"{path_of(operation)} ({self.path.name})"

    def options_of(self, operation: Descriptor) -> ToolOptions:
        given = self._given(operation)
        mark = None
        if given is not None:
            rest = {name: each for name, each in given.items() if name not in self.own}
            mark = options_in("(mcp_bridge.tool)", rest)
        is_deprecated = operation.GetOptions().deprecated
        options = self.chosen_by(mark, [path_of(operation)], guarded=is_deprecated)
        if options is None:
            text = "it lacks the option (mcp_bridge.tool)"
            raise LeftOut("it is deprecated" if is_deprecated else text)
        return options

    def name_of(self, operation: Descriptor, options: ToolOptions) -> str:
        separator = "." if conf.TOOL_NAME_STYLE == "dotted" else "_"
        parts = operation.containing_service.name, operation.name
        own = separator.join(_WORDS.sub("_", each).lower() for each in parts)
        return str(self.options.get("prefix", "")) + (options.name or own)

    def _given(self, method: Descriptor) -> dict[str, Any] | None:
        """Return the option (mcp_bridge.tool) of a method, or None."""
        assert self._set is not None
        options = self._set.options(method, "Method")
        return values_of(options[TOOL]) if TOOL in options else None

    def _limits(self, method: Descriptor) -> dict[str, Any]:
        """Return the limits of a method: the source's, overridden by its lines' and its own."""
        own = {name: each for name, each in (self._given(method) or {}).items() if name in self.own}
        _check_limits("(mcp_bridge.tool)", own)
        lines = [each.more for each in self.lines if path_of(method) in each.used]
        return reduce(lambda limits, more: {**limits, **more}, [*lines, own], self.limits)

    def build(self, operation: Descriptor, options: ToolOptions, name: str) -> Tool:
        descriptors, path = self._set, path_of(operation)
        assert descriptors is not None
        if operation.client_streaming:
            named = {each.pattern for each in self.lines}
            is_named = self._given(operation) is not None or path in named
            raise (ValueError if is_named else LeftOut)("it streams from the client")
        # Either of these hints in the options replaces all hints of the service.
        says = options.annotations.keys() & {"readOnlyHint", "destructiveHint"}
        rule = descriptors.options(operation, "Method").get(_HTTP)
        verb = "" if rule is None else rule.WhichOneof("pattern") or ""
        level = _LEVELS.get(operation.GetOptions().idempotency_level, {})
        hints = {} if says else {**HINTS.get(verb, {}), **level}
        schema = input_schema(descriptors, operation.input_type)
        service, comment = operation.containing_service, descriptors.comment(operation.full_name)
        try:
            output = output_schema(descriptors, operation.output_type, operation.server_streaming)
        except ValueError:
            # The tool works without an output schema; results are then not checked.
            output = None
        self._tools[path] = tool = Tool(
            name=name,
            title=options.title,
            description=options.description or comment.text,
            input_schema=schema,
            output_schema=output,
            annotations={**hints, **options.annotations},
            icons=options.icons,
            meta=options.meta,
            check=request_checker(descriptors, operation.input_type, schema),
            is_plain=True,
            invoke=self._invoker(operation, self._limits(operation)),
            encode=result_encoder(descriptors, operation.output_type),
            convert_error=convert_error,
            access=AccessRule.of(options.public, options.permissions, None, None, options.scopes),
            target=f"/{path} at {self.target}",
            # It does not write to databases, and transactions must not wait for another machine.
            non_atomic=frozenset(settings.DATABASES),
            source=f"{service.file.name}:{comment.line}" if comment.line else self.path.name,
            function=f"{service.full_name}.{operation.name}",
            options=options,
        )
        return tool

    def _invoker(self, descriptor: Descriptor, limits: dict[str, Any]) -> Callable[[ToolCall], Any]:
        path = f"/{path_of(descriptor)}"
        request, answer = map(GetMessageClass, (descriptor.input_type, descriptor.output_type))
        writes, reads = request.SerializeToString, answer.FromString
        codec = {"request_serializer": writes, "response_deserializer": reads}
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

    def make(self, operation: Descriptor) -> Tool:
        path = path_of(operation)
        try:
            tool = super().make(operation)
        except Exception as why:
            self.outcomes[path] = f"not a tool: {first_line(why)}"
            raise
        self.outcomes[path] = tool.name
        return tool

    def report_all(self) -> None:
        super().report_all()
        if bare := [path for path, tool in self._tools.items() if not tool.description]:
            is_lost = self._set is not None and not self._set.has_comments
            self.report(
                "W050",
                f"{self.path.name} lacks descriptions of {len(bare)} methods that are tools"
                + (", since it was written without comments" if is_lost else "")
                + f": {', '.join(bare[:10])}{', …' if len(bare) > 10 else ''}.",
                "Write it with protoc --include_source_info, or set the option's description."
                if is_lost
                else "Write a comment above each method that explains what it does and when to "
                "use it, or set (mcp_bridge.tool).description.",
            )
        if large := [path for path, tool in self._tools.items() if not tool.output_schema]:
            self.report(
                "W052",
                f"The response schemas of {', '.join(large)} are too large for clients, so these "
                "tools lack an output schema.",
                "Models still receive the results; split the message to have a schema.",
            )


def path_of(method: Descriptor) -> str:
    """Return the name of a method as in lines of the option ``methods``."""
    return f"{method.containing_service.full_name}/{method.name}"


def _check_limits(where: str, limits: Mapping[str, Any]) -> None:
    for name, value in limits.items():
        if not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"{where}: {name} must be more than 0")
