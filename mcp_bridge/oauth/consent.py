"""What a person reads before a client may act as them, and how it is shown safely."""

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
from mcp_bridge.access.scopes import features_by_scope, missing_scopes
from mcp_bridge.conf import conf
from mcp_bridge.outbound.addresses import LOOPBACK
from mcp_bridge.protocol.text import cut, shows

# Characters that a page shows of a client's name; and of a host, whose end says whose it is: names
# in the DNS have 253 at most.
MAX_NAME: Final = 80
MAX_HOST: Final = 300


def consent_context(
    request: HttpRequest, application: AbstractApplication, scopes: Iterable[str], redirect_uri: str
) -> dict[str, Any]:
    """
    Return what the consent page says of a client that asks the user of a request for scopes.

    ``tools`` counts those that this user may call under a scope, with the scopes that it includes;
    None for a scope that no tool needs. ``tool_count`` has those that need no scope as well.
    """
    scopes, texts = list(scopes), get_scopes_backend().get_all_scopes()
    tools, needing = visible(request.user), features_by_scope()
    names = {tool.name for tool in tools}

    def tools_under(scope: str) -> int | None:
        included = [each for each in needing if not missing_scopes([each], {"scope": scope})]
        found = {tool.name for each in included for tool in needing[each]}
        return len(names & found) if included else None

    granted, url = {"scope": " ".join(scopes)}, urlsplit(redirect_uri)
    return {
        **client_context(application),
        "redirect_host": host_of(redirect_uri),
        # A program on the user's own computer takes the code: any may.
        "is_local": url.scheme not in ("https", "http") or url.hostname in LOOPBACK,
        "permissions": [
            {"text": texts.get(each, each), "tools": tools_under(each)} for each in scopes
        ],
        "tool_count": sum(not missing_scopes(tool.access.scopes, granted) for tool in tools),
        **site_context(request),
    }


def site_context(request: HttpRequest) -> dict[str, Any]:
    """Return the names of the site and of the user of a request, and its address."""
    return {
        "site_name": conf.server_title,
        "user_name": request.user.get_username(),
        "address": request.get_full_path(),
    }


def client_context(application: AbstractApplication) -> dict[str, Any]:
    """
    Return the name of a client, whether an administrator vouches for it, and who publishes it.

    ``published_by`` is the host of its metadata document, empty if it has none.
    """
    meta, sources = application._meta, application.RegistrationSource
    source, owner = application.registration_source, application.user
    # Pages of django-oauth-toolkit let every user make a client, which is then theirs.
    needed = [f"{meta.app_label}.add_{meta.model_name}"]
    is_unverified = source != sources.MANUAL or owner is not None and any(lacking(owner, needed))
    return {
        "client_name": shown(application.name) or shown(application.client_id),
        "is_unverified": is_unverified,
        "published_by": host_of(application.client_id) if source == sources.CIMD else "",
    }


def shown(text: str, length: int = MAX_NAME) -> str:
    """Return the text of a client on one line, cut, without characters that show nothing."""
    # Cut first, since cleaning a long text is slow.
    printable = "".join(letter if shows(letter) else " " for letter in text[: 10 * length])
    return cut(" ".join(printable.split()), length)


def without_secret(instance: Any, **kwargs: object) -> None:
    """Give a public client that registers itself a secret that nothing matches."""
    is_made_here = instance.registration_source == instance.RegistrationSource.MANUAL
    if instance._state.adding and not is_made_here and instance.client_type == "public":
        # Hashing one takes half a second.
        instance.client_secret, instance.hash_client_secret = make_password(None), False


def host_of(uri: str) -> str:
    """
    Return the host of a URI with its port, and all of a text that is none.

    Before the host of other schemes than those of the web, or in its place, stands the scheme.
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
    Return a view whose pages are in no frame and no cache, run no script and tell nobody of them.

    Middleware that has a Content-Security-Policy for the site leaves one that a view has set.
    """

    @never_cache
    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        url = urlsplit(static("mcp_bridge/page.css"))
        files = f"'self' {url.scheme}://{url.netloc}" if url.netloc else "'self'"
        # Without form-action: browsers hold it against each redirect after the form as well, which
        # goes to the client, and from there on.
        response["Content-Security-Policy"] = (
            f"default-src {files}; script-src 'none'; object-src 'none'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        response["X-Frame-Options"] = "DENY"
        # With "no-referrer" browsers send "Origin: null", which is no origin of a CSRF check.
        response["Referrer-Policy"] = "same-origin"
        return response

    return wrapper
