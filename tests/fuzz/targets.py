"""
Readers of foreign input: each target takes bytes, and raises for every forbidden outcome.

Only the errors that a function declares are caught here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mcp_bridge.admin.schema_tables import parameters
from mcp_bridge.admin.try_tool import ArgumentsForm
from mcp_bridge.calls.arguments import plain_checker, typed_checker
from mcp_bridge.calls.media import MediaType, block
from mcp_bridge.concurrency.places import drive
from mcp_bridge.conf import check_resource
from mcp_bridge.confirmation.rendering import render_arguments
from mcp_bridge.exceptions import InvalidArguments, ToolError
from mcp_bridge.features import Tool
from mcp_bridge.outbound.addresses import is_global, is_host, is_https_or_loopback
from mcp_bridge.protocol import Headers, InvalidParamsError, ProtocolError, exchange, jsonrpc
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.errors import HeaderMismatchError
from mcp_bridge.protocol.headers import decoded_header, parameter_headers
from mcp_bridge.protocol.input_requests import check_response, read_answers
from mcp_bridge.protocol.pagination import after, position
from mcp_bridge.protocol.requests import Request
from mcp_bridge.protocol.revisions import LATEST
from mcp_bridge.records.redaction import redact_to_json, sensitive_fields
from mcp_bridge.registry.linting import lint
from mcp_bridge.schemas import Inputs, Signature
from mcp_bridge.schemas.validation import SchemaValidator, UncheckableError
from mcp_bridge.sources.operations.answers import Answer, read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, Unmappable, operation_name
from mcp_bridge.sources.operations.values import read_file
from tests.fuzz import site
from tests.support.wire import strict

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], None]
    # Whether its input is one JSON text, of which a mutation may be one as well.
    is_json: bool = False


TARGETS: dict[str, Target] = {}


def target(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    TARGETS[run.__name__] = Target(run)
    return run


def json_target(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a target whose input is a JSON object, as read by a server or from a file."""

    def read(data: bytes) -> None:
        with suppress(ProtocolError):
            value = jsonrpc.decode(data)
            if isinstance(value, dict):
                run(value)

    TARGETS[run.__name__] = Target(read, is_json=True)
    return run


def seeds(name: str) -> Iterator[Path]:
    """Return the inputs with which a target begins, including former failures."""
    yield from sorted((CORPUS / name).iterdir())


@target
def messages(data: bytes) -> None:
    """Read a body, after a line with the headers of version, method and name."""
    line, _, body = data.partition(b"\n")
    version, method, name = [*line.decode("latin-1").split("\t"), "", "", ""][:3]
    # As in HTTP: a header is omitted rather than empty.
    headers = Headers(version or None, method or None, name or None)
    for given in (headers, None):
        ran: list[Request] = []

        async def handle(request: Request, ran: list[Request] = ran) -> dict[str, Any]:
            ran.append(request)
            with suppress(InvalidParamsError):
                answers = read_answers(request.params)
                for key, value in (answers.responses if answers else {}).items():
                    check_response(key, "elicitation/create", value)
            return {}

        reply = drive(exchange.answer(body, handle, headers=given))
        if reply.body is None:
            assert reply.status == 202
            continue
        answered = strict(reply.body)
        for each in answered if isinstance(answered, list) else [answered]:
            assert each.get("error", {}).get("code") != -32603, answered
        assert len(ran) <= 10
        if ran:
            assert isinstance(strict(body), dict | list)


