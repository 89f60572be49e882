"""
Bearer tokens.

The secret is 256 random bits and is never stored: the database holds an HMAC-SHA256 of it under
SECRET_KEY. So many random bits need no slow hash, and a copy of the table holds no credential.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

PREFIX: Final = "mcp_"
SHOWN: Final = 8
USED_EVERY: Final = timedelta(minutes=1)
_SALT: Final = "mcp_bridge.tokens"


def digest(secret: str, key: str | bytes | None = None) -> str:
    """Return the HMAC of a secret that is stored: 64 hexadecimal digits."""
    return salted_hmac(_SALT, secret, secret=key, algorithm="sha256").hexdigest()


class TokenManager(models.Manager["Token"]):
    def issue(
        self, *, user: AbstractBaseUser, name: str, expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        """Make a token for a user, and return it with its secret."""
        token = self.model(user_id=user.pk, name=name, expires_at=expires_at)
        secret = token.make_secret()
        token.save(force_insert=True, using=self._db)
        return token, secret

    def find(self, secret: str) -> Token | None:
        """Return the token with that secret and its user, or None."""
        keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
        digests = [digest(secret, key) for key in keys]
        # Not first(), which sorts as well: this query is most of what authenticating costs.
        try:
            return self.select_related("user").get(digest__in=digests)
        except Token.DoesNotExist:
            return None


class Token(models.Model):
    """A credential with which a program acts as a user."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_tokens",
        verbose_name=_("user"),
    )
    name = models.CharField(
        _("name"), max_length=100, help_text=_("What uses the token, such as “Laptop, editor”.")
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(_("begins with"), max_length=16, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(
        _("expires"), null=True, blank=True, help_text=_("Empty for a token that does not expire.")
    )
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)

    objects = TokenManager()

    class Meta:
        app_label = "mcp_bridge_tokens"
        verbose_name = _("token")
        verbose_name_plural = _("tokens")
        ordering = ["-created_at"]
        permissions = [("issue_for_others", _("Can issue tokens for other users"))]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    @property
    def is_valid(self) -> bool:
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired

    def make_secret(self) -> str:
        """Return a new secret for this token, which is stored nowhere; save() keeps its digest."""
        secret = PREFIX + secrets.token_urlsafe(32)
        self.digest, self.hint = digest(secret), secret[: len(PREFIX) + SHOWN]
        return secret

    def revoke(self) -> None:
        """Make the token invalid from now on; revoking it again changes nothing."""
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    def mark_used(self) -> None:
        """Record that the token is in use, at most once a minute."""
        now = timezone.now()
        if self.last_used_at is None or self.last_used_at <= now - USED_EVERY:
            with transaction.atomic():
                # Another request may have recorded its use since this token was read.
                unused = Token.objects.filter(pk=self.pk).exclude(last_used_at__gt=now - USED_EVERY)
                unused.update(last_used_at=now)
