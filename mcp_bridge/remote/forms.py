"""
The forms of the remote servers in the admin, whose secrets are written and never shown.

An empty input keeps the stored secret.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.forms.formsets import DELETION_FIELD_NAME
from django.forms.models import BaseInlineFormSet
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from mcp_bridge.admin.base import RevisedForm
from mcp_bridge.remote.encryption import SecretUnavailable, opened, sealed, variable_in
from mcp_bridge.remote.models import RemoteServer

_MAX_SECRET: Final = 8000
# RFC 9110, section 5.5, without characters outside of ASCII.
_is_value = RegexValidator(
    r"^[!-~](?:[\t -~]*[!-~])?\Z", _("Enter letters, digits and punctuation of ASCII, on one line.")
)
_NO_KEYS = _(
    "It cannot be encrypted, so nothing was saved: MCP_BRIDGE['REMOTE_SECRET_KEYS'] needs a list "
    "of Fernet keys. Or enter env:MCP_REMOTE_NAME for an environment variable."
)
_MOVED = _("Enter it again: the stored one was entered for another host, which must not change.")


def stored_as(secret: str) -> str:
    """Return how a secret is stored, without the secret or its length."""
    name = variable_in(secret)
    if name is not None:
        return gettext("the environment variable %(name)s") % {"name": name}
    return gettext("stored, encrypted") if secret else gettext("none")


def problem_of(secret: str) -> str:
    """Return why a stored secret cannot be used, or ""."""
    try:
        if secret:
            opened(secret)
    except SecretUnavailable as why:
        return str(why)
    return ""


class SecretField(forms.CharField):
    """An input for a secret, whose clean value is the text to store; "" keeps the stored one."""

    default_validators = [_is_value]

    def __init__(self, **options: Any) -> None:
        attrs = {"autocomplete": "new-password", "class": "vTextField"}
        widget = forms.PasswordInput(attrs)
        super().__init__(required=False, max_length=_MAX_SECRET, widget=widget, **options)

    @sensitive_variables()
    def clean(self, value: Any) -> str:
        text = super().clean(value)
        if text.startswith("env:") and variable_in(text) is None:
            raise ValidationError(
                _("Enter env: and a variable that begins with MCP_REMOTE_: env:MCP_REMOTE_WEATHER.")
            )
        try:
            return sealed(text) if text else ""
        except SecretUnavailable:
            raise ValidationError(_NO_KEYS) from None


class ServerForm(RevisedForm):
    """The form of a server; ``host_error`` is that of the URL, found before the transaction."""

    secret = SecretField(
        label=_("Secret"),
        help_text=_(
            "The site's credential, sent as a bearer token; or env:MCP_REMOTE_NAME for the "
            "environment variable of this name. It is never shown. If one is stored, an empty "
            "field keeps it."
        ),
    )
    clear_secret = forms.BooleanField(
        label=_("Clear the stored secret"), required=False, label_suffix=""
    )
    host_error: ValidationError | None = None

    class Meta:
        widgets = {"url": AdminTextInputWidget({"class": "vURLField"})}
        help_texts = {
            "auth": _(
                "With the caller's own token, the server can act on this site as each caller."
            )
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._credential = self.instance.credential

    @cached_property
    def revision(self) -> str:
        """The digest of the shown values, and of the secret and the headers."""
        shown = super().revision
        if not shown:
            return ""
        others = [self.instance.credential, *self.instance.headers.order_by("pk").values_list()]
        text = f"{shown} {others}"
        return salted_hmac("mcp_bridge.revision", text, algorithm="sha256").hexdigest()

    def clean(self) -> None:
        super().clean()
        given, server = self.cleaned_data, self.instance
        new, auth, url = given.get("secret"), given.get("auth"), given.get("url", server.url)
        kept = "" if given.get("clear_secret") else server.credential
        server.is_moved = bool(server.url) and _origin(url) != _origin(server.url)
        if new is not None:
            self._credential = new or kept
            if auth == server.Auth.STATIC and not self._credential:
                self.add_error("secret", _("Enter the site's credential, or choose another way."))
            elif new and auth != server.Auth.STATIC:
                self.add_error("secret", _("Only “the site's credential” has a secret."))
            elif kept and not new and server.is_moved:
                self.add_error("secret", _MOVED)
        # A server that is disabled because its host is gone can be saved.
        if self.host_error and (given.get("enabled") or url != server.url):
            self.add_error("url", self.host_error)
        server.is_host_checked = True

    def save(self, commit: bool = True) -> Any:
        self.instance.credential = self._credential
        if "url" in self.changed_data:
            self.instance.version = self.instance.last_error = ""
        return super().save(commit)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


class HeaderForm(forms.ModelForm):
    """The form of a header, with one input for a value and one for a secret value."""

    value = forms.CharField(
        label=_("Value"), required=False, widget=AdminTextInputWidget, validators=[_is_value]
    )
    secret = SecretField(label=_("Secret value"))
    # Whether an empty form keeps the stored secret.
    is_kept = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.is_secret:
            self.initial["value"] = ""
            self.fields["secret"].widget.attrs["placeholder"] = stored_as(self.instance.value)

    def clean(self) -> None:
        super().clean()
        given, header = self.cleaned_data, self.instance
        secret, value, caller = (given.get(each) for each in ("secret", "value", "from_header"))
        self.is_kept = header.is_secret and not (secret or value or caller)
        if not self.errors and sum(map(bool, (secret, value, caller, self.is_kept))) != 1:
            text = _("Enter one of these: a value, a secret value or the caller's header.")
            self.add_error(None, text)
        if self.is_kept:
            given["value"] = header.value
        elif secret:
            given["value"] = secret
        header.is_secret = self.is_kept or bool(secret)

    def _post_clean(self) -> None:
        # The model would report the same errors again.
        if not self.errors:
            super()._post_clean()  # type: ignore[misc]


class HeaderFormSet(BaseInlineFormSet):
    """The headers of a server, each name once, and without secrets for another host."""

    def clean(self) -> None:
        super().clean()
        seen = set[str]()
        headers: list[Any] = self.forms
        if getattr(self.instance, "is_moved", False):
            submitted = {form.instance.pk for form in headers}
            stored = self.instance.headers.filter(is_secret=True).exclude(pk__in=submitted)
            if stored.exists():
                raise ValidationError(_MOVED)
        for form in headers:
            given = form.cleaned_data if form.is_valid() else {}
            name = given.get("name", "").lower()
            if not name or given.get(DELETION_FIELD_NAME):
                continue
            if name in seen:
                form.add_error("name", _("This header is there already."))
            seen.add(name)
            if name == "authorization" and self.instance.auth != RemoteServer.Auth.NONE:
                form.add_error("name", _("The server's credential is sent in this header."))
            if form.is_kept and getattr(self.instance, "is_moved", False):
                form.add_error("secret", _MOVED)
