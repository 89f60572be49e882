"""Convert the arguments of a call to a protobuf message, and messages to a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from mcp_bridge.calls.arguments import plain_checker
from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.ext.grpc.descriptors import Descriptor, Descriptors, Message
from mcp_bridge.ext.grpc.rules import RULES
from mcp_bridge.ext.grpc.schemas import is_map
from mcp_bridge.protocol import CallToolResult, JSONObject, JSONSchema, jsonrpc
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, pointer

try:
    import protovalidate
except ImportError:
    # Without it, only the service checks rules that JSON Schema cannot express.
    protovalidate = None

logger = get_logger("mcp_bridge.ext.grpc")

# The name of the argument of ``invoke``.
REQUEST: Final = "request"
# Both alphabets of Base64 (RFC 4648, sections 4 and 5), with or without padding.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
# ParseDict's prefix of an error, one for each enclosing field.
_WITHIN: Final = re.compile(r"Failed to parse (\w+) field: ")
_MOST: Final = 25
Place = tuple[str | int, ...]


def request_checker(
    descriptors: Descriptors, message: Descriptor, schema: JSONSchema
) -> Callable[[JSONObject], dict[str, object]]:
    """
    Return a checker that converts arguments that match their schema to the message ``request``.

    It also checks rules that the schema cannot express: two members of a oneof, numbers outside
    float's range, unknown types in an Any, and buf.validate's rules if protovalidate is installed.
    It accepts ProtoJSON that the schema does not describe: null for an unset field, and bytes in
    either alphabet of Base64.
    """
    check_schema, make = plain_checker(schema), GetMessageClass(message)
    # Not the shared validator, which confuses files of the same name.
    has_rules = protovalidate is not None and descriptors.has_option(RULES)
    validator = protovalidate.Validator() if has_rules else None

    def check(arguments: JSONObject) -> dict[str, object]:
        errors: list[ArgumentError] = []
        sent = check_schema(_spelled(message, arguments, (), errors))
        request = make()
        if not errors:
            try:
                ParseDict(sent, request, descriptor_pool=descriptors.pool)
            except ParseError as exception:
                text, within = str(exception), []
                while match := _WITHIN.match(text):
                    within.append(match[1])
                    text = text[match.end() :]
                text = cut(text.strip(), 300)
                errors = [ArgumentError(path=pointer(within), type="protobuf", message=text)]
            except Exception:
                # ParseDict raises other errors for some input, such as an Any without "value".
                text = "cannot be read as the message that its schema describes"
                errors = [ArgumentError(path="", type="protobuf", message=text)]
        if not errors and validator is not None:
            errors = list(_rule_errors(validator, request))
        if errors:
            raise InvalidArguments(errors[:_MOST])
        return {REQUEST: request}

    return check


def result_encoder(descriptors: Descriptors, kind: Descriptor) -> Callable[[Any], CallToolResult]:
    """Return an encoder of a message, or of a stream's messages and whether it was cut."""

    def find(name: str) -> Descriptor:
        try:
            return descriptors.pool.FindMessageTypeByName(name)
        except KeyError:
            # Show the type without its content: the call has already been made.
            return Empty.DESCRIPTOR

    # A lookup of the set's messages, for MessageToDict to resolve an Any.
    known = SimpleNamespace(FindMessageTypeByName=find)
    # A message of any value is always wrapped, like its schema.
    is_any_value = kind.full_name == "google.protobuf.Value"

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


def _spelled(message: Descriptor, value: Any, place: Place, errors: list[ArgumentError]) -> Any:
    """
    Return a message without null members, with bytes in standard Base64 with padding.

    Adds an error to ``errors`` for each message with several members of a oneof.
    """
    if not isinstance(value, Mapping) or message.file.package == "google.protobuf":
        return value
    for oneof in message.oneofs:
        given = [each.name for each in oneof.fields if value.get(each.name) is not None]
        if len(given) > 1:
            text = f"at most one of {', '.join(given)} is allowed; send one of them"
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


def _member(field: Descriptor, value: Any, place: Place, errors: list[ArgumentError]) -> Any:
    if is_map(field):
        if not isinstance(value, Mapping):
            return value
        inner = field.message_type.fields_by_name["value"]
        return {key: _item(inner, each, (*place, key), errors) for key, each in value.items()}
    if isinstance(value, list) and field.is_repeated:
        return [_item(field, each, (*place, i), errors) for i, each in enumerate(value)]
    return _item(field, value, place, errors)


def _item(field: Descriptor, value: Any, place: Place, errors: list[ArgumentError]) -> Any:
    kind = field.message_type
    is_bytes = field.type == field.TYPE_BYTES or (
        kind is not None and kind.full_name == "google.protobuf.BytesValue"
    )
    if is_bytes and isinstance(value, str) and _BASE64.fullmatch(value):
        text = value.rstrip("=").replace("-", "+").replace("_", "/")
        return text + "=" * (-len(text) % 4)
    return value if kind is None else _spelled(kind, value, place, errors)


def _rule_errors(validator: Any, request: Message) -> Iterator[ArgumentError]:
    try:
        violations = validator.collect_violations(request)
    except Exception:
        # The service checks its rules itself.
        logger.exception("The rules of %s cannot be checked", request.DESCRIPTOR.full_name)
        return
    for each in violations:
        # The names, keys and indexes of the refused value.
        place: list[str | int] = []
        for element in each.proto.field.elements if each.proto.field is not None else ():
            place.append(element.field_name)
            if element.subscript is not None:
                place.append(element.subscript.value)
        yield ArgumentError(path=pointer(place), type="rule", message=each.proto.message)
