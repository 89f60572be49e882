"""Where the URLconf serves the endpoint; checks of that (W030, W031, W038), and of CORS (W032)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Final

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.core import checks
from django.urls import (
    LocalePrefixPattern,
    Resolver404,
    ResolverMatch,
    URLResolver,
    get_resolver,
    resolve,
)
from django.utils import translation
from django.utils.regex_helper import normalize

from mcp_bridge.conf import conf
from mcp_bridge.views import MCPView

NO_ADDRESS: Final = "No address of the URLconf serves the MCP endpoint"
ADD_ADDRESS: Final = (
    'Add path("", include("mcp_bridge.urls")) to the URLconf, before a pattern that takes every '
    'address; or path("models/mcp", MCPView.as_view()) for an address of your own.'
)


def endpoints() -> dict[str, type[MCPView]]:
    """Return the views of the endpoint by address; where that varies, a pattern stands for it."""
    with _usual_language():
        return dict(_served(get_resolver(), ""))


def reachable() -> dict[str, ResolverMatch]:
    """Return the addresses that do not vary at which the endpoint answers, each with its match."""
    with _usual_language():
        matches = {address: _resolved(address) for address in endpoints()}
    return {
        address: match for address, match in matches.items() if match and _view_class(match.func)
    }


def _usual_language() -> AbstractContextManager[object]:
    """Return a context with the language of a request that names none, for i18n_patterns()."""
    code = settings.LANGUAGE_CODE
    _, prefixes_default = is_language_prefix_patterns_used(settings.ROOT_URLCONF)
    if prefixes_default and "django.middleware.locale.LocaleMiddleware" in settings.MIDDLEWARE:
        # It activates one of LANGUAGES, such as "en" for "en-us".
        with suppress(LookupError):
            code = translation.get_supported_language_variant(code)
    return translation.override(code)


def check_urls(**kwargs: object) -> list[checks.CheckMessage]:
    """Return warnings of an endpoint without an address, or whose address is another view's."""
    addresses = endpoints()
    if not addresses:
        return [checks.Warning(f"{NO_ADDRESS}.", hint=ADD_ADDRESS, id="mcp_bridge.W030")]
    taken: dict[str, list[str]] = {}
    with _usual_language():
        matches = {address: _resolved(address) for address in addresses}
    for address, match in matches.items():
        if match is not None and not _view_class(match.func):
            answers = f"{match.view_name} (pattern {match.route})"
            taken.setdefault(answers, []).append(address)
    found: list[checks.CheckMessage] = [
        checks.Warning(
            f"The address {', '.join(those)} of the MCP endpoint is answered by {answers}, which "
            "stands before it in the URLconf.",
            hint='Put path("", include("mcp_bridge.urls")), or your own path of the endpoint, '
            "before that pattern.",
            id="mcp_bridge.W031",
        )
        for answers, those in taken.items()
    ]
    return [*found, *_languages(addresses), *_origins(addresses)]


def _served(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, type[MCPView]]]:
    """Yield the addresses of the endpoint, and its view; ``prefix`` is a regular expression."""
    for each in resolver.url_patterns:
        # As Django's own resolver joins them.
        regex = prefix + each.pattern.regex.pattern.removeprefix("^")
        if isinstance(each, URLResolver):
            yield from _served(each, regex)
        elif view := _view_class(each.callback):
            ((template, parameters), *_) = normalize(regex)
            if "|" in regex and not template:
                # Of alternatives Django makes no address.
                template, parameters = f"%({regex})s", [regex]
            yield f"/{template}" if parameters else f"/{template % ()}", view


def _languages(addresses: Iterable[str]) -> Iterator[checks.CheckMessage]:
    """Warn of an endpoint whose address has the language of the request in it."""
    with _usual_language():
        prefixes = {
            f"/{each.pattern.language_prefix}"
            for each in get_resolver().url_patterns
            if isinstance(each.pattern, LocalePrefixPattern) and each.pattern.language_prefix
        }
    below = [address for address in addresses if address.startswith(tuple(prefixes))]
    if below:
        yield checks.Warning(
            f"The MCP endpoint is below i18n_patterns() ({', '.join(below)}): its address is "
            "another one in each language, and clients keep one.",
            hint='Take include("mcp_bridge.urls") out of i18n_patterns(), and put it into '
            "urlpatterns itself.",
            id="mcp_bridge.W038",
        )


def _view_class(view: object) -> type[MCPView] | None:
    """Return the class of a view of the endpoint; decorators keep it, as they copy attributes."""
    found = getattr(view, "view_class", None)
    return found if isinstance(found, type) and issubclass(found, MCPView) else None


def _resolved(address: str) -> ResolverMatch | None:
    """Return what an address leads to; None for nothing, and for a pattern."""
    try:
        return None if "%(" in address else resolve(address)
    except Resolver404:
        return None


def _origins(addresses: dict[str, type[MCPView]]) -> Iterator[checks.CheckMessage]:
    """Warn of origins of django-cors-headers that the endpoint refuses."""
    applies = getattr(settings, "CORS_URLS_REGEX", "")
    if not any(re.match(applies, address) for address in addresses):
        return
    older = getattr(settings, "CORS_ORIGIN_WHITELIST", ())
    origins = getattr(settings, "CORS_ALLOWED_ORIGINS", older)
    refused = [origin for origin in origins if origin not in conf.ALLOWED_ORIGINS]
    if refused:
        yield checks.Warning(
            "CORS_ALLOWED_ORIGINS has origins whose calls the MCP endpoint refuses (403), since "
            f"MCP_BRIDGE['ALLOWED_ORIGINS'] does not name them: {', '.join(map(repr, refused))}.",
            hint="Add those that may call the endpoint to MCP_BRIDGE['ALLOWED_ORIGINS']. If others "
            "should not, leave the endpoint out of CORS_URLS_REGEX, or name mcp_bridge.W032 in "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W032",
        )
