"""
The first and last use of each client by each user.

The tokens of django-oauth-toolkit are replaced on each refresh; these rows remain.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError, connections, models, router
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import AbstractAccessToken, AbstractApplication
from oauth2_provider.settings import oauth2_settings

from mcp_bridge.access.locks import atomic_without_waiting
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.oauth")

USED_EVERY: Final = timedelta(minutes=1)
_MOST_KNOWN: Final = 10_000
# The last use by token; a client that reconnects has a new token.
_known: Final[dict[tuple[object, ...], datetime]] = {}


class ClientUse(models.Model):
    """The first and last time that a client acted as a user."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # Without a constraint: a site's own client model may be in another database or migrate later.
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_uses",
        db_constraint=False,
    )
    first_used_at = models.DateTimeField(_("first used"), default=timezone.now)
    last_used_at = models.DateTimeField(_("last used"))

    class Meta:
        app_label = "mcp_bridge_oauth"
        verbose_name = _("connected application")
        verbose_name_plural = _("connected applications")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "application"], name="mcp_bridge_oauth_one_use_of_a_client"
            )
        ]


def mark_used(
    user: AbstractBaseUser,
    application: AbstractApplication | None,
    token: AbstractAccessToken | None = None,
) -> None:
    """
    Record that a client acts as a user, at most once a minute; ``application`` may be None.

    A process queries once per minute for each ``token``, and every time without one. Database
    errors are logged, not raised: they are not a reason to refuse a valid token.
    """
    if application is None:
        return
    now = timezone.now()
    key, recently = (user.pk, application.pk, token and token.pk), now - USED_EVERY
    if key in _known and _known[key] > recently:
        return
    of = {"user_id": user.pk, "application_id": application.pk}
    uses, using = ClientUse.objects.filter(**of), router.db_for_write(ClientUse)
    try:
        used = next(iter(uses.values_list("last_used_at", flat=True)), None)
        if used is None or used <= recently:
            used = now
            with atomic_without_waiting(using):
                if not uses.update(last_used_at=now):
                    ClientUse.objects.get_or_create(**of, defaults={"last_used_at": now})
    except DatabaseError:
        text = "The use of the client %s could not be recorded"
        logger.warning(text, application.client_id, exc_info=True)
        return
    # Writes within an outer transaction may be rolled back.
    if token is not None and not connections[using].in_atomic_block:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = used
