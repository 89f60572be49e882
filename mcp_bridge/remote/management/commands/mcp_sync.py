from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from mcp_bridge.management.base import TablesCommand
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.sync import SyncError, sync, verify


class Command(TablesCommand):
    help = "Fetch the tools of the remote servers, or of one, into the rows of this site."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "server", nargs="?", help="The short name of a server; all enabled ones without it."
        )
        parser.add_argument(
            "--verify", action="store_true", help="Only see whether the servers can be reached."
        )

    def handle(self, *args: Any, server: str | None, **options: Any) -> None:
        self.warn_of_settings()
        servers = RemoteServer.objects.filter(**{"slug": server} if server else {"enabled": True})
        if server and not servers:
            text = (
                f"No remote server has the short name {server!r}: see Remote servers in the admin."
            )
            raise CommandError(text)
        if not servers:
            self.stdout.write("This site lacks an enabled remote server: add one in the admin.")
        failed = 0
        for each in servers:
            try:
                text = verify(each) if options["verify"] else fetch(each)
            except SyncError as why:
                failed += 1
                self.stderr.write(f"{each.slug}: The server {why}.")
            except Exception as why:
                # The others are fetched all the same.
                failed += 1
                self.stderr.write(f"{each.slug}: {type(why).__name__}: {why}")
            else:
                self.stdout.write(f"{each.slug}: {text}")
        if failed:
            raise CommandError(f"{failed} of {len(servers)} servers failed.")


def fetch(server: RemoteServer) -> str:
    """Fetch the tools of a server; return their numbers as a sentence. Raises SyncError."""
    found = sync(server)
    text = (
        f"{found.offered} tools ({found.new} new, {found.changed} changed, {found.gone} gone), "
        f"{found.left_out} left out."
    )
    return text if found.is_whole else f"{text} The server offers more than are fetched."
