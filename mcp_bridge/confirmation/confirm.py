"""
Confirmation of calls by a person, and questions of tools to their client.

A call is confirmed by a state that this server signed for exactly this call and that has not been
used (MCP, "Multi round-trip requests", "Security considerations"), or by the approval queue.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import signing
from django.db import IntegrityError, router, transaction
from django.utils.translation import gettext

from mcp_bridge.conf import conf
from mcp_bridge.confirmation.queue import bound, check_length, consume, hold, shown_arguments
from mcp_bridge.confirmation.queue import give_back as give_back
from mcp_bridge.exceptions import CallRefused, InputRequired, ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.models import UsedState
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import Answers, CallToolResult, InputRequiredResult, InvalidParamsError
from mcp_bridge.protocol.input_requests import FormElicitRequest, InputRequest, check_response
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.schemas.forms import check_form

# The key of the question whether a call may run.
CONFIRM: Final = "confirm"
# The most requests of one call: the first, and those with answers.
MAX_ROUNDS: Final = 10
# The most characters of arguments in a client's form; people would not read more.
MAX_FORM: Final = 4_000
_SALT: Final = "mcp_bridge.confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """
    The content of MCP's ``requestState``, which the client keeps, and can read, until it answers.

    ``binding`` covers the user (not the credential), the tool, its definition and the arguments.
    ``asked`` are the methods of the requests, by key; ``answers`` the responses to earlier
    questions, by key; ``state`` is the tool's. ``confirming`` says that the question was whether
    the call may run; ``confirmed_at`` is when a person approved it, in seconds, if earlier.
    """

    binding: str
    asked: dict[str, str]
    answers: Mapping[str, object]
    state: object
    confirming: bool
    confirmed_at: float | None
    round: int = 1
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


def resume(
    call: ToolCall, answers: Answers | None, count: Callable[[ToolCall], object]
) -> ToolCall:
    """
    Return the call with the client's answers; ``confirmed`` if a person has approved it.

    ``count`` counts each answer after the first as a call, and raises CallRefused over the rate:
    the same answer may be sent again later. Raises CallRefused if a person has not approved, and
    InvalidParamsError for a state that does not belong to this call.
    """
    agreed: Mapping[str, object] | None = None
    if answers is not None:
        state, call = _unsign(answers.state, call)
        responses = {key: answers.responses[key] for key in state.asked if key in answers.responses}
        for key, response in responses.items():
            check_response(key, state.asked[key], response)
        if state.round > 1:
            count(call)
        # Written before anything runs because of the answer.
        rows = UsedState._default_manager.using(router.db_for_write(UsedState))
        try:
            with transaction.atomic(rows.db):
                rows.create(nonce=state.nonce)
        except IntegrityError:
            raise _invalid("it has been used already") from None
        UsedState.forget(using=rows.db)
        if state.confirming:
            agreed = responses.pop(CONFIRM, None)
        at = state.confirmed_at
        zone = UTC if settings.USE_TZ else None
        agreed_at = None if at is None else datetime.fromtimestamp(at, zone)
        given = {**state.answers, **responses}
        context = replace(call.context, input_responses=given, tool_state=state.state)
        call = call._replace(context=context, confirmed_at=agreed_at, round=state.round + 1)
    if call.confirmed or not call.tool.options.confirm:
        return call
    # The rendered arguments are at least as long, and take far longer to compute.
    check_length(call, encode(call.sent).decode())
    is_cancelled = agreed is not None and agreed["action"] == "cancel"
    # The client answers on behalf of its user.
    answer = None if conf.FOUR_EYES or is_cancelled else agreed
    if answer is not None:
        content = answer.get("content")
        is_yes = isinstance(content, Mapping) and content.get(CONFIRM) is True
        if answer["action"] != "accept" or not is_yes:
            text = (
                f"Nothing was run: the user was asked whether {call.tool.name} may run with these "
                "arguments, and declined. Do not call it again unless the user wants it."
            )
            raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
    call = consume(bound(call), agreed=answer is not None)
    if is_cancelled and not call.confirmed:
        # A person may never have seen the form: clients without a UI cancel it too.
        raise hold(call, shown_arguments(call))
    return call


def ask_person(call: ToolCall) -> InputRequiredResult | CallToolResult:
    """Return the question whether a call may run, or an error. Raises CallRefused if it is held."""
    context, name = call.context, call.tool.name
    if not isinstance(context.user, get_user_model()):
        return CallToolResult.error(
            f"Nothing was run: {name} requires a person's approval, which only calls of "
            "users can get. Call it with the credential of a user of this site."
        )
    text = shown_arguments(call)
    values = {"tool": name, "title": str(call.tool.title or name), "arguments": text}
    message = gettext(
        "May %(tool)s (%(title)s) be run, once, with these arguments?\n\n%(arguments)s"
    )
    box = {"type": "boolean", "title": gettext("Yes, run %(tool)s") % values, "default": False}
    schema = {"type": "object", "properties": {CONFIRM: box}, "required": [CONFIRM]}
    form = FormElicitRequest(message % values, schema)
    declared = context.client.capabilities
    if conf.FOUR_EYES or len(text) > MAX_FORM or not form.is_declared(declared):
        raise hold(call, text)
    return _question(call, {CONFIRM: form}, context.tool_state, confirming=True)


def ask_client(call: ToolCall, required: InputRequired) -> InputRequiredResult:
    """Return the question that a tool asks its client. Raises the errors of ``check_question``."""
    check_question(call, required)
    question = _question(bound(call), required.requests, required.tool_state)
    # Serialised once, so that an error is raised here.
    question.to_json(call.context.revision)
    return question


def check_question(call: ToolCall, required: InputRequired) -> None:
    """
    Raise an exception unless a tool may ask its client this question.

    It is MissingRequiredClientCapabilityError if the client has not declared the capability,
    ToolError in the last of MAX_ROUNDS, and TypeError for a question that is not JSON or a form
    that clients must not receive (check_form).
    """
    context, requests = call.context, required.requests
    known = context.client.capabilities
    missing = [each.capability for each in requests.values() if not each.is_declared(known)]
    if missing or not (known or context.revision.input_required):
        raise context.missing_capabilities(*dict.fromkeys(missing or ["elicitation"]))
    if call.round >= MAX_ROUNDS:
        raise ToolError(
            f"Nothing was done: {call.tool.name} asked in each of {MAX_ROUNDS} rounds, the limit "
            "for one call. Call it again with answers that it accepts."
        )
    for each in requests.values():
        if isinstance(each, FormElicitRequest):
            check_form(each.schema)


def _question(
    call: ToolCall,
    requests: Mapping[str, InputRequest],
    tool_state: object,
    *,
    confirming: bool = False,
) -> InputRequiredResult:
    answered, agreed_at = call.context.input_responses.items(), call.confirmed_at
    state = RequestState(
        binding=call.binding,
        asked={key: each.method for key, each in requests.items()},
        answers={key: each for key, each in answered if key not in requests},
        state=tool_state,
        confirming=confirming,
        confirmed_at=None if agreed_at is None else agreed_at.timestamp(),
        round=call.round,
    )
    return InputRequiredResult(requests, signing.dumps(asdict(state), salt=_SALT, compress=True))


def _unsign(text: str, call: ToolCall) -> tuple[RequestState, ToolCall]:
    """Return the state signed for this call, and the bound call. Raises InvalidParamsError."""
    try:
        age = timedelta(seconds=conf.CONFIRMATION_MAX_AGE)
        state = RequestState(**signing.loads(text, salt=_SALT, max_age=age))
    except signing.SignatureExpired:
        raise _invalid("it has expired") from None
    except (signing.BadSignature, ValueError):
        raise _invalid("it was not issued by this server, or it was modified") from None
    if state.confirmed_at is not None and time.time() - state.confirmed_at > age.total_seconds():
        raise _invalid("the approval has expired")
    call = bound(call)
    if state.binding != call.binding:
        raise _invalid(
            "it belongs to another call: the user, the tool, its definition and the arguments "
            "must all be the same"
        )
    return state, call


def _invalid(why: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"Invalid requestState: {why}. Nothing was run. Call the tool without requestState and "
        "inputResponses to start again."
    )
