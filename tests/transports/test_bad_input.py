"""Invalid input: refused in one short JSON text, with nothing run and nothing logged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.testing import MCPClient
from tests.support import wire
from tests.support.values import label
from tests.support.wire import answered, good, headers, refused, sentinel

quiet = wire.quiet
pytestmark = pytest.mark.usefixtures("quiet")

DEEP = 100_000
MIB = 2**20


def send(client: MCPClient, text: str, **more: str | None) -> Any:
    """Post a text; U+DC80 to U+DCFF in it stand for the bytes 80 to FF, which are not UTF-8."""
    return client.send(text.encode("utf-8", "surrogateescape"), headers(client, **more))


def changed(client: MCPClient, old: str, new: str) -> str:
    text = good(client)
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize(
    "body",
    ["", " \r\n\t", "hello", "a=1&b=2", "<x/>", "\x00", "[", "]", "{", '{"jsonrpc"', "nul", "NaN"]
    + ["-Infinity", "'x'", "\udcff", "\udcff\udcfe{\x00}\x00", "\ufeff{}", "{}{}", "\x0b{}", "+1"],
)
def test_body_that_is_not_json_is_a_parse_error(sender: MCPClient, body: str) -> None:
    refused(send(sender, body), 400, -32700)


@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+400", "01", "+1", ".5", "1.", "0x1"]
    + ["1_0", "'x'", '"\t"', '"\x00"', '"\\x41"', '"\\u12"', '"open', "tru", "undefined", "1//c"]
    + ["/**/1", "1,", "[1,]", '{"b":1,}', "{b:1}", '{"b"}', "[1 2]", "True", "None", "", "\u0661"]
    + ['"\udcff"', '"\udcc0\udc80"', '"\udced\udca0\udc80"', '"\udce2\udc82"'],
)
def test_value_that_is_not_json_is_a_parse_error(sender: MCPClient, value: str) -> None:
    refused(send(sender, changed(sender, '"a":1', f'"a":{value}')), 400, -32700)


@pytest.mark.parametrize(
    "value",
    ["9" * 310, "9" * 5000, "-" + "9" * 5000, "9" * 5000 + ".5", "1e" + "9" * 5000]
    + ["[" * 62 + "]" * 62, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP]
    + ['[{"":' * DEEP, "[" * DEEP + '"'],
    ids=["310 digits", "5000 digits", "-5000 digits", "long float", "long exponent"]
    + ["65 levels", "deep list", "deep object", "unclosed list", "unclosed both", "open string"],
)
def test_unbounded_value_is_a_parse_error(sender: MCPClient, value: str) -> None:
    refused(send(sender, changed(sender, '"a":1', f'"a":{value}')), 400, -32700)


@pytest.mark.parametrize("rest", ["x", "{}", "null", ",", "\x00", "\u00a0", "]", "}", "[", "//"])
def test_data_after_the_message_is_a_parse_error(sender: MCPClient, rest: str) -> None:
    refused(send(sender, good(sender) + rest), 400, -32700)
    refused(send(sender, good(sender) + good(sender)), 400, -32700)


@pytest.mark.parametrize("before", ["\ufeff", "\u00a0", ")]}'\n", "data: ", "\x1e", "\x00"])
def test_data_before_the_message_is_a_parse_error(sender: MCPClient, before: str) -> None:
    refused(send(sender, before + good(sender)), 400, -32700)


@pytest.mark.requirement("legacy.utf-8", "message.json-rpc")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-32-be", "utf-8-sig"])
def test_message_in_another_encoding_is_a_parse_error(sender: MCPClient, encoding: str) -> None:
    response = sender.send(good(sender).encode(encoding), headers(sender))
    refused(response, 400, -32700)


@pytest.mark.requirement("error.same-id")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"jsonrpc":"2.0"', '"jsonrpc":"2.0","jsonrpc":"2.0"'),
        ('"id":1', '"id":1,"id":2'),
        ('"id":1', '"id":1,"i\\u0064":1'),
        ('"method":"tools/call"', '"method":"tools/list","method":"tools/call"'),
        ('"params":', '"params":{},"params":'),
        ('"name":"add"', '"name":"echo","name":"add"'),
        ('"arguments":', '"arguments":{"a":2},"arguments":'),
        ('"a":1', '"a":1,"a":1'),
        ('"a":1', '"a":{"x":[{"y":{"z":1,"z":2}}]}'),
        ('"a":1', '"a":1,"_meta":{"":0,"":0}'),
    ],
)
def test_duplicate_member_is_refused_at_any_depth(sender: MCPClient, old: str, new: str) -> None:
    refused(send(sender, changed(sender, old, new)), 400, -32600)


@pytest.mark.requirement("error.same-id")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"a":1', '"a":"\\ud800"'),
        ('"a":1', '"a":"x\\uDFFFy"'),
        ('"a":1', '"a":"\\ude00\\ud83d"'),
        ('"a":1', '"a":[[{"b":"\\udc80"}]]'),
        ('"a":1', '"\\ud800":1'),
        ('"tools/call"', '"tools/call\\ud800"'),
        ('"add"', '"add\\udcff"'),
        ('"id":1', '"id":"\\ud800"'),
    ],
)
def test_lone_surrogate_is_refused_in_any_place(sender: MCPClient, old: str, new: str) -> None:
    refused(send(sender, changed(sender, old, new)), 400, -32600)


@pytest.mark.requirement("message.json-rpc", "tools.unknown")
@pytest.mark.parametrize("body", ["null", "true", "0", "1.5", '"x"', "{}", '{"method":"ping"}'])
def test_body_that_is_not_a_message_is_refused(sender: MCPClient, body: str) -> None:
    refused(send(sender, body), 400, -32600)


@pytest.mark.requirement("request.id-type", "request.id-null", "error.same-id")
@pytest.mark.parametrize(
    "value",
    ["null", "true", "false", "1.0", "1.5", "-0.0", "1e2", "[]", "[1]", "{}", '{"a":1}']
    + [str(2**63), str(-(2**63) - 1), "9" * 309, '"' + "x" * 257 + '"', '"' + "x" * 10**5 + '"'],
    ids=lambda value: value[:12],
)
def test_illegal_id_is_refused_and_not_repeated(sender: MCPClient, value: str) -> None:
    refused(send(sender, changed(sender, '"id":1', f'"id":{value}')), 400, -32600)


@pytest.mark.requirement("request.id-type", "response.same-id")
@pytest.mark.parametrize(
    "value", [0, -1, 2**63 - 1, -(2**63), "", "1", "null", "é", "\x00", "x" * 256, '"]}']
)
def test_legal_id_is_echoed_unchanged(sender: MCPClient, value: Any) -> None:
    text = changed(sender, '"a":1', '"a":"x"').replace('"id":1', f'"id":{json.dumps(value)}')
    assert answered(send(sender, text), id=value)["isError"]
    text = text.replace('"add"', '"none"')
    refused(send(sender, text, Mcp_Name="none"), 200, -32602, id=value)


@pytest.mark.requirement("message.json-rpc", "error.same-id", "error.members")
@pytest.mark.parametrize("value", [None, '"1.0"', '"2"', '"2.00"', "2.0", "2", "null", "[]", "{}"])
def test_message_without_version_2_is_refused_with_its_id(
    sender: MCPClient, value: str | None
) -> None:
    member = "" if value is None else f'"jsonrpc":{value},'
    refused(send(sender, changed(sender, '"jsonrpc":"2.0",', member)), 400, -32600, id=1)


@pytest.mark.parametrize("value", [None, "null", "1", "true", "[]", "{}", '["tools/call"]'])
def test_method_that_is_not_a_string_is_refused(sender: MCPClient, value: str | None) -> None:
    member = "" if value is None else f'"method":{value},'
    refused(send(sender, changed(sender, '"method":"tools/call",', member)), 400, -32600, id=1)


def test_names_of_members_are_case_sensitive(sender: MCPClient) -> None:
    for name in ("jsonrpc", "method"):
        text = changed(sender, f'"{name}":', f'"{name.capitalize()}":')
        refused(send(sender, text), 400, -32600, id=1)


@pytest.mark.parametrize("value", ["null", "[]", "[1]", '"x"', "1", "true"])
def test_params_that_are_not_an_object_are_invalid(sender: MCPClient, value: str) -> None:
    text = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{value}}}'
    refused(send(sender, text), 400 if sender.revision.modern else 200, -32602, id=1)


@pytest.mark.requirement("http.unknown-method")
@pytest.mark.parametrize(
    "method",
    ["__class__", "system.listMethods", "add", "tools.call", "Tools/Call", "tools/call ", "tools/"]
    + ["rpc.discover", "prompts/list", "resources/list", "logging/setLevel", "completion/complete"]
    + ["tasks/list", "roots/list", "sampling/createMessage", "../../etc"]
    + ["notifications/initialized", "handle", "begin", "x" * 10**5, "é\x00\r\n"],
    ids=lambda method: label(method[:24]),
)
def test_unknown_method_is_not_found(sender: MCPClient, method: str) -> None:
    text = changed(sender, '"tools/call"', json.dumps(method))
    if sender.revision.modern and not method.isascii() or method.strip() != method:
        # A header cannot hold it, so that headers and body cannot agree.
        status, code = (400, -32020) if sender.revision.modern else (200, -32601)
        refused(send(sender, text, Mcp_Method="x"), status, code, id=1)
    else:
        status = 404 if sender.revision.modern else 200
        refused(send(sender, text, Mcp_Method=method), status, -32601, id=1)


@pytest.mark.requirement("tools.unknown")
@pytest.mark.parametrize(
    "name",
    ["", " ", "Add", "ADD", "add ", " add", "add\n", "add\x00", "аdd", "add,add", "__class__"]
    + ["system.listMethods", "system_listMethods", "unmarked", "unexposed", "outdated", "xml_only"]
    + ["shop.orders.find", "../add", "add()", "%61dd", "*", "add?", "x" * 10**5, "\N{PILE OF POO}"],
    ids=lambda name: label(repr(name[:20])),
)
def test_unknown_tool_is_invalid_params_at_status_200(sender: MCPClient, name: str) -> None:
    text = changed(sender, '"add"', json.dumps(name))
    error = refused(send(sender, text, Mcp_Name=sentinel(name) if name else ""), 200, -32602, id=1)
    assert error["message"].startswith("Unknown tool: " + name[:64])


@pytest.mark.requirement("tools.unknown")
@pytest.mark.parametrize("value", [None, "null", "1", "true", "[]", '["add"]', "{}", '{"a":1}'])
def test_name_that_is_not_a_string_is_invalid(sender: MCPClient, value: str | None) -> None:
    member = "" if value is None else f'"name":{value},'
    refused(send(sender, changed(sender, '"name":"add",', member)), 200, -32602, id=1)


@pytest.mark.parametrize("value", ["[]", "[1]", '"x"', '""', "1", "0", "true", "false"])
def test_arguments_that_are_not_an_object_are_invalid(sender: MCPClient, value: str) -> None:
    text = changed(sender, '"arguments":{"a":1}', f'"arguments":{value}')
    refused(send(sender, text), 200, -32602, id=1)


@pytest.mark.requirement("tools.input-errors")
@pytest.mark.parametrize(
    "arguments",
    ["null", "{}", '{"a":null}', '{"a":"1"}', '{"a":true}', '{"a":1.5}', '{"a":[1]}', '{"A":1}']
    + ['{"a":1,"b":"x"}', '{"a":1,"c":1}', '{"a":1,"self":1}', '{"a":1,"request":{}}', '{"":1}'],
)
def test_arguments_outside_the_schema_are_reported_to_the_model(
    sender: MCPClient, arguments: str
) -> None:
    text = changed(sender, '"arguments":{"a":1}', f'"arguments":{arguments}')
    assert answered(send(sender, text))["isError"]


@pytest.mark.parametrize(
    "arguments",
    [f'{{"{"x" * 900_000}":1}}', f'{{"a":"{"x" * 900_000}"}}', f'{{"a":[{"1," * 50_000}1]}}']
    + ["{" + ",".join(f'"n{index}":1' for index in range(10_000)) + "}"],
    ids=["long name", "long value", "long list", "many names"],
)
def test_answer_does_not_grow_with_the_request(sender: MCPClient, arguments: str) -> None:
    response = send(sender, changed(sender, '{"a":1}', arguments))
    assert answered(response)["isError"]
    assert len(response.content) <= 2**16


@pytest.mark.parametrize(
    ("old", "prefix", "suffix", "header"),
    [
        ('"tools/call"', '"', '"', "Mcp_Method"),
        ('"add"', '"', '"', "Mcp_Name"),
        ('"jsonrpc":"2.0"', '"jsonrpc":"', '"', "X_None"),
        ('"id":1', '"id":"', '"', "X_None"),
    ],
    ids=["method", "name", "jsonrpc", "id"],
)
def test_refusal_repeats_little_of_a_long_text(
    sender: MCPClient, old: str, prefix: str, suffix: str, header: str
) -> None:
    response = send(sender, changed(sender, old, f"{prefix}{'x' * 900_000}{suffix}"))
    assert len(response.content) < 1024
    assert "error" in wire.strict(response.content)


def test_text_of_one_mebibyte_is_taken(sender: MCPClient) -> None:
    text = changed(sender, '"add"', '"echo"').replace('"a":1', f'"text":"{"[" * 1_000_000}"')
    assert wire.strict(send(sender, text, Mcp_Name="echo").content)["result"]["isError"] is False
