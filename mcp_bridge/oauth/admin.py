"""
The admin of the applications that users have connected, and of OAuth clients.

``settings()`` names ``ClientAdmin`` as APPLICATION_ADMIN_CLASS, and the toolkit registers it for
the site's client model. It must not import ``oauth2_provider.admin``, which imports it.
"""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from oauth2_provider.forms import ApplicationForm
from oauth2_provider.models import AbstractApplication, get_application_model

from mcp_bridge.admin.base import BridgeAdmin, Context, PagesAdmin, RevisedForm, column, with_key
from mcp_bridge.oauth.connections import connections_of, live_tokens, redirect_hosts, revoke
from mcp_bridge.oauth.consent import shown
from mcp_bridge.oauth.models import ClientUse


class ClientForm(RevisedForm, ApplicationForm):
    """The toolkit's client form; rejected if the client was saved by someone else meanwhile."""


# The secret is in the form.
@method_decorator(
    [sensitive_post_parameters("client_secret"), sensitive_variables()], name="changeform_view"
)
class ClientAdmin(PagesAdmin):
    """
    The admin of clients: add them, view self-registered ones, and revoke their tokens.

    Metadata that a client sent is read-only here.
    """

    form = ClientForm
    change_form_template = "admin/mcp_bridge/change_form.html"
    list_display = [*("client", "registration_source", "hosts", "users", "last_used_at", "created")]
    list_filter = ["registration_source", "client_type", "created"]
    search_fields = ["name", "client_id", "redirect_uris"]
    raw_id_fields = ["user"]
    readonly_fields = [
        *("registration_source", "cimd_expires_at", "hosts", "users", "last_used_at", "created")
    ]
    actions = ["revoke"]

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


def connected(user: Any = None) -> list[Context]:
    """
    Return the applications that can act as a user (None: as any), most recently connected first.

    The registrations with the same name, source and hosts are one application, of ``clients``:
    some programs register whenever they connect, each time with another port.
    """
    found: dict[tuple[object, ...], Context] = {}
    for each in connections_of(user):
        client, user_name = each["application"], each["user"].get_username()
        name = each["client"]["client_name"]
        hosts = dict.fromkeys(re.sub(r":\d+$", "", host) for host in each["hosts"])
        publisher = each["client"]["published_by"], each["client"]["is_unverified"]
        key = each["user"].pk, name, client.registration_source, publisher, *sorted(hosts)
        new = {**each, "hosts": hosts, "clients": [], "text": f"{user_name} {name}"}
        one = found.setdefault(key, new | {"key": f"{each['user'].pk}/{client.pk}"})
        one["clients"].append(client)
        one["scopes"] |= each["scopes"]
        one["since"] = min(one["since"], each["since"])
        used = filter(None, (one["last_used_at"], each["last_used_at"]))
        one["last_used_at"] = max(used, default=None)
    return [*found.values()]


@admin.register(ClientUse)
class ConnectedAdmin(BridgeAdmin):
    """The applications that users have connected, each of which can be disconnected."""

    pages = {"changelist": "", "delete": "<path:object_id>/delete/"}

    def get_urls(self) -> list[URLPattern]:
        # A row is not an application, so it does not have a page.
        return [each for each in super().get_urls() if str(each.name).endswith((*self.pages,))]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        term, page = (request.GET.get(name, "").strip() for name in ("q", "p"))
        clients = get_application_model()
        found = [each for each in connected() if term.casefold() in each["text"].casefold()]
        context = {
            "title": gettext("Connected applications"),
            "term": term,
            "page": Paginator(found, self.list_per_page).get_page(page),
            "may_disconnect": self.has_delete_permission(request),
            "clients": clients._meta if self.can_link(request, clients) else None,
        }
        return self.page(request, "connected", context)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Ask for confirmation to disconnect an application from a user; a POST does it."""
        if not self.has_delete_permission(request):
            raise PermissionDenied
        key, _slash, client = unquote(object_id).partition("/")
        user = with_key(get_user_model()._base_manager.all(), key)
        of_user = connected(user) if user else []
        found = [each for each in of_user if client in {str(one.pk) for one in each["clients"]}]
        if found and request.method != "POST":
            context = {"title": gettext("Disconnect"), "application": found[0]}
            return self.page(request, "disconnect", context)
        text, level = gettext("This application is not connected."), messages.WARNING
        for application in found:
            words = {"client": application["client"]["client_name"], "user": user.get_username()}
            text = gettext("%(client)s was disconnected. It can no longer act as %(user)s.") % words
            level = messages.SUCCESS
            for each in application["clients"]:
                revoke(each, user)
                self.log_change(request, each, gettext("Disconnected from %(user)s.") % words)
        self.message_user(request, text, level)
        return redirect(self.address("changelist"))
