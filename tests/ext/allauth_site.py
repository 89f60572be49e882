"""The site of docs/access/allauth.md in a separate process, and a browser that uses it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import time
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.support.issuer import private_key
from tests.support.processes import ROOT, Python, run_python, variables
from tests.test_docs import SETTINGS

BLOCK = re.compile(
    r"^( *)```\w+\n *(?:#|\{#) ([\w/.]+)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)
CALLBACK = "http://127.0.0.1:9/callback"
# Shared, because each new client would read all certificates of the machine again.
TLS = ssl.create_default_context()
PASSWORD = "correct horse"
OWN_SETTINGS = """
import json
import os

ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TEMPLATES[0]["DIRS"] = ["templates"]
INSTALLED_APPS.append("shop")
MIDDLEWARE.append("django.middleware.csrf.CsrfViewMiddleware")
LOGGING = {"version": 1, "disable_existing_loggers": False,
           "handlers": {"all": {"class": "logging.StreamHandler"}},
           "root": {"handlers": ["all"], "level": "DEBUG"}}
IDP_OIDC_RATE_LIMITS = False
globals().update(json.loads(os.environ.get("SITE_SETTINGS", "{}")))
"""
RPC = """
from modernrpc import RpcServer
from mcp_bridge import mcp_tool
from mcp_bridge.calls.credentials import audience_of, scopes_of
from mcp_bridge.models import ToolCallRecord

server = RpcServer()

@server.register_procedure(context_target="context")
@mcp_tool(read_only=True)
def whoami(context) -> list[str]:
    \"\"\"Say who calls.\"\"\"
    user, auth = context.request.user, context.request.auth
    return [user.get_username(), *sorted(audience_of(auth)), *sorted(scopes_of(auth))]
"""
URLS = """
from django.http import JsonResponse
from modernrpc import RpcServer
from mcp_bridge.records import rows
from mcp_bridge.models import ToolCallRecord
from shop.rpc import server

def records(request):
    rows.flush()
    fields = ("outcome", "error_code", "credential")
    return JsonResponse({"records": list(ToolCallRecord.objects.values(*fields))})

urlpatterns += [path("rpc", server.view), path("records", records)]
"""
USERS = f"""
import django
django.setup()
from django.contrib.auth.models import User
User.objects.create_user("ada", email="ada@example.com", password="{PASSWORD}")
"""


def pem(number: int = 0) -> str:
    """Return one of the issuer's keys."""
    written: bytes = private_key("RS256", number).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return written.decode()


class Site:
    """
    The site in a folder, at ``url``, with the user ada.

    ``serve`` starts it, or restarts it if its settings change; they are added to those of the page.
    """

    process: Python | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        page = (
            (ROOT / "docs/access/allauth.md").read_text().replace("https://example.com", self.url)
        )
        for indent, name, code in BLOCK.findall(page):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub(f"^{indent}", "", code, flags=re.MULTILINE))
        (folder / "settings.py").write_text(
            SETTINGS + (folder / "settings.py").read_text() + OWN_SETTINGS
        )
        (folder / "urls.py").write_text((folder / "urls.py").read_text() + URLS)
        (folder / "shop").mkdir()
        (folder / "shop/__init__.py").touch()
        (folder / "shop/rpc.py").write_text(RPC)
        (folder / "oidc.pem").write_text(pem())
        self.run("-m", "django", "migrate", "--verbosity", "0")
        self.run("-c", USERS)

    def environment(self, settings: Mapping[str, Any]) -> dict[str, str]:
        return {**variables(self.folder), "SITE_SETTINGS": json.dumps(settings)}

    def run(self, *arguments: str, **settings: Any) -> str:
        """Run Python in the site; what it printed."""
        return run_python(*arguments, cwd=self.folder, env=self.environment(settings))

    def serve(self, **settings: Any) -> None:
        if self.process is not None and self.settings == settings:
            return
        self.stop()
        self.settings = settings
        self.process = Python(
            *("-m", "django", "runserver", "--noreload", str(self.port)),
            out=self.folder / "log",
            err=self.folder / "log",
            cwd=self.folder,
            env=self.environment(settings),
        )
        for _ in range(600):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.wait(os.WNOHANG) is None, self.log()
            time.sleep(0.05)
        raise AssertionError(self.log())

    def stop(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGTERM)
            self.process.wait()
            self.process = None

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def records(self) -> list[dict[str, str]]:
        """Return the site's records of calls."""
        return list(httpx2.get(f"{self.url}/records", verify=TLS).json()["records"])


class Forms(HTMLParser):
    """The forms of a page: the action of each, and the data it sends with its boxes ticked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.found.append((given.get("action") or "", {}))
        elif tag == "input" and self.found and given.get("name"):
            self.found[-1][1][str(given["name"])] = given.get("value") or ""


class Browser:
    """ada's browser: it logs in when asked to, and grants or denies access."""

    def __init__(self, answer: str = "grant") -> None:
        self.http = httpx2.Client(timeout=30, verify=TLS)
        self.answer = answer
        self.pages: list[str] = []

    def open(self, url: str) -> str:
        """Return the address that the browser is sent to in the end, or the last page's."""
        response = self.http.get(url)
        for _ in range(10):
            if response.has_redirect_location:
                target = urljoin(str(response.url), response.headers["Location"])
                if target.startswith(CALLBACK):
                    return target
                response = self.http.get(target)
                continue
            self.pages.append(response.text)
            sent = [each for each in Forms(response.text).found if len(each[1]) > 1]
            if not sent:
                return str(response.url)
            action, values = sent[-1]
            if "password" in values:
                values |= {"login": "ada", "password": PASSWORD}
            else:
                values["action"] = self.answer
            target = urljoin(str(response.url), action or str(response.url))
            response = self.http.post(target, data=values, headers={"Referer": target})
        raise AssertionError(f"the browser came to no end at {response.url}")

    def query(self, url: str) -> dict[str, str]:
        """Return the query of the address that the browser is redirected to."""
        return dict(parse_qsl(urlsplit(self.open(url)).query))


class Tokens:
    """The official client's storage of tokens and its registration."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None
        self.given: list[str] = []

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens
        self.given.append(tokens.access_token)

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def official_client(url: str, browser: Browser, tokens: Tokens, **metadata: Any) -> Any:
    """
    Return the results of ``whoami`` for the official client, given only the endpoint's URL.

    It calls twice, the second time with an expired token and without the browser.
    """
    asked: list[str] = []

    async def redirect(url: str) -> None:
        asked.append(url)

    async def callback() -> AuthorizationCodeResult:
        found = await asyncio.to_thread(browser.query, asked[-1])
        return AuthorizationCodeResult(code=found["code"], state=found["state"])

    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="Laptop", **metadata),  # type: ignore[list-item]
        tokens,
        redirect,
        callback,
    )

    async def call() -> Any:
        async with httpx2.AsyncClient(auth=provider, timeout=30, verify=TLS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport) as client:
                first = await client.call_tool("whoami", {})
                provider.context.token_expiry_time = 1
                second = await client.call_tool("whoami", {})
        assert first.structured_content == second.structured_content
        assert len(asked) == 1
        return second.structured_content

    return asyncio.run(call())
