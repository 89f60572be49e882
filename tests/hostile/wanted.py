"""The required answer to a request, and the contents that no answer may have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import CallToolResult, JSONRPCError, JSONRPCResponse, ListToolsResult
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from tests.hostile.connection import Answer
from tests.hostile.drafts import MODERN

# An error: 4 KiB, and the id as JSON may write it; a result that reports an error: 64 KiB.
MOST_OF_ERROR: Final = 4096
MOST_OF_RESULT: Final = 64 * 1024
LONGEST_MESSAGE: Final = 300
LEAK: Final = re.compile(
    rb"Traceback|File \"|(?<!manage)\.py\b|site-packages|SECRET-MARKER|DJANGO_|SECRET_KEY|"
    rb"(?<![A-Za-z])(?:[A-Z][a-z]+)+(?:Error|Exception|Exit)\b"
)
HTML: Final = re.compile(rb"<!doctype|<html|text/html", re.IGNORECASE)
# Codes that a modern server may not send (MCP, "Error codes"), but for the three with a meaning.
RESERVED: Final = {*range(-32099, -32019), -32002, -32042} - {-32020, -32021, -32022}


@dataclass(frozen=True)
class Sent:
    """A request's era, its method, its id if it is readable, and how often tools ran meanwhile."""

    era: str
    method: str
    id: Any = None
    ran: int = 0


class Wanted:
    """The required answer to a request; ``runs`` is how often a tool may run because of it."""

    runs: int = 0
    # Whether the HTTP server or Django may give the answer, in their own words.
    foreign: bool = False

    def problems(self, answer: Answer, sent: Sent) -> Iterator[str]:
        """Return the findings on an answer."""
        if sent.ran != self.runs:
            yield f"tools ran {sent.ran} times, not {self.runs}"
        if answer.rest and not self.foreign:
            yield f"a second answer {answer.rest[:80]!r}"
        yield from self.differences(answer, sent)

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        """Return how an answer differs from the one wanted."""
        raise NotImplementedError


