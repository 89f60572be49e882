"""django-oauth-toolkit's views, extended for MCP."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.db import DatabaseError, router, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from oauth2_provider import views
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.models import get_application_model, get_grant_model, get_refresh_token_model
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views.mixins import OAuthLibMixin
from oauthlib.common import Request as OAuthRequest
from oauthlib.oauth2.rfc6749.errors import InvalidRequestError, OAuth2Error
from oauthlib.openid.connect.core.exceptions import ConsentRequired

from mcp_bridge.access.scopes import as_configured
from mcp_bridge.conf import conf
from mcp_bridge.oauth.consent import consent_context, protected
from mcp_bridge.oauth.validator import PROVEN, family_of, invalid_target, is_of

View = Callable[..., HttpResponseBase]

_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "86400",
}


def from_any_origin(view: View) -> View:
    """
    Allow cross-origin requests to the view, such as from clients in a browser.

    Only for views that identify callers by the request's content, never by cookies: browsers omit
    cookies if the response allows origin "*".
    """

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_preflight = request.method == "OPTIONS"
        response = HttpResponse(status=204) if is_preflight else view(request, *args, **kwargs)
        for name, value in _CORS.items():
            response[name] = value
        return response

    return wrapped


def without_nul(view: View) -> View:
    """Reject requests with a NUL in any value, which PostgreSQL cannot store or query."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if any("\0" in "".join(v) for each in (request.GET, request.POST) for _, v in each.lists()):
            return JsonResponse({"error": "invalid_request"}, status=400)
        return view(request, *args, **kwargs)

    return wrapped


class OneAtATime(OAuthLibMixin):
    """A view that handles requests with codes and tokens of one login one at a time."""

    @sensitive_variables()
    def alone(self, request: HttpRequest, view: Callable[..., HttpResponse]) -> HttpResponse:
        """Return the response of a view, run in a transaction that locks the login."""
        # Done before locking, since hashing a secret or fetching a document is slow.
        core = self.get_oauthlib_core()
        asked = OAuthRequest(*core._extract_params(request))
        validator = core.server.request_validator
        if validator.client_authentication_required(asked):
            is_proven = validator.authenticate_client(asked)
            request.META[PROVEN] = asked.client.client_id if is_proven else ""
        code = request.POST.get("code", "")
        secret = request.POST.get("refresh_token") or request.POST.get("token", "")
        grants = get_grant_model().objects.filter(code=code)
        tokens = get_refresh_token_model().objects
        # Retries if another transaction aborts this one.
        left = 2
        while True:
            family = tokens.filter(is_of(secret)).values_list("token_family", flat=True).first()
            of_login = tokens.filter(token_family=family or family_of(code)).order_by("pk")
            oldest = of_login.values_list("pk", flat=True).first()
            if oldest is None and not grants.exists():
                # Nothing to lock: the request will fail, or does not belong to a login.
                return view(request)
            try:
                with transaction.atomic(using=router.db_for_write(tokens.model)):
                    # Locks by writing: on SQLite, a transaction that reads first may not write.
                    now = timezone.now()
                    grants.update(updated=now)
                    tokens.filter(pk=oldest).update(updated=now)
                    return view(request)
            except DatabaseError:
                # For example a deadlock with a user who disconnects the client.
                if not left:
                    raise
                left -= 1


