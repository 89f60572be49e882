"""
What is measured: the requests on the wire, and the proof that their answers are right.

All contestants get the same bytes: requests of MCP revision 2026-07-28.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmarks import tools
from benchmarks.contestants import Contestant, Group
from benchmarks.servers import Server
from benchmarks.wire import META, REVISION, Answer, Connection, Exchange, WrongAnswerError


@dataclass(frozen=True, slots=True)
class Scenario:
    """One operation of a group: in one mode, on servers that have so many tools."""

    group: str
    mode: str
    operation: str
    tools: int

    def __str__(self) -> str:
        return f"{self.group} {self.mode} {self.operation} {self.tools}"


def scenarios(group: Group) -> list[Scenario]:
    return [Scenario(group.name, group.mode, each, group.tools) for each in group.operations]


def exchanges(scenario: Scenario, server: Server, contestant: Contestant) -> list[Exchange]:
    """
    The requests of a scenario, after all of their answers have been verified.

    A listing has a request for each page, any other operation has one: "page" is the first page.
    Raises WrongAnswerError.
    """
    token = "" if scenario.mode == "anonymous" else server.token
    with closing(Connection(server.port)) as connection:
        verify_refusals(connection, token, contestant)
        if scenario.operation in ("list", "page"):
            pages = list(read_pages(connection, token))
            count = contestant.tools or scenario.tools
            verify_listing(pages, tools.names(count, permitted=scenario.mode == "permissions"))
            wanted = [exchange for exchange, _ in pages]
            return wanted[:1] if scenario.operation == "page" else wanted
        arguments = tools.ARGUMENTS[scenario.operation]
        request = call_request(scenario.operation, arguments, token)
        answer = connection.ask(request)
        verify_call(result_of(answer), tools.RESULTS[scenario.operation])
        return [Exchange(request, answer.size)]


def encode(method: str, params: Mapping[str, Any], token: str) -> bytes:
    """A request on the wire; its headers repeat what the revision wants repeated."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": META},
    }
    body = json.dumps(message, separators=(",", ":")).encode()
    head = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {REVISION}",
        f"Mcp-Method: {method}",
        f"Content-Length: {len(body)}",
    ]
    if "name" in params:
        head.append(f"Mcp-Name: {params['name']}")
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*head, "", ""]).encode() + body


def call_request(name: str, arguments: Mapping[str, Any], token: str) -> bytes:
    return encode("tools/call", {"name": name, "arguments": arguments}, token)


def read_pages(connection: Connection, token: str) -> Iterator[tuple[Exchange, dict[str, Any]]]:
    """Each page of a complete listing, and the exchange that gives it."""
    params: dict[str, Any] = {}
    while True:
        request = encode("tools/list", params, token)
        answer = connection.ask(request)
        result = result_of(answer)
        yield Exchange(request, answer.size), result
        if "nextCursor" not in result:
            return
        params = {"cursor": result["nextCursor"]}


def result_of(answer: Answer) -> dict[str, Any]:
    message = answer.json() if answer.status == 200 else {}
    expect(message.get("jsonrpc") == "2.0" and message.get("id") == 1, "a JSON-RPC answer", answer)
    expect("result" in message, "a result", answer)
    result: dict[str, Any] = message["result"]
    expect(result.get("resultType") == "complete", "a result of the revision", answer)
    return result


def verify_call(result: Mapping[str, Any], value: Any) -> None:
    expect(result.get("isError", False) is False, "success", result)
    expect(result.get("structuredContent") == value, f"the value {value!r}", result)
    expect([block["type"] for block in result["content"]] == ["text"], "one text block", result)


def verify_listing(pages: list[tuple[Exchange, dict[str, Any]]], names: set[str]) -> None:
    listed = [tool for _, result in pages for tool in result["tools"]]
    expect(len(listed) == len(names), f"{len(names)} tools", len(listed))
    expect({tool["name"] for tool in listed} == names, "their names", listed)
    for tool in listed:
        expect(tool["inputSchema"]["type"] == "object", "the schema of an object", tool)
        expect(bool(tool["description"]), "a description", tool)


def verify_refusals(connection: Connection, token: str, contestant: Contestant) -> None:
    """No token where one is needed, and an argument of a wrong type, are refused."""
    wanted = tools.ARGUMENTS["add"]
    if token:
        answer = connection.ask(call_request("add", wanted, token=""))
        expect(answer.status == 401, "a refusal without a token", answer)
        answer = connection.ask(call_request("add", wanted, token="wrong"))
        expect(answer.status == 401, "a refusal of a wrong token", answer)
    if contestant.checks_arguments:
        for wrong in ("20", True, 20.5):
            answer = connection.ask(call_request("add", {**wanted, "a": wrong}, token))
            refused = result_of(answer).get("isError")
            expect(refused is True, f"a refusal of {wrong!r} as an integer", answer)


def expect(fulfilled: bool, wanted: str, got: Any) -> None:
    if not fulfilled:
        raise WrongAnswerError(f"Expected {wanted}, got: {str(got)[:600]}")
