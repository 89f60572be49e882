"""
A person's confirmation of a call, and the questions that a tool asks its client.

Nothing that a client sends confirms a call by itself: it takes a signed state that this server has
given out for this very call and that was not used before (MCP, "Multi round-trip requests",
"Security considerations"), or a row of the approval queue, in which calls wait for a person that
their client cannot confirm.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from django.contrib.auth import get_user_model
from django.core import signing
from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext

from mcp_bridge.access.binding import REFUSED, bound, received, unchecked_call
from mcp_bridge.access.notifying import notify_held
from mcp_bridge.access.rendering import TooLong, is_longer, render_arguments
from mcp_bridge.calls.outcomes import ErrorCode
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused, InputRequired, InvalidArguments
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.models import Generation, PendingCall, UsedState
from mcp_bridge.protocol import (
    Answers,
    CallToolResult,
    InputRequiredResult,
    InvalidParamsError,
    JSONObject,
)
from mcp_bridge.protocol.input_requests import FormElicitRequest, InputRequest, check_response
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

# The key of the question whether a call may run.
CONFIRM: Final = "confirm"
# Longer arguments are not put into a client's form, where nobody would read them.
MAX_FORM: Final = 4_000
# More than a person reads; a user who has so many waiting has to wait.
MAX_ARGUMENTS: Final = 64 * 1024
MOST_WAITING: Final = 100
_SALT: Final = "mcp_bridge.confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """
    The content of MCP's ``requestState``, which the client keeps, and can read, until it answers.

    ``binding`` is to the user (not to the credential), the tool, its definition and the arguments.
    ``asked`` are the methods of the requests, by key; ``answers`` the responses to earlier
    questions, by key; ``state`` is the tool's own. ``confirming`` says that the question was
    whether the call may run; ``confirmed_at`` when a person has agreed to it before, in seconds.
    """

    binding: str
    asked: dict[str, str]
    answers: JSONObject
    state: object
    confirming: bool
    confirmed_at: float | None
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


def resume(call: ToolCall, answers: Answers | None) -> ToolCall:
    """
    Return the call with what its client has answered; ``confirmed`` where a person has agreed.

    Raises CallRefused where a person has not agreed, and InvalidParamsError for a state that is not
    one of this call.
    """
    agreed: Mapping[str, object] | None = None
    if answers is not None:
        state, call = _unsign(answers.state, call)
        responses = {key: answers.responses[key] for key in state.asked if key in answers.responses}
        for key, response in responses.items():
            check_response(key, state.asked[key], response)
        # Written before anything runs because of the answer.
        rows = UsedState._default_manager.using(router.db_for_write(UsedState))
        try:
            with transaction.atomic(rows.db):
                rows.create(nonce=state.nonce)
        except IntegrityError:
            raise _invalid("it was used before, which it can be once") from None
        UsedState.forget(using=rows.db)
        if state.confirming:
            agreed = responses.pop(CONFIRM, None)
        at = state.confirmed_at
        agreed_at = None if at is None else datetime.fromtimestamp(at, UTC)
        context = replace(
            call.context, input_responses={**state.answers, **responses}, tool_state=state.state
        )
        call = replace(call, context=context, confirmed_at=agreed_at)
    if call.confirmed or not call.tool.options.confirm:
        return call
    if is_longer(call.sent, MAX_ARGUMENTS):
        raise _too_long(call)
    is_cancelled = agreed is not None and agreed["action"] == "cancel"
    # The client answers for its own user.
    call = _confirmed(bound(call), None if conf.FOUR_EYES or is_cancelled else agreed)
    if is_cancelled and not call.confirmed:
        # No person need have seen the form: a client without one says so too.
        raise _held(call, _arguments(call))
    return call


def _confirmed(call: ToolCall, agreed: Mapping[str, object] | None) -> ToolCall:
    """Return the call as its client's user has answered, or as the approval queue has it."""
    if agreed is not None:
        content = agreed.get("content")
        is_yes = isinstance(content, Mapping) and content.get(CONFIRM) is True
        if agreed["action"] != "accept" or not is_yes:
            text = (
                f"Nothing was run: the user was asked whether {call.tool.name} may run with these "
                "arguments, and did not agree. Do not call it again unless the user wants it."
            )
            raise CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
    row, rows, status, now = _row(call), _rows(), PendingCall.Status, timezone.now()
    if row is None:
        return call if agreed is None else replace(call, confirmed_at=now)
    used = {"status": status.DONE, "key": None, "used_at": now}
    # An approval is consumed by one call alone; one of the meantime was for this call as well.
    approved = rows.filter(pk=row.pk, status=status.APPROVED, key=row.key)
    if agreed is None:
        is_approved = approved.update(**used)
        return replace(call, confirmed_at=row.decided_at, approval=row.pk) if is_approved else call
    waiting = rows.filter(pk=row.pk, status=status.WAITING)
    if not (
        waiting.update(**used, decided_at=now, decided_by=call.context.user)
        or approved.update(**used)
    ):
        # It was decided in the meantime, which may have been a no.
        _row(call)
    return replace(call, confirmed_at=now)


