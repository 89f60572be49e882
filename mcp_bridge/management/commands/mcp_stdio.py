from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.core.cache.backends.locmem import LocMemCache
from django.core.management.base import CommandError, CommandParser
from django.http import HttpRequest

from mcp_bridge.access.policy import LocalRequest
from mcp_bridge.checks.urls import reachable
from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.conf import conf
from mcp_bridge.features import Client, Context
from mcp_bridge.management.base import TablesCommand, check_names, named_user
from mcp_bridge.protocol import Request, Result, errors
from mcp_bridge.transports.sessions import Session
from mcp_bridge.transports.stdio import Handle, StdioServer, take_streams
from mcp_bridge.transports.streams import LoopStream
from mcp_bridge.views import MCPView


class Command(TablesCommand):
    requires_system_checks = "__all__"
    help = (
        "Serve MCP over standard input and output, for a client on this machine that starts the "
        "site as a command. All that is printed or logged goes to standard error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        caller = parser.add_mutually_exclusive_group()
        caller.add_argument("--user", help="The user who makes all calls (default: anonymous).")
        caller.add_argument(
            "--token-env",
            metavar="NAME",
            help="The environment variable with the token that makes all calls.",
        )
        parser.add_argument("--toolset", help="Serve only the tools of this toolset.")

    def execute(self, *args: object, **options: object) -> str | None:
        # Before the system checks, which may print.
        take_streams()
        return super().execute(*args, **options)

    def handle(
        self, *, user: str | None, token_env: str | None, toolset: str | None, **options: object
    ) -> None:
        if toolset is not None:
            check_names("toolset", [toolset], conf.toolsets)
        make_view, make_request = view_of(toolset), request_maker(user, token_env)
        named = make_view().get_server()
        named.choose(toolset)
        if not (user or token_env) and not (conf.allow_anonymous and named.snapshot.has_public):
            raise CommandError("No tool is public: pass --user or --token-env.")
        whom = user or ("the token" if token_env else "anonymous callers")
        self.stderr.write(f"Serving MCP on standard input and output for {whom}.")

        async def serve() -> None:
            # The client's replies come to this process.
            session = Session(replies=LocMemCache("mcp_bridge.stdio", {}))
            handle = handler(make_view, make_request, session)
            streams, info = take_streams(), named.server_info
            await StdioServer(streams, handle, info, session).serve()

        asyncio.run(serve())


def handler(
    make_view: Callable[[], MCPView], make_request: Callable[[], HttpRequest], session: Session
) -> Handle:
    """Return a function that answers messages as a view answers those of requests."""

    client = Client()

    def admitted(message: Request) -> tuple[Any, Context]:
        request, view = make_request(), make_view()
        view.setup(request)
        return view.admit(request), view.get_context(request, message)

    async def handle(message: Request, stream: LoopStream | None) -> Result:
        nonlocal client
        await in_thread()
        server, context = admitted(message)
        vars(context)["stream"] = stream
        if stream is not None:
            stream.readmit = admitted
        if message.method == "initialize":
            info = message.params.get("clientInfo")
            client = Client(info=info if isinstance(info, dict) else {})
        if not message.revision.modern:
            # A legacy client describes itself once.
            vars(context)["client"] = client
            session.join(context)
        result: Result = await server.handle(message, context)
        if message.method == "initialize" and message.id is not None:
            session.begin(message, server.asked_capabilities)
        return result

    return handle


def view_of(toolset: str | None) -> Callable[[], MCPView]:
    """Return what makes the view of the site's URLconf for a toolset, or one of this package."""
    for match in reachable().values():
        kind, given = match.func.view_class, match.func.view_initkwargs  # type: ignore[attr-defined]
        if given.get("toolset") == toolset:
            return partial(kind, **given)
    return partial(MCPView, toolset=toolset)


def request_maker(user: str | None, token_env: str | None) -> Callable[[], HttpRequest]:
    """
    Return a function that makes a request of the caller, as each message needs one.

    Raises CommandError for a caller who cannot call anything.
    """
    secret = None
    # Child processes of tools do not inherit it.
    if token_env is not None and not (secret := os.environ.pop(token_env, "")):
        raise CommandError(f"The environment variable {token_env} is not set.")
    caller = None if user is None else named_user(user)
    if caller is not None and not caller.is_active:
        raise CommandError(f"The user {user!r} is not active.")
    users = get_user_model()._default_manager

    def make() -> HttpRequest:
        request = LocalRequest()
        request.method = "POST"
        # Some authentication classes read it.
        request._body = b""
        if secret is not None:
            request.META["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
        elif caller is not None:
            # Read again, since the user may have been deactivated or have lost permissions.
            now = users.filter(pk=caller.pk).first()
            if now is None:
                text = "The user of this process does not exist any more."
                raise errors.UnauthorizedError(text, "Bearer")
            # As DRF's own test tools set it; AUTHENTICATION_CLASSES do not apply.
            request._force_auth_user = now  # type: ignore[attr-defined]
        return request

    return make
