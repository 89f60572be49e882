from __future__ import annotations

from django.core.management import call_command
from django.core.management.base import CommandParser
from django.utils import timezone
from oauth2_provider import models

from mcp_bridge.management.base import TablesCommand, duration


class Command(TablesCommand):
    help = "Clean up tokens and clients of OAuth logins."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        prune = commands.add_parser(
            "prune", help="Delete expired tokens and unused self-registered clients."
        )
        prune.add_argument(
            "--unused",
            default="30d",
            help="Minimum age of never-used clients to delete (default: 30d).",
        )

    def handle(self, *, command: str, **options: object) -> None:
        getattr(self, command)(**options)

    def prune(self, *, unused: str, **options: object) -> None:
        call_command("cleartokens", stdout=self.stdout, stderr=self.stderr)
        # The toolkit keeps replaced access tokens as long as their refresh tokens.
        ended = models.get_access_token_model().objects.filter(expires__lt=timezone.now())
        ended.filter(refresh_token__revoked__isnull=False).delete()
        call_command("clearcimdapplications", stdout=self.stdout, stderr=self.stderr)
        model = models.get_application_model()
        clients = model.objects.filter(
            registration_source=model.RegistrationSource.DCR,
            created__lt=timezone.now() - duration(unused),
            mcp_uses__isnull=True,
        )
        # A client that is connecting right now has a code or a token, but no use yet.
        for kind in (
            models.get_grant_model(),
            models.get_access_token_model(),
            models.get_refresh_token_model(),
        ):
            holding = kind.objects.filter(application__isnull=False)
            clients = clients.exclude(pk__in=holding.values("application"))
        _, by_model = clients.delete()
        number = by_model.get(model._meta.label, 0)
        self.stdout.write(f"Deleted {number} registered client(s) that were never used")
