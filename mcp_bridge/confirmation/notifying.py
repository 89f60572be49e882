"""The signal that a call is held, and emails to the people who can decide on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.mail import EmailMessage
from django.db.models import Q
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext, ngettext, override

from mcp_bridge.access.policy import lacking
from mcp_bridge.conf import conf
from mcp_bridge.confirmation.decisions import approvable
from mcp_bridge.features import Tool, ToolCall
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import quoted
from mcp_bridge.signals import tool_call_held

logger = get_logger("mcp_bridge.confirmation")

# The permission to decide.
DECIDE: Final = "mcp_bridge.change_pendingcall"
# The minimum seconds between two emails to the same address.
_INTERVAL: Final = 60


def notify_held(call: ToolCall, pending: PendingCall) -> None:
    """Send the signal, and the emails of NOTIFY_HELD; failures are logged."""
    if tool_call_held.receivers:
        tool_call_held.send_robust(Tool, call=call, pending=pending)
    if not conf.NOTIFY_HELD:
        return
    try:
        # One message to all, so that the mail server is contacted once; recipients are hidden from
        # each other.
        due = []
        for address in _addresses(pending):
            # Hashed, since an address may not be a valid cache key.
            key = hashlib.sha256(address.casefold().encode()).hexdigest()
            if cache.add(f"mcp_bridge.notified:{key}", True, timeout=_INTERVAL):
                due.append(address)
        if due:
            names = {"site": " ".join(conf.server_title.split()), "tool": pending.tool}
            with override(settings.LANGUAGE_CODE):
                subject = gettext("%(site)s: a call of %(tool)s is pending approval") % names
                body = _body(call, pending)
            EmailMessage(subject, body, bcc=due).send()
    except Exception:
        logger.exception("No email was sent about the pending call %s", pending.pk)


def _addresses(pending: PendingCall) -> Iterator[str]:
    """Yield the addresses that NOTIFY_HELD gives for a call, without duplicates."""
    model = get_user_model()
    fields = {field.name for field in model._meta.get_fields()}
    email = model.get_email_field_name()
    given = {each.casefold(): each for each in conf.NOTIFY_HELD if "@" in each}
    groups = [each for each in conf.NOTIFY_HELD if "@" not in each]
    wanted = Q(groups__name__in=groups) if groups and "groups" in fields else Q(pk__in=[])
    for each in given:
        wanted |= Q(**{f"{email}__iexact": each})
    users = model._default_manager.filter(wanted).distinct() if email in fields else ()
    people: dict[str, bool] = {}
    for user in users:
        if address := getattr(user, email):
            key = address.casefold()
            given.setdefault(key, address)
            is_own = conf.FOUR_EYES and user.pk in (pending.user_id, pending.issuer_id)
            is_staff = user.is_active and getattr(user, "is_staff", True)
            may_decide = not is_own and is_staff and not any(lacking(user, [DECIDE]))
            people[key] = people.get(key, False) or may_decide
    # Addresses without an account were chosen by the site, such as a team's.
    yield from (address for key, address in given.items() if people.get(key, True))


def _body(call: ToolCall, pending: PendingCall) -> str:
    """Return the text without arguments; those are on the page, which checks permissions."""
    waiting = PendingCall.objects.filter(approvable()).count()
    values = {
        "tool": pending.tool,
        "user": quoted(pending.user.get_username()) if pending.user else "—",
        "address": _address(call, pending),
        "number": pending.pk,
        "count": waiting,
    }
    where = gettext(
        "Review the call and decide in the admin under “Pending calls” or with "
        "“manage.py mcp_pending list %(number)s” on the server."
    )
    if values["address"]:
        where = gettext("Review the call and decide: %(address)s")
    lines = [
        gettext("%(user)s called %(tool)s, which runs only after a person has approved the call."),
        where,
        ngettext("%(count)d call is pending.", "%(count)d calls are pending.", waiting),
    ]
    return "\n\n".join(line % values for line in lines) + "\n"


def _address(call: ToolCall, pending: PendingCall) -> str:
    """Return the address of the call's page, or "" if the site's host is unknown."""
    try:
        path = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    except NoReverseMatch:
        return ""
    if conf.RESOURCE:
        return urljoin(conf.RESOURCE, path)
    # With "*", the caller chose the host of the request.
    if call.context.request is None or "*" in settings.ALLOWED_HOSTS:
        return ""
    return call.context.absolute_url(path)
