"""
What a call waits for: a person's yes, or what the tool itself asks of the client.

``admitted`` decides before a tool runs, ``asked`` writes what the client has to answer. Nothing
that a client sends counts as a yes by itself: it is a signed state that this server has given out
for this very call and that was not used before, or a row that the server has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.utils.translation import gettext

from mcp_bridge.access.confirmation import approval_queue, request_state
from mcp_bridge.access.confirmation.rendering import render_arguments
from mcp_bridge.access.confirmation.request_state import RequestState
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import InputRequired, ToolError
from mcp_bridge.features.tools import ToolCall
from mcp_bridge.protocol.input_requests import FormElicitRequest, check_response, read_answers

# The question whether a call may run at all, as the only key of its round.
CONFIRM: Final = "confirm"
# Longer arguments are not put into a client's form, where nobody would read them.
MAX_FORM: Final = 4_000


def admitted(call: ToolCall, params: Mapping[str, Any]) -> ToolCall:
    """
    The call with what its client has answered so far, ready to run.

    Raises InputRequired where a person has to be asked first, ToolError where the model has to
    know that nothing runs now, and InvalidParamsError for an answer that is not to be believed.
    """
    if not call.context.revision.input_required:
        return _confirmed(call, None)
    state, responses = read_answers(params)
    if state is None:
        return _confirmed(call, None)
    before = request_state.unsign(state, call)
    given = {key: responses[key] for key in before.asked if key in responses}
    for key, response in given.items():
        check_response(key, before.asked[key], response)
    request_state.consume(before)
    if before.confirming:
        return _confirmed(call, given.get(CONFIRM, {}))
    context = replace(
        call.context, input_responses={**before.answers, **given}, tool_state=before.state
    )
    call = replace(call, context=context, confirmed=before.confirmed)
    return call if before.confirmed else _confirmed(call, None)


def asked(call: ToolCall, required: InputRequired) -> dict[str, Any]:
    """
    The result that asks the client (MCP schema, ``InputRequiredResult``).

    Raises MissingRequiredClientCapabilityError for what the client has not declared.
    """
    context, requests = call.context, required.requests
    known = context.client_capabilities if context.revision.input_required else {}
    lacking = [each.capability for each in requests.values() if not each.is_declared(known)]
    if lacking or not context.revision.input_required:
        needed = dict.fromkeys(lacking or ["elicitation"])
        raise context.lacking(*needed)
    kept = {key: each for key, each in context.input_responses.items() if key not in requests}
    after = RequestState(
        asked={key: each.method for key, each in requests.items()},
        answers=kept,
        state=required.state,
        confirming=isinstance(required, _Confirmation),
        confirmed=call.confirmed,
    )
    return {
        "resultType": "input_required",
        **({"inputRequests": {key: each.definition() for key, each in requests.items()}}),
        "requestState": request_state.sign(after, call),
    }


class _Confirmation(InputRequired):
    """The question whether a call may run."""


def _confirmed(call: ToolCall, answer: Mapping[str, Any] | None) -> ToolCall:
    """
    The call, if it needs nobody's yes or has it.

    ``answer`` is the client's to the question; None where it was not asked, {} without an answer.
    """
    tool, user = call.tool, call.context.user
    if not tool.options.confirm:
        return call
    if not isinstance(user, get_user_model()):
        raise ToolError(
            f"Nothing was run: {tool.name} needs the approval of a person, which is given to a "
            "user. Call it with the credential of a user of this site."
        )
    # The client answers for its own user.
    may_agree = not conf.FOUR_EYES
    if answer and may_agree:
        content = answer.get("content", {})
        if answer["action"] != "accept" or content.get(CONFIRM) is not True:
            raise ToolError(
                f"Nothing was run: the user was asked whether {tool.name} may run with these "
                "arguments, and did not agree. Do not call it again unless the user wants it."
            )
        approval_queue.close(call)
        return replace(call, confirmed=True)
    approval = approval_queue.taken(call)
    if approval is not None:
        return replace(call, confirmed=True, approval=approval)
    text = render_arguments(tool, call.sent)
    form = _form(call, text)
    declared = call.context.client_capabilities if call.context.revision.input_required else {}
    if may_agree and len(text) <= MAX_FORM and form.is_declared(declared):
        raise _Confirmation({CONFIRM: form})
    raise approval_queue.enqueue(call, text)


def _form(call: ToolCall, arguments: str) -> FormElicitRequest:
    name = call.tool.name
    values = {"tool": name, "title": str(call.tool.title or name), "arguments": arguments}
    message = gettext(
        "May the tool %(tool)s (%(title)s) be run, once, with these arguments?\n\n%(arguments)s"
    )
    box = {"type": "boolean", "title": gettext("Yes, run %(tool)s") % values, "default": False}
    schema = {"type": "object", "properties": {CONFIRM: box}, "required": [CONFIRM]}
    return FormElicitRequest(message % values, schema)
