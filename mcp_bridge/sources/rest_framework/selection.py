"""Which endpoints are tools: by marks in the code, and by lines in the setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.features import ToolOptions
from mcp_bridge.features.marks import options_in, toolset_of
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.operations.mapping import HINTS
from mcp_bridge.sources.rest_framework.endpoints import Endpoint

# Apps whose views make, change or return secrets: none of theirs is offered by itself.
NEVER: Final = frozenset(
    (
        *("allauth", "dj_rest_auth", "djoser", "knox", "mcp_bridge", "oauth2_provider"),
        *("rest_framework.authtoken", "rest_framework_simplejwt", "two_factor"),
    )
)


class Excluded(ValueError):
    """The site says that an endpoint is in no schema."""


@dataclass(kw_only=True)
class Line:
    """
    An entry of OPTIONS["views"]: URL names with namespaces, or the dotted path of one view.

    ``actions`` are None where all are meant; ``unused`` are those that no endpoint has had. What
    handles credentials is taken by no pattern; ``left_out`` are those endpoints.
    """

    pattern: str
    options: ToolOptions
    actions: frozenset[str] | None
    prefix: str
    is_used: bool = False
    unused: set[str] = field(default_factory=set)
    left_out: list[Endpoint] = field(default_factory=list)

    @classmethod
    def of(cls, pattern: str, given: Any) -> Line:
        """Return the entry. Raises TypeError and ValueError for what it cannot have."""
        where = f"views[{pattern!r}]"
        if not isinstance(given, Mapping):
            raise TypeError(f"its option {where} is no dict")
        options = dict(given)
        actions, prefix = options.pop("actions", None), options.pop("prefix", "")
        is_list = actions is None or (
            not isinstance(actions, str) and all(isinstance(each, str) for each in actions)
        )
        if not is_list:
            raise TypeError(f"in its option {where}, 'actions' is no list of names")
        if not isinstance(prefix, str):
            raise TypeError(f"in its option {where}, 'prefix' is no string")
        named = None if actions is None else frozenset(actions)
        return cls(
            pattern=pattern,
            options=options_in(where, options),
            actions=named,
            prefix=prefix,
            unused=set(named or ()),
        )

    def takes(self, endpoint: Endpoint) -> bool:
        """Return whether the entry makes a tool of an endpoint, and remember that it has."""
        route = endpoint.route
        is_named = bool(route.full_name) and fnmatchcase(route.full_name, self.pattern)
        if not is_named and endpoint.place != self.pattern:
            return False
        self.is_used = True
        if self.is_pattern and is_never_offered(endpoint):
            self.left_out.append(endpoint)
            return False
        names = {endpoint.action, endpoint.method.lower()}
        self.unused -= names
        return self.actions is None or not names.isdisjoint(self.actions)

    @property
    def is_pattern(self) -> bool:
        """Whether it names no endpoint by itself, but any that have names like it."""
        return self.actions is None and any(each in self.pattern for each in "*?[")


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """An endpoint that is to be a tool; ``is_named`` unless a pattern alone has chosen it."""

    endpoint: Endpoint
    options: ToolOptions
    prefixes: tuple[str, ...] = ()
    # In place of what the name would begin with.
    stem: str | None = None
    is_named: bool = True


def select(endpoint: Endpoint, lines: Iterable[Line]) -> Selected | None:
    """
    Return an endpoint with the options of its marks and of the setting; None if nothing says so.

    Of an option, that of the setting wins over that of the class, and the method's own over both;
    permissions and scopes add up. Raises ValueError where they contradict each other.
    """
    toolset = toolset_of(endpoint.route.kind)
    names = {endpoint.action, endpoint.method.lower()}
    is_chosen = is_named = toolset is not None and not names.isdisjoint(toolset.actions)
    shared = None if toolset is None else toolset.options
    prefixes: list[str] = []
    for line in lines:
        if line.takes(endpoint):
            is_chosen, is_named = True, is_named or not line.is_pattern
            shared = line.options.under(shared) if shared else line.options
            prefixes += [line.prefix] if line.prefix else []
    mark = endpoint.mark
    if mark is None and not is_chosen:
        return None
    options = mark.under(shared) if mark and shared else mark or shared
    assert options is not None
    return Selected(
        endpoint=endpoint,
        options=options,
        prefixes=tuple(prefixes),
        stem=None if toolset is None else toolset.prefix,
        is_named=is_named or mark is not None,
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
