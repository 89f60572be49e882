"""A call's arguments as a message of protobuf, and messages or a status as a call's result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from grpc_status import rpc_status

from mcp_bridge.calls.arguments import plain_checker
from mcp_bridge.exceptions import ArgumentError, InvalidArguments, ToolError
from mcp_bridge.ext.grpc.descriptors import Descriptor, Descriptors, Message
from mcp_bridge.ext.grpc.schemas import is_map
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol import CallToolResult, JSONObject, JSONSchema, jsonrpc
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, pointer

logger = get_logger("mcp_bridge.ext.grpc")

# The argument of ``invoke``.
REQUEST: Final = "request"
# Either alphabet of base64 (RFC 4648, sections 4 and 5), padded or not.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
# What ParseDict puts before an error for each field that it is in.
_WITHIN: Final = re.compile(r"Failed to parse (\w+) field: ")
_MOST: Final = 25
_Place: TypeAlias = tuple[str | int, ...]
_Code: Final = grpc.StatusCode
# Whose messages the service means for its callers.
_TOLD: Final = {
    _Code.INVALID_ARGUMENT: "The service refuses these arguments.",
    _Code.NOT_FOUND: "There is no such thing.",
    _Code.ALREADY_EXISTS: "There is such a thing already.",
    _Code.FAILED_PRECONDITION: "The service cannot do that in the present state.",
    _Code.OUT_OF_RANGE: "The arguments are beyond what there is.",
    _Code.ABORTED: "The service gave up, since something else was changed meanwhile: try again.",
    _Code.PERMISSION_DENIED: "You do not have permission to do that.",
    _Code.RESOURCE_EXHAUSTED: "The service has had enough for now: try again later.",
}
# Of which the details, such as addresses and certificates, are for the site's log alone.
_UNREACHED: Final = {
    _Code.DEADLINE_EXCEEDED: "The service did not answer in time.",
    _Code.UNAVAILABLE: "The service cannot be reached just now.",
    _Code.CANCELLED: "The call was cancelled.",
}
_UNSURE: Final = "Whether it was done or not is unknown: look before you try again."
_LONGEST: Final = 2000
# The parts of a path such as ``lines[0].labels["a"]``.
_PART: Final = re.compile(r"""\["?([^\]"]*)"?\]|([^.\[\]]+)""")


def request_checker(
    descriptors: Descriptors, message: Descriptor, schema: JSONSchema
) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that makes the message ``request`` of arguments that fit their schema.

    What the schema cannot say is refused besides: two members of a oneof, numbers that are no
    float, and unknown types in an Any.
    ProtoJSON that the schema does not describe is accepted too: null for a field that is not set,
    bytes in either alphabet of base64.
    """
    check_schema, make = plain_checker(schema), GetMessageClass(message)

    def check(arguments: JSONObject) -> dict[str, object]:
        errors: list[ArgumentError] = []
        sent = check_schema(_spelled(message, arguments, (), errors))
        request = make()
        if not errors:
            try:
                ParseDict(sent, request, descriptor_pool=descriptors.pool)
            except ParseError as exception:
                errors = [_parse_error(str(exception))]
            except Exception:
                # It lets through what it does not expect, as a missing "value" in an Any.
                text = "cannot be read as the message that its schema describes"
                errors = [ArgumentError(path="", type="protobuf", message=text)]
        if errors:
            raise InvalidArguments(errors[:_MOST])
        return {REQUEST: request}

    return check


def result_encoder(
    descriptors: Descriptors, message: Descriptor
) -> Callable[[Any], CallToolResult]:
    """
    Return an encoder of such messages.

    It takes one, or a tuple: those of a stream, and whether the stream was cut.
    """
    known = _Known(descriptors)
    # A message that may be any value is wrapped always, as its schema says.
    is_any_value = message.full_name == "google.protobuf.Value"

    def plain(message: Message) -> Any:
        return MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=known)

    def encode(answer: Any) -> CallToolResult:
        if isinstance(answer, tuple):
            messages, is_cut = answer
            value: Any = {"result": list(map(plain, messages)), "truncated": is_cut}
        else:
            value = {"result": plain(answer)} if is_any_value else plain(answer)
        written = jsonrpc.encode(value)
        structured = written if isinstance(value, dict) else b'{"result":' + written + b"}"
        text = value if isinstance(value, str) else written.decode()
        return CallToolResult.of_json(text, written, structured)

    return encode


class _Known:
    """The messages of a set, as MessageToDict looks them up for an Any."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._pool = descriptors.pool

    def FindMessageTypeByName(self, name: str) -> Descriptor:
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            # Its type is told, and nothing of what it holds: the call has been made.
            return Empty.DESCRIPTOR


