"""One call of a feature in this process: check, count, confirm, record and run it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from django.core.signals import setting_changed

from mcp_bridge import protocol
from mcp_bridge.access import policy
from mcp_bridge.access.throttling import may_throttle, throttled
from mcp_bridge.calls import errors
from mcp_bridge.calls.interceptors import CallResult, CallsAround, having, see_request
from mcp_bridge.calls.running import run, run_precheck
from mcp_bridge.concurrency import places
from mcp_bridge.exceptions import (
    CallRefused,
    InputRequired,
    InvalidArguments,
    RejectError,
    TimedOut,
    ToolError,
)
from mcp_bridge.features import Context, Feature, Tool, ToolCall, key_of
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import (
    Answers,
    CallToolResult,
    CreateTaskResult,
    InputRequiredResult,
    JSONObject,
    ProtocolError,
    Request,
)
from mcp_bridge.records import recorder


@dataclass(slots=True)
class Call:
    """
    A call on its way through its steps.

    ``name`` and ``arguments`` are kept as sent, for the record; a resource's name is its URI until
    it is found. ``tool`` is the feature found, of the ``kind``, ``answers`` the client's answers,
    and ``checked`` the ToolCall once the arguments are Python values. Calls by name have an
    ``endpoint``; calls of clients have their ``request`` and the ``slot`` that it takes. ``around``
    are the site's interceptors, if any. ``task`` is the run of a task (tasks.runs.Run), whose
    call was counted and confirmed when it was accepted.
    """

    name: object
    arguments: object
    context: Context
    tool: Feature | None = None
    answers: Answers | None = None
    endpoint: Any = None
    kind: str = Tool.kind
    request: Request | None = None
    slot: places.CallSlot | None = None
    checked: Any = None
    is_counted: bool = False
    around: CallsAround | None = None
    task: Any = None


# A step raises CallRefused or ProtocolError to refuse a call, and awaits a thread if it blocks.
Step: TypeAlias = Callable[[Call, Feature], Awaitable[None]]
# The methods that are calls, with the kind of what they call.
_CALLS: Final = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}
_UNKNOWN: Final[dict[str, type[protocol.errors.UnknownFeatureError]]] = {
    "resource": protocol.errors.ResourceNotFoundError,
    "prompt": protocol.errors.UnknownPromptError,
}
# The params of a client's answer to an InputRequiredResult.
_ANSWERS: Final = frozenset({"requestState", "inputResponses"})


async def intercept_request(request: Request, context: Context) -> None:
    """Show a request to the interceptors. Records a call that they reject, and raises."""
    try:
        await see_request(request, context)
    except ProtocolError as error:
        if request.method in _CALLS:
            await places.in_thread()
            kind, by = _CALLS[request.method], protocol.requests.NAMED_BY[request.method]
            named = request.params.get(by), request.params.get("arguments")
            recorder.refuse(error.refusal, *named, context, kind=kind, error=error)
        raise


async def call_feature(endpoint: Any, request: Request, context: Context) -> CallResult:
    """Call the tool, read the resource or get the prompt that a request names."""
    kind, by = _CALLS[request.method], protocol.requests.NAMED_BY[request.method]
    params = request.params
    name, arguments = params.get(by), params.get("arguments")
    call = Call(name, arguments, context, endpoint=endpoint, kind=kind, request=request)
    try:
        result = await perform(call)
        while isinstance(result, InputRequiredResult) and not request.revision.input_required:
            # Asked on the stream, a legacy client leaves repeating the call to the server.
            answers = Answers(result.state, await context.stream.ask(result.requests))
            await places.in_thread()
            endpoint, once = _readmitted(request, context)
            call = Call(name, arguments, once, None, answers, endpoint, kind, request, call.slot)
            result = await perform(call)
        return result
    finally:
        if call.slot is not None:
            call.slot.free()


def _readmitted(request: Request, context: Context) -> tuple[Any, Context]:
    """Return the endpoint and the context of a further round, with the caller's rights of now."""
    stream = context.stream
    endpoint, once = stream.readmit(request)
    # Other keys are those of this package, for one round.
    for key in [each for each in context.scratch if not isinstance(each, str)]:
        del context.scratch[key]
    client, scratch = context.client, context.scratch
    return endpoint, replace(once, stream=stream, client=client, scratch=scratch)


