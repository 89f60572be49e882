"""
System checks: what is wrong with the setting, and with what the sources found.

    E001  an unknown key in MCP_BRIDGE        E002  a value of a wrong type in MCP_BRIDGE
    E003  a BACKEND that cannot be used       E004  a server that is no RpcServer
    E005  an illegal tool name                E006  a marked function that cannot be a tool
    E007  two tools with one name             E008  a class or function that cannot be imported
    W001  a hint that cannot be resolved      W002  a tool without a description
    W011  a permission that no model declares W012  a source without a marked procedure

Of throttles (mcp_bridge.checks.throttling):

    E020  a class that is no throttle         E021  a mark's rate that is not set
    W020  a rate that belongs to nothing      W021  rates of tools that nothing keeps
    W022  counting in a Redis that may hang

Of the tools' definitions (mcp_bridge.registry.linting):

    W003  combinators at a schema's root      W004  a $ref that leads nowhere, or out
    W005  a schema whose root is no object    W006  a name that strict clients refuse
    W007  read-only and destructive at once   W008  a default that breaks its own schema
    W009  a schema that is too deep           W010  a schema that is too large
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_permission_codename
from django.core import checks
from django.utils.module_loading import import_string

from mcp_bridge.checks.throttling import throttling
from mcp_bridge.conf import AUDIT, Conf, conf
from mcp_bridge.features.rates import parse_rate
from mcp_bridge.features.tools import Tool
from mcp_bridge.registry.linting import lint
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.base import first_line

# Its models would belong to mcp_bridge itself, and have no table, where it is not installed.
_TOKENS = "mcp_bridge.tokens"

_TYPES: dict[str, tuple[type, ...]] = {
    "SERVER_INFO": (dict,),
    "SOURCES": (dict,),
    "AUTHENTICATION_CLASSES": (list, tuple),
    "THROTTLE_CLASSES": (list, tuple),
    "THROTTLE_RATES": (dict,),
    "ALLOWED_ORIGINS": (list, tuple),
    "PAGE_SIZE": (int,),
    "CACHE_TTL": (int,),
    "MAX_BODY_BYTES": (int,),
    "MAX_RESULT_BYTES": (int,),
    "COERCE_STRINGIFIED": (bool,),
    "APPROVE_DESTRUCTIVE": (bool,),
    "FOUR_EYES": (bool,),
    "STATE_MAX_AGE": (int, float),
    "CONFIRMATION_MAX_AGE": (int, float),
}
_LEAST = {
    "PAGE_SIZE": 1,
    "CACHE_TTL": 0,
    "STATE_MAX_AGE": 0,
    "CONFIRMATION_MAX_AGE": 1,
    "MAX_BODY_BYTES": 1,
    "MAX_RESULT_BYTES": 1,
}
_CHOICES = {
    "TOOL_NAME_STYLE": ("underscore", "dotted"),
    "NEW_TOOLS": ("enabled", "disabled"),
    "THROTTLE_WITHOUT_CACHE": ("open", "closed"),
}


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """The keys and values of MCP_BRIDGE."""
    given = getattr(settings, "MCP_BRIDGE", {})
    if not isinstance(given, dict):
        return [_wrong("MCP_BRIDGE", "must be a dict of settings")]
    return [*_keys(given), *_values(given), *_rates(), *_audit(given), *_paths()]


def check_tools(app_configs: Any = None, **kwargs: Any) -> Sequence[checks.CheckMessage]:
    """What the sources have to say of the tools they found, or left out."""
    if check_settings():
        # A wrong setting can stop the sources from being read at all; it is reported by itself.
        return []
    # Read anew, and kept for the requests that follow.
    registry.reload()
    snapshot = registry.discovered
    return [
        *snapshot.messages,
        *_permissions(snapshot),
        *linted(snapshot),
        *throttling(snapshot),
    ]


def linted(tools: Iterable[Tool], *, minor: bool = False) -> Iterator[checks.CheckMessage]:
    """What the linter finds, as warnings; with ``minor``, also what is only worth a word."""
    for tool in tools:
        for finding in lint(tool):
            rule = finding.rule
            if minor or not rule.is_minor:
                kind = checks.Info if rule.is_minor else checks.Warning
                yield kind(finding.message, hint=rule.hint, id=rule.id)


def _permissions(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """The permissions of marks that only a superuser can have, as far as the code tells."""
    declared = set(_declared())
    for tool in tools:
        for permission in tool.access.permissions:
            if permission in declared:
                continue
            yield checks.Warning(
                f"The tool {tool.name!r} ({tool.source}) asks for the permission {permission!r}, "
                f"{_why_undeclared(permission)}: where nobody has made it by hand, only "
                "superusers have it.",
                hint=f"{_nearest(permission, declared)}Give app_label.codename of a permission "
                "that a model declares (in Meta, or by default: add, change, delete, view). Where "
                "permissions are made at run time, name mcp_bridge.W011 in SILENCED_SYSTEM_CHECKS.",
                id="mcp_bridge.W011",
            )


def _declared() -> Iterator[str]:
    """The permissions that ``migrate`` makes, computed without the database."""
    for model in apps.get_models():
        options = model._meta
        for action in options.default_permissions:
            yield f"{options.app_label}.{get_permission_codename(action, options)}"
        for codename, _ in options.permissions:
            yield f"{options.app_label}.{codename}"


def _why_undeclared(permission: str) -> str:
    label, dot, _ = permission.partition(".")
    if not dot:
        return "which has no app label"
    if label not in (config.label for config in apps.get_app_configs()):
        return f"but {label!r} is no installed app's label"
    return f"which no model declares in the app {label!r}"


def _nearest(permission: str, declared: Iterable[str]) -> str:
    label, codename = permission.partition(".")[0], permission.rpartition(".")[2]
    ordered = sorted(declared)
    # What the same app has comes first: most slips are in the codename.
    own = [name for name in ordered if name.startswith(f"{label}.")]
    pools = [{name.partition(".")[2]: name for name in names} for names in (own, ordered)]
    close = [
        pool[match]
        for pool in pools
        for match in get_close_matches(codename, pool, n=1, cutoff=0.8)
    ]
    return f"Did you mean {close[0]!r}? " if close else ""


def _keys(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    known = Conf.keys()
    for key in given:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            meant = f"Did you mean {close[0]!r}? " if close else ""
            yield checks.Error(
                f"MCP_BRIDGE has no key {key!r}.",
                hint=f"{meant}Its keys are: {', '.join(known)}.",
                id="mcp_bridge.E001",
            )


def _values(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    for key, types in _TYPES.items():
        value = given.get(key)
        if key in given and (
            not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        ):
            yield _wrong(f"MCP_BRIDGE[{key!r}]", f"must be {_kind(types[0])}")
        elif key in given and key in _LEAST and value < _LEAST[key]:  # type: ignore[operator]
            yield _wrong(f"MCP_BRIDGE[{key!r}]", f"must be {_LEAST[key]} or more")
    for key, choices in _CHOICES.items():
        if getattr(conf, key) not in choices:
            yield _wrong(f"MCP_BRIDGE[{key!r}]", f"must be {' or '.join(map(repr, choices))}")


def _audit(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    audit = given.get("AUDIT")
    if audit is None:
        return
    if not isinstance(audit, dict):
        yield _wrong("MCP_BRIDGE['AUDIT']", "must be a dict, or None to record nothing")
        return
    for key, value in audit.items():
        place = f"MCP_BRIDGE['AUDIT'][{key!r}]"
        if key not in AUDIT:
            yield _wrong(place, f"is no key; its keys are {', '.join(AUDIT)}")
        elif key == "ARGUMENTS":
            if value not in ("none", "redacted", "full"):
                yield _wrong(place, "must be 'none', 'redacted' or 'full'")
        elif key == "SENSITIVE_NAMES":
            listed = isinstance(value, list | tuple)
            if not listed or not all(isinstance(each, str) and each for each in value):
                yield _wrong(place, "must be a list of names")
        elif type(value) is not type(AUDIT[key]):
            yield _wrong(place, f"must be {_kind(type(AUDIT[key]))}")
        elif key == "MAX_ARGUMENTS_BYTES" and value < 256:
            yield _wrong(place, "must be 256 or more")


def _rates() -> Iterator[checks.CheckMessage]:
    rates = conf.THROTTLE_RATES
    for name, rate in rates.items() if isinstance(rates, dict) else ():
        try:
            # None says that there is no limit.
            rate is None or parse_rate(rate)
        except ValueError as exception:
            yield _wrong(f"MCP_BRIDGE['THROTTLE_RATES'][{name!r}]", str(exception))


def _kind(of: type) -> str:
    return f"{'an' if of is int else 'a'} {of.__name__}"


def _wrong(what: str, rule: str) -> checks.CheckMessage:
    return checks.Error(f"{what} {rule}.", hint="See docs/settings.md.", id="mcp_bridge.E002")


def _paths() -> Iterator[checks.CheckMessage]:
    named: dict[str, list[str | None]] = {
        "ACCESS_POLICY": [conf.ACCESS_POLICY],
        "ERROR_MAPPER": [conf.ERROR_MAPPER],
    }
    for key in ("AUTHENTICATION_CLASSES", "THROTTLE_CLASSES"):
        if isinstance(getattr(conf, key), list | tuple):
            named[key] = list(getattr(conf, key))
    for key, paths in named.items():
        for path in paths:
            if path is not None:
                yield from _path(key, path)


def _path(key: str, path: str) -> Iterator[checks.CheckMessage]:
    default = "" if key in getattr(settings, "MCP_BRIDGE", {}) else " (the default)"
    # First, since importing models of an app that is not installed says something else.
    homeless = str(path).startswith(f"{_TOKENS}.") and not apps.is_installed(_TOKENS)
    try:
        if homeless:
            raise ImportError(f"{_TOKENS} is not in INSTALLED_APPS")
        import_string(path)
    except Exception as exception:
        hint = "Give a dotted path, and put the app it lives in into INSTALLED_APPS."
        yield checks.Error(
            f"MCP_BRIDGE[{key!r}]{default} names {path!r}, which cannot be imported: "
            f"{first_line(exception)}.",
            hint=f'Add "{_TOKENS}" to INSTALLED_APPS.' if homeless else hint,
            id="mcp_bridge.E008",
        )
