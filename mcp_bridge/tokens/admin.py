from __future__ import annotations

from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin
from django.core.exceptions import ValidationError
from django.db.models import ForeignKey, QuerySet
from django.forms import ModelChoiceField, ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.tokens.models import Token

FOR_OTHERS: Final = "mcp_bridge_tokens.issue_for_others"


def may_issue(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """
    Return whether the administrator may issue tokens that act as the user.

    Always for themselves. For others with the permission to issue for others, where those are
    active, are no superusers, and have no permission and no group that the administrator lacks:
    tools may be limited to groups. Where the site's user model has no list of permissions to
    compare, for themselves alone.
    """
    issuer = request.user
    if user == issuer:
        return True
    # Django says of inactive users that they have no permissions; they may have them again.
    if not isinstance(user, PermissionsMixin) or not isinstance(issuer, PermissionsMixin):
        return False
    if user.is_superuser or not user.is_active or not issuer.has_perm(FOR_OTHERS):
        return False
    return issuer.is_superuser or (
        getattr(user, "is_staff", False) <= getattr(issuer, "is_staff", False)
        and user.get_all_permissions() <= issuer.get_all_permissions()
        and not user.groups.exclude(pk__in=issuer.groups.values("pk")).exists()
    )


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):
    """Issue, look at and revoke tokens. The secret is shown once, when the token is issued."""

    list_display = ["name", "user", "hint", "is_valid", "last_used_at", "expires_at", "created_at"]
    list_filter = ["expires_at", "revoked_at"]
    list_select_related = ["user"]
    raw_id_fields = ["user"]
    readonly_fields = ["hint", "created_at", "revoked_at", "last_used_at"]
    actions = ["revoke"]

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return ["name", "hint", f"user__{get_user_model().USERNAME_FIELD}"]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Only where the site's user model is in the same admin, and can be searched there.
        users = self.admin_site._registry.get(get_user_model())
        return ["user"] if users is not None and users.get_search_fields(request) else []

    def has_change_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        # To prolong a token is to issue it anew.
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or may_issue(request, obj.user))

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> tuple[str, ...]:
        if obj is not None:
            return ("user", "name", "expires_at", *self.readonly_fields)
        return ("user",) * request.user.has_perm(FOR_OTHERS) + ("name", "expires_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Token | None = None) -> list[str]:
        # The user whom a token acts as is part of what was handed out.
        return [] if obj is None else ["user", *self.readonly_fields]

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> ModelChoiceField | None:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)

        def check_user(user: AbstractBaseUser) -> None:
            if not may_issue(request, user):
                text = gettext("A token for this user would give rights that you do not have.")
                raise ValidationError(text)

        if field is not None:
            field.validators = [*field.validators, check_user]
        return field

    def save_model(self, request: HttpRequest, obj: Token, form: ModelForm, change: bool) -> None:
        if not change:
            obj.user = form.cleaned_data.get("user", request.user)
            text = gettext("The token is %(secret)s — copy it now, it is not shown again.")
            text %= {"secret": obj.make_secret()}
            self.message_user(request, text, messages.WARNING)
        super().save_model(request, obj, form, change)

    @admin.display(boolean=True, description=_("valid"))
    def is_valid(self, token: Token) -> bool:
        return token.is_valid

    @admin.action(description=_("Revoke selected tokens"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        for token in queryset:
            token.revoke()
            self.log_change(request, token, [{"changed": {"fields": ["revoked_at"]}}])
        self.message_user(request, gettext("The selected tokens are revoked."))
