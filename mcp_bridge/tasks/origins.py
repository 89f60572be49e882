"""What a worker has of the request of a call: its caller, client, language, time zone and host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db.models import Model
from django.utils import timezone, translation

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Client, Context
from mcp_bridge.protocol.revisions import LATEST, REVISIONS
from mcp_bridge.tasks.models import McpTask


class Unkeepable(Exception):
    """A user or credential that cannot be found again later."""


def stored(context: Context) -> dict[str, Any]:
    """Return what a worker needs of a request, as JSON. Raises Unkeepable."""
    user = context.user
    if getattr(user, "is_authenticated", False) and not isinstance(user, get_user_model()):
        raise Unkeepable(f"its user is no row of a table, but a {type(user).__name__}")
    return {
        "credential": _key_of(context.auth),
        "client": [dict(context.client.info), dict(context.client.capabilities)],
        "revision": context.revision.version,
        "language": context.language,
        "time_zone": timezone.get_current_timezone_name(),
        "base_url": context.absolute_url("/"),
        "remote_address": context.remote_address,
        "user_agent": context.user_agent,
    }


@contextmanager
def restored(task: McpTask, stream: Any) -> Iterator[Context]:
    """
    Return the context of a run of a task, in its language and time zone.

    Raises ToolError if the user or the credential of the call has ended.
    """
    origin = task.origin
    user: Any = AnonymousUser()
    if task.caller.startswith("user "):
        known: Any = get_user_model()._default_manager
        user = known.filter(pk=task.user_id).first()
        if user is None or not user.is_active:
            raise ToolError("the user of the call is not active any more")
    with translation.override(origin["language"]), timezone.override(origin["time_zone"]):
        yield Context(
            user=user,
            auth=_credential(origin["credential"], user),
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


def _key_of(auth: Any) -> Any:
    """Return where a credential is found again: its model and key, or the claims of a JWT."""
    if auth is None:
        return None
    if isinstance(auth, Model):
        application = getattr(auth, "application_id", None)
        return {"model": auth._meta.label_lower, "pk": str(auth.pk), "application": application}
    claims = getattr(auth, "claims", None)
    if isinstance(claims, Mapping) and "exp" in claims:
        names = {"name": auth.name, "resource": [*auth.resource], "scopes": [*auth.scopes]}
        return {"claims": dict(claims), **names}
    raise Unkeepable(f"its credential, a {type(auth).__name__}, is not stored")


def _credential(key: Any, user: Any) -> Any:
    """Return the credential of a call. Raises ToolError if it has ended."""
    ended = ToolError("the credential of the call has been revoked, or has expired")
    if key is None:
        return None
    if "claims" in key:
        from mcp_bridge.ext.jwt.authentication import AccessToken

        if datetime.fromtimestamp(key["claims"]["exp"], UTC) < timezone.now():
            raise ended
        limits = frozenset(key["resource"]), frozenset(key["scopes"])
        return AccessToken(key["claims"], key["name"], *limits)
    rows: Any = apps.get_model(key["model"])._base_manager.all()
    found = rows.filter(pk=key["pk"]).first()
    if not _is_valid(found) and key["application"] is not None:
        # OAuth clients renew their tokens while a task waits or runs.
        renewed = rows.filter(application=key["application"], user=user.pk)
        found = renewed.order_by("expires").last()
    if not _is_valid(found):
        raise ended
    if getattr(found, "user_id", None) == user.pk is not None:
        # The same object, whose permissions are read once.
        found.user = user
    return found


def _is_valid(credential: Any) -> bool:
    """Return whether a stored credential is there, and says that it is valid, if it says so."""
    if credential is None:
        return False
    found = getattr(credential, "is_valid", True)
    return bool(found() if callable(found) else found)
