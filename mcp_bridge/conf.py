"""
The setting MCP_BRIDGE: a dict whose keys are read on first use.

Changes of settings in tests take effect at once. The system checks validate each key strictly
against its annotation (mcp_bridge.E001, E002). See docs/reference/settings.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, MinLen
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

import mcp_bridge
from mcp_bridge.features.marks import SCOPE
from mcp_bridge.features.rates import parse_rate
from mcp_bridge.features.secrets import SENSITIVE, plain
from mcp_bridge.protocol import JSONObject

T = TypeVar("T")

# The documentation, for links in hints and messages.
DOCUMENTATION: Final = "https://django-mcp-bridge.readthedocs.io/"


class _Key(cached_property[Any]):
    """A key of MCP_BRIDGE; its value is cached on the instance."""

    def __init__(self, default: object) -> None:
        super().__init__(lambda conf: getattr(settings, "MCP_BRIDGE", {}).get(self.name, default))

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        self.name = name


def _key(default: T) -> T:
    return cast(T, _Key(default))


def check_resource(value: str) -> str:
    """Return the address of an endpoint. Raises ValueError if RFC 9728 does not allow it."""
    url = urlsplit(value)
    if url.scheme not in ("https", "http") or not url.netloc or "?" in value or "#" in value:
        raise ValueError(
            "MCP_BRIDGE['RESOURCE'] must be the endpoint's address as its clients write it, such "
            "as https://example.com/mcp, without a query or fragment"
        )
    return value


ScopeToken: TypeAlias = Annotated[str, Field(pattern=f"^{SCOPE.pattern}$")]


class ScopeOptions(TypedDict, total=False):
    """The description of a scope, for people, and the scopes that it includes."""

    description: Required[str]
    includes: Sequence[str]


_TOOLSET: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_toolset(name: str) -> str:
    """Return the name of a toolset. Raises ValueError if it cannot be part of a URL."""
    if not _TOOLSET.fullmatch(name):
        raise ValueError(
            f"MCP_BRIDGE['TOOLSETS'] has an invalid name {name!r}: it becomes part of a URL, so "
            "use 1 to 64 of the characters A-Z a-z 0-9 _ and -"
        )
    return name


ToolsetName: TypeAlias = Annotated[str, AfterValidator(check_toolset)]
# A text that may be a lazy translation.
Text: TypeAlias = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, Promise) else value)
]


class ToolsetOptions(TypedDict, total=False):
    """The tools of a toolset, and optionally its title and INSTRUCTIONS."""

    # A misspelt read_only would expose more tools than intended.
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    tools: Required[Sequence[str]]
    read_only: bool
    title: Text
    instructions: Text


def toolset_options(given: Any) -> Any:
    """Return the options of a toolset, which may be given as a plain list of tools."""
    return given if isinstance(given, Mapping) else {"tools": given}


class Audit:
    """The keys of AUDIT, their types and defaults."""

    ARGUMENTS: Literal["none", "redacted", "full"] = "none"
    ERRORS: bool = True
    WRITE: Literal["together", "now", "ahead"] = "together"
    REQUIRED: bool = False
    WRITE_AHEAD: bool = False
    MAX_ARGUMENTS_BYTES: Annotated[int, Ge(256)] = 16 * 1024
    SENSITIVE_NAMES: Sequence[Annotated[str, MinLen(1)]] = ()
    UNAUTHENTICATED: bool = True


# The sources that every site has unless SOURCES sets them to None.
DEFAULT_SOURCES: Final[Mapping[str, JSONObject]] = {
    "functions": {"BACKEND": "mcp_bridge.sources.functions.FunctionSource"},
    "rpc": {},
}


class Conf:
    """The keys of MCP_BRIDGE, their types and defaults."""

    SERVER_INFO: JSONObject = _key({})
    INSTRUCTIONS: str | None = _key(None)
    SOURCES: Mapping[str, JSONObject | None] = _key({})
    SKILLS: Mapping[str, JSONObject | None] = _key({})
    EXPOSE: Literal["marked", "all"] = _key("marked")
    TOOLSETS: Mapping[ToolsetName, Annotated[ToolsetOptions, BeforeValidator(toolset_options)]] = (
        _key({})
    )
    TOOL_NAME_STYLE: Literal["underscore", "dotted"] = _key("underscore")
    SCHEMA_STYLE: Literal["full", "google"] = _key("full")
    AUTHENTICATION_CLASSES: Sequence[str] = _key(
        ["mcp_bridge.tokens.authentication.TokenAuthentication"]
    )
    RESOURCE: Annotated[str, AfterValidator(check_resource)] | None = _key(None)
    AUTHORIZATION_SERVERS: Sequence[Annotated[str, MinLen(1)]] = _key([])
    SCOPES: Mapping[ScopeToken, str | ScopeOptions] = _key({})
    DEFAULT_SCOPES: Sequence[ScopeToken] = _key([])
    REQUIRE_AUDIENCE: bool = _key(True)
    ALLOW_ANONYMOUS: bool | None = _key(None)
    REST: bool = _key(True)
    LEGACY_ASK: Annotated[float, Gt(0)] | Literal[False] = _key(False)
    LEGACY_ASK_THREADS: Annotated[int, Ge(1)] = _key(2)
    DISCOVERY_PERMISSION: Annotated[str, MinLen(1)] | None = _key(None)
    ACCESS_POLICY: str = _key("mcp_bridge.access.AccessPolicy")
    NEW_TOOLS: Literal["enabled", "disabled"] = _key("enabled")
    APPROVE_DESTRUCTIVE: bool = _key(False)
    STATE_MAX_AGE: Annotated[float, Ge(0)] = _key(1)
    AUDIT: JSONObject | None = _key({})
    CONFIRMATION_MAX_AGE: Annotated[float, Ge(1)] = _key(600)
    FOUR_EYES: bool = _key(False)
    NOTIFY_HELD: Sequence[Annotated[str, MinLen(1)]] = _key([])
    ALLOWED_ORIGINS: Sequence[str] = _key([])
    ERROR_MAPPER: str | None = _key(None)
    INTERCEPTORS: Sequence[str] = _key([])
    THROTTLE_CLASSES: Sequence[str] = _key(["mcp_bridge.access.throttling.ToolRateThrottle"])
    THROTTLE_RATES: Mapping[str, Annotated[str, AfterValidator(parse_rate)] | None] = _key({})
    THROTTLE_WITHOUT_CACHE: Literal["open", "closed"] = _key("open")
    PAGE_SIZE: Annotated[int, Ge(1)] | None = _key(None)
    PAGE_BYTES: Annotated[int, Ge(1)] = _key(640 * 1024)
    BUILD: Literal["lazy", "eager"] = _key("lazy")
    CACHE_TTL: Annotated[int, Ge(0)] = _key(300)
    MAX_BODY_BYTES: Annotated[int, Ge(1)] = _key(1024 * 1024)
    MAX_RESULT_BYTES: Annotated[int, Ge(1)] = _key(5 * 1024 * 1024)
    CALL_TIMEOUT: Annotated[float, Gt(0)] | None = _key(None)
    TASK_BACKEND: str = _key("default")
    TASK_TTL: Annotated[float, Ge(1), Le(10 * 365 * 86400)] = _key(3600)
    PROGRESS_HEARTBEAT: Annotated[float, Gt(0)] | None = _key(10)
    REMOTE_SECRET_KEYS: Sequence[str] = _key([])
    REMOTE_ALLOWED_HOSTS: Sequence[Annotated[str, Field(pattern=r"^.+:[0-9]+$")]] = _key([])
    REMOTE_TOKEN_FOR: str | None = _key(None)
    MAX_CONCURRENT_CALLS: Annotated[int, Ge(1)] | None = _key(20)
    MAX_PROCESS_CALLS: Annotated[int, Ge(1)] | None = _key(80)
    MAX_PROCESS_REQUESTS: Annotated[int, Ge(1)] | None = _key(10)

    @cached_property
    def server_info(self) -> JSONObject:
        """SERVER_INFO (MCP's Implementation) with its defaults."""
        return {"name": "django-mcp-bridge", "version": mcp_bridge.__version__, **self.SERVER_INFO}

    @cached_property
    def has_translated_info(self) -> bool:
        """Whether a value of SERVER_INFO depends on the active language."""
        return any(isinstance(each, Promise) for each in self.server_info.values())

    @property
    def server_title(self) -> str:
        """The server's name for people."""
        return str(self.server_info.get("title") or self.server_info["name"])

    @cached_property
    def sources(self) -> Mapping[str, JSONObject]:
        """The sources of the app and of others (``mcp_sources``), and those of SOURCES, if set."""
        given = self.SOURCES if isinstance(self.SOURCES, Mapping) else {}
        of_apps = (getattr(each, "mcp_sources", {}) for each in apps.get_app_configs())
        known = dict(DEFAULT_SOURCES)
        for each in of_apps:
            known |= each
        # An entry with only OPTIONS keeps the default BACKEND.
        return {
            alias: {**known.get(alias, {}), **entry} if isinstance(entry, Mapping) else entry
            for alias, entry in {**known, **given}.items()
            if entry is not None
        }

    @cached_property
    def toolsets(self) -> Mapping[str, ToolsetOptions]:
        """TOOLSETS with options for each name, except names that the checks reject."""
        given = self.TOOLSETS if isinstance(self.TOOLSETS, Mapping) else {}
        return {
            name: toolset_options(each)
            for name, each in given.items()
            if isinstance(name, str) and _TOOLSET.fullmatch(name)
        }

    @cached_property
    def resources(self) -> Mapping[str | None, str]:
        """RESOURCE under None, and the address of each toolset; empty if RESOURCE is not set."""
        if not self.RESOURCE:
            return {}
        below = self.RESOURCE.rstrip("/")
        return {None: self.RESOURCE, **{name: f"{below}/{name}" for name in self.toolsets}}

    @cached_property
    def allow_anonymous(self) -> bool:
        """Whether anonymous callers are admitted; by default, if AUTHORIZATION_SERVERS is empty."""
        # Clients ask their user to log in only after a 401.
        given = self.ALLOW_ANONYMOUS
        return not self.AUTHORIZATION_SERVERS if given is None else given

    @cached_property
    def audit(self) -> Audit:
        """The keys of AUDIT as attributes, with their defaults."""
        audit = Audit()
        vars(audit).update(self.AUDIT or {})
        return audit

    @cached_property
    def sensitive_names(self) -> tuple[str, ...]:
        """Substrings of names that mark a value as secret, including SENSITIVE_NAMES."""
        return (*SENSITIVE, *filter(None, map(plain, self.audit.SENSITIVE_NAMES)))


conf = Conf()


def require_app(name: str) -> None:
    """Raise ImproperlyConfigured if an app is missing; the error of its models is less clear."""
    if not apps.is_installed(name):
        raise ImproperlyConfigured(
            f'{name} is not in INSTALLED_APPS: add "{name}" and run `manage.py migrate`.'
        )


@lru_cache(maxsize=64)
def imported(path: str) -> Any:
    """Return the object at a dotted path in a setting; it is imported once."""
    return import_string(path)


@receiver(setting_changed)
def forget(*, setting: str, **kwargs: object) -> None:
    """Clear the cached keys. Receiver of ``setting_changed``, which tests send."""
    imported.cache_clear()
    if setting == "MCP_BRIDGE":
        vars(conf).clear()
