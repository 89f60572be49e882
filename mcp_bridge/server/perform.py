"""One call of a tool in this process: checked, counted, confirmed, recorded and run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from django.core.signals import setting_changed

from mcp_bridge import protocol
from mcp_bridge.access import policy
from mcp_bridge.access.throttling import may_throttle, throttled
from mcp_bridge.calls import errors
from mcp_bridge.calls.running import run, run_precheck
from mcp_bridge.concurrency import places
from mcp_bridge.exceptions import CallRefused, InputRequired, InvalidArguments, ToolError
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import Answers, CallToolResult, JSONObject, ProtocolError, Request
from mcp_bridge.records import recorder
from mcp_bridge.server.methods import Endpoint, Send

CallResult: TypeAlias = CallToolResult | protocol.InputRequiredResult


@dataclass(slots=True)
class Call:
    """
    A call on its way through its steps.

    ``name`` and ``arguments`` are as they were sent, for the record; ``tool`` is the one that was
    found, ``answers`` what the client has answered, and ``checked`` the ToolCall, once there are
    Python values of its arguments. A call by a tool's name has an ``endpoint``, and one of a client
    its ``request`` and the ``slot`` that it takes.
    """

    name: object
    arguments: object
    context: Context
    tool: Tool | None = None
    answers: Answers | None = None
    endpoint: Endpoint | None = None
    request: Request | None = None
    slot: places.CallSlot | None = None
    checked: Any = None
    is_counted: bool = False


# A step refuses a call by raising CallRefused or ProtocolError, and asks for a thread if it blocks.
Step: TypeAlias = Callable[[Call, Tool], Awaitable[None]]
# The params with which a client answers an InputRequiredResult.
_ANSWERS: Final = frozenset({"requestState", "inputResponses"})


async def call_tool(
    endpoint: Endpoint, request: Request, context: Context, send: Send
) -> CallResult:
    """Call the tool that is asked for (MCP, "Tools", "Calling tools")."""
    params = request.params
    name, arguments = params.get("name"), params.get("arguments")
    call = Call(name, arguments, context, endpoint=endpoint, request=request)
    try:
        return await perform(call)
    finally:
        if call.slot is not None:
            call.slot.free()


def call_named(endpoint: Endpoint, name: object, arguments: object, context: Context) -> CallResult:
    """Call a tool by name in this process. Raises UnknownToolError, and what ``call`` raises."""
    return places.drive(perform(Call(name, arguments, context, endpoint=endpoint)))


def call(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """
    Call a tool in this process: checked, counted, confirmed and recorded, as a client's call is.

    ``arguments`` are JSON values; ``tool`` is one that the caller may call (``call_named`` finds
    it); ``answers`` is what the client has sent after an InputRequiredResult. An exception of the
    tool becomes an error result. Raises ProtocolError for what the client did wrong.
    """
    return places.drive(perform(Call(tool.name, arguments, context, tool, answers)))


async def acall(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """Do the same from an event loop, on which a coroutine function runs."""
    return await places.alternate(perform(Call(tool.name, arguments, context, tool, answers)))


async def perform(call: Call) -> CallResult:
    """
    Run the steps of one call.

    Returns what the client is sent. Raises ProtocolError for what the client did wrong.
    """
    started: recorder.StartedCall | None = None
    try:
        tool = call.tool or await find(call)
        if not tool.is_async:
            await places.in_thread()
        for step in steps_of(tool, call.answers is not None):
            await step(call, tool)
        started = await recorder.start(call.checked)
        if started.is_begun:
            places.check_cancelled()
    except (Exception, asyncio.CancelledError) as error:
        await places.in_thread()
        if started is not None:
            await recorder.finish(started, Outcome.CANCELLED)
        return _refused(call, error)
    try:
        result, size = await run(started.call, started.finish_in)
    except asyncio.CancelledError:
        await places.in_thread()
        await recorder.finish(started, Outcome.CANCELLED)
        raise
    except (Exception, InputRequired) as raised:
        await places.in_thread()
        return await _handle_exception(started, raised)
    if result.is_error:
        return await _fail(started, errors.HandledError(result))
    if not started.is_finished:
        await recorder.finish(started, Outcome.SUCCEEDED, result_bytes=size)
    return result


async def find(call: Call) -> Tool:
    """
    Find the tool of a call, and what its client has answered; take its slot.

    Raises UnknownToolError where the caller has no tool of that name.
    """
    name, context, endpoint, request = call.name, call.context, call.endpoint, call.request
    assert endpoint is not None
    if not isinstance(name, str):
        raise protocol.InvalidParamsError("Invalid params: name must be a string, a tool's name.")
    if not isinstance(call.arguments, dict | None):
        raise protocol.InvalidParamsError("Invalid params: arguments must be an object.")
    snapshot = endpoint.snapshot
    tool = snapshot.tools.get(name)
    # Of a name that no tool has, another tool is asked about: time is not to tell.
    asked = tool or snapshot.stand_in
    is_open = tool is not None and tool.access.is_open and context.auth is None
    if not (is_open and hasattr(endpoint.policy.allows, "never_blocks")):
        await places.in_thread()
    is_allowed = (
        asked is not None
        and any(policy.opened_by(context.auth, [asked]))
        and endpoint.policy.allows(asked, context)
    )
    if tool is None or not is_allowed:
        policy.read_caller(context, snapshot.asks_of)
        raise protocol.UnknownToolError(name)
    call.tool = tool
    if request is not None:
        if tool.headers and request.headers is not None:
            request.headers.check_parameters(tool.headers, call.arguments or {})
        slot = getattr(context.request, "mcp_slot", None)
        call.slot = places.CallSlot(policy.caller_of(context), slot)
        if request.revision.input_required and not _ANSWERS.isdisjoint(request.params):
            call.answers = protocol.read_answers(request.params)
    return tool


@lru_cache(maxsize=8192)
def steps_of(tool: Tool, is_answer: bool) -> tuple[Step, ...]:
    """Return the steps that can act for calls of a tool, or for answers to what it has asked."""
    checks: list[Step] = [check_arguments]
    if tool.access.scopes:
        checks.insert(0, check_scopes)
    if tool.precheck is not None:
        checks.append(ask_precheck)
    if tool.options.confirm or is_answer:
        return (*map(counted_if_refused, checks), confirm)
    return (count, *checks) if may_throttle(tool) else tuple(checks)


setting_changed.connect(lambda **changed: steps_of.cache_clear(), weak=False)


async def count(call: Call, tool: Tool) -> None:
    """Count the call once. Raises CallRefused where it is more than the tool's rate."""
    if call.is_counted or not may_throttle(tool):
        return
    call.is_counted = True
    await places.in_thread()
    refusal = throttled(tool, call.context)
    if refusal is not None:
        raise CallRefused(refusal, ErrorCode.THROTTLED)


