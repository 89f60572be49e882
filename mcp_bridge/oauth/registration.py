"""Which clients may make themselves known, by registration or by a document of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.debug import sensitive_variables
from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import DynamicClientRegistrationView
from oauthlib.common import Request as OAuthRequest
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error, OAuth2Error
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, TypeAdapter, ValidationInfo
from pydantic import ValidationError as InvalidMetadata
from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle
from rest_framework.views import APIView

from mcp_bridge.access import throttling
from mcp_bridge.oauth.consent import shown
from mcp_bridge.outbound.addresses import is_redirect_uri
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut

logger = get_logger("mcp_bridge.oauth")

# The characters of RFC 3986, without "#": a fragment is not allowed. White space would end the URI,
# and begin another one, where it is stored.
_URI = re.compile(r"[!$-;=?-\[\]_a-z~]+")


# The grants of every client that registers for the first one.
GRANTS: Final = ["authorization_code", "refresh_token"]


def _granted(granted: list[str], asked: list[str]) -> list[str]:
    """Return the values granted, which may differ from those asked for (RFC 7591, 3.2.1)."""
    if granted[0] not in asked:
        raise ValueError(f"must have {granted[0]}")
    return granted


def without_nulls(given: Any) -> Any:
    """Return metadata without members that are null, which are read as absent."""
    is_object = isinstance(given, dict)
    return {name: each for name, each in given.items() if each is not None} if is_object else given


def _safe(uri: str, info: ValidationInfo) -> str:
    """Return a URI to which a code may be sent; ``context`` has those of private use."""
    if uri in (info.context or ()) or _URI.fullmatch(uri) and is_redirect_uri(uri):
        return uri
    raise ValueError(
        "must be https, or http to localhost, 127.0.0.1 or [::1], without a fragment or user; "
        "other schemes are listed by the site"
    )


class ClientMetadata(BaseModel):
    """What a client says of itself (RFC 7591, section 2), as far as it is used."""

    client_name: Annotated[str, AfterValidator(shown)] = ""
    redirect_uris: Annotated[
        list[Annotated[str, Field(max_length=2000), AfterValidator(_safe)]],
        Field(min_length=1, max_length=20),
    ]
    # Some ask for more, such as the device flow: the answer lists the grants.
    grant_types: Annotated[list[str], AfterValidator(partial(_granted, GRANTS))] = GRANTS
    response_types: Annotated[list[str], AfterValidator(partial(_granted, ["code"]))] = ["code"]
    token_endpoint_auth_method: Literal["none", "client_secret_post", "client_secret_basic"] = (
        "client_secret_basic"
    )


_METADATA: Final = TypeAdapter(Annotated[ClientMetadata, BeforeValidator(without_nulls)])


class RegistrationRateThrottle(AnonRateThrottle):
    """Count the registrations and the client documents of a network."""

    rate = "300/hour"


class ClientRegistration:
    """
    Let clients register whose redirect URIs are safe and that ask for nothing but logins.

    A permission class for DCR_REGISTRATION_PERMISSION_CLASSES. Subclass it to list other
    ``private_use_uris``: redirect URIs of a scheme of the client's own, which an attacker's
    program could claim as well, so that they have to be named in full. Their schemes have to be
    in ALLOWED_REDIRECT_URI_SCHEMES too.
    """

    private_use_uris: ClassVar[Collection[str]] = {"cursor://anysphere.cursor-mcp/oauth/callback"}
    throttle_class: ClassVar[type[AnonRateThrottle]] = RegistrationRateThrottle

    def has_permission(self, request: HttpRequest) -> bool:
        with suppress(OAuth2Error):
            return bool(self.read(request.body))
        return False

    def read(self, body: bytes | dict[str, Any]) -> ClientMetadata:
        """Return a client's metadata. Raises OAuth2Error with a code of RFC 7591, section 3.2.2."""
        is_json = isinstance(body, bytes)
        validate: Any = _METADATA.validate_json if is_json else _METADATA.validate_python
        try:
            metadata: ClientMetadata = validate(body, strict=True, context=self.private_use_uris)
        except InvalidMetadata as exception:
            (first, *_) = exception.errors(include_url=False, include_input=False)
            place = ".".join(map(str, first["loc"])) or "the body"
            code = "redirect_uri" if place.startswith("redirect_uris") else "client_metadata"
            raise CustomOAuth2Error(f"invalid_{code}", f"{place}: {first['msg']}") from None
        return metadata


