"""
The admin for OAuth clients; replaces django-oauth-toolkit's.

``settings()`` names it as APPLICATION_ADMIN_CLASS, and the toolkit registers it for the site's
client model. It must not import ``oauth2_provider.admin``, which imports it.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from oauth2_provider.forms import ApplicationForm
from oauth2_provider.models import AbstractApplication

from mcp_bridge.admin.base import PagesAdmin, RevisedForm, column
from mcp_bridge.oauth.connections import live_tokens, redirect_hosts, revoke
from mcp_bridge.oauth.consent import shown
from mcp_bridge.oauth.models import ClientUse


class ClientForm(RevisedForm, ApplicationForm):
    """The toolkit's client form; rejected if the client was saved by someone else meanwhile."""


@method_decorator(sensitive_post_parameters("client_secret"), name="changeform_view")
class ClientAdmin(PagesAdmin):
    """
    The admin of clients: add them, view self-registered ones, and revoke their tokens.

    Metadata that a client sent is read-only here.
    """

    form = ClientForm
    change_form_template = "admin/mcp_bridge/change_form.html"
    list_display = [
        *("client", "registration_source", "hosts", "users", "last_used_at", "created"),
    ]
    list_filter = ["registration_source", "client_type", "created"]
    search_fields = ["name", "client_id", "redirect_uris"]
    raw_id_fields = ["user"]
    readonly_fields = [
        *("registration_source", "cimd_expires_at", "hosts", "users", "last_used_at", "created"),
    ]
    actions = ["revoke"]

    @sensitive_variables()
    def changeform_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        """Add or change a client; its secret is in the form."""
        return super().changeform_view(*args, **kwargs)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tokens = live_tokens().filter(application=OuterRef("pk"), user__isnull=False)
        users = tokens.order_by().values("application").annotate(users=Count("user", distinct=True))
        uses = ClientUse.objects.filter(application=OuterRef("pk")).order_by("-last_used_at")
        clients = super().get_queryset(request)
        return clients.annotate(
            connected_users=Subquery(users.values("users")),
            used_at=Subquery(uses.values("last_used_at")[:1]),
        )

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or self._is_made_here(obj))

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> list[str]:
        # The hash of a registered client's secret is of no use to administrators.
        return [] if obj is None or self._is_made_here(obj) else ["client_secret"]

    def _is_made_here(self, client: AbstractApplication) -> bool:
        return bool(client.registration_source == client.RegistrationSource.MANUAL)

    @admin.display(description=_("client"), ordering="name")
    def client(self, client: AbstractApplication) -> str:
        return shown(client.name) or shown(client.client_id)

    @admin.display(description=_("redirects to"))
    def hosts(self, client: AbstractApplication) -> str:
        return ", ".join(redirect_hosts(client))

    users = column("users", _("users"), "connected_users")
    last_used_at = column("last_used_at", _("last used"), "used_at")

    @admin.action(description=_("Revoke all tokens of selected clients"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        clients = list(queryset)
        for client in clients:
            revoke(client)
            self.log_change(request, client, gettext("Revoked all tokens."))
        text = ngettext(
            "All tokens of %(count)d client were revoked.",
            "All tokens of %(count)d clients were revoked.",
            len(clients),
        )
        self.message_user(request, text % {"count": len(clients)}, messages.SUCCESS)
