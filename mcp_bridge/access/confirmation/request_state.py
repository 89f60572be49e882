"""
The state of a question: what a client keeps until it answers, signed and used once.

The client can read it. It is bound to the user (not to the credential), the tool, its definition
and the arguments, and it ends after CONFIRMATION_MAX_AGE. See MCP, "Multi round-trip requests",
"Security considerations".
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Final

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.db import IntegrityError, router, transaction

from mcp_bridge.conf import conf
from mcp_bridge.features import ToolCall
from mcp_bridge.models import UsedState
from mcp_bridge.protocol import InvalidParamsError, JSONObject
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

_SALT: Final = "mcp_bridge.confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """
    The content of MCP's ``requestState``.

    ``asked`` are the methods of the requests, by key; ``answers`` the responses to earlier
    questions, by key; ``state`` is the tool's own. ``confirming`` says that the question was
    whether the call may run, and ``confirmed`` that a person has agreed to it before.
    """

    asked: dict[str, str]
    answers: JSONObject = field(default_factory=dict)
    state: object = None
    confirming: bool = False
    confirmed: bool = False
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


def binding(call: ToolCall) -> str:
    """Return a SHA-256 of the user, the tool's definition and the arguments of a call."""
    user = call.context.user
    known = user is not None and user.is_authenticated
    parts = [
        str(user.pk) if known else None,
        call.tool.name,
        fingerprint(canonical_definition(call.tool)),
        call.sent,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def sign(state: RequestState, call: ToolCall) -> str:
    """Return the state as a text for the client. Raises TypeError where it is not JSON."""
    content = {**asdict(state), "binding": binding(call)}
    return TimestampSigner(salt=_SALT).sign_object(content, compress=True)


def unsign(text: str, call: ToolCall) -> RequestState:
    """Return the state that was signed for this call. Raises InvalidParamsError for any other."""
    try:
        content = TimestampSigner(salt=_SALT).unsign_object(
            text, max_age=timedelta(seconds=conf.CONFIRMATION_MAX_AGE)
        )
    except SignatureExpired:
        raise _invalid("it is too old") from None
    except (BadSignature, ValueError):
        raise _invalid("it is not as this server has given it out") from None
    if content.pop("binding") != binding(call):
        raise _invalid(
            "it belongs to another call: the user, the tool, its definition and the arguments "
            "must all be the same"
        )
    return RequestState(**content)


def consume(state: RequestState) -> None:
    """
    Write that the question was answered, before anything runs because of the answer.

    Raises InvalidParamsError where it was answered before, in whichever process.
    """
    using = router.db_for_write(UsedState)
    try:
        with transaction.atomic(using):
            UsedState._default_manager.using(using).create(nonce=state.nonce)
    except IntegrityError:
        raise _invalid("it was used before, which it can be once") from None
    UsedState.forget(using=using)


def _invalid(why: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"Invalid requestState: {why}. Nothing was run. Call the tool without requestState and "
        "inputResponses to begin anew."
    )
