from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.tokens.models import Token


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):
    """Issue, look at and revoke tokens. The secret is shown once, when the token is issued."""

    list_display = ["name", "user", "hint", "is_valid", "last_used_at", "expires_at", "created_at"]
    list_filter = ["expires_at", "revoked_at"]
    list_select_related = ["user"]
    search_fields = ["name", "hint", "user__username"]
    autocomplete_fields = ["user"]
    readonly_fields = ["hint", "created_at", "revoked_at", "last_used_at"]
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> Any:
        given = ["user", "name", "expires_at"]
        return given if obj is None else [*given, *self.readonly_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Token | None = None) -> list[str]:
        # Whom a token speaks for is part of what was handed out.
        return [] if obj is None else ["user", *self.readonly_fields]

    def save_model(self, request: HttpRequest, obj: Token, form: ModelForm, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        issued, secret = Token.objects.issue(
            user=obj.user, name=obj.name, expires_at=obj.expires_at
        )
        # Everything that follows, the log entry included, is about the token that was issued.
        obj.__dict__.update(issued.__dict__)
        text = gettext("The token is %(secret)s — copy it now, it is not shown again.")
        self.message_user(request, text % {"secret": secret}, messages.WARNING)

    @admin.display(boolean=True, description=_("valid"))
    def is_valid(self, token: Token) -> bool:
        return token.is_valid

    @admin.action(description=_("Revoke selected tokens"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        for token in queryset:
            token.revoke()
            self.log_change(request, token, [{"changed": {"fields": ["revoked_at"]}}])
        self.message_user(request, gettext("The selected tokens are revoked."))
