"""The parts of a request that a worker has: caller, client, language, time zone and host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from time import time
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db.models import Model
from django.urls import get_script_prefix, set_script_prefix
from django.utils import timezone, translation

from mcp_bridge.access.policy import caller_of
from mcp_bridge.features import Client, Context
from mcp_bridge.protocol.revisions import LATEST, REVISIONS
from mcp_bridge.tasks.models import McpTask


class Unkeepable(Exception):
    """A user or credential that cannot be found again later."""


def stored(context: Context) -> dict[str, Any]:
    """Return what a worker needs of a request, as JSON. Raises Unkeepable."""
    user = context.user
    is_stored = isinstance(user, get_user_model()) and user.pk is not None
    if getattr(user, "is_authenticated", False) and not is_stored:
        raise Unkeepable(f"its user, a {type(user).__name__}, is not stored")
    zone = timezone.get_current_timezone()
    offset: Any = datetime.now(zone).utcoffset()
    return {
        "credential": _key_of(context.auth),
        "client": [dict(context.client.info), dict(context.client.capabilities)],
        "revision": context.revision.version,
        "language": context.language,
        # A zone without a name is a number of minutes.
        "time_zone": getattr(zone, "key", offset.total_seconds() / 60),
        "base_url": context.absolute_url("/"),
        "script_prefix": get_script_prefix(),
        "remote_address": context.remote_address,
        "user_agent": context.user_agent,
    }


def owner_of(context: Context) -> str:
    """Return the owner of a caller's tasks: its user, or else its credential or its address."""
    kind, key = caller_of(context)
    application = getattr(context.auth, "application_id", None)
    if kind == "credential" and application is not None:
        # A client without a user renews its tokens.
        key = f"of application {application}"
    return f"{kind} {key}" if len(key) < 140 else f"{kind} {sha256(key.encode()).hexdigest()}"


@contextmanager
def restored(task: McpTask, stream: Any) -> Iterator[tuple[Context, str]]:
    """
    Return the context of a run of a task, in its language and time zone.

    With it comes why the call must not run, or "": its user or its credential has ended.
    """
    origin, ended = task.origin, ""
    user: Any = AnonymousUser()
    if task.caller.startswith("user "):
        known: Any = get_user_model()._default_manager
        user = known.filter(pk=task.user_id).first() or user
        ended = "" if user.is_active else "the user of the call is not active any more"
    auth = _credential(origin["credential"])
    if auth is None and origin["credential"] is not None:
        ended = ended or "the credential of the call has been revoked, or has expired"
    zone = origin["time_zone"]
    zone = zone if isinstance(zone, str) else timezone.get_fixed_timezone(zone)
    set_script_prefix(origin["script_prefix"])
    with translation.override(origin["language"]), timezone.override(zone):
        context = Context(
            user=user,
            auth=auth,
            revision=REVISIONS.get(origin["revision"], LATEST),
            client=Client(*origin["client"]),
            language=origin["language"],
            base_url=origin["base_url"],
            remote_address=origin["remote_address"],
            user_agent=origin["user_agent"],
            input_responses=task.answers,
            tool_state=task.tool_state,
            stream=stream,
        )
        yield context, ended


def _key_of(auth: Any) -> Any:
    """Return the model and key of a credential, or the claims of a JWT. Raises Unkeepable."""
    if auth is None:
        return None
    if isinstance(auth, Model):
        found: dict[str, Any] = {"model": auth._meta.label_lower, "pk": str(auth.pk)}
        if getattr(auth, "application_id", None) is not None:
            # A renewed token has the same of each.
            same = ("application_id", "user_id", "scope", "resource")
            found["same"] = {name: getattr(auth, name) for name in same if hasattr(auth, name)}
        return found
    if type(auth).__module__ == "mcp_bridge.ext.jwt.authentication" and "exp" in auth.claims:
        names = {"name": auth.name, "resource": [*auth.resource], "scopes": [*auth.scopes]}
        return {"claims": dict(auth.claims), **names}
    raise Unkeepable(f"its credential, a {type(auth).__name__}, is not stored")


def _credential(key: Any) -> Any:
    """Return the credential of a call; None if it had none, or it has ended."""
    if key is None:
        return None
    if "claims" in key:
        from mcp_bridge.ext.jwt.authentication import AccessToken

        if key["claims"]["exp"] < time():
            return None
        limits = frozenset(key["resource"]), frozenset(key["scopes"])
        return AccessToken(key["claims"], key["name"], *limits)
    rows: Any = apps.get_model(key["model"])._base_manager.all()
    found = rows.filter(pk=key["pk"]).first()
    if not _is_valid(found) and "same" in key:
        # OAuth clients renew their tokens while a task waits or runs.
        found = rows.filter(**key["same"]).order_by("expires").last()
    return found if _is_valid(found) else None


def _is_valid(credential: Any) -> bool:
    """Return whether a stored credential is there and, by what it says, still valid."""
    # A knox token has an expiry, and no method that reads it.
    if (
        credential is None
        or (ends := getattr(credential, "expiry", None))
        and ends < timezone.now()
    ):
        return False
    found = getattr(credential, "is_valid", True)
    return bool(found() if callable(found) else found)
