"""Which hints are of plain data: to check values against them runs no code of the site's own."""

from __future__ import annotations

import datetime
import decimal
import typing
import uuid
from collections.abc import Mapping
from dataclasses import MISSING as NO_FACTORY
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal, get_args

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from mcp_bridge.schemas.headers import McpHeader
from mcp_bridge.schemas.hints import UNIONS, TypeHint, members_of, origin_of, split_annotated
from mcp_bridge.schemas.signatures import MISSING, Signature

_SCALARS: Final = frozenset(
    {str, int, float, bool, type(None), None, Any, object, list, dict, tuple, set}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta}
    | {decimal.Decimal, uuid.UUID}
)
_CONTAINERS: Final = (list, dict, tuple, set, frozenset, *UNIONS)
_FACTORIES: Final = frozenset({NO_FACTORY, dict, frozenset, list, set, tuple})
_BOUNDS: Final = (Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf, McpHeader, str)


def plain_parameters(signature: Signature) -> dict[str, object]:
    """Return the parameters of plain data, as far as their hints tell, with their defaults."""
    return {
        each.name: each.default
        for each in signature.parameters
        if _is_plain(each.hint, frozenset())
    }


def is_plain(signature: Signature, parameters: Mapping[str, object]) -> bool:
    """Return whether all arguments are plain data; ``parameters`` are those that are."""
    extra = signature.extra
    is_open = extra is MISSING or _is_plain(extra, frozenset())
    return is_open and len(parameters) == len(signature.parameters)


def _is_plain(hint: TypeHint, within: frozenset[type]) -> bool:
    inner, metadata = split_annotated(hint)
    if not all(map(_is_bound, metadata)):
        return False
    origin = origin_of(inner)
    if origin is Literal:
        return True
    if origin in _CONTAINERS:
        return all(each is ... or _is_plain(each, within) for each in get_args(inner))
    if origin is typing.Required or origin is typing.NotRequired:
        return all(_is_plain(each, within) for each in get_args(inner))
    if not isinstance(inner, type):
        return inner in (None, Any)
    if inner in _SCALARS or inner in within:
        return True
    # What pydantic makes of a class may be said in the class, or done by it when it is made.
    hooks = ("__post_init__", "__get_pydantic_core_schema__", "__pydantic_validator__")
    if not (is_typeddict(inner) or is_dataclass(inner)) or any(
        hasattr(inner, each) for each in hooks
    ):
        return False
    if is_dataclass(inner) and any(
        each.default_factory not in _FACTORIES for each in fields(inner)
    ):
        return False
    members = members_of(inner)
    return members is not None and all(
        _is_plain(each, within | {inner}) for each in members.values()
    )


def _is_bound(metadata: object) -> bool:
    if isinstance(metadata, FieldInfo):
        return metadata.default_factory is None
    return isinstance(metadata, _BOUNDS)
