"""The content of the consent page, and its safe display."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib.auth.hashers import make_password
from django.http import HttpRequest, HttpResponseBase
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from oauth2_provider.models import AbstractApplication
from oauth2_provider.scopes import get_scopes_backend

from mcp_bridge.access.policy import lacking, visible
from mcp_bridge.access.scopes import missing_scopes
from mcp_bridge.conf import conf
from mcp_bridge.outbound.addresses import LOOPBACK
from mcp_bridge.protocol.text import cut, shows

# The most characters shown of a client's name and of a host. A host's end identifies it, so none
# is cut: DNS names have at most 253.
MAX_NAME: Final = 80
MAX_HOST: Final = 300


def consent_context(
    request: HttpRequest, application: AbstractApplication, scopes: Iterable[str], redirect_uri: str
) -> dict[str, Any]:
    """
    Return the context of the consent page for a client that asks for scopes.

    ``tools`` are those of the user that all the scopes together allow.
    """
    scopes, texts = list(scopes), get_scopes_backend().get_all_scopes()
    granted, url = {"scope": " ".join(scopes)}, urlsplit(redirect_uri)
    found = visible(request.user)
    tools = [tool for tool in found if not missing_scopes(tool.access.scopes, granted)]
    return {
        **client_context(application),
        "redirect_host": host_of(redirect_uri),
        # Any program on the user's computer could receive the code.
        "is_local": url.scheme not in ("https", "http") or url.hostname in LOOPBACK,
        "permissions": [texts.get(each, each) for each in scopes],
        "tools": tools,
        "read_only_count": sum(tool.is_read_only for tool in tools),
        **site_context(request),
    }


def site_context(request: HttpRequest) -> dict[str, Any]:
    """Return the names of the site and the user of a request, and its address."""
    return {
        "site_name": conf.server_title,
        "user_name": request.user.get_username(),
        "address": request.get_full_path(),
    }


def client_context(application: AbstractApplication) -> dict[str, Any]:
    """
    Return the name of a client, whether an administrator vouches for it, and its publisher.

    ``published_by`` is the host of its metadata document, or "".
    """
    meta, sources = application._meta, application.RegistrationSource
    source, owner = application.registration_source, application.user
    # The toolkit's own pages let every user add a client, owned by them.
    needed = [f"{meta.app_label}.add_{meta.model_name}"]
    is_unverified = source != sources.MANUAL or owner is not None and any(lacking(owner, needed))
    return {
        "client_name": shown(application.name) or shown(application.client_id),
        "is_unverified": is_unverified,
        "published_by": host_of(application.client_id) if source == sources.CIMD else "",
    }


def shown(text: str, length: int = MAX_NAME) -> str:
    """Return a client's text on one line, truncated, without invisible characters."""
    # Truncated first, since cleaning a long text is slow.
    printable = "".join(letter if shows(letter) else " " for letter in text[: 10 * length])
    return cut(" ".join(printable.split()), length)


def without_secret(instance: Any, **kwargs: object) -> None:
    """Give a self-registering public client a secret that nothing matches."""
    is_made_here = instance.registration_source == instance.RegistrationSource.MANUAL
    if instance._state.adding and not is_made_here and instance.client_type == "public":
        # Hashing a secret takes half a second.
        instance.client_secret, instance.hash_client_secret = make_password(None), False


def host_of(uri: str) -> str:
    """
    Return the host of a URI with its port, or the whole text if it is not a URI.

    For schemes other than http and https, the scheme precedes or replaces the host.
    """
    try:
        url = urlsplit(uri)
    except ValueError:
        return shown(uri)
    host = url.netloc.rpartition("@")[2]
    if url.scheme not in ("https", "http"):
        host = f"{url.scheme}://{host}" if host else f"{url.scheme}:"
    return shown(host, MAX_HOST)


def protected(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """
    Return a view whose pages cannot be framed or cached, run no scripts and send no referrer.

    Middleware that sets a Content-Security-Policy for the site keeps one set by a view.
    """

    @never_cache
    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        url = urlsplit(static("mcp_bridge/page.css"))
        files = f"'self' {url.scheme}://{url.netloc}" if url.netloc else "'self'"
        # Without form-action: browsers apply it to the redirects after the form too, which go to
        # the client and beyond.
        response["Content-Security-Policy"] = (
            f"default-src {files}; script-src 'none'; object-src 'none'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        response["X-Frame-Options"] = "DENY"
        # With "no-referrer" browsers send "Origin: null", which fails the CSRF check.
        response["Referrer-Policy"] = "same-origin"
        return response

    return wrapper