def ask_person(call: ToolCall) -> InputRequiredResult | CallToolResult:
    """
    Return the question whether a call may run, or the error that says why nobody is asked.

    Raises CallRefused where the call waits for a person.
    """
    context, name = call.context, call.tool.name
    if not isinstance(context.user, get_user_model()):
        return CallToolResult.error(
            f"Nothing was run: {name} needs the approval of a person, which is given to a "
            "user. Call it with the credential of a user of this site."
        )
    text = _arguments(call)
    values = {"tool": name, "title": str(call.tool.title or name), "arguments": text}
    message = gettext(
        "May the tool %(tool)s (%(title)s) be run, once, with these arguments?\n\n%(arguments)s"
    )
    box = {"type": "boolean", "title": gettext("Yes, run %(tool)s") % values, "default": False}
    schema = {"type": "object", "properties": {CONFIRM: box}, "required": [CONFIRM]}
    form = FormElicitRequest(message % values, schema)
    declared = context.client.capabilities if context.revision.input_required else {}
    if conf.FOUR_EYES or len(text) > MAX_FORM or not form.is_declared(declared):
        raise _held(call, text)
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
    question = _question(bound(call), requests, required.tool_state)
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
    answered, agreed_at = call.context.input_responses.items(), call.confirmed_at
    state = RequestState(
        binding=call.binding,
        asked={key: each.method for key, each in requests.items()},
        answers={key: each for key, each in answered if key not in requests},
        state=tool_state,
        confirming=confirming,
        confirmed_at=None if agreed_at is None else agreed_at.timestamp(),
    )
    return InputRequiredResult(requests, signing.dumps(asdict(state), salt=_SALT, compress=True))


def _unsign(text: str, call: ToolCall) -> tuple[RequestState, ToolCall]:
    """
    Return the state that was signed for this call, and the call with its binding.

    Raises InvalidParamsError for any other state.
    """
    try:
        age = timedelta(seconds=conf.CONFIRMATION_MAX_AGE)
        state = RequestState(**signing.loads(text, salt=_SALT, max_age=age))
    except signing.SignatureExpired:
        raise _invalid("it is too old") from None
    except (signing.BadSignature, ValueError):
        raise _invalid("it is not as this server has given it out") from None
    if state.confirmed_at is not None and time.time() - state.confirmed_at > age.total_seconds():
        raise _invalid("the yes of a person is too old")
    # Only now: to find the binding, the arguments are checked once more.
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
        "inputResponses to begin anew."
    )


def _arguments(call: ToolCall) -> str:
    """Return the arguments as people read them. Raises CallRefused for too many."""
    try:
        return render_arguments(call.tool, received(call), most=MAX_ARGUMENTS)
    except TooLong:
        raise _too_long(call) from None


def _too_long(call: ToolCall) -> CallRefused:
    text = (
        f"{_needs(call)}, and these arguments have more than the {MAX_ARGUMENTS} characters "
        "that a person is asked to read. Do it in parts."
    )
    return CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)


def _needs(call: ToolCall) -> str:
    return f"Nothing was run: {call.tool.name} needs the approval of a person"


