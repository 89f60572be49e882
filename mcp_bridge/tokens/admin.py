from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Field, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from mcp_bridge.access.policy import visible
from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.admin.audience import permission_title, permission_titles, quoted
from mcp_bridge.admin.base import PagesAdmin, RevisedForm, column, may_view_users
from mcp_bridge.registry.registry import registry
from mcp_bridge.server.connecting import TOKEN, Connection, endpoint_url
from mcp_bridge.tokens.models import PROPOSED, Token
from mcp_bridge.tokens.views import NamesField

FOR_OTHERS: Final = "mcp_bridge_tokens.issue_for_others"


def refusal(request: HttpRequest, user: AbstractBaseUser) -> str:
    """
    Return why the administrator may not issue tokens that act as the user, or "" if they may.

    Groups count like permissions, since they can restrict tools. Without a list of permissions in
    the user model, tokens are only for oneself.
    """
    issuer: Any = request.user
    if user == issuer:
        return ""
    if not isinstance(user, PermissionsMixin) or not issuer.has_perm(FOR_OTHERS):
        return gettext("You can issue tokens only for yourself.")
    # has_perm() is false for inactive users, who may be activated again.
    if not user.is_active:
        return gettext("This user is not active.")
    if user.is_superuser:
        return gettext("Superusers issue their tokens themselves.")
    if issuer.is_superuser:
        return ""
    if getattr(user, "is_staff", False) > getattr(issuer, "is_staff", False):
        return gettext("The user is staff, and you are not.")
    more = permission_titles(user.get_all_permissions() - issuer.get_all_permissions()).values()
    groups = user.groups.exclude(pk__in=issuer.groups.values("pk")).values_list("name", flat=True)
    names = quoted([*sorted(more), *groups][:3])
    text = gettext("The user has permissions or groups that you do not have, such as %(names)s.")
    return text % {"names": names} if names else ""


