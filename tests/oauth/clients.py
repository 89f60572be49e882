"""An MCP client and its user's browser: registration, consent pages and tokens."""

from __future__ import annotations

import json
import re
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.test import Client

CALLBACK = "http://127.0.0.1:33418/"
RESOURCE = "https://testserver/mcp"
_FIELD = re.compile(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?')


class OAuthClient:
    """
    A public client whose redirect URI is CALLBACK, and the browser of a user who is logged in.

    ``browser`` sends forms with CSRF tokens, as browsers do; ``http`` sends the client's own
    requests.
    """

    def __init__(self, user: Any = None, **metadata: Any) -> None:
        self.http, self.browser = Client(), Client(enforce_csrf_checks=True)
        if user is not None:
            self.browser.force_login(user)
        body = {
            "client_name": "Test client",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        self.registered = register(**body).json()
        self.client_id = self.registered["client_id"]
        self.verifier = secrets.token_urlsafe(48)

    def authorization(self, **changed: Any) -> dict[str, Any]:
        """Return the parameters of an authorization request; None removes one."""
        challenge = urlsafe_b64encode(sha256(self.verifier.encode()).digest()).decode()
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge.rstrip("="),
            "code_challenge_method": "S256",
            "state": "state of the client",
            "scope": "mcp",
            "resource": RESOURCE,
            **changed,
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def ask(self, **changed: Any) -> Any:
        """Return the answer to the authorization request: the consent page if it is valid."""
        return self.browser.get("/oauth/authorize/", self.authorization(**changed), secure=True)

    def decide(self, page: Any, *, allow: bool = True) -> Any:
        """Return the answer to the form of the consent page."""
        fields = {name: unescape(value) for name, value in _FIELD.findall(page.content.decode())}
        if allow:
            fields["allow"] = "true"
        return self.browser.post(
            "/oauth/authorize/", fields, secure=True, headers={"Referer": "https://testserver/"}
        )

    def exchange(self, code: str, **changed: Any) -> Any:
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": RESOURCE,
            **changed,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        return self.http.post("/oauth/token/", sent, secure=True)

    def log_in(self, **changed: Any) -> dict[str, Any]:
        """Return the answer of the token endpoint after the user has consented."""
        answer = answered(self.decide(self.ask(**changed)))
        token = self.exchange(answer["code"], resource=changed.get("resource", RESOURCE))
        assert token.status_code == 200, token.content
        return json.loads(token.content)

    def refresh(self, token: str, **changed: Any) -> Any:
        body = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        sent = {name: value for name, value in {**body, **changed}.items() if value is not None}
        return self.http.post("/oauth/token/", sent, secure=True)


def register(**metadata: Any) -> Any:
    return Client().post(
        "/oauth/register/", json.dumps(metadata), content_type="application/json", secure=True
    )


def answered(response: Any) -> dict[str, str]:
    """Return the parameters that a redirect brings to the client."""
    assert response.status_code == 302, response.content.decode()
    query = parse_qs(urlsplit(response["Location"]).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in query.values()), query
    return {name: value for name, (value,) in query.items()}
