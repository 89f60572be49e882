"""Checks of the keys and values of MCP_BRIDGE (E001, E002), and of its paths (E008, E027)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from inspect import iscoroutinefunction, isgeneratorfunction
from typing import Any, Final, get_type_hints

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from mcp_bridge.conf import DOCUMENTATION, Audit, Conf, conf
from mcp_bridge.protocol.text import cut
from mcp_bridge.sources.base import first_line

# The settings that hold dotted paths.
_PATHS: Final = (
    *("ACCESS_POLICY", "ERROR_MAPPER", "INTERCEPTORS", "AUTHENTICATION_CLASSES"),
    "THROTTLE_CLASSES",
)
# Without the app, importing its models would assign them to mcp_bridge, without tables.
_APPS: Final = ("mcp_bridge.tokens", "mcp_bridge.oauth")


def check_settings(**kwargs: object) -> list[checks.CheckMessage]:
    """Return an error for each invalid key, value and dotted path of MCP_BRIDGE."""
    given = getattr(settings, "MCP_BRIDGE", {})
    if not isinstance(given, dict):
        return [_wrong("MCP_BRIDGE must be a dict")]
    hints = get_type_hints(Conf, include_extras=True)
    found = [*_section("MCP_BRIDGE", hints, given)]
    if isinstance(audit := given.get("AUDIT"), dict):
        within = get_type_hints(Audit, include_extras=True)
        found += _section("MCP_BRIDGE['AUDIT']", within, audit)
    for key in _PATHS:
        named = getattr(conf, key)
        if named is not None and not _errors(hints[key], named):
            default = "" if key in given else " (the default)"
            for path in [named] if isinstance(named, str) else named:
                found += import_errors(f"MCP_BRIDGE[{key!r}]{default}", path)
    return [*found, *(_check_interceptors() if not found else ()), *_check_calls_at_once(hints)]


def _check_interceptors() -> Iterator[checks.CheckMessage]:
    """Check that each interceptor can be made, has a method, and yields in its ``call`` alone."""
    for path in conf.INTERCEPTORS:
        given = import_string(path)
        found = {
            each: getattr(given, each, None)
            for each in ("request", "call", "result", "remote_message")
        }
        methods = {name: each for name, each in found.items() if each is not None}
        if not isinstance(given, type):
            methods = {"call": given}
        wrong = (
            "" if methods else "has none of the methods request, call, result and remote_message"
        )
        for name, method in methods.items():
            if iscoroutinefunction(method) or isgeneratorfunction(method) != (name == "call"):
                rule = "does not yield the call" if name == "call" else "is not a plain function"
                wrong = f"has a {name} that {rule}"
        try:
            given() if isinstance(given, type) else None
        except Exception as error:
            wrong = f"cannot be made: {first_line(error)}"
        if wrong:
            yield checks.Error(
                f"The interceptor {path} in MCP_BRIDGE['INTERCEPTORS'] {wrong}.",
                hint="A call is a generator function, with `result = yield call` and `return "
                f"result` ({DOCUMENTATION}reference/extending/#interceptors).",
                id="mcp_bridge.E027",
            )


def _check_calls_at_once(hints: Mapping[str, Any]) -> Iterator[checks.CheckMessage]:
    """Check that one caller cannot use all concurrent calls of a process."""
    keys = ("MAX_CONCURRENT_CALLS", "MAX_PROCESS_CALLS")
    if any(_errors(hints[key], getattr(conf, key)) for key in keys):
        return
    of_caller, of_all = conf.MAX_CONCURRENT_CALLS, conf.MAX_PROCESS_CALLS
    if of_all is not None and of_all > 1 and (of_caller is None or of_caller >= of_all):
        one = "unlimited" if of_caller is None else f"{of_caller}"
        yield checks.Warning(
            f"MCP_BRIDGE['MAX_CONCURRENT_CALLS'] is {one} and MAX_PROCESS_CALLS is {of_all}: one "
            "caller with that many slow calls blocks all others.",
            hint=f"Set MAX_CONCURRENT_CALLS to less than {of_all}, or MAX_PROCESS_CALLS to more.",
            id="mcp_bridge.W024",
        )


def _section(
    place: str, hints: Mapping[str, Any], given: Mapping[str, object]
) -> Iterator[checks.CheckMessage]:
    """Check that the given keys are known, and that their values match ``hints``."""
    for key, value in given.items():
        if key not in hints:
            meant = did_you_mean(str(key), hints)
            yield checks.Error(
                f"Unknown key {key!r} in {place}.",
                hint=f"{meant} Valid keys: {', '.join(hints)}.".lstrip(),
                id="mcp_bridge.E001",
            )
            continue
        for error in _errors(hints[key], value):
            path = "".join(f"[{part!r}]" for part in error["loc"])
            # pydantic's message has the class name Sequence here.
            is_list = error["type"] in ("is_instance_of", "sequence_str")
            rule = "be a list" if is_list else error["msg"].partition(" should ")[2]
            wrong = f"must {rule}, not {cut(repr(error['input']), 100)}"
            match error["type"]:
                case "value_error":
                    wrong = str(error["ctx"]["error"])
                case "missing":
                    wrong = "is required"
                case "extra_forbidden":
                    wrong = "is not a valid option"
            yield _wrong(f"{place}[{key!r}]{path} {wrong}")


def _errors(hint: Any, value: object) -> list[ErrorDetails]:
    """Return pydantic's errors for a value of a type, in strict mode."""
    # Lazy translations count as text.
    plain = str(value) if isinstance(value, Promise) else value
    try:
        TypeAdapter(hint, config=ConfigDict(strict=True)).validate_python(plain)
    except ValidationError as exception:
        return exception.errors()
    return []


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" if a known name is similar to ``name``, else ""."""
    close = get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _wrong(sentence: str) -> checks.CheckMessage:
    hint = f"See {DOCUMENTATION}reference/settings/."
    return checks.Error(f"{sentence}.", hint=hint, id="mcp_bridge.E002")


def import_errors(place: str, path: str) -> Iterator[checks.CheckMessage]:
    """Check that a dotted path can be imported."""
    # Checked first, since importing models of an app that is not installed gives a worse message.
    app = next((each for each in _APPS if path.startswith(f"{each}.")), None)
    homeless = app is not None and not apps.is_installed(app)
    try:
        if homeless:
            raise ImportError(f"{app} is not in INSTALLED_APPS")
        import_string(path)
    except Exception as exception:
        hint = "Use a dotted path, and add its app to INSTALLED_APPS."
        yield checks.Error(
            f"{place} names {path!r}, which cannot be imported: {first_line(exception)}.",
            hint=f'Add "{app}" to INSTALLED_APPS.' if homeless else hint,
            id="mcp_bridge.E008",
        )
