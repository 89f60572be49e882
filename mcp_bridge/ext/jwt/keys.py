"""The keys that an issuer signs with (RFC 7517): found, fetched, and kept in the process."""

from __future__ import annotations

import functools
import json
import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rest_framework.exceptions import APIException

import mcp_bridge
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.ext.jwt.keys")

# Seconds: how long a request waits for keys, how long they are kept before they are asked for
# again, and the least time between two times of asking.
DEADLINE: Final = 5.0
MAX_AGE: Final = 600.0
MIN_INTERVAL: Final = 10.0
MAX_BYTES: Final = 512 * 1024


class KeysUnavailable(APIException):
    """The keys of an issuer were never had, so that its tokens cannot be judged."""

    status_code = 503
    default_detail = "The issuer's keys cannot be fetched just now."
    wait = MIN_INTERVAL


class Keys:
    """
    The keys of one issuer.

    A thread fetches them, one at a time and every MIN_INTERVAL seconds at most, so that neither a
    slow issuer nor tokens with made-up key ids keep the site busy. Keys that are there stay in use
    while the issuer is away. (PyJWT's own client forgets them then, makes every caller wait for a
    fetch, and ties an RSA key that names no algorithm to RS256.)
    """

    def __init__(self, issuer: str, url: str | None) -> None:
        self._issuer, self._url = issuer, url
        self._keys: list[Mapping[str, Any]] = []
        self._fetched_at = self._tried_at = -math.inf
        self._is_failing = False
        self._thread = threading.Thread()
        self._lock = threading.Lock()

    def find(self, kid: object) -> list[Mapping[str, Any]]:
        """
        Return the keys with this ``kid``, as JWKs; they are fetched if they are old or unknown.

        Raises KeysUnavailable while none have ever been fetched.
        """
        if not self._with_id(kid) or time.monotonic() - self._fetched_at > MAX_AGE:
            with self._lock:
                is_due = time.monotonic() - self._tried_at >= MIN_INTERVAL
                if is_due and not self._thread.is_alive():
                    self._tried_at = time.monotonic()
                    self._thread = threading.Thread(target=self._fetch, daemon=True)
                    self._thread.start()
                thread = self._thread
            # Requests with old keys do not wait for an issuer that failed the last time.
            if not (self._keys and self._is_failing):
                thread.join(DEADLINE)
        if not self._keys:
            raise KeysUnavailable
        return self._with_id(kid)

    def _with_id(self, kid: object) -> list[Mapping[str, Any]]:
        return [key for key in self._keys if key.get("kid") == kid]

    def _fetch(self) -> None:
        try:
            url = self._url or find_jwks_url(self._issuer)
            keys = fetch(url).get("keys")
            if not isinstance(keys, list) or not any(isinstance(key, dict) for key in keys):
                raise ValueError(f"{url} answers with no JWK Set")
        except Exception as exception:
            # Whatever it is, there must be another try.
            self._is_failing = True
            logger.error("The keys of %s could not be fetched: %s", self._issuer, exception)
            return
        self._keys = [key for key in keys if isinstance(key, dict)]
        self._fetched_at, self._is_failing = time.monotonic(), False


@functools.cache
def keys_of(issuer: str, url: str | None = None) -> Keys:
    """Return the keys of an issuer, at the address that it names in its metadata or at ``url``."""
    return Keys(issuer, url)


def find_jwks_url(issuer: str) -> str:
    """Return the address of an issuer's keys. Raises ValueError for none, OSError for no answer."""
    at = urlsplit(issuer.rstrip("/"))
    wrong = []
    # OpenID Connect Discovery, section 4, and RFC 8414, section 3.
    for path in (
        f"{at.path}/.well-known/openid-configuration",
        f"/.well-known/oauth-authorization-server{at.path}",
    ):
        url = f"{at.scheme}://{at.netloc}{path}"
        try:
            metadata = fetch(url)
            if metadata.get("issuer") == issuer:
                return str(metadata.get("jwks_uri"))
            wrong.append(f"{url} is of the issuer {str(metadata.get('issuer'))[:200]!r}")
        except ValueError as error:
            wrong.append(str(error))
    raise ValueError("; ".join(wrong))


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Follow none: the answer is then the error of its status."""


def fetch(url: str) -> Mapping[str, Any]:
    """Return a JSON object sent over https. Raises ValueError for none, OSError for no answer."""
    if not is_https_or_loopback(url):
        raise ValueError(f"{url} is not https")
    # Some providers refuse the user agent of urllib.
    headers = {"Accept": "application/json", "User-Agent": f"mcp_bridge/{mcp_bridge.__version__}"}
    until, body = time.monotonic() + DEADLINE, b""
    try:
        with build_opener(_NoRedirects).open(Request(url, headers=headers), None, DEADLINE) as sent:
            while part := sent.read1(65536):
                body += part
                if len(body) > MAX_BYTES:
                    raise ValueError(f"{url} answers with more than {MAX_BYTES} bytes")
                if time.monotonic() > until:
                    raise TimeoutError(f"{url} is too slow")
    except HTTPError as error:
        with error:
            raise ValueError(f"{url} answers with {error.code}") from None
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(body), dict):
            return found
    raise ValueError(f"{url} answers with no JSON object")
