from __future__ import annotations

from django.apps import AppConfig, apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import pre_save


class OAuthConfig(AppConfig):
    name = "mcp_bridge.oauth"
    label = "mcp_bridge_oauth"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Before the models, which refer to those of the toolkit; a check would run too late.
        if not apps.is_installed("oauth2_provider"):
            raise ImproperlyConfigured(
                'mcp_bridge.oauth requires django-oauth-toolkit: add "oauth2_provider" to '
                "INSTALLED_APPS, before mcp_bridge.oauth."
            )
        super().import_models()

    def ready(self) -> None:
        from oauth2_provider.models import get_application_model

        from mcp_bridge.oauth.checks import check_oauth, check_oauth_deployment
        from mcp_bridge.oauth.consent import without_secret

        application = get_application_model()
        pre_save.connect(without_secret, application, dispatch_uid="mcp_bridge_oauth")
        checks.register(check_oauth, "mcp_bridge")
        checks.register(check_oauth_deployment, "mcp_bridge", deploy=True)
