"""The login of an OAuth client: the official client's provider, and a browser with its user."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

# Portless, as Claude Code registers it: the site has to take any port.
CALLBACK = "http://localhost/callback"


class Memory:
    """Keeps a client's registration and tokens as long as the client lives (a TokenStorage)."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Page(HTMLParser):
    """The heading and the forms of a page: their fields, and their buttons by what is on them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.heading = ""
        self.forms: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._button: dict[str, str | None] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.forms.append({"action": found.get("action"), "fields": {}, "buttons": {}})
        elif tag == "input" and self.forms:
            self.forms[-1]["fields"][found["name"]] = found.get("value") or ""
        elif tag in ("button", "h1"):
            self._text, self._button = [], found

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = " ".join("".join(self._text).split())
        if tag == "h1":
            self.heading = text
        elif tag == "button" and self.forms:
            name = self._button.get("name")
            pressed = {name: self._button.get("value") or ""} if name else {}
            self.forms[-1]["buttons"][text] = pressed


class Browser:
    """
    A user of the newsroom in front of a browser, whom a client sends to the newsroom's pages.

    Logs in where a page asks for it, and presses ``button`` where a client asks to be let in, each
    once. What is seen and done is told by ``say``; ``asked`` are the addresses that clients have
    sent the user to, and ``url`` where the newsroom has sent the user in the end.
    """

    def __init__(
        self,
        username: str,
        password: str,
        *,
        button: str = "Allow",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.username, self.password = username, password
        self.button, self.say = button, say
        self.url = ""
        self.asked: list[str] = []
        self._cookies = httpx2.Cookies()

    async def visit(self, url: str) -> None:
        """Go where a client sends its user, until the newsroom sends the user back to it."""
        self.asked.append(url)
        buttons = {"Log in", self.button}
        async with httpx2.AsyncClient(cookies=self._cookies, timeout=60, trust_env=False) as http:
            request = http.build_request("GET", url)
            site = request.url.netloc
            while request.url.netloc == site:
                answer = await http.send(request)
                request = answer.next_request or http.build_request(
                    **self._pressed(buttons, answer)
                )
            self._cookies = http.cookies
        self.url = str(request.url)

    def _pressed(self, buttons: set[str], answer: httpx2.Response) -> dict[str, Any]:
        """Return the request of a form with one of the buttons, which is then taken from them."""
        page, url = Page(answer.text), str(answer.url)
        filled = {"username": self.username, "password": self.password}
        for form in page.forms:
            for button in form["buttons"].keys() & buttons:
                buttons.remove(button)
                self.say(f"on the page {page.heading!r} {self.username} presses {button!r}")
                fields = form["fields"] | form["buttons"][button]
                fields |= {name: text for name, text in filled.items() if name in fields}
                return {
                    "method": "POST",
                    "url": urljoin(url, form["action"] or ""),
                    "data": fields,
                    "headers": {"Origin": urljoin(url, "/").removesuffix("/")},
                }
        raise RuntimeError(f"{url}: {answer.status_code}, nothing to press: {page.heading}")

    async def answer(self) -> AuthorizationCodeResult:
        """Return what the newsroom has sent the client by the browser's last redirect."""
        told = {name: each[0] for name, each in parse_qs(urlsplit(self.url).query).items()}
        return AuthorizationCodeResult(
            code=told.get("code", ""), state=told.get("state"), iss=told.get("iss")
        )


def login(
    url: str, browser: Browser, memory: Memory | None = None, **options: Any
) -> OAuthClientProvider:
    """
    Return the official client's authentication at an endpoint, whose user has a browser.

    ``options`` are metadata of the client, or ``client_metadata_url``.
    """
    document = options.pop("client_metadata_url", None)
    metadata: dict[str, Any] = {
        "client_name": "Newsroom demo",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "none",
        **options,
    }
    return OAuthClientProvider(
        url,
        OAuthClientMetadata.model_validate(metadata),
        memory or Memory(),
        redirect_handler=browser.visit,
        callback_handler=browser.answer,
        client_metadata_url=document,
    )
