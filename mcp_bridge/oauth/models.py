"""
The first and the last use of each client by each user.

The tokens of django-oauth-toolkit come and go with each refresh; this is kept of them.
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
# When a user's client was last used, by a token of it: connected anew, it has another one.
_known: Final[dict[tuple[object, ...], datetime]] = {}


class ClientUse(models.Model):
    """When a client has acted as a user."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # The tables of a site's own models of clients may be in another database, or come later.
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
        verbose_name = _("use of a client")
        verbose_name_plural = _("uses of clients")
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
    Record that a client acts as a user, at most once a minute; a token may be of no client.

    A process looks once in that minute for each ``token``, and every time if none is given. An
    error of the database is logged and not raised: it is no reason to refuse a good token.
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
        text = "The use of the client %s could not be noted"
        logger.warning(text, application.client_id, exc_info=True)
        return
    # What is written in a transaction around this may never be committed.
    if token is not None and not connections[using].in_atomic_block:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = used
