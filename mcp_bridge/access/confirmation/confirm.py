"""
A person's confirmation of a call, and the questions that a tool asks its client.

Nothing that a client sends confirms a call by itself: it takes a signed state that this server has
given out for this very call and that was not used before, or a row of the approval queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from django.contrib.auth import get_user_model
from django.utils.translation import gettext

from mcp_bridge.access.confirmation import approval_queue, request_state
from mcp_bridge.access.confirmation.rendering import render_arguments
from mcp_bridge.access.confirmation.request_state import RequestState
from mcp_bridge.calls.outcomes import ErrorCode
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused, InputRequired
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol import Answers, CallToolResult, InputRequiredResult
from mcp_bridge.protocol.input_requests import FormElicitRequest, InputRequest, check_response

# The key of the question whether a call may run.
CONFIRM: Final = "confirm"
# Longer arguments are not put into a client's form, where nobody would read them.
MAX_FORM: Final = 4_000


def resume(call: ToolCall, answers: Answers | None) -> ToolCall:
    """
    Return the call with what its client has answered; ``confirmed`` where a person has agreed.

    Raises CallRefused where a person has not agreed, and InvalidParamsError for a state that is not
    one of this call.
    """
    agreed: Mapping[str, object] | None = None
    if answers is not None:
        state = request_state.unsign(answers.state, call)
        responses = {key: answers.responses[key] for key in state.asked if key in answers.responses}
        for key, response in responses.items():
            check_response(key, state.asked[key], response)
        request_state.consume(state)
        if state.confirming:
            agreed = responses.pop(CONFIRM, None)
        context = replace(
            call.context, input_responses={**state.answers, **responses}, tool_state=state.state
        )
        call = replace(call, context=context, confirmed=state.confirmed)
    if call.confirmed or not call.tool.options.confirm:
        return call
    # The client answers for its own user.
    if agreed is not None and not conf.FOUR_EYES:
        content = agreed.get("content")
        is_yes = isinstance(content, Mapping) and content.get(CONFIRM) is True
        if agreed["action"] != "accept" or not is_yes:
            text = (
                f"Nothing was run: the user was asked whether {call.tool.name} may run with these "
                "arguments, and did not agree. Do not call it again unless the user wants it."
            )
            raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
        approval_queue.close(call)
        return replace(call, confirmed=True)
    approval = approval_queue.take(call)
    return call if approval is None else replace(call, confirmed=True, approval=approval)


def ask_person(call: ToolCall) -> InputRequiredResult | CallToolResult:
    """Return the question whether a call may run, or the error that says that it waits."""
    context, name = call.context, call.tool.name
    if not isinstance(context.user, get_user_model()):
        return CallToolResult.error(
            f"Nothing was run: {name} needs the approval of a person, which is given to a "
            "user. Call it with the credential of a user of this site."
        )
    text = render_arguments(call.tool, call.sent)
    values = {"tool": name, "title": str(call.tool.title or name), "arguments": text}
    message = gettext(
        "May the tool %(tool)s (%(title)s) be run, once, with these arguments?\n\n%(arguments)s"
    )
    box = {"type": "boolean", "title": gettext("Yes, run %(tool)s") % values, "default": False}
    schema = {"type": "object", "properties": {CONFIRM: box}, "required": [CONFIRM]}
    form = FormElicitRequest(message % values, schema)
    declared = context.client.capabilities if context.revision.input_required else {}
    if conf.FOUR_EYES or len(text) > MAX_FORM or not form.is_declared(declared):
        return CallToolResult.error(approval_queue.enqueue(call, text))
    return _question(call, {CONFIRM: form}, context.tool_state, confirming=True)


def ask_client(call: ToolCall, required: InputRequired) -> InputRequiredResult:
    """
    Return the question that a tool asks its client.

    Raises MissingRequiredClientCapabilityError for what the client has not declared, and TypeError
    for a question that is not JSON.
    """
    context, requests = call.context, required.requests
    known = context.client.capabilities if context.revision.input_required else {}
    missing = [each.capability for each in requests.values() if not each.is_declared(known)]
    if missing or not context.revision.input_required:
        raise context.missing_capabilities(*dict.fromkeys(missing or ["elicitation"]))
    question = _question(call, requests, required.tool_state)
    # Written once, so that it surely can be sent.
    question.to_json(context.revision)
    return question


def _question(
    call: ToolCall,
    requests: Mapping[str, InputRequest],
    tool_state: object,
    *,
    confirming: bool = False,
) -> InputRequiredResult:
    answered = call.context.input_responses.items()
    state = RequestState(
        asked={key: each.method for key, each in requests.items()},
        answers={key: each for key, each in answered if key not in requests},
        state=tool_state,
        confirming=confirming,
        confirmed=call.confirmed,
    )
    return InputRequiredResult(requests, request_state.sign(state, call))