@dataclass(frozen=True)
class Http(Wanted):
    """
    An answer below JSON-RPC, with one of the statuses and with headers that match patterns.
    """

    statuses: tuple[int, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    foreign: bool = False
    runs: int = 0

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        if answer.status not in self.statuses:
            yield f"status {answer.status}, not one of {self.statuses}"
        yield from _headers(answer, self.headers)
        yield from _leaks(answer, html=self.foreign)
        if len(answer.body) > MOST_OF_RESULT:
            yield f"{len(answer.body)} bytes"


@dataclass(frozen=True)
class Accepted(Wanted):
    """A notification was taken: 202, and nothing else."""

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        if (answer.status, answer.body) != (202, b""):
            yield f"{answer.status} with {answer.body[:80]!r}, not 202 with nothing"


@dataclass(frozen=True)
class Refused(Wanted):
    """A JSON-RPC error; ``echoes`` says that the id of the request comes back, else null."""

    code: int
    status: int = 400
    echoes: bool = True
    message: str = ""
    data: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        yield from _leaks(answer)
        yield from _headers(answer, self.headers)
        if answer.status != self.status:
            yield f"status {answer.status}, not {self.status}"
        found = yield from _strict(answer)
        if not isinstance(found, dict) or not isinstance(found.get("error"), dict):
            yield "no JSON-RPC error"
            return
        yield from _error(found, answer, self.code, sent.id if self.echoes else None)
        said = found["error"]
        if self.message and not re.fullmatch(self.message, str(said.get("message")), re.DOTALL):
            yield f"the message {str(said.get('message'))[:120]!r}"
        if not isinstance(said.get("data", {}), dict) or set(said.get("data", {})) != {*self.data}:
            yield f"the data {said.get('data')!r}"
        if sent.era == MODERN and said.get("code") in RESERVED:
            yield f"the reserved code {said['code']}"


@dataclass(frozen=True)
class Answered(Wanted):
    """A result, which is an error of the tool or not, with a text that a pattern finds in it."""

    is_error: bool = False
    text: str = ""
    runs: int = 1
    most: int = MOST_OF_RESULT
    kind: str = "complete"
    check: Callable[[dict[str, Any]], bool] | None = None

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        yield from _leaks(answer)
        if answer.status != 200:
            yield f"status {answer.status}, not 200"
        if len(answer.body) > self.most:
            yield f"{len(answer.body)} bytes, more than {self.most}"
        found = yield from _strict(answer)
        if not isinstance(found, dict) or not isinstance(found.get("result"), dict):
            yield f"no result, but {answer.body[:120]!r}"
            return
        yield from _result(found, sent)
        result = found["result"]
        if bool(result.get("isError")) != self.is_error:
            yield f"isError is {result.get('isError')!r}"
        if result.get("resultType", self.kind) != self.kind:
            yield f"resultType is {result.get('resultType')!r}"
        if self.is_error and "structuredContent" in result:
            yield "an error with structuredContent"
        if self.check is not None and not self.check(result):
            yield f"another result: {answer.body[:200]!r}"
        if self.text and not re.search(self.text, json.dumps(result, ensure_ascii=False)):
            yield f"{self.text!r} is not in {answer.body[:200]!r}"


@dataclass(frozen=True)
class Batch(Wanted):
    """Answers to a batch, each as it would be alone; ``ids`` in the order of the messages."""

    each: tuple[tuple[Any, Wanted], ...]

    @property
    def runs(self) -> int:  # type: ignore[override]
        return sum(wanted.runs for _, wanted in self.each)

    def differences(self, answer: Answer, sent: Sent) -> Iterator[str]:
        if answer.status != 200:
            yield f"status {answer.status}, not 200"
        found = yield from _strict(answer)
        if not isinstance(found, list) or len(found) != len(self.each):
            yield f"not {len(self.each)} answers: {answer.body[:120]!r}"
            return
        for one, (id, wanted) in zip(found, self.each, strict=True):
            status = wanted.status if isinstance(wanted, Refused) else 200
            alone = Answer(status, answer.headers, json.dumps(one).encode(), answer.head)
            yield from wanted.differences(alone, Sent(sent.era, "tools/call", id))


@dataclass(frozen=True)
class Either(Wanted):
    """One of several, if the rules leave the choice to the server."""

    choices: tuple[Wanted, ...]

    def problems(self, answer: Answer, sent: Sent) -> Iterator[str]:
        found = [list(each.problems(answer, sent)) for each in self.choices]
        if all(found):
            yield " or ".join("; ".join(each) for each in found)


def _leaks(answer: Answer, *, html: bool = False) -> Iterator[str]:
    whole = answer.head + b"\n" + answer.body
    if leaked := LEAK.search(whole):
        yield f"it tells {whole[max(0, leaked.start() - 20) : leaked.end() + 40]!r}"
    if not html and HTML.search(whole):
        yield "it is HTML"
    if "mcp-session-id" in answer.headers:
        yield "it begins a session"


def _headers(answer: Answer, wanted: Mapping[str, str]) -> Iterator[str]:
    for name, pattern in wanted.items():
        if not re.fullmatch(pattern, answer.headers.get(name.lower(), "")):
            yield f"the header {name} is {answer.headers.get(name.lower())!r}"


def _strict(answer: Answer) -> Iterator[str] | Any:
    """Return the JSON of an answer, refusing any that readers could read differently."""
    kind = answer.headers.get("content-type", "")
    if kind != "application/json":
        yield f"the Content-Type is {kind!r}"

    def refuse(what: Any) -> Any:
        raise ValueError(f"{what} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a member stands twice")
        return dict(pairs)

    try:
        text = answer.body.decode("utf-8")
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as why:
        yield f"no strict JSON: {why}: {answer.body[:80]!r}"
        return None


def _error(found: dict[str, Any], answer: Answer, code: int, id: Any) -> Iterator[str]:
    try:
        JSONRPCError.model_validate(found)
    except ValidationError as why:
        yield f"not as the schema has it: {why.errors()[0]}"
    if set(found) != {"jsonrpc", "id", "error"}:
        yield f"the members {sorted(found)}"
    if (type(found.get("id")), found.get("id")) != (type(id), id):
        yield f"the id {str(found.get('id'))[:60]!r}, not {str(id)[:60]!r}"
    said = found["error"]
    if said.get("code") != code:
        yield f"the code {said.get('code')}, not {code}"
    if not 0 < len(str(said.get("message", ""))) <= LONGEST_MESSAGE:
        yield f"a message of {len(str(said.get('message', '')))} characters"
    if len(answer.body) > MOST_OF_ERROR + 2 * len(json.dumps(id)):
        yield f"{len(answer.body)} bytes"


def _result(found: dict[str, Any], sent: Sent) -> Iterator[str]:
    try:
        JSONRPCResponse.model_validate(found)
        version = sent.era if sent.era != "none" else "2025-03-26"
        result = found["result"]
        validate_server_result(sent.method, version, result)
        # The type of a modern result decides little, since it may be of any type.
        if sent.method == "tools/call" and result.get("resultType") != "input_required":
            CallToolResult.model_validate(result)
        elif sent.method == "tools/list":
            ListToolsResult.model_validate(result)
    except (ValidationError, KeyError) as why:
        yield f"not as the schema has it: {str(why)[:200]}"
    if set(found) != {"jsonrpc", "id", "result"}:
        yield f"the members {sorted(found)}"
    if (type(found.get("id")), found.get("id")) != (type(sent.id), sent.id):
        yield f"the id {str(found.get('id'))[:60]!r}, not {str(sent.id)[:60]!r}"
    modern = {"resultType", "ttlMs", "cacheScope"} & set(found["result"])
    if bool(modern) != (sent.era == MODERN):
        yield f"members of another era: {sorted(modern)}"


PARSE: Final = Refused(-32700, echoes=False)
NOT_A_MESSAGE: Final = Refused(-32600, echoes=False)
INVALID: Final = Refused(-32600)
MISMATCH: Final = Refused(-32020)
UNSUPPORTED: Final = Refused(-32022, data=("supported", "requested"))
NO_ENVELOPE: Final = Refused(-32602)
PARAMS: Final = Refused(-32602, status=200)
ECHOED: Final = Answered(text=r'"hi"')
WRONG_ARGUMENTS: Final = Answered(is_error=True, runs=0)
