"""The scopes of MCP_BRIDGE as a scopes backend of django-oauth-toolkit."""

from __future__ import annotations

from oauth2_provider.scopes import BaseScopes

from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.conf import conf


class Scopes(BaseScopes):
    """The scopes of the endpoint's tools; requests without scopes get DEFAULT_SCOPES."""

    def get_all_scopes(self) -> dict[str, str]:
        return supported_scopes()

    def get_available_scopes(self, *args: object, **kwargs: object) -> list[str]:
        return list(self.get_all_scopes())

    def get_default_scopes(self, *args: object, **kwargs: object) -> list[str]:
        return list(conf.DEFAULT_SCOPES) or self.get_available_scopes()