@admin.register(Token)
class TokenAdmin(PagesAdmin):
    """
    The admin of tokens: issue, view and revoke them. The secret is shown once, on issue.

    Users who may add tokens see and revoke their own; those of others require the permissions to
    view and to change.
    """

    form = RevisedForm
    pages = {"connect": "<path:object_id>/connect/", "revoke": "<path:object_id>/revoke/"}
    list_display = [
        *("token", "user", "is_valid", "limits", "used", "expires", "created", "revocation"),
    ]
    list_filter = ["expires_at", "revoked_at"]
    list_select_related = ["user"]
    raw_id_fields = ["user"]
    search_fields = ["name", "hint", f"user__{get_user_model().USERNAME_FIELD}"]
    readonly_fields = [
        *("read_only", "granted_scopes", "opened_tools", "hint", "created_at", "issuer"),
        *("revoked_at", "last_used_at"),
    ]
    actions = ["revoke"]

    class Media:
        css = {
            "all": ["mcp_bridge/theme.css", "mcp_bridge/model-admin.css", "mcp_bridge/connect.css"]
        }
        js = ["mcp_bridge/connect.js", "mcp_bridge/boxes.js"]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found: Any = super().get_changelist_instance(request)
        found.is_of_all = self.may_view_all(request)
        for token in found.result_list:
            may_revoke = self.has_revoke_permission(request, token)
            token.revoke_url = may_revoke and self.address("revoke", token.pk)
        return found

    def get_queryset(self, request: HttpRequest) -> QuerySet[Token]:
        tokens = super().get_queryset(request)
        return tokens if self.may_view_all(request) else tokens.filter(user=request.user.pk)

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        token = super().get_object(request, *args, **kwargs)
        if token is not None:
            token.may_be_revoked = self.has_revoke_permission(request, token)
        elif not self.may_view_all(request):
            # They must not learn that another user's token exists.
            raise PermissionDenied
        return token

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Either a primary key or a username, depending on the field.
        issuer = request.user
        proposed = {"user": issuer.pk if may_view_users(request) else issuer.get_username()}
        end = timezone.now() + timedelta(days=PROPOSED)
        # Values from the URL are strings, which the split date and time inputs cannot show.
        return {**proposed, **super().get_changeform_initial_data(request), "expires_at": end}

    def has_delete_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        # Records of calls name revoked tokens.
        is_superuser = getattr(request.user, "is_superuser", False)
        return is_superuser and super().has_delete_permission(request, obj)

    def may_view_all(self, request: HttpRequest) -> bool:
        """Return whether the administrator may view tokens of others."""
        return super().has_view_permission(request)

    def _is_own(self, request: HttpRequest, token: Token | None) -> bool:
        """Return whether the administrator may issue the token (None: any token)."""
        is_theirs = token is None or token.user_id == request.user.pk
        return is_theirs and self.has_add_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        return self.may_view_all(request) or self._is_own(request, obj)

    def has_revoke_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        """Return whether the administrator may revoke the token (None: some token)."""
        return super().has_change_permission(request) or self._is_own(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        # Extending a token equals issuing it again.
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or not refusal(request, obj.user))

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> tuple[str, ...]:
        if obj is not None:
            return (self.user_field(request), "name", "expires_at", *self.readonly_fields)
        # Limits are chosen when a token is issued, and cannot be widened later.
        user = ("user",) * request.user.has_perm(FOR_OTHERS)
        scope = ("scope",) * bool(supported_scopes())
        return (*user, "name", "expires_at", "read_only", *scope, "tools")

    def get_readonly_fields(self, request: HttpRequest, obj: Token | None = None) -> list[str]:
        # A token always acts as the user it was issued for.
        return [] if obj is None else [self.user_field(request), *self.readonly_fields]

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "scope":
            words = supported_scopes()
        elif db_field.name == "tools":
            # The names of hidden tools are not shown.
            sees_all = request.user.has_perm("mcp_bridge.view_toolsetting")
            tools = registry.discovered.by_label.values() if sees_all else visible(request.user)
            words = {tool.label: str(tool.title or "") for tool in tools}
        else:
            field = super().formfield_for_dbfield(db_field, request, **kwargs)
            if isinstance(field, forms.SplitDateTimeField):
                # Django does not label its two inputs.
                parts = gettext("Date:"), gettext("Time:")
                for widget, part in zip(field.widget.widgets, parts, strict=True):
                    widget.attrs["aria-label"] = f"{field.label}. {part}"
            return field
        # The field's own form field is a text area.
        return Field.formfield(db_field, form_class=NamesField, choices=labelled(words))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        text = gettext("You cannot issue a token for this user. %(reason)s")
        rule = gettext(
            "Yourself, or an active user all of whose rights you have, except superusers."
        )
        if not may_view_users(request):
            # Django's user list would be forbidden.
            text = gettext("This user does not exist, or you may not issue tokens for them.")
            kwargs |= {
                "widget": AdminTextInputWidget,
                "to_field_name": get_user_model().USERNAME_FIELD,
                "error_messages": {"invalid_choice": text},
            }
            rule = gettext("The user's name, as used to log in.") + f" {rule}"

        def check_user(user: AbstractBaseUser) -> None:
            if reason := refusal(request, user):
                raise ValidationError(text % {"reason": reason})

        kwargs |= {"help_text": rule, "validators": [check_user]}
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            # A token revoked in the meantime stays revoked.
            obj.save(update_fields=form.changed_data)
            return
        obj.user = form.cleaned_data.get("user", request.user)
        obj.issued_by = request.user
        # Only for response_add: not a field, and not a message, which could be stored in a cookie.
        obj.secret = obj.make_secret()
        super().save_model(request, obj, form, change)

    @sensitive_variables()
    def response_add(self, request: HttpRequest, obj: Any, *args: Any) -> HttpResponse:
        """Return the page that shows the secret, in response to the same request."""
        context = {"title": gettext("Token issued"), "token": obj, "secret": obj.secret}
        context["connection"] = Connection(endpoint_url(request), obj.secret)
        if self.has_view_permission(request, obj):
            # For the breadcrumbs.
            context["original"] = obj
        # Rendered here, so that error reports do not include the secret.
        return self.page(request, "issued_token", context).render()

    def connect_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show how to connect clients with a token whose secret is no longer known."""
        context = {"title": gettext("Connect"), "original": self.viewed(request, object_id)}
        context["connection"] = Connection(endpoint_url(request), TOKEN)
        return self.page(request, "connect", context)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for confirmation to revoke a token; a POST revokes it."""
        token = self.viewed(request, object_id)
        if not token.may_be_revoked:
            raise PermissionDenied
        if request.method == "POST":
            self.revoke_one(request, token)
            text = gettext("%(token)s was revoked. Clients that use it are now refused.")
            self.message_user(request, text % {"token": token}, messages.SUCCESS)
            return self.back_to(token)
        return self.page(request, "revoke_token", {"title": gettext("Revoke"), "original": token})

    def revoke_one(self, request: HttpRequest, token: Token) -> None:
        """Revoke a token and log it, unless it was revoked already."""
        if token.revoked_at is None:
            token.revoke()
            self.log_change(request, token, [{"changed": {"fields": ["revoked_at"]}}])

    @admin.display(boolean=True, description=_("valid"))
    def is_valid(self, token: Token) -> bool:
        return token.is_valid

    token = column("token", _("token"), "name")
    limits = column("token_limits", _("limits"))
    used = column("token_used", _("last used"), "last_used_at")
    expires = column("token_expires", _("expires"), "expires_at")
    created = column("token_created", _("created"), "created_at")
    issuer = column("issuer", _("issued by"))
    revocation = column("revocation", _("revoke"))

    @admin.display(description=_("scopes"))
    def granted_scopes(self, token: Token) -> str:
        return limit(token.scope, supported_scopes())

    @admin.display(description=_("tools"))
    def opened_tools(self, token: Token) -> str:
        return limit(token.tools, {})

    @admin.action(description=_("Revoke selected tokens"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        tokens = list(queryset)
        allowed = [token for token in tokens if self.has_revoke_permission(request, token)]
        for token in allowed:
            self.revoke_one(request, token)
        if len(allowed) == len(tokens):
            self.message_user(request, gettext("The selected tokens were revoked."))
            return
        if allowed:
            self.message_user(request, gettext("Your own of the selected tokens were revoked."))
        text = gettext("Tokens of other users were not revoked (requires “%(permission)s”).")
        text %= {"permission": permission_title("change", self.opts)}
        self.message_user(request, text, messages.WARNING)


def labelled(words: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return choices from names and their descriptions."""
    return [
        (name, name if text in ("", name) else f"{name}: {text}") for name, text in words.items()
    ]


def limit(names: str | None, words: Mapping[str, str]) -> str:
    """Return the names that a token is limited to, one per line with its description."""
    if names is None:
        return gettext("not limited")
    labels = labelled({name: words.get(name, "") for name in names.split()})
    return "\n".join(label for _name, label in labels) or gettext("none")
