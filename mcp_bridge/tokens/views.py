"""The page where users issue, connect and revoke their own tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Field, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.debug import sensitive_variables
from django.views.generic import TemplateView

from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.conf import conf
from mcp_bridge.server.connecting import TOKEN, Connection, endpoint_url
from mcp_bridge.tokens.models import PROPOSED, Token

# The lifetimes of a token, in days.
DAYS: Final = (7, 30, PROPOSED, 365)
# Days for which the page reports a revoked token.
TOLD: Final = 30
# The most valid tokens that a user may issue for themselves.
MOST: Final = 50


def _days() -> list[tuple[int, str]]:
    # Translated per form, in the language of the request.
    texts = ((each, ngettext("%(count)d day", "%(count)d days", each)) for each in DAYS)
    return [(each, text % {"count": each}) for each, text in texts]


class NamesField(forms.MultipleChoiceField):
    """Several names from a list, joined by spaces; None if none is chosen."""

    widget = forms.CheckboxSelectMultiple

    def clean(self, value: object) -> str | None:
        return " ".join(super().clean(value)) or None


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    """The name, the lifetime and the limits of a new token."""

    days = forms.TypedChoiceField(
        label=_("Expires in"), coerce=int, initial=PROPOSED, choices=_days
    )
    # The field's own form field is a text area.
    scope = Field.formfield(
        Token._meta.get_field("scope"),
        form_class=NamesField,
        choices=lambda: supported_scopes().items(),
    )
    field_order = ("name", "days")

    class Meta:
        model = Token
        fields = ("name", "read_only", "scope")


@method_decorator([never_cache, xframe_options_deny], name="dispatch")
class OwnTokensView(LoginRequiredMixin, TemplateView):
    """The tokens of the user: each with its last use and a button that revokes it."""

    template_name = "mcp_bridge/tokens.html"
    http_method_names = ["get", "head", "post"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        ended = Token.objects.filter(user=self.request.user.pk, outgrown=True)
        context = {
            "tokens": self.valid_tokens(),
            "outgrown": ended.filter(revoked_at__gt=timezone.now() - timedelta(days=TOLD)),
            "form": TokenForm(auto_id="mcp-%s"),
            "connection": Connection(endpoint_url(self.request), TOKEN),
            "site_name": conf.server_title,
            "user_name": self.request.user.get_username(),
        }
        return super().get_context_data(**context | kwargs)

    def valid_tokens(self) -> QuerySet[Token]:
        """Return the valid tokens, newest first."""
        unended = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return Token.objects.filter(unended, user=self.request.user.pk, revoked_at=None)

    def post(self, request: HttpRequest) -> HttpResponse:
        if "revoke" in request.POST:
            return self.revoke(request.POST["revoke"])
        return self.issue(TokenForm(request.POST, auto_id="mcp-%s"))

    @sensitive_variables()
    def issue(self, form: TokenForm) -> HttpResponse:
        """Issue a token; return the only page that shows its secret."""
        if form.is_valid() and self.valid_tokens().count() >= MOST:
            text = gettext("You have %(count)d valid tokens, the maximum: revoke one first.")
            form.add_error(None, text % {"count": MOST})
        if not form.is_valid():
            return self.render_to_response(self.get_context_data(form=form), status=400)
        token: Any = form.save(commit=False)
        token.user = token.issued_by = self.request.user
        token.expires_at = timezone.now() + timedelta(days=form.cleaned_data["days"])
        secret = token.make_secret()
        token.save()
        connection = Connection(endpoint_url(self.request), secret)
        context = self.get_context_data(issued=token, secret=secret, connection=connection)
        # Rendered here, so that error reports do not include the secret.
        response: Any = self.render_to_response(context)
        return response.render()  # type: ignore[no-any-return]

    def revoke(self, key: str) -> HttpResponse:
        """Revoke one of the user's tokens; ignores tokens of other users."""
        # None if it was revoked in another tab.
        for token in self.valid_tokens():
            if str(token.pk) == key:
                token.revoke()
                text = gettext("%(token)s was revoked. Clients that use it are now refused.")
                messages.success(self.request, text % {"token": token}, fail_silently=True)
        return HttpResponseRedirect(self.request.path)
