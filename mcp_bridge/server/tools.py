"""What a call came to, as the result that is sent: a value, an error for the model, a fault."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.db import InterfaceError, OperationalError
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from mcp_bridge.access.confirmation.approval_queue import give_back
from mcp_bridge.access.confirmation.confirm import admitted, asked
from mcp_bridge.audit import recorder
from mcp_bridge.audit.recorder import StartedCall
from mcp_bridge.calls.errors import explain
from mcp_bridge.calls.outcomes import ErrorCode, Outcome
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ErrorResult, InputRequired, ToolError, UnsendableResult
from mcp_bridge.features.tools import ToolCall
from mcp_bridge.protocol import ProtocolError
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.requests import SERVER_INFO
from mcp_bridge.registry.snapshot import Snapshot

logger = logging.getLogger("mcp_bridge.calls")

# Where the pointers to arguments that came as strings of JSON stand in a result's _meta.
REPAIRED_KEY = "mcp-bridge/repaired"

# What to do after a failure that is not the model's.
_NEVER = "repeating the call unchanged will not help"
_LATER = "the same call may succeed later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The result of a call that failed, and what its record says of it."""

    written: bytes
    error_code: str = ErrorCode.TOOL_ERROR
    reference: str = ""


class Answers:
    """Writes the results of calls; ``snapshot`` keeps what is the same in all of them."""

    snapshot: Snapshot

    def admit(self, call: ToolCall, params: Mapping[str, Any]) -> ToolCall | Failure:
        """The call with what its client has answered, or the result where it may not run yet."""
        try:
            return admitted(call, params)
        except (InputRequired, ToolError) as exception:
            return self.failed(call, exception)

    def handle_exception(self, running: StartedCall, exception: Exception) -> bytes:
        """The result of a call that raised, written down; a ProtocolError goes on to the client."""
        try:
            failure = self.failed(running.call, exception)
        except Exception as raised:
            # Even the text of an exception is the site's own code.
            is_told = isinstance(raised, ProtocolError)
            code = ErrorCode.PROTOCOL_ERROR if is_told else ErrorCode.FAULT
            recorder.finish(running, Outcome.FAILED, error_code=code)
            raise
        # To ask is no failure: what the tool did so far is undone, and its repeat is another call.
        is_asking = failure.error_code == ErrorCode.UNCONFIRMED
        recorder.finish(
            running,
            Outcome.REFUSED if is_asking else Outcome.FAILED,
            error_code=failure.error_code,
            reference=failure.reference,
            result_bytes=len(failure.written),
        )
        return failure.written

    def record_after_disconnect(
        self, running: StartedCall | None, task: asyncio.Future[Any]
    ) -> None:
        """
        Write down what a call came to that nobody waits for any more.

        None for ``running`` if the task was to begin it: then the tool does not run.
        """
        raised = task.exception()
        if running is None:
            begun = None if raised else task.result()
            if isinstance(begun, StartedCall):
                recorder.finish(begun, Outcome.CANCELLED)
                give_back(begun.call)
        elif raised is None:
            recorder.finish(running, Outcome.SUCCEEDED, result_bytes=len(task.result()))
        elif isinstance(raised, Exception):
            with suppress(Exception):
                self.handle_exception(running, raised)

    def finish(self, call: ToolCall, value: Any) -> bytes:
        """
        The result of a call that returned.

        Raises what undoes what the tool wrote: UnsendableResult, ErrorResult, or ToolError for a
        result that is too large.
        """
        try:
            result = call.tool.encode(value)
            written = self._written(result, call)
        except Exception as exception:
            raise UnsendableResult from exception
        if result.is_error:
            raise ErrorResult(result)
        if len(written) > conf.MAX_RESULT_BYTES:
            raise ToolError(
                f"The result of {call.tool.name} has {len(written)} bytes, more than the "
                f"{conf.MAX_RESULT_BYTES} that can be sent. Ask for less: narrow the filters, or "
                "fetch it in parts."
            )
        return written

    def failed(self, call: ToolCall, exception: Exception) -> Failure:
        """The result of a call that raised; a ProtocolError goes on to the client."""
        if isinstance(exception, ErrorResult):
            return Failure(written=self._written(exception.result, call))
        if isinstance(exception, UnsendableResult):
            what, cause = "returned a result that cannot be sent", exception.__cause__
            return self._fault(call, what, cause, code=ErrorCode.UNSENDABLE)
        if isinstance(exception, InputRequired):
            return self._asked(call, exception)
        try:
            exception = call.tool.convert_error(exception, call)
        except Exception:
            logger.exception("The error handler of tool %r raised", call.tool.name)
        if isinstance(exception, ProtocolError):
            raise exception
        text = self._mapped(exception, call) or explain(exception)
        if text is None:
            if isinstance(exception, OperationalError | InterfaceError):
                what, code = "could not use the site's database", ErrorCode.UNAVAILABLE
                return self._fault(call, what, exception, _LATER, code=code)
            return self._fault(call, "failed", exception)
        return Failure(written=self._written(CallToolResult.error(text), call))

    def _asked(self, call: ToolCall, required: InputRequired) -> Failure:
        """What the client has to answer. Raises ProtocolError for what it has not declared."""
        try:
            written = encode({**asked(call, required), "_meta": self._meta})
            return Failure(written=written, error_code=ErrorCode.UNCONFIRMED)
        except (TypeError, ValueError) as cause:
            return self._fault(call, "asked what cannot be sent", cause)

    def _mapped(self, exception: Exception, call: ToolCall) -> str | None:
        """What ERROR_MAPPER says; one that raises changes nothing."""
        path = conf.ERROR_MAPPER
        if path is None:
            return None
        try:
            text = import_string(path)(exception, call)
        except Exception:
            logger.exception("ERROR_MAPPER %r raised", path)
            return None
        return text if isinstance(text, str) else None

    def _fault(
        self,
        call: ToolCall,
        what: str,
        cause: BaseException | None,
        advice: str = _NEVER,
        code: str = ErrorCode.FAULT,
    ) -> Failure:
        """A failure that is the site's own: all of it in the log, one sentence to the model."""
        name, reference = call.tool.name, secrets.token_hex(6)
        logger.error("Tool %r %s (reference %s)", name, what, reference, exc_info=cause)
        text = (
            f"The tool {name} {what}: the site's log says why under the reference {reference}, "
            f"and {advice}."
        )
        written = self._written(CallToolResult.error(text), call)
        return Failure(written=written, error_code=code, reference=reference)

    def _written(self, result: CallToolResult, call: ToolCall) -> bytes:
        revision = call.context.revision
        if call.repaired:
            result = replace(result, meta={**result.meta, REPAIRED_KEY: list(call.repaired)})
        return result.to_json(revision, self._written_meta if revision.modern else b"{}")

    @property
    def _meta(self) -> dict[str, Any]:
        return {SERVER_INFO: self._server_info}

    @property
    def _server_info(self) -> dict[str, Any]:
        info = conf.SERVER_INFO.items()
        return {name: str(each) if isinstance(each, Promise) else each for name, each in info}

    @property
    def _written_meta(self) -> bytes:
        """What every modern result carries."""
        return encode(self._meta)
