"""django-oauth-toolkit's views, with what MCP asks of them beyond."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from oauth2_provider import views
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.settings import oauth2_settings

from mcp_bridge.conf import conf
from mcp_bridge.oauth.consent import consent_context, protected
from mcp_bridge.oauth.validator import InvalidTargetError, no_such_resource

View = Callable[..., HttpResponse]

_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "86400",
}


def from_any_origin(view: View) -> View:
    """
    Let pages of any origin call the view, such as clients that run in a browser.

    For views that know who calls by what is in the request, and never by a cookie: browsers send
    none where the answer has "*" for its origin.
    """

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        is_preflight = request.method == "OPTIONS"
        response = HttpResponse(status=204) if is_preflight else view(request, *args, **kwargs)
        for name, value in _CORS.items():
            response[name] = value
        return response

    return wrapped


@method_decorator(protected, name="dispatch")
class AuthorizationView(views.AuthorizationView):
    """Ask a user to connect a client; errors carry ``iss`` as well (RFC 9207, section 2)."""

    template_name = "mcp_bridge/oauth/consent.html"

    @sensitive_variables()
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        known = conf.resources.values()
        # Nobody has to log in for a token that will not be issued.
        if any(each not in known for each in request.GET.getlist("resource")):
            return self.refuse_resource(request)
        return super().dispatch(request, *args, **kwargs)

    def refuse_resource(self, request: HttpRequest) -> HttpResponse:
        """Return the error ``invalid_target``, to the client where its redirect URI is its own."""
        try:
            _, credentials = self.validate_authorization_request(request)
        except OAuthToolkitError as exception:
            return self.error_response(exception, None)
        text = no_such_resource()
        error = InvalidTargetError(text, state=credentials.get("state"))
        uri = credentials["redirect_uri"]
        return self.error_response(OAuthToolkitError(error, redirect_uri=uri), None)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        # Whether a user is asked again is not the client's to say: any program on the user's
        # machine can call itself by the name of a public client (RFC 8252, section 8.6).
        query = request.GET.copy()
        query.pop("approval_prompt", None)
        request.GET = query  # type: ignore[assignment]
        return super().get(request, *args, **kwargs)

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


class TokenView(views.TokenView):
    """Exchange a code or a refresh token for an access token."""

    # The toolkit keeps less out of reports of errors, and says so after dispatch().
    @method_decorator(sensitive_post_parameters())
    def create_token_response(self, request: HttpRequest) -> Any:
        return super().create_token_response(request)

    @sensitive_variables()
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().post(request, *args, **kwargs)
        # Some errors come as HTML, with what was sent in them.
        response["Content-Type"] = "application/json"
        response["Cache-Control"] = "no-store"
        return response


@method_decorator(sensitive_post_parameters(), name="dispatch")
class RevokeTokenView(views.RevokeTokenView):
    """Revoke a token (RFC 7009)."""

    @sensitive_variables()
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().post(request, *args, **kwargs)


class ServerMetadataView(views.OAuthServerMetadataView):
    """
    Describe the authorization server (RFC 8414).

    At the root, and with the path of the issuer or, for clients that ask for that one, of the
    endpoint.
    """

    def get(self, request: HttpRequest, path: str = "") -> HttpResponse:
        issuer = oauth2_settings.oauth2_metadata_issuer(request)
        known = {urlsplit(each).path for each in (issuer, *conf.resources.values())}
        if path and f"/{path}" not in known:
            raise Http404
        return super().get(request)