@target
def cursors(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(InvalidParamsError):
        found = position(text)
        assert isinstance(found, int) or position(after(found)) == found


@target
def headers(data: bytes) -> None:
    """Read a header and an argument that it mirrors, the latter as JSON in a second line."""
    line, _, rest = data.partition(b"\n")
    text = line.decode("latin-1")
    with suppress(HeaderMismatchError):
        decoded_header("Mcp-Name", text)
    with suppress(ProtocolError):
        value = jsonrpc.decode(rest)
        sent = Headers(text, text, text, {"HTTP_MCP_PARAM_REGION": text})
        mirrored = {"Region": ("place", "region")}
        arguments = {"place": {"region": value}}
        with suppress(HeaderMismatchError):
            sent.check_parameters(mirrored, arguments)
        with suppress(HeaderMismatchError):
            sent.check(text, text, value if isinstance(value, str) else None)
        # A header that a client sends is taken.
        own = parameter_headers(mirrored, arguments)
        if own:
            own_text = own["Mcp-Param-Region"]
            assert own_text.isascii()
            Headers(environ={"HTTP_MCP_PARAM_REGION": own_text}).check_parameters(
                mirrored, arguments
            )


def _tool(function: Any) -> Tool:
    signature = Signature.of(function)
    inputs = Inputs(signature)
    schema = function.__mcp_tool__.input_schema
    return Tool(
        name=function.__name__,
        description="",
        input_schema=schema or inputs.schema,
        check=typed_checker(inputs, schema),
        invoke=lambda call: None,
        encode=lambda value: CallToolResult(content=[]),
    )


@cache
def _tools() -> dict[str, Tool]:
    functions = (site.add, site.tree, site.book, site.routed, site.by_hand, site.later)
    tools = {each.__name__: _tool(each) for each in functions}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": NESTED}}
    made = tools["later"]
    return {**tools, "made": replace(made, input_schema=schema, check=plain_checker(schema))}


NESTED = {
    "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}, "uniqueItems": True}]
    + [{"type": "string", "format": "date-time"}, {"type": "number", "multipleOf": 0.01}],
}


@json_target
def arguments(sent: Any) -> None:
    """Read the arguments of a call, in ``arguments``, with the name of a tool in ``name``."""
    tool, given = _tools().get(str(sent.get("name"))), sent.get("arguments")
    if tool is None or not isinstance(given, dict):
        return
    with suppress(InvalidArguments):
        tool.check(given)
    render_arguments(tool, given)
    kept = redact_to_json(given, limit=2000, secrets=sensitive_fields(tool))
    strict(kept.encode())
    assert len(kept.encode()) <= 2000


@json_target
def schemas(sent: Any) -> None:
    """Read a schema from any author, and a value to be checked against it."""
    schema, instance = sent.get("schema"), sent.get("instance")
    if not isinstance(schema, dict):
        return
    try:
        validator = SchemaValidator(schema, "input_schema")
    except ValueError:
        return
    with suppress(UncheckableError):
        for each in validator.errors(instance):
            assert len(each.message) <= 301


@json_target
def pages(sent: Any) -> None:
    """Read a schema from any author, as the admin shows it, and the values typed into its form."""
    schema, typed = sent.get("schema"), sent.get("instance")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return
    try:
        SchemaValidator(schema, "input_schema")
    except ValueError:
        return
    parameters(schema)
    tool = replace(_tools()["later"], input_schema=schema)
    lint(tool)
    strict(jsonrpc.encode(tool.definition(LATEST)))
    for each in ArgumentsForm(schema):
        str(each)
    if isinstance(typed, dict):
        given = {f"arguments-{name}": str(value) for name, value in typed.items()}
        form = ArgumentsForm(schema, given)
        if form.is_valid():
            jsonrpc.encode(form.arguments())


@json_target
def documents(sent: Any) -> None:
    """Read an OpenAPI document, with arguments for each of its operations in ``x-arguments``."""
    try:
        document = Document(sent)
    except ValueError:
        return
    for operation in document.operations():
        name = operation_name(operation)
        assert len(name) <= 64
        with suppress(Unmappable):
            mapped = map_operation(document, operation, output_schema=True)
            _use(mapped, sent.get("x-arguments"))


def _use(mapped: MappedOperation, given: Any) -> None:
    # Tools made from a document are valid, and within the bounds.
    SchemaValidator(mapped.input_schema, "input_schema")
    if mapped.output_schema is not None:
        SchemaValidator(mapped.output_schema, "output_schema")
    if isinstance(given, dict):
        with suppress(InvalidArguments):
            mapped.request(plain_checker(mapped.input_schema)(given))


@cache
def _mapped() -> MappedOperation:
    path = {"get": {"responses": {"200": {"description": ""}}, "parameters": []}}
    document = Document({"openapi": "3.1.0", "paths": {"/things": path}})
    return map_operation(document, next(document.operations()))


@target
def answers(data: bytes) -> None:
    """Read the answer of another service: a status, some headers and a body."""
    head, _, body = data.partition(b"\n\n")
    status, *lines = head.decode("latin-1").split("\n")
    if not (status.isascii() and status.isdecimal() and len(status) == 3):
        return
    pairs = [line.partition(":") for line in lines]
    sent = {name.lower(): value.strip() for name, _, value in pairs}
    with suppress(ToolError):
        result = read_answer(Answer(status=int(status), headers=sent, body=body), _mapped())
        strict(result.to_json(LATEST))


@target
def media(data: bytes) -> None:
    """
    Read a media type and a name in a line each, and a file: a data: URI, base64, or the bytes.
    """
    kind, _, rest = data.partition(b"\n")
    name, _, contents = rest.partition(b"\n")
    text = kind.decode("latin-1")
    with suppress(InvalidArguments):
        found, media_type = read_file(contents.decode("latin-1"), ("file",))
        assert isinstance(found, bytes)
        # It is written into a header.
        assert media_type.isprintable()
    try:
        MediaType(text)
    except ValueError:
        return
    result = CallToolResult(content=[block((contents, text, name.decode("utf-8", "replace")), 1)])
    strict(result.to_json(LATEST))


@target
def addresses(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    is_https_or_loopback(text)
    with suppress(ValueError):
        check_resource(text)
    for judge in (is_global, is_host):
        with suppress(ValueError):
            judge(text)
