"""
The setting MCP_BRIDGE: one dict, a property for each key, read when it is first used.

A setting that a test changes holds at once. The annotation of a property is the type of its key,
by which the system checks validate it, strictly (mcp_bridge.E001, E002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, TypeVar

from annotated_types import Ge, MinLen
from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver

import mcp_bridge
from mcp_bridge.protocol import JSONObject

T = TypeVar("T")


class Audit:
    """The keys of AUDIT, their types and defaults; docs/settings.md says what each is for."""

    ARGUMENTS: Literal["none", "redacted", "full"] = "none"
    REQUIRED: bool = False
    WRITE_AHEAD: bool = False
    MAX_ARGUMENTS_BYTES: Annotated[int, Ge(256)] = 16 * 1024
    SENSITIVE_NAMES: Sequence[Annotated[str, MinLen(1)]] = ()
    UNAUTHENTICATED: bool = True


class Conf:
    """Every key of MCP_BRIDGE, with its default."""

    @cached_property
    def SERVER_INFO(self) -> JSONObject:
        """MCP's Implementation: "name" and "version" of this site, as clients show them."""
        return {
            "name": "django-mcp-bridge",
            "version": mcp_bridge.__version__,
            **self._get("SERVER_INFO", {}),
        }

    @cached_property
    def INSTRUCTIONS(self) -> str | None:
        """A text for models about the tools as a whole, or a lazy translation; None for none."""
        return self._get("INSTRUCTIONS", None)

    @cached_property
    def SOURCES(self) -> Mapping[str, JSONObject]:
        """Where tools come from: an alias to {"BACKEND": dotted path, "OPTIONS": {...}}."""
        rpc = {"BACKEND": "mcp_bridge.sources.modernrpc.ModernRPCSource"}
        return self._get("SOURCES", {"rpc": rpc})

    @cached_property
    def TOOL_NAME_STYLE(self) -> Literal["underscore", "dotted"]:
        """How a procedure's name becomes a tool's: articles_list, or articles.list as it is."""
        return self._get("TOOL_NAME_STYLE", "underscore")

    @cached_property
    def SCHEMA_STYLE(self) -> Literal["full", "google"]:
        """Whether clients are sent whole schemas, or without keywords that Google's refuse."""
        return self._get("SCHEMA_STYLE", "full")

    @cached_property
    def AUTHENTICATION_CLASSES(self) -> Sequence[str]:
        """Dotted paths of DRF authentication classes, tried in order."""
        tokens = "mcp_bridge.tokens.authentication.TokenAuthentication"
        return self._get("AUTHENTICATION_CLASSES", [tokens])

    @cached_property
    def ACCESS_POLICY(self) -> str:
        """Dotted path of the AccessPolicy that decides who may see and call a tool."""
        return self._get("ACCESS_POLICY", "mcp_bridge.access.AccessPolicy")

    @cached_property
    def NEW_TOOLS(self) -> Literal["enabled", "disabled"]:
        """Whether a tool that is new in the code is served at once, or waits for approval."""
        return self._get("NEW_TOOLS", "enabled")

    @cached_property
    def APPROVE_DESTRUCTIVE(self) -> bool:
        """Whether a changed destructive tool is withheld until it is approved again."""
        return self._get("APPROVE_DESTRUCTIVE", False)

    @cached_property
    def STATE_MAX_AGE(self) -> Annotated[float, Ge(0)]:
        """How long a process may not know of a change in the admin, in seconds."""
        return self._get("STATE_MAX_AGE", 1)

    @cached_property
    def AUDIT(self) -> JSONObject | None:
        """How calls are recorded, by the keys of ``Audit``; None to record nothing."""
        return self._get("AUDIT", {})

    @cached_property
    def CONFIRMATION_MAX_AGE(self) -> Annotated[float, Ge(1)]:
        """How long an answer, or an approval of a call, may be used, in seconds."""
        return self._get("CONFIRMATION_MAX_AGE", 600)

    @cached_property
    def FOUR_EYES(self) -> bool:
        """Whether nobody may agree to their own calls, neither in a client nor in the admin."""
        return self._get("FOUR_EYES", False)

    @cached_property
    def ALLOWED_ORIGINS(self) -> Sequence[str]:
        """Origins ("https://example.com") that may call besides the site's own."""
        return self._get("ALLOWED_ORIGINS", [])

    @cached_property
    def ERROR_MAPPER(self) -> str | None:
        """Dotted path of a function (exception, call) -> str | None: a text for the model."""
        return self._get("ERROR_MAPPER", None)

    @cached_property
    def THROTTLE_CLASSES(self) -> Sequence[str]:
        """Dotted paths of DRF throttle classes; a ToolRateThrottle counts calls of tools."""
        return self._get("THROTTLE_CLASSES", ["mcp_bridge.access.throttling.ToolRateThrottle"])

    @cached_property
    def THROTTLE_RATES(self) -> Mapping[str, str | None]:
        """Rates ("20/min") by a tool's name, a mark's, a class's scope, or "tools" for the rest."""
        return self._get("THROTTLE_RATES", {})

    @cached_property
    def THROTTLE_WITHOUT_CACHE(self) -> Literal["open", "closed"]:
        """Whether calls and requests that have a rate go on or are refused without the cache."""
        return self._get("THROTTLE_WITHOUT_CACHE", "open")

    @cached_property
    def PAGE_SIZE(self) -> Annotated[int, Ge(1)]:
        """How many tools one page of tools/list holds."""
        return self._get("PAGE_SIZE", 500)

    @cached_property
    def CACHE_TTL(self) -> Annotated[int, Ge(0)]:
        """How long clients may keep the tool list, in seconds."""
        return self._get("CACHE_TTL", 300)

    @cached_property
    def MAX_BODY_BYTES(self) -> Annotated[int, Ge(1)]:
        """The largest request body that is read, in bytes."""
        return self._get("MAX_BODY_BYTES", 1024 * 1024)

    @cached_property
    def MAX_RESULT_BYTES(self) -> Annotated[int, Ge(1)]:
        """The largest result that is sent, in bytes; a larger one is an error to the model."""
        return self._get("MAX_RESULT_BYTES", 5 * 1024 * 1024)

    @cached_property
    def COERCE_STRINGIFIED(self) -> bool:
        """Whether a string of JSON is taken where the schema wants an object or an array."""
        return self._get("COERCE_STRINGIFIED", False)

    @cached_property
    def audit(self) -> Audit:
        """The keys of AUDIT as attributes, with their defaults."""
        audit = Audit()
        vars(audit).update(self.AUDIT or {})
        return audit

    def _get(self, key: str, default: T) -> T:
        value: T = getattr(settings, "MCP_BRIDGE", {}).get(key, default)
        return value

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all keys."""
        return [name for name in vars(cls) if name.isupper()]


conf = Conf()


@receiver(setting_changed)
def forget(*, setting: str, **kwargs: object) -> None:
    """Have the next use of each key read it again. Receives Django's signal, which tests send."""
    if setting == "MCP_BRIDGE":
        vars(conf).clear()
