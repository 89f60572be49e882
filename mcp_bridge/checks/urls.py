"""The endpoint's URLs; checks of these (W030, W031, W038), and of CORS (W032)."""

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

NO_ADDRESS: Final = "The URLconf does not serve the MCP endpoint"
ADD_ADDRESS: Final = (
    'Add path("", include("mcp_bridge.urls")) to the URLconf, before any catch-all pattern, '
    'or path("models/mcp", MCPView.as_view()) for a different address.'
)


class _Place(NamedTuple):
    """The endpoint's view at an address, and the view that answers there (None for patterns)."""

    view: type[MCPView]
    match: ResolverMatch | None
    is_localized: bool

    @property
    def is_reached(self) -> bool:
        return self.match is not None and _view_class(self.match.func) is not None


def endpoints() -> dict[str, type[MCPView]]:
    """Return the endpoint's views by address; addresses that vary are given as patterns."""
    return {address: place.view for address, place in _places().items()}


def reachable() -> dict[str, ResolverMatch]:
    """Return the fixed addresses at which the endpoint answers, each with its match."""
    places = _places().items()
    return {address: each.match for address, each in places if each.match and each.is_reached}


def _places() -> dict[str, _Place]:
    """Return the endpoint's addresses, for a request without a language."""
    code = settings.LANGUAGE_CODE
    _, prefixes_default = is_language_prefix_patterns_used(settings.ROOT_URLCONF)
    if prefixes_default and "django.middleware.locale.LocaleMiddleware" in settings.MIDDLEWARE:
        # Activates one of LANGUAGES, such as "en" for "en-us".
        with suppress(LookupError):
            code = translation.get_supported_language_variant(code)
    with translation.override(code):
        return dict(_served(get_resolver(), ""))


def _served(
    resolver: URLResolver, prefix: str, *, is_localized: bool = False
) -> Iterator[tuple[str, _Place]]:
    """Yield the endpoint's addresses and places; ``prefix`` is a regular expression."""
    for each in resolver.url_patterns:
        # Joined like Django's resolver does.
        regex = prefix + each.pattern.regex.pattern.removeprefix("^")
        if isinstance(each, URLResolver):
            pattern = each.pattern
            has_prefix = isinstance(pattern, LocalePrefixPattern) and bool(pattern.language_prefix)
            yield from _served(each, regex, is_localized=is_localized or has_prefix)
        elif view := _view_class(each.callback):
            ((template, parameters), *_) = normalize(regex)
            if "|" in regex and not template:
                # Django cannot reverse alternatives.
                template, parameters = f"%({regex})s", [regex]
            address, match = f"/{template}" if parameters else f"/{template % ()}", None
            with suppress(Resolver404):
                match = None if "%(" in address else get_resolver().resolve(address)
            yield address, _Place(view, match, is_localized)


def check_urls(**kwargs: object) -> list[checks.CheckMessage]:
    """Return warnings of an endpoint without a URL, or hidden by another view."""
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
            "precedes it in the URLconf.",
            hint='Put path("", include("mcp_bridge.urls")), or your own path of the endpoint, '
            "before that pattern.",
            id="mcp_bridge.W031",
        )
        for answers, those in taken.items()
    ]
    if below := [address for address, place in places.items() if place.is_localized]:
        localized = checks.Warning(
            f"The MCP endpoint is below i18n_patterns() ({', '.join(below)}): its address differs "
            "between languages, but clients use one.",
            hint='Move include("mcp_bridge.urls") from i18n_patterns() to urlpatterns.',
            id="mcp_bridge.W038",
        )
        found.append(localized)
    return [*found, *_origins(places)]


def _view_class(view: object) -> type[MCPView] | None:
    """Return the class of an endpoint's view; decorators preserve it by copying attributes."""
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
            "CORS_ALLOWED_ORIGINS has origins that the MCP endpoint refuses (403), since they are "
            f"not in MCP_BRIDGE['ALLOWED_ORIGINS']: {', '.join(map(repr, refused))}.",
            hint="Add those that may call the endpoint to MCP_BRIDGE['ALLOWED_ORIGINS']. For the "
            "others, exclude the endpoint from CORS_URLS_REGEX, or add mcp_bridge.W032 to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W032",
        )