def _held(call: ToolCall, arguments: str) -> CallRefused:
    """Have the call wait for a person, if it does not already; return the error that says so."""
    needs, rows = _needs(call), _rows()
    waiting = rows.filter(user=call.context.user, status=PendingCall.Status.WAITING)
    with transaction.atomic(rows.db):
        # One at a time: two that count at once would both find room for one.
        Generation.lock(rows.db)
        if waiting.count() >= MOST_WAITING and not waiting.filter(key=call.binding).exists():
            text = (
                f"{needs}, and {MOST_WAITING} calls of this user wait for one already. Wait until "
                "some of them are decided."
            )
            return CallRefused(CallToolResult.error(text), ErrorCode.UNCONFIRMED)
        row, is_new = _get_or_create(call, arguments)
    if is_new:
        # Of a call within a transaction of the site's own, once that is committed.
        transaction.on_commit(partial(notify_held, call, row), using=rows.db, robust=True)
    minutes = round(conf.CONFIRMATION_MAX_AGE / 60)
    who = "somebody else who may" if conf.FOUR_EYES else "somebody who may"
    within = f"{minutes} minutes" if minutes > 1 else f"{conf.CONFIRMATION_MAX_AGE:g} seconds"
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[row.pk])
        address = call.context.absolute_url(path)
        where = f"for it at {address}. Tell the user to have it approved there"
    except NoReverseMatch:
        where = (
            f"as number {row.pk}. Tell the user, and do not do it yourself, to have it approved "
            f"with `manage.py mcp_pending approve {row.pk} --user NAME` on the server"
        )
    text = (
        f"{needs}. The call waits {where} by {who}. Then repeat the call with the same arguments "
        f"within {within} of the approval; repeating it before changes nothing."
    )
    result = CallToolResult.error(text)
    return CallRefused(result, ErrorCode.UNCONFIRMED, pending_call=row.pk)


def approve_own(tool: Tool, arguments: JSONObject, context: Context) -> None:
    """
    Approve a call that the user of the context is about to make, as that very person.

    For pages of the server's own, where the person has just agreed. A refusal stays; with the
    setting FOUR_EYES nothing is approved.
    """
    if conf.FOUR_EYES:
        return
    try:
        call = unchecked_call(tool, arguments, context)
    except InvalidArguments:
        # There is nothing to approve: the call is refused.
        return
    with suppress(CallRefused):
        # For a row whose time is over: another can be made then.
        _row(call)
    row, _is_new = _get_or_create(call, render_arguments(tool, call.sent))
    row.decide(using=_rows().db, status=PendingCall.Status.APPROVED, decided_by=context.user)


def give_back(call: ToolCall) -> None:
    """Make the approval of a call that has not run after all count as before."""
    if call.approval is None:
        return
    rows = _rows()
    used = rows.filter(pk=call.approval, status=PendingCall.Status.DONE)
    # Where the call was repeated in the meantime, that one waits instead.
    with suppress(IntegrityError), transaction.atomic(using=rows.db):
        used.update(status=PendingCall.Status.APPROVED, key=call.binding, used_at=None)


def _row(call: ToolCall) -> PendingCall | None:
    """
    Return the row of the call; None if there is none, or its time is over, which frees its key.

    Raises CallRefused where a person has refused the call.
    """
    rows, start = _rows(), call.binding[:REFUSED]
    found = list(rows.filter(key__gte=start, key__lt=f"{start}g"))
    if over := [each.pk for each in found if each.is_over]:
        rows.filter(pk__in=over).update(key=None)
        found = [each for each in found if each.pk not in over]
    for row in found:
        # A no is to each spelling of the call, whatever was said to another one.
        if row.status != PendingCall.Status.REFUSED:
            continue
        end = "" if row.reason.endswith((".", "!", "?", "…")) else "."
        reason = f" The reason: {row.reason}{end}" if row.reason else ""
        text = (
            f"Nothing was run: a person has refused this call of {call.tool.name}.{reason} Do not "
            "repeat it unless the user wants it."
        )
        result = CallToolResult.error(text)
        raise CallRefused(result, ErrorCode.UNCONFIRMED, pending_call=row.pk)
    return next((each for each in found if each.key == call.binding), None)


def _get_or_create(call: ToolCall, arguments: str) -> tuple[PendingCall, bool]:
    # A client of a legacy revision names itself in a header alone.
    client = call.context.client.info.get("name") or call.context.user_agent
    values = {
        "tool": call.tool.name,
        "fingerprint": fingerprint(canonical_definition(call.tool)),
        "arguments": arguments,
        "user": call.context.user,
        "client": cut(repr(client)[1:-1], 120) if isinstance(client, str) else "",
    }
    return _rows().get_or_create(key=call.binding, defaults=values)


def _rows() -> QuerySet[PendingCall]:
    return PendingCall._default_manager.using(router.db_for_write(PendingCall))
