"""The routes of a URLconf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from django.urls import ResolverMatch, URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern
from django.utils.regex_helper import normalize

from mcp_bridge.features import dotted_name

_CONVERTED: Final = re.compile(r"<(?:[^>:]+:)?([^>]+)>")
_REVERSED: Final = re.compile(r"%\((\w+)\)s")
_PLAIN: Final = str | int | float | None
_PLACE: Final = re.compile(r"\{(\w+)\}")


class UnreadableRoute(ValueError):
    """Raised if a route cannot be converted to a path."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """A route. ``callback`` is the view in the URLconf, with all of its decorators."""

    patterns: tuple[Any, ...] = ()
    callback: Any = None
    name: str = ""
    namespaces: tuple[str, ...] = ()
    app_names: tuple[str, ...] = ()
    # The extra arguments of the view in the URLconf.
    fixed: Mapping[str, object] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The template with the fixed arguments: the target of calls."""
        words = (
            f"{name}={repr(each) if isinstance(each, _PLAIN) else dotted_name(each)}"
            for name, each in sorted(self.fixed.items())
        )
        return " ".join((self.template, *words))

    @property
    def full_name(self) -> str:
        """The URL name with its namespaces ("wagtailapi:pages:listing"), or ""."""
        return ":".join((*self.namespaces, self.name)) if self.name else ""

    @property
    def pattern(self) -> str:
        """The concatenated patterns, in the active language."""
        return "".join(map(str, self.patterns))

    @property
    def route(self) -> str:
        """The route as in Django's ResolverMatch.route."""
        *before, route = map(str, self.patterns)
        for each in reversed(before):
            # A regular expression keeps its "^" only at the beginning.
            route = each + route.removeprefix("^") if each else route
        return route

    @property
    def template(self) -> str:
        """The path with ``{name}`` for each parameter, in the active language."""
        parts = (_template(isinstance(each, RoutePattern), str(each)) for each in self.patterns)
        return "/" + "".join(parts)

    @property
    def parameters(self) -> frozenset[str]:
        """The names in the path."""
        return frozenset(_PLACE.findall(self.template))

    def __str__(self) -> str:
        try:
            return self.template
        except UnreadableRoute:
            return f"/{self.pattern}"

    def path(self, values: Mapping[str, str]) -> str:
        """Return the path with values for its parameters, not percent-encoded."""
        return _PLACE.sub(lambda match: values[match[1]], self.template)

    def match(self) -> ResolverMatch:
        """Return a match without values, for code that reads its names."""
        named: dict[str, Any] = {"app_names": [*self.app_names]}
        named["namespaces"] = [*self.namespaces]
        return ResolverMatch(self.callback, (), {}, self.name or None, route=self.route, **named)


@lru_cache(maxsize=16384)
def _template(is_route: bool, pattern: str) -> str:
    """Return the part of a path for a pattern of the URLconf. Raises UnreadableRoute."""
    if is_route:
        return _CONVERTED.sub(r"{\1}", pattern)
    # Without optional parts, such as DRF's format suffix.
    try:
        text, names = min(normalize(pattern), key=lambda each: len(each[1]))
    except ValueError as error:
        raise UnreadableRoute(f"its regular expression cannot be reversed: {error}") from None
    if any(name.startswith("_") for name in names):
        raise UnreadableRoute("it has unnamed groups: write (?P<name>...) or (?:...)")
    if not text and pattern.strip("^$"):
        raise UnreadableRoute("it has alternatives outside of a named group: write two routes")
    return _REVERSED.sub(r"{\1}", text)


def routes(urlconf: Any) -> Iterator[Route]:
    """Yield each route of a URLconf."""
    return _walk(get_resolver(urlconf).url_patterns, Route())


def wrapped(callback: Any) -> Iterator[Any]:
    """Yield a callback and the functions it wraps (``functools.wraps``)."""
    while callback is not None:
        yield callback
        callback = getattr(callback, "__wrapped__", None)


def _walk(patterns: Iterable[URLPattern | URLResolver], above: Route) -> Iterator[Route]:
    for each in patterns:
        own = each.default_kwargs if isinstance(each, URLResolver) else each.default_args
        passed, fixed = (*above.patterns, each.pattern), {**above.fixed, **(own or {})}
        here = replace(above, patterns=passed, fixed=fixed)
        if isinstance(each, URLResolver):
            namespaces = (*above.namespaces, *filter(None, [each.namespace]))
            app_names = (*above.app_names, *filter(None, [each.app_name]))
            here = replace(here, namespaces=namespaces, app_names=app_names)
            yield from _walk(each.url_patterns, here)
        else:
            yield replace(here, callback=each.callback, name=each.name or "")
