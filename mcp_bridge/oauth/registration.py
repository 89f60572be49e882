"""The rules for clients that register or publish a metadata document."""

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

# The characters of RFC 3986 except "#", since fragments are not allowed. Stored URIs are separated
# by white space, so it would start another one.
_URI = re.compile(r"[!$-;=?-\[\]_a-z~]+")


# The grants of every client that registers for the first one.
GRANTS: Final = ["authorization_code", "refresh_token"]


def _granted(granted: list[str], asked: list[str]) -> list[str]:
    """Return the granted values, which may differ from those requested (RFC 7591, 3.2.1)."""
    if granted[0] not in asked:
        raise ValueError(f"must have {granted[0]}")
    return granted


def without_nulls(given: Any) -> Any:
    """Return metadata without null members, which mean absent."""
    is_object = isinstance(given, dict)
    return {name: each for name, each in given.items() if each is not None} if is_object else given


def _safe(uri: str, info: ValidationInfo) -> str:
    """Return a URI that may receive codes; ``context`` has the allowed private-use URIs."""
    if uri in (info.context or ()) or _URI.fullmatch(uri) and is_redirect_uri(uri):
        return uri
    raise ValueError(
        "must be https, or http to localhost, 127.0.0.1 or [::1], without a fragment or user; "
        "other schemes must be allowed by the site"
    )


class ClientMetadata(BaseModel):
    """The used part of a client's metadata (RFC 7591, section 2)."""

    client_name: Annotated[str, AfterValidator(shown)] = ""
    redirect_uris: Annotated[
        list[Annotated[str, Field(max_length=2000), AfterValidator(_safe)]],
        Field(min_length=1, max_length=20),
    ]
    # Some request more, such as the device flow; the response lists the granted ones.
    grant_types: Annotated[list[str], AfterValidator(partial(_granted, GRANTS))] = GRANTS
    response_types: Annotated[list[str], AfterValidator(partial(_granted, ["code"]))] = ["code"]
    token_endpoint_auth_method: Literal["none", "client_secret_post", "client_secret_basic"] = (
        "client_secret_basic"
    )


_METADATA: Final = TypeAdapter(Annotated[ClientMetadata, BeforeValidator(without_nulls)])


class RegistrationRateThrottle(AnonRateThrottle):
    """A throttle for registrations and fetched client documents, by network."""

    rate = "300/hour"


class ClientRegistration:
    """
    A permission for clients with safe redirect URIs that request only logins.

    For DCR_REGISTRATION_PERMISSION_CLASSES. Subclass it to allow ``private_use_uris``: redirect
    URIs with a custom scheme. Since any program could claim that scheme, they must be listed in
    full. Their schemes must also be in ALLOWED_REDIRECT_URI_SCHEMES.
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
    """Return the site's ClientRegistration from its permission classes, or the default."""
    listed = oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES
    kinds = (each for each in listed if issubclass(each, ClientRegistration))
    return next(kinds, ClientRegistration)()


class MetadataFetcher(SafeMetadataFetcher):
    """A fetcher that applies the rules of registration to metadata documents."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        document, max_age = super().fetch(client_id)
        document = {"token_endpoint_auth_method": "none", **without_nulls(document)}
        try:
            metadata = client_registration().read(document)
        except OAuth2Error as error:
            raise CIMDError(error.description) from None
        # Optional in registrations, required here (MCP, "Client ID Metadata Documents").
        if not metadata.client_name:
            raise CIMDError("client_name: Field required")
        granted = {"grant_types": ["authorization_code"]}
        return {**document, **metadata.model_dump(), **granted}, max_age


class ClientDocument:
    """A permission that counts documents; for CIMD_REGISTRATION_PERMISSION_CLASSES."""

    def has_permission(self, request: OAuthRequest, client_id: str) -> bool:
        """Return whether the document may be fetched for this request."""
        return seconds_to_wait(request.headers) is None


def seconds_to_wait(meta: dict[str, Any]) -> int | None:
    """Count a registration by the address in META; None if allowed, else seconds to wait."""
    throttle = throttling.make_throttle(client_registration().throttle_class)
    # Always anonymous: AnonRateThrottle does not count logged-in users.
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
    Registration of a client (RFC 7591); its metadata must satisfy ClientRegistration.

    Does not support updates by RFC 7592, which would bypass it.
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
            text = "This site does not allow you to register clients."
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
        # Read before it is hashed; public clients lack one.
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
