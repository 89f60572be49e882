"""
Serve the site of DJANGO_SETTINGS_MODULE with threads, on a free loopback port.

Its database is migrated, the management commands named as arguments are run, and an administrator
gets a token. The first line on standard output says where the site is: ``{"port": …, "token": …}``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.test.utils import override_settings

from testproject.authorization import authorization


def main(commands: list[str]) -> None:
    application = get_wsgi_application()
    for command in ("migrate", *commands):
        call_command(command, verbosity=0, stdout=sys.stderr)
    # The kernel chooses the port: one chosen beforehand may be taken by then.
    server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.set_app(application)
    if apps.is_installed("mcp_bridge.oauth"):
        # So that clients can log in to the newsroom.
        url = f"http://127.0.0.1:{server.server_port}"
        override_settings(**authorization(url, settings.MCP_BRIDGE)).enable()
    print(json.dumps({"port": server.server_port, "token": administrator_token()}), flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Until the runner closes the pipe, or ends.
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()


def administrator_token() -> str:
    """Return a token of a superuser, who may use every tool."""
    # The app registry is only ready inside main().
    from mcp_bridge.tokens.models import Token

    user = get_user_model().objects.create_superuser("conformance")
    if apps.is_installed("testproject.newsroom"):
        from testproject.newsroom.models import Author

        Author.objects.create(user=user, byline="Conformance")
    _, secret = Token.objects.issue(user=user, name="conformance")
    return secret


if __name__ == "__main__":
    main(sys.argv[1:])
