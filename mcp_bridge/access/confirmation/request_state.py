"""
What a client keeps between two rounds of a call: signed, for this call alone, and used once.

The client can read it. It is bound to the user (not to the credential), the tool, its definition
and the arguments, and it ends after CONFIRMATION_MAX_AGE. See MCP, "Multi round-trip requests",
"Security considerations".
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final, cast

from django.apps import apps
from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.db import IntegrityError, router, transaction

from mcp_bridge.conf import conf
from mcp_bridge.features.tools import ToolCall
from mcp_bridge.protocol import InvalidParamsError
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

_SALT: Final = "mcp_bridge.confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """
    One round of a call.

    ``asked`` are the methods of what was asked, by key; ``answers`` those of the rounds before, by
    key; ``state`` is the tool's own. ``confirming`` says that the question was whether the call
    may run, and ``confirmed`` that somebody has agreed before.
    """

    asked: Mapping[str, str]
    answers: Mapping[str, Any] = field(default_factory=dict)
    state: Any = None
    confirming: bool = False
    confirmed: bool = False
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


def binding(call: ToolCall) -> str:
    """A SHA-256 of who calls what with which arguments: equal for repetitions of one call."""
    user = call.context.user
    known = user is not None and user.is_authenticated
    parts = [
        str(user.pk) if known else None,
        call.tool.name,
        fingerprint(canonical_definition(call.tool)),
        call.sent,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def sign(after: RequestState, call: ToolCall) -> str:
    """The round as a text for the client. Raises TypeError for a state that is no JSON."""
    content = {**asdict(after), "binding": binding(call)}
    return TimestampSigner(salt=_SALT).sign_object(content, compress=True)


def unsign(text: str, call: ToolCall) -> RequestState:
    """What the server has sealed for this call. Raises InvalidParamsError for anything else."""
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


def consume(before: RequestState) -> None:
    """
    Write down that the round was answered, before anything runs on the strength of it.

    Raises InvalidParamsError where that was written before, by whatever process.
    """
    model = cast("Any", apps.get_model("mcp_bridge", "UsedState"))
    using = router.db_for_write(model)
    try:
        with transaction.atomic(using):
            model._default_manager.using(using).create(nonce=before.nonce)
    except IntegrityError:
        raise _invalid("it was used before, which it can be once") from None
    model.forget(using=using)


def _invalid(why: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"Invalid requestState: {why}. Nothing was run. Call the tool without requestState and "
        "inputResponses to begin anew."
    )
