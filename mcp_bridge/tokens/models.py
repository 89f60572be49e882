"""
Bearer tokens.

The secret is 256 random bits and never stored: the database holds its HMAC-SHA256 under
SECRET_KEY. With that many random bits a slow hash is not needed, and a copy of the table does
not contain credentials.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models, router
from django.db.models import Field, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from mcp_bridge.access.compiled import compiled
from mcp_bridge.access.locks import atomic_without_waiting
from mcp_bridge.models.users import optional_user
from mcp_bridge.protocol.text import without_unprintable

PREFIX: Final = "mcp_"
SHOWN: Final = 8
# The default days until a token expires.
PROPOSED: Final = 90
USED_EVERY: Final = timedelta(minutes=1)
_SALT: Final = "mcp_bridge.tokens"


def digest(secret: str, key: str | bytes | None = None) -> str:
    """Return the stored HMAC of a secret: 64 hexadecimal digits."""
    return salted_hmac(_SALT, secret, secret=key, algorithm="sha256").hexdigest()


class TokenManager(models.Manager["Token"]):
    @sensitive_variables()
    def issue(
        self,
        *,
        user: AbstractBaseUser,
        name: str,
        expires_at: datetime | None = None,
        scopes: Iterable[str] | None = None,
        tools: Iterable[str] | None = None,
        read_only: bool = False,
    ) -> tuple[Token, str]:
        """
        Create a token for a user, issued by the site itself; return it and its secret.

        ``scopes`` and ``tools`` are the names to limit it to: an empty list allows none, and None
        does not limit it.
        """
        token = self.model(user_id=user.pk, name=name, expires_at=expires_at, read_only=read_only)
        limits = (None if each is None else " ".join(each) for each in (scopes, tools))
        token.scope, token.tools = limits
        secret = token.make_secret()
        token.save(force_insert=True)
        return token, secret

    @sensitive_variables()
    def find(self, secret: str) -> Token | None:
        """Return the token with that secret and its user, or None."""
        keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
        digests = [digest(secret, key) for key in keys]
        # Not on a user's related manager, whose query has an extra condition.
        if type(self) is TokenManager:
            make = partial(self._with_digest, digests)
            query = compiled(("token", len(digests)), self.db, digests, make)
            if query is not None and query.fields == _columns():
                values = next(iter(query.run(digests)), None)
                if values is None:
                    return None
                names = [each.attname for each in _columns()]
                mine = len(Token._meta.concrete_fields)
                token = Token.from_db(query.alias, names[:mine], values[:mine])
                users: Any = Token._meta.get_field("user").related_model
                token.user = users.from_db(query.alias, names[mine:], values[mine:])
                return token
        # Not first(), which adds a sort.
        return next(iter(self._with_digest(digests)), None)

    def _with_digest(self, digests: list[str]) -> QuerySet[Token]:
        return self.select_related("user").filter(digest__in=digests).order_by()


class Token(models.Model):
    """A credential with which a program acts as a user."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_tokens",
        verbose_name=_("user"),
    )
    name = models.CharField(
        _("name"),
        max_length=100,
        help_text=_("The device or program that uses the token, such as “Laptop, editor”."),
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(_("begins with"), max_length=16, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(
        _("expires"), null=True, blank=True, help_text=_("Empty for a token that does not expire.")
    )
    # Names separated by spaces; None if the token is not limited.
    scope = models.TextField(
        _("scopes"),
        null=True,
        blank=True,
        help_text=_("With none chosen, the token may do all that its user may."),
    )
    tools = models.TextField(
        _("tools"),
        null=True,
        blank=True,
        help_text=_("With none chosen, the token allows all tools that its user may call."),
    )
    read_only = models.BooleanField(
        _("read-only"),
        default=False,
        db_default=False,
        help_text=_("The token allows only tools that change nothing."),
    )
    # Kept if that user is deleted: they may still have the secret.
    issued_by = optional_user(
        _("issued by"), on_delete=models.DO_NOTHING, db_constraint=False, editable=False
    )
    # Revoked because its user gained rights that its issuer lacks (mcp_bridge.tokens.outgrown).
    outgrown = models.BooleanField(_("outgrown"), default=False, db_default=False, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)

    objects = TokenManager()

    # Its limits are fixed when it is issued (mcp_bridge.access.scopes).
    can_gain_scopes = False

    class Meta:
        app_label = "mcp_bridge_tokens"
        verbose_name = _("token")
        verbose_name_plural = _("tokens")
        ordering = ["-created_at"]
        permissions = [("issue_for_others", _("Can issue tokens for other users"))]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    def save(self, *args: Any, **kwargs: Any) -> None:
        # Others read the name, which the issuer chose.
        self.name = without_unprintable(self.name)
        super().save(*args, **kwargs)

    @property
    def is_valid(self) -> bool:
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired

    @property
    def issuer(self) -> AbstractBaseUser | None:
        """The user who issued it; None for the site, or if that user was deleted."""
        users: Any = Token._meta.get_field("issued_by").related_model
        return users._base_manager.filter(pk=self.issued_by_id).first()  # type: ignore[no-any-return]

    # Read by AccessPolicy: the tools that the token allows, or None for all of its user's.
    allowed_tools = property(attrgetter("tools"))

    @sensitive_variables()
    def make_secret(self) -> str:
        """Return a new secret, which is never stored; save() stores its digest."""
        secret = PREFIX + secrets.token_urlsafe(32)
        self.digest, self.hint = digest(secret), secret[: len(PREFIX) + SHOWN]
        return secret

    def revoke(self) -> None:
        """Make the token invalid from now on; revoking it again has no effect."""
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at", "outgrown"])

    def mark_used(self) -> None:
        """
        Record that the token is in use, at most once a minute.

        Raises OperationalError at once if another write holds the lock; the next use is then
        recorded.
        """
        now = timezone.now()
        if self.last_used_at is None or self.last_used_at <= now - USED_EVERY:
            using = router.db_for_write(Token)
            with atomic_without_waiting(using):
                # Another request may have recorded its use since this token was read.
                known = Token.objects.using(using).filter(pk=self.pk)
                unused = known.exclude(last_used_at__gt=now - USED_EVERY)
                unused.update(last_used_at=now)


@cache
def _columns() -> tuple[Field[Any, Any], ...]:
    """Return the fields that a token and its user consist of, if their tables suffice."""
    user = Token._meta.get_field("user").related_model
    # Proxies and subclasses have columns in another order or in other tables.
    if user._meta.parents:
        return ()
    return (*Token._meta.concrete_fields, *user._meta.concrete_fields)