def call_named(endpoint: Any, name: object, arguments: object, context: Context) -> CallResult:
    """Call a tool by name in this process. Raises UnknownToolError and the errors of ``call``."""
    call = Call(name, arguments, context.of_inner_call(), endpoint=endpoint)
    return places.drive(perform(call))


def call_labelled(endpoint: Any, label: str, arguments: JSONObject, context: Context) -> CallResult:
    """
    Call a feature of any kind by its label, or a resource by its URI, in this process.

    ``arguments`` are by name; a URI has its own.

    Raises UnknownToolError, or the error of another kind, and the errors of ``call``.
    """
    kind, name = key_of(label)
    feature = endpoint.snapshot.by_label.get(label)
    if feature is not None and isinstance(arguments, dict):
        arguments = feature.as_sent(arguments)
        name = feature.uri.expand(arguments) if kind == "resource" else name
    elif feature is None and ":" in label and kind != "prompt":
        kind, name = "resource", label
    inner = context.of_inner_call()
    return places.drive(perform(Call(name, arguments, inner, endpoint=endpoint, kind=kind)))


def call(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """
    Call a tool in this process: checked, counted, confirmed and recorded like a client's call.

    ``arguments`` are JSON values; ``tool`` is one that the caller may call (``call_named`` finds
    it); ``answers`` are the client's answers to an InputRequiredResult. Exceptions of the tool
    become error results. Raises ProtocolError for errors of the client.
    """
    call = Call(tool.name, arguments, context.of_inner_call(), tool, answers)
    return places.drive(perform(call))


async def acall(
    tool: Tool, arguments: JSONObject, context: Context, answers: Answers | None = None
) -> CallResult:
    """Call a tool from an event loop, on which coroutine functions run; see ``call``."""
    call = Call(tool.name, arguments, context.of_inner_call(), tool, answers)
    return await places.alternate(perform(call))


async def perform(call: Call) -> CallResult:
    """
    Run the steps of one call, within the interceptors of the site.

    Returns the result for the client. Raises ProtocolError for errors of the client.
    """
    if not having("call"):
        return await _perform(call)
    call.around = around = CallsAround()
    outcome: CallResult | Exception
    try:
        try:
            outcome = await _perform(call)
        except Exception as error:
            outcome = error
        if isinstance(outcome, CreateTaskResult):
            # They run again around its run.
            await places.in_thread()
            around.close()
            return outcome
        return await around.end(outcome)
    except asyncio.CancelledError:
        await places.in_thread()
        around.close()
        raise


async def _perform(call: Call) -> CallResult:
    started: recorder.StartedCall | None = None
    # Interceptors may change it in place.
    sent = deepcopy(call.arguments) if call.around else call.arguments
    try:
        tool = call.tool or await find(call)
        if not tool.is_async:
            await places.in_thread()
        if call.around and (answer := await intercept(call, tool, call.around)):
            return answer
        for step in steps_of(tool, call.answers is not None):
            await step(call, tool)
        if tool.options.task and (created := await become_task(call, sent)):
            return created
        started = await recorder.start(call.checked)
        if call.task is not None:
            await call.task.note(started.key)
        if started.is_begun:
            places.check_cancelled()
    except (Exception, asyncio.CancelledError) as error:
        await places.in_thread()
        if started is not None:
            await recorder.finish(started, Outcome.CANCELLED)
        refused = _refused(call, error)
        if isinstance(error, CallRefused) and error.pending_call and not error.repeated:
            return await become_task(call, sent, error) or refused
        return refused
    try:
        result, size = await run(started.call, started.finish_in)
    except (Exception, InputRequired, TimedOut) as raised:
        await places.in_thread()
        return await _handle_exception(started, raised, call.task)
    except asyncio.CancelledError:
        await places.in_thread()
        await recorder.finish(started, Outcome.CANCELLED)
        raise
    if result.is_error:
        return await _fail(started, errors.HandledError(result))
    if not started.is_finished:
        await recorder.finish(started, Outcome.SUCCEEDED, result_bytes=size)
    return result


async def may_become_task(call: Call) -> bool:
    """Return whether a task can take the place of the result of a client's call."""
    request = call.request
    if request is None or call.kind != Tool.kind or not request.declares(protocol.TASKS):
        return False
    await places.in_thread()
    return bool(call.endpoint.has_tasks(call.tool))


async def become_task(
    call: Call, sent: object, held: BaseException | None = None
) -> CreateTaskResult | None:
    """
    Return the task that a call becomes, if it does, with its arguments as ``sent`` by the client.

    ``held`` says that it waits for a person. Raises CallRefused if the caller has too many.
    """
    if not await may_become_task(call):
        return None
    created: CreateTaskResult | None = call.endpoint.accept(call, sent, held)
    return created


async def find(call: Call) -> Feature:
    """
    Find the feature of a call and the client's answers; take its slot, for a function in a thread.

    Raises UnknownToolError, or the error of another kind, if the caller does not have it.
    """
    name, context, endpoint, request = call.name, call.context, call.endpoint, call.request
    assert endpoint is not None
    if not isinstance(name, str):
        wanted = (
            "uri must be a URI" if call.kind == "resource" else f"name must be a {call.kind}'s name"
        )
        raise protocol.InvalidParamsError(f"Invalid params: {wanted} (a string).")
    if not isinstance(call.arguments, dict | None):
        raise protocol.InvalidParamsError("Invalid params: arguments must be an object.")
    if call.kind == "prompt" and request is not None:
        for each, value in (call.arguments or {}).items():
            if not isinstance(value, str):
                text = f"Invalid params: the argument {protocol.text.cut(each)} must be a string."
                raise protocol.InvalidParamsError(text)
    snapshot = endpoint.snapshot
    variables: dict[str, str] = {}
    tool: Feature | None = snapshot.tools.get(name) if call.kind == Tool.kind else None
    if call.kind != Tool.kind:
        tool, variables = snapshot.called(call.kind, name)
    if call.kind == "resource" and tool is not None:
        call.name, call.arguments = tool.name, variables
    # For an unknown name another one's rule is checked: timing must not reveal which names exist.
    asked = tool or snapshot.stand_in(call.kind)
    is_open = tool is not None and tool.is_async and tool.access.is_open and context.auth is None
    if not (is_open and hasattr(endpoint.policy.allows, "never_blocks")):
        await places.in_thread()
    is_allowed = policy.may_use(endpoint.policy, asked, context)
    if tool is None or not is_allowed:
        policy.read_caller(context, snapshot.asks_of)
        raise _UNKNOWN.get(call.kind, protocol.UnknownToolError)(name)
    call.tool = tool
    if request is not None:
        if tool.headers and request.headers is not None:
            sent: Any = call.arguments or {}
            request.headers.check_parameters(tool.headers, sent)
        slot = getattr(context.request, "mcp_slot", None)
        if slot is not None and request.number is not None:
            slot.batch = slot.batch or places.CallSlot(policy.caller_of(context), slot)
        elif call.slot is None:
            call.slot = places.CallSlot(policy.caller_of(context), slot)
        if context.stream is not None and request.progress_token is not None:
            context.stream.follow(request.progress_token)
        if request.revision.input_required and not _ANSWERS.isdisjoint(request.params):
            call.answers = protocol.read_answers(request.params)
    return tool


async def intercept(call: Call, tool: Feature, around: CallsAround) -> CallToolResult | None:
    """
    Run the interceptors up to their ``yield``, and take the arguments that they yield.

    Returns the result, which is recorded, if one of them answers in the tool's place.
    """
    if tool.access.scopes:
        await check_scopes(call, tool)
    sent: Any = call.arguments or {}
    try:
        answer = await around.begin(ToolCall(tool, {}, call.context, sent))
    finally:
        call.arguments = around.call.sent or call.arguments
    if answer is not None:
        await count(call, tool)
        started = await recorder.start(around.call)
        outcome = Outcome.FAILED if answer.is_error else Outcome.SUCCEEDED
        size = len(answer.to_json(call.context.revision))
        await recorder.finish(started, outcome, error_code=ErrorCode.ANSWERED, result_bytes=size)
    return answer


@lru_cache(maxsize=8192)
def steps_of(tool: Feature, is_answer: bool) -> tuple[Step, ...]:
    """Return the steps that apply to calls of a tool, or to answers to its questions."""
    checks: list[Step] = [check_arguments]
    if tool.access.scopes:
        checks.insert(0, check_scopes)
    if tool.options.task == "required":
        checks.insert(0, require_task)
    if tool.precheck is not None:
        checks.append(ask_precheck)
    if tool.options.confirm or is_answer:
        return (*map(counted_if_refused, checks), confirm)
    return (count, *checks) if may_throttle(tool) else tuple(checks)


setting_changed.connect(lambda **changed: steps_of.cache_clear(), weak=False)


async def count(call: Call, tool: Feature) -> None:
    """Count the call once. Raises CallRefused if it exceeds the tool's rate."""
    if call.is_counted or not may_throttle(tool):
        return
    call.is_counted = True
    await places.in_thread()
    refusal = throttled(tool, call.context)
    if refusal is not None:
        raise CallRefused(refusal, ErrorCode.THROTTLED)


def counted_if_refused(check: Step) -> Step:
    """Return a check that counts the calls it refuses, for calls that are counted later."""

    async def checked(call: Call, tool: Feature) -> None:
        try:
            await check(call, tool)
        except (CallRefused, ProtocolError):
            await count(call, tool)
            raise

    return checked


async def check_scopes(call: Call, tool: Feature) -> None:
    """Raise InsufficientScopeError if the credential lacks a scope of the tool."""
    policy.check_scopes(tool, call.context)


async def require_task(call: Call, tool: Feature) -> None:
    """Raise MissingRequiredClientCapabilityError for a client that cannot follow a task."""
    if call.request is not None and not await may_become_task(call):
        raise call.context.missing_capabilities(f"extensions.{protocol.TASKS}")


async def check_arguments(call: Call, tool: Feature) -> None:
    """Convert the arguments to Python values. Raises CallRefused, listing all errors."""
    if not tool.is_plain:
        await places.in_thread()
    # Anything but an object has been refused by now.
    sent: Any = call.arguments or {}
    try:
        values = tool.check(sent)
    except InvalidArguments as refused:
        raise CallRefused(errors.invalid_result(refused), ErrorCode.INVALID) from refused
    except Exception as exception:
        unchecked = ToolCall(tool=tool, arguments={}, context=call.context, sent=sent)
        raise CallRefused(*errors.handle_error(unchecked, exception)[:3]) from exception
    known = {} if call.task is None else call.task.known
    call.checked = ToolCall(tool=tool, arguments=values, context=call.context, sent=sent, **known)


async def ask_precheck(call: Call, tool: Feature) -> None:
    """Run the tool's precheck. Raises CallRefused if it refuses the call."""
    await places.in_thread()
    assert tool.precheck is not None
    try:
        run_precheck(call.checked, tool.precheck)
    except InvalidArguments as refused:
        raise CallRefused(errors.invalid_result(refused), ErrorCode.INVALID) from refused
    except Exception as exception:
        raise CallRefused(*errors.handle_error(call.checked, exception)[:3]) from exception


async def confirm(call: Call, tool: Feature) -> None:
    """
    Process the client's answers, and have the call confirmed if the tool requires it.

    A question and its first answer count once, and so do a held call and its repetition.
    Raises CallRefused with the question, and for a refused call.
    """
    # Imported late, since few tools require confirmation.
    from mcp_bridge.confirmation.confirm import ask_person, resume

    await places.in_thread()
    if call.task is not None:
        call.checked = call.task.confirmed(call.checked)
        return
    try:
        # In the thread, the count never suspends.
        call.checked = resume(call.checked, call.answers, lambda _: places.drive(count(call, tool)))
    except (CallRefused, ProtocolError) as refused:
        # An answer belongs to a question that was counted already.
        if call.answers is None or isinstance(refused, ProtocolError):
            await count(call, tool)
        raise
    if tool.options.confirm and not call.checked.confirmed:
        call.is_counted = False
        await count(call, tool)
        raise CallRefused(ask_person(call.checked), ErrorCode.UNCONFIRMED)


def _refused(call: Call, error: Exception | asyncio.CancelledError) -> CallResult:
    """
    Record that a call was refused, and restore its approval.

    Returns the result for the model, or raises the error.
    """
    sent, tool, checked = (call.name, call.arguments, call.context), call.tool, call.checked
    if checked is not None and checked.approval is not None:
        from mcp_bridge.confirmation.confirm import give_back

        give_back(checked)
    if isinstance(error, asyncio.CancelledError):
        raise error
    if isinstance(error, CallRefused):
        recorder.refuse(error.error_code, *sent, kind=call.kind, tool=tool, error=error)
        call.context.scratch["error_code"] = error.error_code
        return error.result
    # A database that just failed is not queried again while the client waits.
    if not errors.is_database_unavailable(error):
        # Anything but a ProtocolError comes from the site: a policy or throttle that raised.
        code = error.refusal if isinstance(error, ProtocolError) else ErrorCode.INTERNAL_ERROR
        recorder.refuse(code, *sent, kind=call.kind, tool=tool, error=error)
    errors.reraise(error)


async def _handle_exception(
    started: recorder.StartedCall, raised: Exception | InputRequired | TimedOut, task: Any = None
) -> CallResult:
    """Record the end of a call that raised, and return the result for the model."""
    call = started.call
    # An interceptor may report later.
    call.context._running.has_ended = True
    try:
        if not isinstance(raised, InputRequired):
            handled = errors.handle_error(call, raised)
        else:
            from mcp_bridge.confirmation.confirm import ask_client

            try:
                question = (ask_client if task is None else task.keep_question)(call, raised)
            except ToolError as refused:
                handled = errors.handle_error(call, refused)
            except (TypeError, ValueError) as cause:
                handled = errors.log_error(call, "asked for input that cannot be sent", cause)
            else:
                # Asking is not an error: the tool's changes are rolled back, and it runs again.
                await recorder.finish(started, Outcome.REFUSED, error_code=ErrorCode.UNCONFIRMED)
                return question
    except Exception as error:
        # Even str() of an exception runs the site's code.
        if isinstance(error, RejectError | protocol.errors.InternalError):
            code = error.refusal
        else:
            is_sent = isinstance(error, ProtocolError)
            code = ErrorCode.PROTOCOL_ERROR if is_sent else ErrorCode.INTERNAL_ERROR
        await recorder.finish(started, Outcome.FAILED, error_code=code, error=error)
        raise
    return await _fail(started, handled)


async def _fail(started: recorder.StartedCall, handled: errors.HandledError) -> CallToolResult:
    """Record that a call failed with an error for the model, and return its result."""
    started.call.context.scratch["error_code"] = handled.error_code
    await recorder.finish(
        started,
        Outcome.FAILED,
        error_code=handled.error_code,
        reference=handled.reference,
        result_bytes=len(handled.result.to_json(started.call.context.revision)),
        error=handled,
    )
    return handled.result
