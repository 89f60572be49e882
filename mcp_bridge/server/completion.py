"""Completion of the arguments of prompts and of the variables of URIs (MCP, "Completion")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final

from django.db.models import QuerySet

from mcp_bridge.access import policy
from mcp_bridge.access.throttling import may_throttle, throttled
from mcp_bridge.calls.errors import is_database_unavailable
from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.features import Context, Feature
from mcp_bridge.features.resources import Resource
from mcp_bridge.protocol import RETRY_KEY, JSONObject, Request, errors, internal_error
from mcp_bridge.protocol.text import cut
from mcp_bridge.server.methods import Endpoint

# The most values of an answer (MCP), and characters of a value that is completed.
MOST: Final = 100
LONGEST: Final = 1000
_REFS: Final = {"ref/prompt": ("prompt", "name"), "ref/resource": ("resource", "uri")}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Completion(Feature):
    """A feature whose arguments are completed: counted by its rate, apart from its calls."""

    kind: ClassVar[str] = "completion"


async def complete(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """
    Return the values of an argument that begin as the given one, at most MOST.

    An argument without a completer has none. Values that reading would refuse are left out. Raises
    InvalidParamsError, UnknownPromptError, ResourceNotFoundError, InsufficientScopeError and
    TooManyRequestsError.
    """
    await in_thread()
    feature = _feature(endpoint, request.params.get("ref"), context)
    name, value, earlier = _argument(request.params, feature)
    counted = _Completion(
        name=feature.name, description="", options=feature.options, rate=feature.rate
    )
    if may_throttle(counted):
        refusal = throttled(counted, context)
        if refusal is not None:
            text = "Too many completions: try again later."
            raise errors.TooManyRequestsError(text, refusal.meta.get(RETRY_KEY))
    completer = feature.completers.get(name)
    found = [] if completer is None else _run(completer, feature, value, earlier, context)
    if isinstance(feature, Resource):
        found = [each for each in found if feature.uri.accepts(name, each)]
    completion: dict[str, Any] = {"values": found[:MOST], "hasMore": len(found) > MOST}
    if len(found) <= MOST:
        completion["total"] = len(found)
    answer: dict[str, Any] = {"completion": completion}
    if request.revision.modern:
        answer["resultType"] = "complete"
    return answer


def _feature(endpoint: Endpoint, ref: object, context: Context) -> Feature:
    """Return the prompt or resource of a reference that the caller may use."""
    given = ref if isinstance(ref, Mapping) else {}
    kind, by = _REFS.get(str(given.get("type")), ("", ""))
    named = given.get(by)
    if not isinstance(named, str):
        raise errors.InvalidParamsError(
            'Invalid params: ref must be {"type": "ref/prompt", "name": …} or {"type": '
            '"ref/resource", "uri": …}.'
        )
    snapshot = endpoint.snapshot
    feature: Feature | None = snapshot.resources.get(named)
    if kind == "prompt":
        feature, _ = snapshot.called(kind, named)
    is_allowed = policy.may_use(endpoint.policy, feature or snapshot.stand_in(kind), context)
    if feature is None or not is_allowed:
        policy.read_caller(context, snapshot.asks_of)
        unknown = errors.UnknownPromptError if kind == "prompt" else errors.ResourceNotFoundError
        raise unknown(named)
    policy.check_scopes(feature, context)
    return feature


def _argument(params: JSONObject, feature: Feature) -> tuple[str, str, dict[str, str]]:
    """Return the name and the beginning of an argument, and the earlier arguments."""
    argument, around = params.get("argument"), params.get("context", {})
    argument = argument if isinstance(argument, Mapping) else {}
    name, value = argument.get("name"), argument.get("value")
    known = feature.input_schema.get("properties", {})
    if not isinstance(name, str) or name not in known:
        told = ", ".join(known) or "none"
        text = f"argument.name must be an argument of {feature.name} ({told})"
        raise errors.InvalidParamsError(f"Invalid params: {text}.")
    if not isinstance(value, str) or len(value) > LONGEST:
        text = f"argument.value must be a string of at most {LONGEST} characters"
        raise errors.InvalidParamsError(f"Invalid params: {text}.")
    given = around.get("arguments", {}) if isinstance(around, Mapping) else None
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given.values()):
        raise errors.InvalidParamsError(
            "Invalid params: context.arguments must be an object of strings."
        )
    return name, value, {each: text for each, text in given.items() if each in known}


def _run(
    completer: Any, feature: Feature, value: str, earlier: Mapping[str, str], context: Context
) -> list[str]:
    """Return at most one more value than is sent. Raises InternalError for an exception."""
    try:
        found: Iterable[object] = completer(value, earlier, context)
        # One query, also for a large table.
        part = found[: MOST + 1] if isinstance(found, QuerySet) else islice(found, MOST + 1)
        return [cut(str(each), LONGEST) for each in part]
    except errors.ProtocolError:
        raise
    except Exception as exception:
        if is_database_unavailable(exception):
            raise
        raise internal_error(f"Completing the {feature.kind} {feature.name}") from exception
