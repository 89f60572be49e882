"""An issuer of JWT access tokens on this machine: its metadata and keys are served over HTTP."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

OIDC = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"
KEYS = "/keys"
MAKERS: dict[str, Callable[[], Any]] = {
    "RS256": functools.partial(rsa.generate_private_key, 65537, 2048),
    "ES256": functools.partial(ec.generate_private_key, ec.SECP256R1()),
    "ES384": functools.partial(ec.generate_private_key, ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
KINDS = {"PS256": "RS256", "RS384": "RS256"}


@functools.cache
def private_key(algorithm: str, number: int = 0) -> Any:
    """Return one of the keys of all tests: making them takes long."""
    return MAKERS[KINDS.get(algorithm, algorithm)]()


def public_jwk(key: Any, algorithm: str, **members: Any) -> dict[str, Any]:
    """Return the JWK of a private key's public half, with these members."""
    found = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
    return {**found, "use": "sig", **members}


def part(value: object) -> str:
    """Return a part of a JWT made by hand."""
    written = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(written).rstrip(b"=").decode()


class Issuer:
    """
    An issuer with one key, ``a``, of RS256.

    ``jwks`` are the keys that it serves. ``answers`` has another answer by path: a status with a
    body, or a function of the handler. ``asked`` are the paths of all requests. It runs between
    ``start`` and ``stop``, and may be started again at the same address.
    """

    def __init__(self) -> None:
        self.jwks = [public_jwk(private_key("RS256"), "RS256", kid="a")]
        self.answers: dict[str, tuple[int, bytes] | Callable[[Any], None]] = {}
        self.asked: list[str] = []
        self.address = ("127.0.0.1", 0)
        self.start()

    def start(self) -> None:
        handler = functools.partial(_Handler, self)
        self._server = ThreadingHTTPServer(self.address, handler)  # type: ignore[arg-type]
        self._server.daemon_threads = True
        self.address = ("127.0.0.1", self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.is_running = True

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.is_running = False

    def metadata(self) -> dict[str, Any]:
        return {"issuer": self.url, "jwks_uri": f"{self.url}{KEYS}"}

    def serve(self, path: str, value: object) -> None:
        """Answer a path with this JSON."""
        self.answers[path] = 200, json.dumps(value).encode()

    def claims(self, **claims: Any) -> dict[str, Any]:
        """Return valid claims, but for these; one that is None is left out."""
        now = int(time.time())
        all_of = {
            "iss": self.url,
            "sub": "ada",
            "aud": "https://example.com/mcp",
            "iat": now,
            "exp": now + 300,
            "scope": "mcp read",
            "client_id": "laptop",
            **claims,
        }
        return {name: value for name, value in all_of.items() if value is not None}

    def token(
        self,
        key: Any = None,
        algorithm: str = "RS256",
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Return a valid token, but for the given parts."""
        headers = {"kid": "a", "typ": "at+jwt", **(header or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        key = key or private_key(algorithm)
        return jwt.encode(self.claims(**claims), key, algorithm, headers)

    def unsigned(self, header: dict[str, Any], secret: bytes | None = None) -> str:
        """Return a token with any header, signed with HMAC and SHA-256 if there is a secret."""
        text = f"{part({'typ': 'JWT', 'kid': 'a', **header})}.{part(self.claims())}"
        digest = hmac.digest(secret, text.encode(), hashlib.sha256) if secret is not None else b""
        return f"{text}.{part(digest)}"


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, issuer: Issuer, *args: Any) -> None:
        self.issuer = issuer
        super().__init__(*args)

    def do_GET(self) -> None:
        issuer = self.issuer
        issuer.asked.append(self.path)
        known = {OIDC: issuer.metadata(), KEYS: {"keys": issuer.jwks}}
        answer = issuer.answers.get(self.path)
        if answer is None:
            found = known.get(self.path)
            answer = (404, b"{}") if found is None else (200, json.dumps(found).encode())
        if callable(answer):
            answer(self)
        else:
            self.send(*answer)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing on stderr: a test reads the log."""
