"""One call of a tool in this process: checked, counted, confirmed, recorded and run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from mcp_bridge.access.scopes import check_scopes
from mcp_bridge.access.throttling import may_throttle, throttled
from mcp_bridge.calls.errors import (
    handle_error,
    invalid_result,
    is_database_unavailable,
    log_error,
    reraise,
)
from mcp_bridge.calls.running import arun, mark_repaired, run, run_precheck
from mcp_bridge.concurrency.places import alternate, in_thread, unless_cancelled
from mcp_bridge.exceptions import CallRefused, InputRequired, InvalidArguments, ToolError
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import (
    Answers,
    CallToolResult,
    InputRequiredResult,
    JSONObject,
    ProtocolError,
)
from mcp_bridge.records import recorder

CallResult: TypeAlias = CallToolResult | InputRequiredResult
# Returns the tool to call, and what the client has answered. Raises what refuses the call.
Find: TypeAlias = Callable[[], tuple[Tool, Answers | None]]


def call(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """
    Call a tool in this process: checked, counted, confirmed and recorded, as a client's call is.

    ``arguments`` are JSON values; ``tool`` is one that the caller may call (``tools.call_named``
    finds it); ``answers`` is what the client has sent after an InputRequiredResult. An exception
    of the tool becomes an error result. Raises ProtocolError for what the client did wrong.
    """
    return make_call(tool.name, arguments, context, lambda: (tool, answers))


async def acall(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """Do the same as ``call``; a coroutine function runs on the event loop of the caller."""
    work = amake_call(tool.name, arguments, context, lambda: (tool, answers), blocks=True)
    return await alternate(work)


def make_call(name: object, arguments: object, context: Context, find: Find) -> CallResult:
    """Call the tool that ``find`` returns; the name and arguments, as sent, are for the record."""
    found: list[Tool] = []
    try:
        started = _started(arguments, context, find, found)
    except Exception as error:
        return _refused(error, name, arguments, context, found)
    try:
        result = run(started.call, started.finish_in)
    except (Exception, InputRequired) as raised:
        return _handle_exception(started, raised)
    return _finish(started, result)


async def amake_call(
    name: object, arguments: object, context: Context, find: Find, *, blocks: bool
) -> CallResult:
    """
    Do the same, to be awaited under ``alternate``; a coroutine function runs on the event loop.

    ``blocks`` is False where nothing that comes before the tool can block, unless it is refused.
    """
    if blocks:
        await in_thread()
    found: list[Tool] = []
    try:
        started = _started(arguments, context, find, found)
    except Exception as error:
        await in_thread()
        return _refused(error, name, arguments, context, found)
    try:
        await unless_cancelled()
    except asyncio.CancelledError:
        from mcp_bridge.confirmation.confirm import give_back

        recorder.finish(started, Outcome.CANCELLED)
        give_back(started.call)
        raise
    try:
        result = await arun(started.call, started.finish_in, has_blocked=blocks)
    except asyncio.CancelledError:
        await in_thread()
        recorder.finish(started, Outcome.CANCELLED)
        raise
    except (Exception, InputRequired) as raised:
        await in_thread()
        return _handle_exception(started, raised)
    if recorder.finish_blocks(started):
        await in_thread()
    return _finish(started, result)


def start_blocks(tool: Tool) -> bool:
    """Return whether counting or recording a call of the tool may block before it runs."""
    return may_throttle(tool) or recorder.start_blocks(tool)


def _started(
    arguments: object, context: Context, find: Find, found: list[Tool]
) -> recorder.StartedCall:
    """Find a tool, put it into ``found``, check its call and record that it starts."""
    tool, answers = find()
    found.append(tool)
    # What is no object has been refused by now.
    sent: Any = arguments or {}
    call = _admit(ToolCall(tool=tool, arguments={}, context=context, sent=sent), answers)
    try:
        return recorder.start(call)
    except CallRefused:
        from mcp_bridge.confirmation.confirm import give_back

        give_back(call)
        raise


def _refused(
    error: Exception, name: object, arguments: object, context: Context, found: list[Tool]
) -> CallResult:
    """Record that a call was refused; return the result for the model, or raise the error."""
    tool = found[0] if found else None
    if isinstance(error, CallRefused):
        recorder.refuse(error.error_code, name, arguments, context, tool=tool, error=error)
        return error.result
    # A database that has just failed is not asked again: its client waits for an answer.
    if not is_database_unavailable(error):
        # Anything but a ProtocolError is the site's own: a policy or a throttle that raises.
        code = error.refusal if isinstance(error, ProtocolError) else ErrorCode.INTERNAL_ERROR
        recorder.refuse(code, name, arguments, context, tool=tool, error=error)
    reraise(error)


def _admit(call: ToolCall, answers: Answers | None) -> ToolCall:
    """Return the call checked, counted and confirmed. Raises CallRefused and ProtocolError."""
    confirm = call.tool.options.confirm
    # A question and its first answer count once, and so do a call that waited and its repetition.
    is_resumable = confirm or answers is not None
    if not is_resumable:
        _count(call)
        return _checked(call)
    # Imported where it is used, since few tools ask anybody.
    from mcp_bridge.confirmation.confirm import ask_person, resume

    try:
        call = _checked(call)
    except (CallRefused, ProtocolError):
        _count(call)
        raise
    counted: list[ToolCall] = []

    def count(call: ToolCall) -> None:
        if not counted:
            counted.append(call)
            _count(call)

    try:
        call = resume(call, answers, count)
    except ProtocolError:
        count(call)
        raise
    except CallRefused:
        # An answer belongs to a question, which was counted.
        if answers is None:
            count(call)
        raise
    if confirm and not call.confirmed:
        _count(call)
        raise CallRefused(ask_person(call), ErrorCode.UNCONFIRMED)
    return call


def _count(call: ToolCall) -> None:
    """Count the call. Raises CallRefused where it is more than the tool's rate."""
    if may_throttle(call.tool):
        refusal = throttled(call.tool, call.context)
        if refusal is not None:
            raise CallRefused(refusal, ErrorCode.THROTTLED)


