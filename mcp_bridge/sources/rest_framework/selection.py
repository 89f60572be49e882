"""The endpoints that are tools: by marks in the code, and by lines in the setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.features import ToolOptions
from mcp_bridge.features.marks import toolset_of
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.base import Line
from mcp_bridge.sources.operations.mapping import HINTS
from mcp_bridge.sources.rest_framework.endpoints import Endpoint

# Apps whose views make, change or return secrets: none of theirs is offered by itself.
NEVER: Final = frozenset(
    (
        *("allauth", "dj_rest_auth", "djoser", "knox", "mcp_bridge", "oauth2_provider"),
        *("rest_framework.authtoken", "rest_framework_simplejwt", "two_factor"),
    )
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """
    An endpoint with the marks and the lines of the setting that are of it, if any.

    ``layers`` are the options of the method's mark, of lines from the last on, and of the class.
    ``stem`` stands for what its name would begin with. It is named unless a pattern alone chooses
    it.
    """

    endpoint: Endpoint
    layers: tuple[ToolOptions, ...]
    prefixes: tuple[str, ...]
    stem: str | None
    is_named: bool

    @property
    def options(self) -> ToolOptions | None:
        """The options of all layers; None without any. Raises ValueError where two disagree."""
        return reduce(ToolOptions.under, self.layers) if self.layers else None

    @property
    def name(self) -> str | None:
        """The name that somebody has given it."""
        return next((each.name for each in self.layers if each.name is not None), None)

    def __str__(self) -> str:
        return str(self.endpoint)


def select(endpoint: Endpoint, lines: Iterable[Line]) -> Selected:
    """
    Return an endpoint with its marks, and the lines that mean it.

    Of an option, that of the setting wins over that of the class, and the method's own over both;
    permissions and scopes add up.
    """
    toolset, mark = toolset_of(endpoint.route.kind), endpoint.mark
    names = {endpoint.action, endpoint.method.lower()}
    is_named = mark is not None or (toolset is not None and not names.isdisjoint(toolset.actions))
    places = [each for each in (endpoint.place, endpoint.route.full_name) if each]
    is_guarded, meant = is_never_offered(endpoint), list[Line]()
    for line in lines:
        actions = line.more.get("actions", names)
        is_other = names.isdisjoint(actions)
        if line.means(places, guarded=is_guarded and not is_other):
            line.seen.update(names)
            if not is_other:
                meant.append(line)
                is_named |= line.pattern in places or "actions" in line.more
    layers = [mark, *(each.options for each in reversed(meant))]
    if toolset is not None and (meant or is_named):
        layers.append(toolset.options)
    return Selected(
        endpoint=endpoint,
        layers=tuple(each for each in layers if each is not None),
        prefixes=tuple(each.more["prefix"] for each in meant if each.more.get("prefix")),
        stem=None if toolset is None else toolset.prefix,
        is_named=is_named,
    )


def hints_of(endpoint: Endpoint) -> Mapping[str, bool]:
    """Return what an endpoint promises by its method, and by the action that DRF has for it."""
    hints = HINTS.get(endpoint.method.lower(), {})
    return {**hints, "destructiveHint": False} if endpoint.action == "create" else hints


def is_never_offered(endpoint: Endpoint) -> bool:
    """Return whether a view handles credentials: by its app or a base's, its name or its path."""
    route = endpoint.route
    kind: Any = route.kind
    names = (kind.__name__, route.full_name, str(route))
    return _is_of_credentials(kind) or any(
        deals_with_secrets(name, conf.sensitive_names) for name in names
    )


# Many routes lead to one class.
@lru_cache(maxsize=4096)
def _is_of_credentials(kind: type) -> bool:
    modules = {base.__module__ for base in kind.__mro__}
    return any(f"{module}.".startswith(f"{app}.") for module in modules for app in NEVER)
