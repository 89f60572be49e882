"""What a request for a token must hold to beyond django-oauth-toolkit's own rules."""

from __future__ import annotations

from collections.abc import Sequence

from oauth2_provider.models import AbstractApplication
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749.errors import OAuth2Error

from mcp_bridge.conf import conf


class InvalidTargetError(OAuth2Error):
    """A token is asked for something else than the endpoint (RFC 8707, section 2)."""

    error = "invalid_target"


def no_such_resource() -> str:
    """Return the sentence for a client that asks for another resource."""
    return f"Resources here are: {', '.join(conf.resources.values())}."


class Validator(OAuth2Validator):
    """
    Issue tokens for the endpoint, RESOURCE, for its toolsets, and for no other resource.

    A client that made itself known, and names no resource, gets a token for the endpoint: here it
    can want nothing else. One that an administrator has made gets what django-oauth-toolkit gives,
    a token for no resource in particular, which does not open the endpoint.
    """

    def _validate_resource_uris(self, request: Request, resources: Sequence[str]) -> None:
        if any(each not in conf.resources.values() for each in resources):
            raise InvalidTargetError(no_such_resource(), request=request)

    def _check_and_set_request_resource(self, request: Request) -> None:
        super()._check_and_set_request_resource(request)
        made_here = AbstractApplication.RegistrationSource.MANUAL
        if not request.resource and request.client.registration_source != made_here:
            request.resource = [conf.RESOURCE] if conf.RESOURCE else []