@method_decorator([protected, without_nul], name="dispatch")
class AuthorizationView(views.AuthorizationView):
    """The consent page for a client; errors carry ``iss`` too (RFC 9207, section 2)."""

    template_name = "mcp_bridge/oauth/consent.html"

    @sensitive_variables()
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        query = request.GET.copy()
        if "resource" in query:
            query.setlist("resource", [*map(as_configured, query.getlist("resource"))])
        # A client may not skip consent: any program on the user's machine can pretend to be a
        # public client (RFC 8252, section 8.6).
        query.pop("approval_prompt", None)
        request.GET = query  # type: ignore[assignment]
        known = conf.resources.values()
        # Do not ask for a login if the token will not be issued.
        if any(each not in known for each in query.getlist("resource")):
            client = get_application_model().objects.filter(client_id=query.get("client_id", ""))
            if client.exclude(cimd_expires_at__lt=timezone.now()).exists():
                return self.refuse(invalid_target())
            # Do not fetch the client's document with its redirect URIs either.
            return self.error_response(FatalClientError(invalid_target()), None)
        return super().dispatch(request, *args, **kwargs)

    def refuse(self, error: OAuth2Error) -> HttpResponse:
        """Send an error to the client, or show it if the redirect URI is not the client's."""
        try:
            _, credentials = self.validate_authorization_request(self.request)
        except OAuthToolkitError as exception:
            return self.error_response(exception, None)
        error.state = credentials.get("state")
        uri = credentials["redirect_uri"]
        return self.error_response(OAuthToolkitError(error, redirect_uri=uri), None)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        prompt = {*request.GET.get("prompt", "").split()}
        if "none" in prompt and len(prompt) > 1:
            return self.refuse(InvalidRequestError("prompt: none cannot be combined."))
        response: HttpResponse = super().get(request, *args, **kwargs)
        # With "none" a page is never shown (OpenID Connect Core, section 3.1.2.1).
        is_page = "none" in prompt and response.status_code == 200
        return self.refuse(ConsentRequired()) if is_page else response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        if "application" in kwargs:
            asked = (kwargs["application"], kwargs["scopes"], kwargs["redirect_uri"])
            context |= consent_context(self.request, *asked)
        return context

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        url = urlsplit(redirect_to)
        query = [each for each in parse_qsl(url.query, True) if each[0] != "iss"]
        issuer = oauth2_settings.oauth2_authorization_server_issuer(self.request)
        address = url._replace(query=urlencode([*query, ("iss", issuer)])).geturl()
        return super().redirect(address, application)


@method_decorator([transaction.non_atomic_requests, without_nul], name="dispatch")
# The toolkit hides fewer parameters from error reports, and only after dispatch().
@method_decorator(sensitive_post_parameters(), name="create_token_response")
class TokenView(OneAtATime, views.TokenView):
    """The exchange of a code or a refresh token for an access token."""

    @method_decorator(sensitive_post_parameters())
    def authorization_flow_token_response(self, request: HttpRequest) -> HttpResponse:
        return self.alone(request, super().authorization_flow_token_response)

    @sensitive_variables()
    def post(self, request: HttpRequest) -> HttpResponse:
        is_of_device = request.POST.get("grant_type", "").endswith(":device_code")
        if is_of_device and "device_code" not in request.POST:
            # The toolkit would raise KeyError.
            response: HttpResponse = JsonResponse({"error": "invalid_request"}, status=400)
        else:
            response = super().post(request)
        # Some errors are HTML with the submitted values.
        response["Content-Type"] = "application/json"
        response["Cache-Control"] = "no-store"
        return response


@method_decorator([transaction.non_atomic_requests, without_nul], name="dispatch")
@method_decorator(sensitive_post_parameters(), name="dispatch")
class RevokeTokenView(OneAtATime, views.RevokeTokenView):
    """Revocation of a token (RFC 7009)."""

    @sensitive_variables()
    def post(self, request: HttpRequest) -> HttpResponse:
        return self.alone(request, super().post)


class ServerMetadataView(views.OAuthServerMetadataView):
    """
    The metadata of the authorization server (RFC 8414).

    Served at the root, with the issuer's path, or with the endpoint's path for clients that
    request that.
    """

    def get(self, request: HttpRequest, path: str = "") -> HttpResponse:
        issuer = oauth2_settings.oauth2_metadata_issuer(request)
        known = {urlsplit(each).path for each in (issuer, *conf.resources.values())}
        if path and f"/{path}" not in known:
            raise Http404
        return super().get(request)
