"""
A site with several libraries of credentials, run in a separate process.

    python -m tests.support.credentials FOLDER

Credentials are sent to each order of authentication classes, through both views; the answers go to
the standard output as JSON: ``[[classes, whose, state, view, status, user, challenge]]``.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_bridge import Context, mcp_tool

OURS = "ours"
PATHS = {
    OURS: "mcp_bridge.tokens.authentication.TokenAuthentication",
    "simplejwt": "rest_framework_simplejwt.authentication.JWTAuthentication",
    "knox": "knox.auth.TokenAuthentication",
    "basic": "rest_framework.authentication.BasicAuthentication",
    "session": "rest_framework.authentication.SessionAuthentication",
    "oauth": "oauth2_provider.contrib.rest_framework.OAuth2Authentication",
}
OTHERS = [name for name in PATHS if name != OURS]
ORDERS = [
    (OURS,),
    *((other,) for other in OTHERS),
    *((OURS, other) for other in OTHERS),
    *((other, OURS) for other in OTHERS),
    ("simplejwt", "oauth", OURS, "knox", "basic", "session"),
]
VIEWS = ("sync", "async")
PASSWORD = "correct horse"
CSRF = "a" * 32


def start(folder: Path) -> None:
    """Set the site up, with tables in the folder."""
    warnings.simplefilter("error")
    from django.conf import settings

    settings.configure(
        SECRET_KEY="x" * 50,
        ROOT_URLCONF="site_urls",
        USE_TZ=True,
        INSTALLED_APPS=[
            *("django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"),
            *("rest_framework", "rest_framework_simplejwt", "knox", "oauth2_provider"),
            *("mcp_bridge", "mcp_bridge.tokens"),
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "db.sqlite3"}
        },
        ALLOWED_HOSTS=["testserver"],
    )
    import django

    django.setup()
    from django.core.management import call_command

    sys.modules["site_urls"] = addresses()
    call_command("migrate", verbosity=0)


def addresses() -> ModuleType:
    from django.urls import include, path
    from modernrpc.server import RpcServer

    from mcp_bridge.views import AsyncMCPView

    server = RpcServer()

    @server.register_procedure
    @mcp_tool(public=True, read_only=True)
    def whoami(context: Context) -> str:
        """Say who calls."""
        return str(context.user.get_username())

    urls = ModuleType("site_urls")
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("rpc", server.view),
        path("async", AsyncMCPView.as_view()),
        path("", include("mcp_bridge.urls")),
    ]
    return urls


def credentials() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the owner and the state of each credential, and the headers that hold it."""
    from django.contrib.auth import get_user_model
    from django.test import Client
    from django.utils import timezone
    from knox.models import AuthToken
    from oauth2_provider.models import get_access_token_model
    from rest_framework_simplejwt.tokens import AccessToken

    from mcp_bridge.tokens.models import Token

    users = get_user_model().objects
    ada, bob = (users.create_user(name, password=PASSWORD) for name in ("ada", "bob"))
    hour, now = timedelta(hours=1), timezone.now()

    def token(value: object, scheme: str = "Bearer") -> dict[str, str]:
        return {"Authorization": f"{scheme} {value}"}

    def basic(text: str) -> dict[str, str]:
        return token(base64.b64encode(text.encode()).decode(), "Basic")

    yield "nobody", "none", {}
    yield "foreign", "bearer", token("not-of-this-site")
    yield "foreign", "scheme", token("not-of-this-site", "Digest")
    yield "ours", "valid", token(Token.objects.issue(user=ada, name="a")[1])
    yield (
        "ours",
        "expired",
        token(Token.objects.issue(user=ada, name="b", expires_at=now - hour)[1]),
    )
    yield "ours", "invalid", token("mcp_nothing")
    yield "ours", "malformed", token("mcp_nothing at all")

    jwt, old = AccessToken.for_user(bob), AccessToken.for_user(bob)
    old.set_exp(lifetime=-hour)
    yield "simplejwt", "valid", token(jwt)
    yield "simplejwt", "expired", token(old)
    yield "simplejwt", "invalid", token(f"{jwt}x")

    yield "knox", "valid", token(AuthToken.objects.create(bob)[1], "Token")
    yield "knox", "expired", token(AuthToken.objects.create(bob, expiry=-hour)[1], "Token")
    yield "knox", "invalid", token("nothing", "Token")

    yield "basic", "valid", basic(f"bob:{PASSWORD}")
    yield "basic", "invalid", basic("bob:wrong")

    access = get_access_token_model().objects
    for state, expires, user in (
        ("valid", now + hour, bob),
        ("expired", now - hour, bob),
        # By the grant "client credentials".
        ("without a user", now + hour, None),
    ):
        access.create(user=user, token=f"oauth {state}".replace(" ", "-"), expires=expires)
        yield "oauth", state, token(f"oauth {state}".replace(" ", "-"))
    yield "oauth", "invalid", token("oauth-nothing")

    browser = Client()
    browser.force_login(bob)
    session = f"sessionid={browser.cookies['sessionid'].value}; csrftoken={CSRF}"
    yield "session", "valid", {"Cookie": session, "X-CSRFToken": CSRF}
    yield "session", "invalid", {"Cookie": session}
    yield "session", "unknown", {"Cookie": "sessionid=nothing"}
    yield (
        "session",
        "invalid beside a token",
        {"Cookie": session, **token(Token.objects.issue(user=ada, name="c")[1])},
    )


class Door:
    """Transport of an MCPClient to the application under ASGI or WSGI."""

    def __init__(self, view: str) -> None:
        from django.test import AsyncClient, Client

        kind = AsyncClient if view == "async" else Client
        self.client: Any = kind(enforce_csrf_checks=True)
        self.is_async = view == "async"

    def generic(self, *args: Any, headers: dict[str, str], **options: Any) -> Any:
        from asgiref.sync import async_to_sync

        headers = dict(headers)
        self.client.cookies.load(headers.pop("Cookie", ""))
        if not self.is_async:
            return self.client.generic(*args, headers=headers, **options)

        async def request() -> Any:
            return await self.client.generic(*args, headers=headers, **options)

        return async_to_sync(request)()


def main(folder: Path) -> None:
    start(folder)
    from django.test import override_settings

    from mcp_bridge.testing import MCPClient, MCPError, text_of

    answers: list[list[Any]] = []
    sent = list(credentials())
    for order in ORDERS:
        paths = [PATHS[name] for name in order]
        with override_settings(MCP_BRIDGE={"AUTHENTICATION_CLASSES": paths}):
            for (whose, state, headers), view in product(sent, VIEWS):
                if whose in OTHERS and whose not in order and state != "valid":
                    continue
                client = MCPClient(path="/mcp" if view == "sync" else "/async")
                client.http = Door(view)  # type: ignore[assignment]
                client.headers.update(headers)
                user = None
                with suppress(MCPError):
                    user = text_of(client.call_tool("whoami"))
                status = client.response.status_code
                challenge = client.response.get("WWW-Authenticate")
                answers.append([order, whose, state, view, status, user, challenge])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
