"""Where the URLconf serves the endpoint; checks of that (W030, W031, W038), and of CORS (W032)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.core import checks
from django.urls import LocalePrefixPattern, Resolver404, ResolverMatch, URLResolver, get_resolver
from django.utils import translation
from django.utils.regex_helper import normalize

from mcp_bridge.conf import conf
from mcp_bridge.views import MCPView

NO_ADDRESS: Final = "No address of the URLconf serves the MCP endpoint"
ADD_ADDRESS: Final = (
    'Add path("", include("mcp_bridge.urls")) to the URLconf, before a pattern that takes every '
    'address; or path("models/mcp", MCPView.as_view()) for an address of your own.'
)


class _Place(NamedTuple):
    """The view of the endpoint at an address, and what answers there; None for a pattern."""

    view: type[MCPView]
    match: ResolverMatch | None
    is_localized: bool

    @property
    def is_reached(self) -> bool:
        return self.match is not None and _view_class(self.match.func) is not None


def endpoints() -> dict[str, type[MCPView]]:
    """Return the views of the endpoint by address; where that varies, a pattern stands for it."""
    return {address: place.view for address, place in _places().items()}


def reachable() -> dict[str, ResolverMatch]:
    """Return the addresses that do not vary at which the endpoint answers, each with its match."""
    places = _places().items()
    return {address: each.match for address, each in places if each.match and each.is_reached}


def _places() -> dict[str, _Place]:
    """Return what is known of each address of the endpoint, for a request without a language."""
    code = settings.LANGUAGE_CODE
    _, prefixes_default = is_language_prefix_patterns_used(settings.ROOT_URLCONF)
    if prefixes_default and "django.middleware.locale.LocaleMiddleware" in settings.MIDDLEWARE:
        # It activates one of LANGUAGES, such as "en" for "en-us".
        with suppress(LookupError):
            code = translation.get_supported_language_variant(code)
    with translation.override(code):
        return dict(_served(get_resolver(), ""))


def _served(
    resolver: URLResolver, prefix: str, *, is_localized: bool = False
) -> Iterator[tuple[str, _Place]]:
    """Yield the addresses of the endpoint, and their places; ``prefix`` is a regular expression."""
    for each in resolver.url_patterns:
        # As Django's own resolver joins them.
        regex = prefix + each.pattern.regex.pattern.removeprefix("^")
        if isinstance(each, URLResolver):
            pattern = each.pattern
            has_prefix = isinstance(pattern, LocalePrefixPattern) and bool(pattern.language_prefix)
            yield from _served(each, regex, is_localized=is_localized or has_prefix)
        elif view := _view_class(each.callback):
            ((template, parameters), *_) = normalize(regex)
            if "|" in regex and not template:
                # Of alternatives Django makes no address.
                template, parameters = f"%({regex})s", [regex]
            address, match = f"/{template}" if parameters else f"/{template % ()}", None
            with suppress(Resolver404):
                match = None if "%(" in address else get_resolver().resolve(address)
            yield address, _Place(view, match, is_localized)


def check_urls(**kwargs: object) -> list[checks.CheckMessage]:
    """Return warnings of an endpoint without an address, or whose address is another view's."""
    places = _places()
    if not places:
        return [checks.Warning(f"{NO_ADDRESS}.", hint=ADD_ADDRESS, id="mcp_bridge.W030")]
    taken: dict[str, list[str]] = {}
    for address, place in places.items():
        if place.match is not None and not place.is_reached:
            answers = f"{place.match.view_name} (pattern {place.match.route})"
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
    if below := [address for address, place in places.items() if place.is_localized]:
        localized = checks.Warning(
            f"The MCP endpoint is below i18n_patterns() ({', '.join(below)}): its address is "
            "another one in each language, and clients keep one.",
            hint='Take include("mcp_bridge.urls") out of i18n_patterns(), and put it into '
            "urlpatterns itself.",
            id="mcp_bridge.W038",
        )
        found.append(localized)
    return [*found, *_origins(places)]


def _view_class(view: object) -> type[MCPView] | None:
    """Return the class of a view of the endpoint; decorators keep it, as they copy attributes."""
    found = getattr(view, "view_class", None)
    return found if isinstance(found, type) and issubclass(found, MCPView) else None


def _origins(addresses: Iterable[str]) -> Iterator[checks.CheckMessage]:
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