def _checked(call: ToolCall) -> ToolCall:
    """Return the call with its arguments as Python values, prechecked. Raises CallRefused."""
    tool, sent = call.tool, call.sent
    if tool.access.scopes:
        check_scopes(tool, call.context)
    repaired: tuple[str, ...] = ()
    try:
        try:
            values = tool.check(sent)
        except InvalidArguments as refused:
            # Imported where it is used, since few calls are refused.
            from mcp_bridge.calls.coercion import repair

            values, repaired = repair(tool, sent, refused)
        # Not by replace(), which costs twice that, for every call.
        call = ToolCall(
            tool=tool, arguments=values, context=call.context, repaired=repaired, sent=sent
        )
        if tool.precheck is not None:
            run_precheck(call, tool.precheck)
    except InvalidArguments as refused:
        call = replace(call, repaired=refused.repaired)
        result = mark_repaired(call, invalid_result(refused))
        raise CallRefused(result, ErrorCode.INVALID) from refused
    except Exception as exception:
        raise CallRefused(*handle_error(call, exception)) from exception
    return call


def _finish(
    started: recorder.StartedCall,
    result: CallToolResult,
    error_code: str = ErrorCode.TOOL_ERROR,
    reference: str = "",
) -> CallToolResult:
    """Record how a call ended that has a result, and return that; the rest is of an error."""
    recorder.finish(
        started,
        Outcome.FAILED if result.is_error else Outcome.SUCCEEDED,
        error_code=error_code if result.is_error else "",
        reference=reference,
        result_bytes=len(result.to_json(started.call.context.revision)),
        error=result if result.is_error else None,
    )
    return result


def _handle_exception(
    started: recorder.StartedCall, raised: Exception | InputRequired
) -> CallResult:
    """Record how a call ended that raised, and return the result for the model."""
    call = started.call
    try:
        if isinstance(raised, Exception):
            handled = handle_error(call, raised)
        else:
            from mcp_bridge.confirmation.confirm import ask_client

            try:
                question = ask_client(call, raised)
            except ToolError as refused:
                handled = handle_error(call, refused)
            except (TypeError, ValueError) as cause:
                handled = log_error(call, "asked what cannot be sent", cause)
            else:
                # To ask is no error: what the tool has done is undone, and it runs again.
                recorder.finish(started, Outcome.REFUSED, error_code=ErrorCode.UNCONFIRMED)
                return question
    except Exception as error:
        # Even the text of an exception is the site's own code.
        is_sent = isinstance(error, ProtocolError)
        code = ErrorCode.PROTOCOL_ERROR if is_sent else ErrorCode.INTERNAL_ERROR
        recorder.finish(started, Outcome.FAILED, error_code=code, error=error)
        raise
    return _finish(started, handled.result, handled.error_code, handled.reference)
