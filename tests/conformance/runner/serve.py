"""
Serve the site of DJANGO_SETTINGS_MODULE by gunicorn or uvicorn, on a free loopback port.

Its database is migrated, the management commands named after the server are run, and an
administrator gets a token. The first line on standard output says where the site is:
``{"port": …, "token": …}``. The server ends with standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys

import django
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command

# Two processes, so that what one keeps to itself is missed.
SERVERS = {
    "gunicorn": ["gunicorn", "django.core.wsgi:get_wsgi_application()", "--bind", "fd://{}"]
    + ["--workers", "2", "--threads", "8", "--no-control-socket"],
    "uvicorn": ["uvicorn", "--factory", "django.core.asgi:get_asgi_application", "--fd", "{}"]
    + ["--lifespan", "off", "--log-level", "warning"],
}


def main(server: str, *commands: str) -> None:
    # Listening from now on, so that no client comes too early.
    listening = socket.create_server(("127.0.0.1", 0))
    port, fd = listening.getsockname()[1], listening.fileno()
    os.environ["CONFORMANCE_SERVER"] = server
    os.environ["CONFORMANCE_URL"] = f"http://127.0.0.1:{port}"
    django.setup()
    for command in ("migrate", *commands):
        call_command(command, verbosity=0, stdout=sys.stderr)
    command = [sys.executable, "-m", *(each.format(fd) for each in SERVERS[server])]
    with subprocess.Popen(command, pass_fds=[fd], stdin=subprocess.DEVNULL) as process:
        print(json.dumps({"port": port, "token": administrator_token()}), flush=True)
        # Until the runner closes the pipe, or ends.
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()
        process.terminate()


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
    main(*sys.argv[1:])
