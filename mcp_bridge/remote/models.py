"""
The remote servers of the site, their headers and the tools that they offer.

Each change renews the generation of the sources, so that every process reads the rows again.
"""

from __future__ import annotations

import json
import re
import socket
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Lower
from django.db.models.signals import pre_delete, pre_save
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from mcp_bridge.conf import conf
from mcp_bridge.models import Generation
from mcp_bridge.outbound.addresses import is_global, is_host
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.headers import FIELD_NAME, FIELD_VALUE

# The longest name that clients accept for a tool is 64.
MAX_SLUG: Final = 24
# Headers that this site sets itself, or that concern one connection (RFC 9110, section 7.6.1).
RESERVED: Final = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|proxy-.*|accept|"
    r"accept-encoding|user-agent|mcp-.*|x-accel-.*",
    re.IGNORECASE,
)
# Headers with the credentials of a caller for this site, and those of its body.
OF_CALLER: Final = re.compile(r"authorization|cookie|x-csrf-?token|content-.*", re.IGNORECASE)


def is_allowed_host(url: str) -> bool:
    """Return whether REMOTE_ALLOWED_HOSTS has the host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{port}" in conf.REMOTE_ALLOWED_HOSTS


def allows(url: str, address: str) -> bool:
    """Return whether the site may connect to an address for a URL in a row."""
    return is_host(address) if is_allowed_host(url) else is_global(address)


def validate_url(url: str) -> None:
    """Raise Django's ValidationError for a URL that cannot be the address of a remote server."""
    try:
        parts = urlsplit(url)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc) and url.isascii()
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_plain = is_url = False
    if not (is_url and is_plain) or re.search(r"[\s\\\x00-\x1f]", url):
        raise ValidationError(
            _(
                "Enter a URL such as https://mcp.example.com/mcp, without a user name, query or "
                "fragment. Secrets belong in headers."
            )
        )
    if parts.scheme == "http" and not is_allowed_host(url):
        raise ValidationError(
            _(
                "Enter an https URL: others could read and change what is sent to this one. To use "
                "http in your own network, add its host and port to "
                "MCP_BRIDGE['REMOTE_ALLOWED_HOSTS']."
            )
        )


def check_reachable(url: str) -> None:
    """Raise Django's ValidationError if the host of a valid URL must not be connected to."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValidationError(_("The host of this URL cannot be found.")) from None
    if not all(allows(url, str(each[4][0])) for each in found):
        raise ValidationError(
            _(
                "The host of this URL is not on the public internet. If that is intended, add its "
                "host and port to MCP_BRIDGE['REMOTE_ALLOWED_HOSTS']."
            )
        )


def host_error(url: str) -> ValidationError | None:
    """Return why a URL's host must not be connected to; None if it may be, or is invalid."""
    try:
        validate_url(url)
    except ValidationError:
        # Its field reports it.
        return None
    try:
        check_reachable(url)
    except ValidationError as why:
        return why
    return None