def client_registration() -> ClientRegistration:
    """Return the site's ClientRegistration: that of its permission classes, else the one here."""
    listed = oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES
    kinds = (each for each in listed if issubclass(each, ClientRegistration))
    return next(kinds, ClientRegistration)()


class MetadataFetcher(SafeMetadataFetcher):
    """Hold a client's own document to the same rules as its registration."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        document, max_age = super().fetch(client_id)
        document = {"token_endpoint_auth_method": "none", **without_nulls(document)}
        try:
            metadata = client_registration().read(document)
        except OAuth2Error as error:
            raise CIMDError(error.description) from None
        # Who registers may leave it out (MCP, "Client ID Metadata Documents").
        if not metadata.client_name:
            raise CIMDError("client_name: Field required")
        granted = {"grant_types": ["authorization_code"]}
        return {**document, **metadata.model_dump(), **granted}, max_age


class ClientDocument:
    """Count a client's document as a registration; for CIMD_REGISTRATION_PERMISSION_CLASSES."""

    def has_permission(self, request: OAuthRequest, client_id: str) -> bool:
        """Return whether the document may be fetched for this request."""
        return seconds_to_wait(request.headers) is None


def seconds_to_wait(meta: dict[str, Any]) -> int | None:
    """Count a registration from the address in a request's META; None if it is allowed."""
    throttle = throttling.make_throttle(client_registration().throttle_class)
    # Always anonymous: AnonRateThrottle does not count a user with a session.
    asked = HttpRequest()
    asked.META, asked.user = meta, AnonymousUser()
    # Throttles read only attributes that Django's request has too.
    count = partial(throttle.allow_request, cast("Request", asked), cast("APIView", None))
    allowed = throttling.count_or_none(throttle, count)
    if throttling.count_locally(throttle, count) if allowed is None else allowed:
        return None
    return throttling.retry_after_seconds(throttle.wait()) or 1


class ClientRegistrationView(DynamicClientRegistrationView):
    """
    Register a client (RFC 7591), whose metadata hold to ClientRegistration in any case.

    Without the later changes of RFC 7592, which would go past it.
    """

    @sensitive_variables()
    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if seconds := seconds_to_wait(request.META):
            text = "Too many registrations: try again later."
            return _error("slow_down", text, 429, {"Retry-After": str(seconds)})
        try:
            metadata = client_registration().read(request.body)
        except OAuth2Error as error:
            return _error(error.error, error.description)
        permissions = oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES
        if not permissions or not all(each().has_permission(request) for each in permissions):
            text = "This site does not let you register clients."
            return _error("access_denied", text, 401, {"WWW-Authenticate": 'Bearer realm="mcp"'})
        model = get_application_model()
        is_public = metadata.token_endpoint_auth_method == "none"
        application = model(
            name=metadata.client_name,
            redirect_uris=" ".join(metadata.redirect_uris),
            client_type=model.CLIENT_PUBLIC if is_public else model.CLIENT_CONFIDENTIAL,
            authorization_grant_type=model.GRANT_AUTHORIZATION_CODE,
            registration_source=model.RegistrationSource.DCR,
        )
        # Before it is hashed; a public client has none.
        secret = application.client_secret
        try:
            application.full_clean()
        except ValidationError as exception:
            return _error("invalid_redirect_uri", cut("; ".join(exception.messages), 300))
        application.save()
        answer = {
            **metadata.model_dump(),
            "client_id": application.client_id,
            "client_id_issued_at": int(application.created.timestamp()),
        }
        if not is_public:
            answer |= {"client_secret": secret, "client_secret_expires_at": 0}
        return JsonResponse(answer, status=201, headers={"Cache-Control": "no-store"})


def _error(
    code: str, description: str, status: int = 400, headers: Mapping[str, str] | None = None
) -> JsonResponse:
    logger.info("A client was not registered: %s", description)
    members = {"error": code, "error_description": description}
    return JsonResponse(members, status=status, headers=headers)
