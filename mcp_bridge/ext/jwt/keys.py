"""Find, fetch and cache the signing keys of an issuer (RFC 7517)."""

from __future__ import annotations

import functools
import json
import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from rest_framework.exceptions import APIException

import mcp_bridge
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.ext.jwt.keys")

# In seconds: the longest wait of a request for keys, the age at which they are fetched again, and
# the minimum interval between fetches.
DEADLINE: Final = 5.0
MAX_AGE: Final = 600.0
MIN_INTERVAL: Final = 10.0
MAX_BYTES: Final = 512 * 1024


class KeysUnavailable(APIException):
    """Raised if an issuer's keys were never fetched, so its tokens cannot be verified."""

    status_code = 503
    default_detail = "The issuer's keys cannot be fetched at the moment."
    wait = MIN_INTERVAL


class Keys:
    """
    The keys of one issuer.

    One thread at a time fetches them, at most every MIN_INTERVAL seconds, so that neither a slow
    issuer nor tokens with invented key ids keep the site busy. Known keys stay in use while the
    issuer is unavailable. (PyJWT's client drops them then, makes every caller wait for a fetch, and
    restricts an RSA key without an algorithm to RS256.)
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
        Return the keys with this ``kid``, as JWKs, after fetching them if old or unknown.

        Raises KeysUnavailable until keys have been fetched once.
        """
        if not self._with_id(kid) or time.monotonic() - self._fetched_at > MAX_AGE:
            with self._lock:
                is_due = time.monotonic() - self._tried_at >= MIN_INTERVAL
                if is_due and not self._thread.is_alive():
                    self._tried_at = time.monotonic()
                    self._thread = threading.Thread(target=self._fetch, daemon=True)
                    self._thread.start()
                thread = self._thread
            # With old keys, requests do not wait for an issuer that failed last time.
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
                raise ValueError(f"{url} does not return a JWK Set")
        except Exception as exception:
            # Catch everything, so that the next fetch is attempted.
            self._is_failing = True
            logger.error("The keys of %s could not be fetched: %s", self._issuer, exception)
            return
        self._keys = [key for key in keys if isinstance(key, dict)]
        self._fetched_at, self._is_failing = time.monotonic(), False


@functools.cache
def keys_of(issuer: str, url: str | None = None) -> Keys:
    """Return the keys of an issuer, from ``url`` or the URL in its metadata."""
    return Keys(issuer, url)


def find_jwks_url(issuer: str) -> str:
    """Return the URL of an issuer's keys. Raises ValueError if unknown, OSError if unreachable."""
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
            wrong.append(f"{url} names the issuer {str(metadata.get('issuer'))[:200]!r}")
        except ValueError as error:
            wrong.append(str(error))
    raise ValueError("; ".join(wrong))


def fetch(url: str) -> Mapping[str, Any]:
    """Return a JSON object from an https URL. Raises ValueError and OSError."""
    if not is_https_or_loopback(url):
        raise ValueError(f"{url} is not https")
    # Some providers refuse the user agent of urllib.
    headers = {"Accept": "application/json", "User-Agent": f"mcp_bridge/{mcp_bridge.__version__}"}
    # Without urllib's other handlers, redirects are not followed.
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    until, body = time.monotonic() + DEADLINE, b""
    with opener.open(Request(url, headers=headers), None, DEADLINE) as sent:
        if not 200 <= sent.status < 300:
            raise ValueError(f"{url} answers with {sent.status}")
        while part := sent.read1(65536):
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError(f"{url} answers with more than {MAX_BYTES} bytes")
            if time.monotonic() > until:
                raise TimeoutError(f"{url} is too slow")
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(body), dict):
            return found
    raise ValueError(f"{url} does not return a JSON object")