class RemoteServer(models.Model):
    """
    Another MCP server, whose tools this site may offer as its own.

    ``slug`` begins the names of its tools. ``credential`` is stored as in ``encryption``.
    ``version`` is the server's revision, "" before it was reached. Durations are in seconds.
    """

    class Auth(models.TextChoices):
        NONE = "none", _("no credential")
        STATIC = "static", _("the site's credential")
        PER_USER = "per_user", _("a credential of each user (REMOTE_TOKEN_FOR)")
        PASSTHROUGH = "passthrough", _("the caller's own token, which it then receives")

    slug = models.CharField(
        _("short name"),
        max_length=MAX_SLUG,
        unique=True,
        validators=[
            RegexValidator(
                r"^[a-z0-9][a-z0-9-]*\Z", _("Use a-z, 0-9 and hyphens, such as weather.")
            )
        ],
        help_text=_("The names of its tools begin with it: weather_forecast."),
    )
    name = models.CharField(
        _("name"), max_length=100, help_text=_("For people and models, such as Weather.")
    )
    url = models.CharField(_("URL"), max_length=500, validators=[validate_url])
    enabled = models.BooleanField(
        pgettext_lazy("a remote server", "enabled"),
        default=True,
        help_text=_("If disabled, none of its tools is served."),
    )
    auth = models.CharField(_("credential"), max_length=12, choices=Auth.choices, default=Auth.NONE)
    credential = models.TextField(blank=True, editable=False)
    permission = models.CharField(
        _("permission to pass through"),
        max_length=150,
        blank=True,
        validators=[RegexValidator(r"^\w+\.\w+\Z", _("Enter app_label.codename."))],
        help_text=_(
            "Users with this permission reach the whole server, with all its tools, below "
            "/mcp/remote/. Empty: it cannot be passed through."
        ),
    )
    first_byte_s = models.PositiveIntegerField(
        _("time to answer (s)"), default=10, validators=[MinValueValidator(1)]
    )
    whole_call_s = models.PositiveIntegerField(
        _("time for a whole answer (s)"), default=60, validators=[MinValueValidator(1)]
    )
    idle_s = models.PositiveIntegerField(
        _("longest pause of a stream (s)"), default=30, validators=[MinValueValidator(1)]
    )
    max_body_bytes = models.PositiveIntegerField(
        _("longest answer (bytes)"), default=5 * 1024 * 1024, validators=[MinValueValidator(1024)]
    )
    version = models.CharField(_("protocol version"), max_length=10, blank=True, editable=False)
    last_sync = models.DateTimeField(_("tools fetched"), null=True, editable=False)
    last_error = models.CharField(_("last error"), max_length=500, blank=True, editable=False)

    class Meta:
        verbose_name = _("remote server")
        verbose_name_plural = _("remote servers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    # Whether a form has checked its host already: a look-up can be slow.
    is_host_checked = False

    def clean(self) -> None:
        if not self.is_host_checked and (problem := host_error(self.url)):
            raise ValidationError({"url": problem})


class RemoteHeader(models.Model):
    """
    A header of all requests to a server: a value, or that of the caller's header ``from_header``.

    A secret value is stored as in ``encryption``.
    """

    server = models.ForeignKey(RemoteServer, models.CASCADE, related_name="headers")
    name = models.CharField(
        _("name"), max_length=100, validators=[RegexValidator(rf"^{FIELD_NAME.pattern}\Z")]
    )
    is_secret = models.BooleanField(_("secret"), default=False)
    value = models.TextField(_("value"), blank=True)
    from_header = models.CharField(
        _("the caller's header"),
        max_length=100,
        blank=True,
        validators=[RegexValidator(rf"^{FIELD_NAME.pattern}\Z")],
    )
    is_required = models.BooleanField(
        _("required"),
        default=True,
        help_text=_("Without a value, calls are refused and nothing is sent."),
    )

    class Meta:
        verbose_name = _("header")
        verbose_name_plural = _("headers")
        ordering = ["name"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("server", Lower("name"), name="mcp_remote_header_once"),
            models.CheckConstraint(
                condition=Q(value="") ^ Q(from_header=""), name="mcp_remote_header_one_source"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if RESERVED.fullmatch(self.name):
            raise ValidationError({"name": _("This header is set by the connection.")})
        # Django reads both spellings alike.
        if OF_CALLER.fullmatch(self.from_header.replace("_", "-")):
            text = _("This header has the caller's credential for this site.")
            raise ValidationError({"from_header": text})
        if bool(self.value) == bool(self.from_header):
            raise ValidationError(_("Enter either a value or the caller's header."))
        if not FIELD_VALUE.fullmatch(self.value):
            raise ValidationError({"value": _("A value is one line.")})
        if self.is_secret and self.from_header:
            raise ValidationError({"is_secret": _("Only a value can be secret.")})


class RemoteTool(models.Model):
    """
    A tool that a server offers, as of the last time that its tools were fetched.

    ``name`` is its name here, None if it is left out for the ``reason``. ``definition`` is its
    definition as JSON text (MCP schema, ``Tool``). ``gone``: the server no longer offers it.
    """

    server = models.ForeignKey(RemoteServer, models.CASCADE, related_name="tools")
    remote_name = models.CharField(_("name there"), max_length=300)
    name = models.CharField(_("name"), max_length=64, unique=True, null=True)
    definition = models.TextField(blank=True)
    reason = models.CharField(_("left out because"), max_length=500, blank=True)
    seen_at = models.DateTimeField(_("last seen"))
    gone = models.BooleanField(_("gone"), default=False)

    class Meta:
        verbose_name = _("remote tool")
        verbose_name_plural = _("remote tools")
        ordering = ["remote_name"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["server", "remote_name"], name="mcp_remote_tool_once")
        ]

    def __str__(self) -> str:
        return self.remote_name

    @property
    def members(self) -> JSONObject:
        """The members of its definition."""
        members: JSONObject = json.loads(self.definition)
        return members


def renew(*, using: str, **kwargs: Any) -> None:
    """Renew the generation of the sources, with the change of a row."""
    with transaction.atomic(using):
        Generation.renew(using, Generation.SOURCES)


for _model in (RemoteServer, RemoteHeader, RemoteTool):
    pre_save.connect(
        renew, sender=_model, dispatch_uid=f"mcp_bridge_remote.saved.{_model.__name__}"
    )
    pre_delete.connect(
        renew, sender=_model, dispatch_uid=f"mcp_bridge_remote.deleted.{_model.__name__}"
    )