def _spelled(message: Descriptor, value: Any, place: _Place, errors: list[ArgumentError]) -> Any:
    """Return a message without null, its bytes in standard base64; add errors of its oneofs."""
    if not isinstance(value, Mapping) or message.file.package == "google.protobuf":
        return value
    for oneof in message.oneofs:
        given = [each.name for each in oneof.fields if value.get(each.name) is not None]
        if len(given) > 1:
            text = f"at most one of {', '.join(given)} may be given; send one of them"
            errors.append(ArgumentError(path=pointer(place), type="oneof", message=text))
    fields = message.fields_by_name
    return {
        name: _member(fields[name], each, (*place, name), errors) if name in fields else each
        for name, each in value.items()
        if each is not None or name not in fields or _is_null_a_value(fields[name])
    }


def _is_null_a_value(field: Descriptor) -> bool:
    kind = field.message_type or field.enum_type
    known = ("google.protobuf.Value", "google.protobuf.NullValue")
    return kind is not None and kind.full_name in known and not field.is_repeated


def _member(field: Descriptor, value: Any, place: _Place, errors: list[ArgumentError]) -> Any:
    kind = field.message_type
    if is_map(field) and isinstance(value, Mapping):
        inner = kind.fields_by_name["value"]
        return {key: _member(inner, it, (*place, key), errors) for key, it in value.items()}
    if field.is_repeated and isinstance(value, list):
        return [_member(field, it, (*place, index), errors) for index, it in enumerate(value)]
    is_bytes = field.type == field.TYPE_BYTES or (
        kind is not None and kind.full_name == "google.protobuf.BytesValue"
    )
    if is_bytes and isinstance(value, str) and _BASE64.fullmatch(value):
        text = value.rstrip("=").replace("-", "+").replace("_", "/")
        return text + "=" * (-len(text) % 4)
    return value if kind is None else _spelled(kind, value, place, errors)


def _parse_error(text: str) -> ArgumentError:
    place = []
    while match := _WITHIN.match(text):
        place.append(match[1])
        text = text[match.end() :]
    return ArgumentError(path=pointer(place), type="protobuf", message=cut(text.strip(), 300))


def convert_error(exception: Exception, call: ToolCall) -> Exception:
    """
    Return the error for the model in place of gRPC's own.

    The status UNKNOWN, INTERNAL and DATA_LOSS stay as they are, and with them their text, which may
    be that of any exception in the service: the log has it, and the model a plain sentence.
    """
    error: Any = exception
    if not isinstance(error, grpc.RpcError):
        return exception
    code, text = error.code(), cut(error.details() or "", _LONGEST)
    if code is _Code.RESOURCE_EXHAUSTED and "larger than max" in text:
        return ToolError(
            "The request or its answer is larger than may be sent: ask for less, or in parts."
        )
    if code in _TOLD:
        if code is _Code.INVALID_ARGUMENT and (errors := list(_field_errors(error))):
            return InvalidArguments(errors[:_MOST])
        text = text or _TOLD[code]
        if code is _Code.RESOURCE_EXHAUSTED:
            for retry in _details(error, RetryInfo):
                seconds = max(1, math.ceil(retry.retry_delay.ToTimedelta().total_seconds()))
                text += f" Retry after {seconds} second{'s' * (seconds > 1)}."
        return ToolError(text)
    if code is _Code.UNAUTHENTICATED:
        logger.error("The service of tool %r refused the site: %s", call.tool.name, text)
        return ToolError("The service refused the site.")
    if code is _Code.UNIMPLEMENTED:
        logger.error("The service of tool %r does not implement it: %s", call.tool.name, text)
        return ToolError("This tool is not implemented yet.")
    if code in _UNREACHED:
        logger.warning("Tool %r: %s, %s", call.tool.name, code.name, text)
        told = _UNREACHED[code]
        return ToolError(told if call.tool.is_read_only else f"{told} {_UNSURE}")
    return exception


def _details(error: Any, kind: Any) -> Iterator[Any]:
    """Yield the messages of a kind that came with a status (google.rpc.Status)."""
    # A service may send there what it likes.
    with suppress(Exception):
        status = rpc_status.from_call(error)
        for each in status.details if status is not None else ():
            detail = kind()
            if each.Unpack(detail):
                yield detail


def _field_errors(error: Any) -> Iterator[ArgumentError]:
    for request in _details(error, BadRequest):
        for each in request.field_violations:
            place = [index or name for index, name in _PART.findall(each.field)]
            text = cut(each.description or "is not valid", _LONGEST)
            yield ArgumentError(path=pointer(place), type="service", message=text)
