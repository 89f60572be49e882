"""
The exceptions of mcp_bridge.

    Exception
    ├── ToolError                 the model reads it, inside a tool result
    │   ├── InvalidArguments      the arguments break the tool's input schema
    │   └── Declined              the user did not answer what the tool asked
    ├── CallRefused               a call is answered without its tool being run
    ├── UnsendableResult          a tool returned what cannot be sent
    └── protocol.errors           the client reads them, as JSON-RPC errors
    BaseException
    └── InputRequired             the client has to answer something first

Anything else that a tool raises is logged in full and reported in one plain sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.input_requests import InputRequest, InputRequiredResult
from mcp_bridge.protocol.text import printable


class ToolError(Exception):
    """
    A failure that the model can act on: its text is what the model reads.

    Raise it in a tool with one sentence that says what is wrong and what to do. It becomes a
    result with ``isError: true`` (MCP, "Tools", "Error handling").
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentError:
    """One value that breaks the schema: a JSON pointer into the arguments, and why."""

    path: str
    type: str
    message: str

    def __str__(self) -> str:
        """Return the error in one line; names in it may hold characters that do not show."""
        return printable(f"{self.path or '/'}: {self.message}")


class InvalidArguments(ToolError):
    """The arguments of a call break the tool's input schema: ``errors``, and the text, say how."""

    def __init__(self, errors: Sequence[ArgumentError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class Declined(ToolError):
    """The user declined what a tool asked, or closed it; ``action`` is "decline" or "cancel"."""

    def __init__(self, message: str, action: str) -> None:
        self.action = action
        super().__init__(message)


class InputRequired(BaseException):
    """
    Ends a call with requests that the client has to answer before the tool runs again.

    ``requests`` are by a key of the tool's own, under which ``context.input_responses`` has the
    answer then. ``tool_state`` is any JSON value, which is ``context.tool_state`` then; the client
    can read it, but not change it. A BaseException, so that a tool's ``except Exception`` does not
    swallow it. See MCP, "Multi round-trip requests".
    """

    def __init__(self, requests: Mapping[str, InputRequest], *, tool_state: object = None) -> None:
        self.requests = dict(requests)
        self.tool_state = tool_state
        super().__init__("The client has to answer first.")


class CallRefused(Exception):
    """
    A call is answered with ``result`` without its tool being run.

    Its record has the ``error_code`` (models.outcomes), the log's ``reference``, and the key of the
    ``pending_call`` that waits or was refused. ``repeated`` refusals of a caller share a record.
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
    """A tool returned what is no JSON, or breaks its output schema; the cause says which."""