def counted_if_refused(check: Step) -> Step:
    """Return the check of a call that is counted later, which counts what it refuses."""

    async def checked(call: Call, tool: Tool) -> None:
        try:
            await check(call, tool)
        except (CallRefused, ProtocolError):
            await count(call, tool)
            raise

    return checked


async def check_scopes(call: Call, tool: Tool) -> None:
    """Raise InsufficientScopeError where the credential lacks a scope of the tool."""
    policy.check_scopes(tool, call.context)


async def check_arguments(call: Call, tool: Tool) -> None:
    """Make Python values of the arguments. Raises CallRefused, which lists all errors."""
    if not tool.is_plain:
        await places.in_thread()
    # What is no object has been refused by now.
    sent: Any = call.arguments or {}
    try:
        values = tool.check(sent)
    except InvalidArguments as refused:
        raise CallRefused(errors.invalid_result(refused), ErrorCode.INVALID) from refused
    except Exception as exception:
        unchecked = ToolCall(tool=tool, arguments={}, context=call.context, sent=sent)
        raise CallRefused(*errors.handle_error(unchecked, exception)) from exception
    call.checked = ToolCall(tool=tool, arguments=values, context=call.context, sent=sent)


async def ask_precheck(call: Call, tool: Tool) -> None:
    """Ask the tool's precheck. Raises CallRefused where it refuses the call."""
    await places.in_thread()
    assert tool.precheck is not None
    try:
        run_precheck(call.checked, tool.precheck)
    except InvalidArguments as refused:
        raise CallRefused(errors.invalid_result(refused), ErrorCode.INVALID) from refused
    except Exception as exception:
        raise CallRefused(*errors.handle_error(call.checked, exception)) from exception


