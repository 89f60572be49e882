from __future__ import annotations

from json import dumps, loads
from textwrap import indent
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.contrib.messages import constants
from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils.timesince import timesince

from mcp_bridge.access.policy import lacking
from mcp_bridge.confirmation.decisions import approve, obstacle_to, refuse
from mcp_bridge.confirmation.notifying import DECIDE
from mcp_bridge.management.base import TablesCommand, named_user
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.text import printable
from mcp_bridge.registry.registry import registry

_ACTIONS = ("list", "approve", "refuse")


class Command(TablesCommand):
    help = (
        "List the calls pending approval, or approve or refuse one of them, by the same rules as "
        "the admin."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", nargs="?", default="list", choices=_ACTIONS)
        parser.add_argument("number", nargs="?", type=int, help="A call's number, from “list”.")
        parser.add_argument("--user", help=f"The user who decides; requires {DECIDE}. Recorded.")
        parser.add_argument("--reason", default="", help="Reason of a refusal, for its caller.")
        parser.add_argument("--json", action="store_true", help="Print as JSON.")

    def handle(self, *, action: str, number: int | None, json: bool, **options: Any) -> None:
        rows = PendingCall.objects.using(router.db_for_write(PendingCall))
        rows = rows.select_related("user", "decided_by").order_by("asked_at", "pk")
        if number is None:
            if action != "list":
                raise CommandError("The number of a call is required: see `mcp_pending`.")
            self._list(list(rows.filter(status=PendingCall.Status.WAITING)), json)
            return
        pending = rows.filter(pk=number).first()
        if pending is None:
            raise CommandError(f"Unknown call {number}: see `mcp_pending`.")
        text = "" if action == "list" else self._decide(pending, action, **options)
        if json:
            self.stdout.write(dumps(_described(pending), indent=2))
        else:
            self._show(pending)
        if text:
            self.stderr.write(self.style.SUCCESS(text))

    def _decide(
        self, pending: PendingCall, action: str, *, user: str | None, reason: str, **others: Any
    ) -> str:
        """Save the decision; return the message about it. Raises CommandError."""
        if user is None:
            raise CommandError(f"--user is required: a user with the permission {DECIDE}.")
        decider = named_user(user)
        if not decider.is_active or any(lacking(decider, [DECIDE])):
            raise CommandError(f"{user} may not decide: this requires {DECIDE}.")
        if pending.status != PendingCall.Status.WAITING:
            raise CommandError(f"Call {pending.pk} is not pending: {_decision(pending)}.")
        is_yes = action == "approve"
        text, level = approve(pending, decider) if is_yes else refuse(pending, decider, reason)
        if level != constants.SUCCESS:
            raise CommandError(text)
        pending.refresh_from_db()
        return text

    def _list(self, calls: list[PendingCall], json: bool) -> None:
        if json:
            self.stdout.write(dumps([_described(each) for each in calls], indent=2))
            return
        for each in calls:
            self._show(each)
        aside = sum(1 for each in calls if obstacle_to(each))
        waiting = len(calls) - aside
        more = f" {aside} can no longer be approved." if aside else ""
        self.stdout.write(f"{waiting} call{'s' * (waiting != 1)} pending.{more}")

    def _show(self, pending: PendingCall) -> None:
        tool = registry.snapshot.by_label.get(pending.tool)
        client = f", with the client {pending.client}" if pending.client else ""
        age = timesince(pending.asked_at).replace("\xa0", " ")
        described = str(tool.description if tool else "").splitlines()
        lines = [f"asked by {_name(pending.user)} {age} ago{client}", *map(printable, described)]
        lines.append(pending.arguments)
        waits = pending.status == PendingCall.Status.WAITING
        lines.append(obstacle_to(pending) if waits else _decision(pending))
        self.stdout.write(self.style.MIGRATE_HEADING(f"{pending.pk}  {pending.tool}"))
        self.stdout.write(indent("\n".join(filter(None, lines)), "    ") + "\n\n")


def _described(pending: PendingCall) -> dict[str, object]:
    waits = pending.status == PendingCall.Status.WAITING
    decided = pending.decided_at
    return {
        "number": pending.pk,
        "tool": pending.tool,
        "arguments": loads(pending.arguments),
        "user": pending.user and pending.user.get_username(),
        "client": pending.client,
        "asked_at": pending.asked_at.isoformat(),
        "status": pending.status,
        "obstacle": obstacle_to(pending) if waits else "",
        "decided_by": pending.decided_by and pending.decided_by.get_username(),
        "decided_at": decided and decided.isoformat(),
        "reason": pending.reason,
    }


def _decision(pending: PendingCall) -> str:
    """Return the decision, its user and its time in one line."""
    reason = f": {printable(pending.reason)}" if pending.reason else ""
    by = f"by {_name(pending.decided_by)}, {pending.decided_at:%Y-%m-%d %H:%M}"
    return f"{pending.get_status_display()} ({by}){reason}"


def _name(user: AbstractBaseUser | None) -> str:
    return "deleted user" if user is None else printable(user.get_username())
