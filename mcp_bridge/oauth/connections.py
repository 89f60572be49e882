"""The clients that a user has connected: listed and disconnected at ``/mcp/connections/``."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.auth.views import LogoutView
from django.db import router, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.views.generic import TemplateView
from oauth2_provider import models
from oauth2_provider.scopes import get_scopes_backend

from mcp_bridge.oauth.consent import client_context, host_of, protected, site_context
from mcp_bridge.oauth.models import ClientUse
from mcp_bridge.server.connecting import endpoint_url


def live_tokens() -> QuerySet[Any]:
    """Return the access tokens that are valid or can still be refreshed."""
    now, lasting = timezone.now(), models.refresh_token_expire_timedelta()
    unrevoked = models.get_refresh_token_model().objects.filter(
        access_token=OuterRef("pk"), revoked__isnull=True
    )
    refreshable = Q(expires__gt=now - lasting) if lasting else Q()
    tokens: QuerySet[Any] = models.get_access_token_model().objects.annotate(
        is_refreshable=Exists(unrevoked)
    )
    return tokens.filter(Q(expires__gt=now) | Q(is_refreshable=True) & refreshable)


def connections_of(user: AbstractBaseUser | AnonymousUser | None) -> list[dict[str, Any]]:
    """
    Return the clients that can act as a user (None: as any), most recently connected first.

    ``expires_at``: when access lapses if unused, or None.
    """
    of, both = {} if user is None else {"user": user.pk}, ("user_id", "application_id")
    tokens = live_tokens().filter(**of, user__isnull=False, application__isnull=False)
    tokens = tokens.select_related("user", "application__user").order_by(*both)
    uses = {attrgetter(*both)(use): use for use in ClientUse.objects.filter(**of)}
    found, clients, texts = [], dict[object, Any](), get_scopes_backend().get_all_scopes()
    lasting = models.refresh_token_expire_timedelta()
    for key, group in groupby(tokens, attrgetter(*both)):
        of_client, use = list(group), uses.get(key)
        # The same for all of its users: it keeps the permissions of its owner.
        application = clients.setdefault(key[1], of_client[0].application)
        scopes = dict.fromkeys(scope for token in of_client for scope in token.scope.split())
        # None for a token that can be refreshed forever.
        ends = [
            lasting and each.expires + lasting if each.is_refreshable else each.expires
            for each in of_client
        ]
        since = [token.created for token in of_client]
        found.append(
            {
                "application": application,
                "client": client_context(application),
                "user": of_client[0].user,
                "hosts": redirect_hosts(application),
                "scopes": scopes,
                "permissions": [texts.get(scope, scope) for scope in scopes],
                "since": min([*since, use.first_used_at] if use else since),
                "last_used_at": use.last_used_at if use else None,
                "expires_at": None if None in ends else max(filter(None, ends)),
            }
        )
    return sorted(found, key=itemgetter("since"), reverse=True)


def redirect_hosts(application: models.AbstractApplication) -> list[str]:
    """Return the hosts to which a client may redirect users, without duplicates."""
    return list(dict.fromkeys(map(host_of, application.redirect_uris.split())))


def revoke(
    application: models.AbstractApplication, user: AbstractBaseUser | AnonymousUser | None = None
) -> None:
    """
    Revoke everything that a client was granted by a user (None: by all users).

    Refresh tokens are kept as revoked, so that django-oauth-toolkit recognises them if they are
    reused.
    """
    by = {} if user is None else {"user": user.pk}
    of = {"application": application.pk, **by}
    refresh_tokens, devices = models.get_refresh_token_model(), models.get_device_grant_model()
    with transaction.atomic(using=router.db_for_write(refresh_tokens)):
        # First the grants from which tokens are made.
        models.get_grant_model().objects.filter(**of).delete()
        devices.objects.filter(client_id=application.client_id, **by).delete()
        for token in refresh_tokens.objects.filter(**of, revoked__isnull=True):
            token.revoke()
        # With OpenID Connect, ID tokens are accepted as access tokens.
        for model in (models.get_access_token_model(), models.get_id_token_model(), ClientUse):
            model.objects.filter(**of).delete()


@method_decorator(protected, name="dispatch")
class ConnectionsView(LoginRequiredMixin, TemplateView):
    """The clients that can act as the user, each with a button that disconnects it."""

    template_name = "mcp_bridge/oauth/connections.html"
    http_method_names = ["get", "head", "post"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kwargs |= {"connections": connections_of(self.request.user), **site_context(self.request)}
        kwargs["endpoint"] = endpoint_url(self.request)
        return super().get_context_data(**kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        # None if it was disconnected in another tab.
        for connection in connections_of(request.user):
            if connection["application"].client_id == request.POST.get("client_id"):
                revoke(connection["application"], request.user)
                text = gettext("%(client)s was disconnected. It can no longer act as you.")
                text %= {"client": connection["client"]["client_name"]}
                messages.success(request, text, fail_silently=True)
        return HttpResponseRedirect(reverse("oauth2_provider:connections"))


_log_out = LogoutView.as_view(next_page="oauth2_provider:connections")

# In the namespace of mcp_bridge.oauth.urls.
urlpatterns = [
    path("mcp/connections/", ConnectionsView.as_view(), name="connections"),
    path("mcp/connections/log-out/", _log_out, name="log-out"),
]
