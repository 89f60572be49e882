"""Find secrets that operations take or return, and credentials sent to services."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.openapi import look_up, nested
from mcp_bridge.schemas.walk import SchemaDocument

# The names are the site's own, such as those of columns.
_names_secret = lru_cache(maxsize=1024)(names_secret)


def secret_among(names: Iterable[str]) -> str | None:
    """Return the first name of a secret, including those that the site configures, or None."""
    return next((name for name in names if _names_secret(name, conf.sensitive_names)), None)


def refuse_secrets(schemas: Iterable[JSONSchema]) -> None:
    """Raise ValueError if the JSON Schemas of a tool have a secret member, at any depth."""
    for schema in schemas:
        if secret := _secret_in(SchemaDocument(schema).subschemas):
            raise ValueError(f"it takes or returns a secret, {secret!r}: mark it to make it a tool")


def refuse_secret_answers(responses: Mapping[Any, object], components: object) -> None:
    """
    Raise ValueError if a member of an operation's responses is a secret.

    ``responses`` and ``components`` are as in OpenAPI. Responses of all statuses except errors and
    of all media types are checked, even if the output schema does not describe them.
    """
    pending = [each for status, each in responses.items() if str(status)[:1] not in ("4", "5")]
    parts: list[Mapping[str, Any]] = []
    followed: set[str] = set()
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            parts.append(part)
            pending += part.values()
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in followed:
                followed.add(reference)
                pending.append(look_up({"components": components}, reference))
        elif isinstance(part, list | tuple):
            pending += part
    # Write-only members are not in responses.
    if secret := _secret_in(parts, left_out="writeOnly"):
        raise ValueError(f"it returns a secret, {secret!r}: mark it to make it a tool")


def _secret_in(parts: Iterable[Mapping[str, Any]], left_out: str = "") -> str | None:
    """Return the first member of objects that is a secret by its name or format."""
    members = [
        # A boolean schema lacks keywords.
        (str(name), each if isinstance(each, Mapping) else {})
        for part in parts
        for name, each in nested(part, "properties").items()
    ]
    members = [(name, each) for name, each in members if each.get(left_out) is not True]
    marked = (name for name, each in members if each.get("format") == "password")
    return secret_among(name for name, _ in members) or next(marked, None)


def check_credential(context: Context, name: str, value: str | bytes) -> None:
    """
    Raise ValueError, without the value, if a value to be sent contains the caller's credential.

    It is for this site only (MCP, "Security Best Practices", "Token Passthrough").
    """
    request = context.request
    header = "" if request is None else request.META.get("HTTP_AUTHORIZATION", "")
    credential = header.partition(" ")[2].strip().encode()
    if credential and credential in (value.encode() if isinstance(value, str) else value):
        raise ValueError(
            f"the value of {name!r} contains the caller's credential, which must not leave this "
            "site: send the caller's identity with a credential for the service instead"
        )


def member_names(function: Callable[..., object], skip: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of a function's parameters, and of the members of its types."""
    names = set(inspect.signature(function).parameters).difference(skip)
    pending = [hint for name, hint in _hints(function) if name not in skip]
    seen = {id(Context)}
    while pending:
        hint = pending.pop()
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        pending += get_args(hint)
        if isinstance(hint, type) and hint.__module__ != "builtins":
            members = dict(_hints(hint))
            names.update(members)
            pending += members.values()
    return frozenset(names)


def _hints(owner: Any) -> Iterable[tuple[str, Any]]:
    """Return the hints of a function or class by name; empty if one cannot be read."""
    try:
        return get_type_hints(owner).items()
    except Exception:
        return ()
