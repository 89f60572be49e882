"""
The exceptions of mcp_bridge.

    Exception
    ├── ToolError                 the model reads it, inside a tool result
    │   ├── InvalidArguments      the arguments break the tool's input schema
    │   └── Declined              the user declined to answer the tool's question
    ├── CallRefused               a call is answered without running its tool
    ├── UnsendableResult          a tool returned a value that cannot be sent
    └── protocol.errors           the client reads them, as JSON-RPC errors
        └── RejectError           the site's own code rejects a request or a call
    BaseException
    ├── InputRequired             the client has to answer a question first
    └── asyncio.CancelledError
        └── Cancelled             the client has disconnected or cancelled the call
            └── TimedOut          the call has reached its time limit

Any other exception of a tool is logged in full; the model receives one generic sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from operator import index

from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.errors import ProtocolError
from mcp_bridge.protocol.input_requests import InputRequest, InputRequiredResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import printable


class ToolError(Exception):
    """
    A failure that the model can act on; the model reads its text.

    Raise it in a tool with one sentence that says what is wrong and what to do. It becomes a
    result with ``isError: true`` (MCP, "Tools", "Error handling"). ``status`` is the HTTP status of
    a response that it reports, if any.
    """

    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentError:
    """One value that does not match the schema: JSON pointer into the arguments, and message."""

    path: str
    type: str
    message: str

    def __str__(self) -> str:
        """Return the error on one line, with unprintable characters of names escaped."""
        return printable(f"{self.path or '/'}: {self.message}")


class InvalidArguments(ToolError):
    """The arguments do not match the tool's input schema; the text lists the ``errors``."""

    def __init__(self, errors: Sequence[ArgumentError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class Declined(ToolError):
    """The user declined or closed a tool's question; ``action`` is "decline" or "cancel"."""

    def __init__(self, message: str, action: str) -> None:
        self.action = action
        super().__init__(message)


class InputRequired(BaseException):
    """
    An interruption of a call by requests that the client has to answer before the tool runs again.

    ``requests`` maps keys that the tool chooses to requests; ``context.input_responses`` has the
    answers by the same keys when the tool runs again. ``tool_state`` is any JSON value, returned
    as ``context.tool_state``; the client can read but not change it. A BaseException, so that a
    tool's ``except Exception`` does not swallow it. See MCP, "Multi round-trip requests".
    """

    def __init__(self, requests: Mapping[str, InputRequest], *, tool_state: object = None) -> None:
        self.requests = dict(requests)
        self.tool_state = tool_state
        super().__init__("The client has to answer first.")


class Cancelled(asyncio.CancelledError):
    """
    The end of a call whose client has disconnected; ``progress()`` raises it.

    A tool may catch it to clean up, and must raise it again. The tool's writes are rolled back.
    """


class TimedOut(Cancelled):
    """The end of a call that has reached its time limit; the model reads an error."""


class CallRefused(Exception):
    """
    A call is answered with ``result`` without running its tool.

    Its record has the ``error_code`` (models.outcomes), the log's ``reference``, and the key of the
    pending or refused ``pending_call``. ``repeated`` refusals of a caller share one record.
    """

    def __init__(
        self,
        result: CallToolResult | InputRequiredResult,
        error_code: str,
        reference: str = "",
        *,
        pending_call: object = None,
        repeated: bool = False,
    ) -> None:
        super().__init__(f"The call was refused: {error_code}.")
        self.result = result
        self.error_code = error_code
        self.reference = reference
        self.pending_call = pending_call
        self.repeated = repeated


class UnsendableResult(Exception):
    """A tool returned a value that is not JSON or breaks its output schema; see the cause."""


class RejectError(ProtocolError):
    """
    An interceptor rejects a request or a call; the client reads ``message``, ``code`` and ``data``.

    It is sent as a JSON-RPC error with HTTP 200. ``data`` is any JSON value, or None for none.
    """

    http_status = HTTPStatus.OK
    refusal = "rejected"

    def __init__(self, message: str, code: int = 403, data: object = None) -> None:
        """Check the ``code`` and ``data``. Raises TypeError or ValueError if they are not JSON."""
        super().__init__(message, data=data)
        self.code = index(code)
        encode(data)


def causes(exception: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and all that led to it: its causes, its contexts, and theirs."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [exception]
    while pending:
        each = pending.pop()
        if each is not None and not any(each is known for known in found):
            found.append(each)
            pending += [each.__context__, each.__cause__]
            yield each