async def confirm(call: Call, tool: Tool) -> None:
    """
    Take what the client has answered, and have a person confirm the call where the tool says so.

    A question and its first answer count once, and so do a call that waited and its repetition.
    Raises CallRefused with the question, and for a no.
    """
    # Imported where it is used, since few tools ask anybody.
    from mcp_bridge.confirmation.confirm import ask_person, resume

    await places.in_thread()
    try:
        # In the thread the count suspends nowhere.
        call.checked = resume(call.checked, call.answers, lambda _: places.drive(count(call, tool)))
    except (CallRefused, ProtocolError) as refused:
        # An answer belongs to a question, which was counted.
        if call.answers is None or isinstance(refused, ProtocolError):
            await count(call, tool)
        raise
    if tool.options.confirm and not call.checked.confirmed:
        call.is_counted = False
        await count(call, tool)
        raise CallRefused(ask_person(call.checked), ErrorCode.UNCONFIRMED)


def _refused(call: Call, error: Exception | asyncio.CancelledError) -> CallResult:
    """
    Record that a call was refused, and make its approval count as before.

    Returns the result for the model, or raises the error.
    """
    sent, tool, checked = (call.name, call.arguments, call.context), call.tool, call.checked
    if checked is not None and checked.approval is not None:
        from mcp_bridge.confirmation.confirm import give_back

        give_back(checked)
    if isinstance(error, asyncio.CancelledError):
        raise error
    if isinstance(error, CallRefused):
        recorder.refuse(error.error_code, *sent, tool=tool, error=error)
        return error.result
    # A database that has just failed is not asked again: its client waits for an answer.
    if not errors.is_database_unavailable(error):
        # Anything but a ProtocolError is the site's own: a policy or a throttle that raises.
        code = error.refusal if isinstance(error, ProtocolError) else ErrorCode.INTERNAL_ERROR
        recorder.refuse(code, *sent, tool=tool, error=error)
    errors.reraise(error)


async def _handle_exception(
    started: recorder.StartedCall, raised: Exception | InputRequired
) -> CallResult:
    """Record how a call ended that raised, and return the result for the model."""
    call = started.call
    try:
        if isinstance(raised, Exception):
            handled = errors.handle_error(call, raised)
        else:
            from mcp_bridge.confirmation.confirm import ask_client

            try:
                question = ask_client(call, raised)
            except ToolError as refused:
                handled = errors.handle_error(call, refused)
            except (TypeError, ValueError) as cause:
                handled = errors.log_error(call, "asked what cannot be sent", cause)
            else:
                # To ask is no error: what the tool has done is undone, and it runs again.
                await recorder.finish(started, Outcome.REFUSED, error_code=ErrorCode.UNCONFIRMED)
                return question
    except Exception as error:
        # Even the text of an exception is the site's own code.
        is_sent = isinstance(error, ProtocolError)
        code = ErrorCode.PROTOCOL_ERROR if is_sent else ErrorCode.INTERNAL_ERROR
        await recorder.finish(started, Outcome.FAILED, error_code=code, error=error)
        raise
    return await _fail(started, handled)


async def _fail(started: recorder.StartedCall, handled: errors.HandledError) -> CallToolResult:
    """Record that a call ended with an error for the model, and return its result."""
    result, error_code, reference = handled
    await recorder.finish(
        started,
        Outcome.FAILED,
        error_code=error_code,
        reference=reference,
        result_bytes=len(result.to_json(started.call.context.revision)),
        error=result,
    )
    return result
