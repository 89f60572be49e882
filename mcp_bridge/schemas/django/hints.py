"""Hints for the fields of forms, models and serializers, and the errors of their values."""

from __future__ import annotations

import datetime
import decimal
import types
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError

from mcp_bridge.schemas.hints import annotate
from mcp_bridge.schemas.inputs import CONFIG

T = TypeVar("T")


def _drop_title(schema: JsonDict) -> None:
    schema.pop("title", None)


# pydantic makes a title of the name of a form or a serializer, which tells callers nothing.
FIELDS_CONFIG: Final = ConfigDict(**{**CONFIG, "json_schema_extra": _drop_title})


def with_bounds(hint: object, field: object, least: int | None = None) -> object:
    """Return the hint with a field's bounds; ``least`` is the least length if it has none."""
    bounds = {
        "ge": getattr(field, "min_value", None),
        "le": getattr(field, "max_value", None),
        "min_length": getattr(field, "min_length", None) or least,
        "max_length": getattr(field, "max_length", None),
    }
    # Code that returns a bound is run by the form or serializer, with each value.
    known: dict[str, Any] = {
        name: bound for name, bound in bounds.items() if bound is not None and not callable(bound)
    }
    return annotate(hint, Field(**known)) if known else hint


def list_of(hint: object) -> object:
    """Return ``list[hint]``."""
    return types.GenericAlias(list, hint)


def or_none(hint: Any) -> object:
    """Return ``hint | None``."""
    return hint | None


def formatted(name: str) -> object:
    """Return the hint of a string with a ``format`` of JSON Schema, which is not enforced."""
    return Annotated[str, Field(json_schema_extra={"format": name})]


# By the names that the fields of forms share with those of serializers.
_HINTS: Final[Mapping[str, object]] = {
    "BooleanField": bool,
    "CharField": str,
    "DateField": datetime.date,
    "DateTimeField": datetime.datetime,
    "DecimalField": decimal.Decimal,
    "DurationField": datetime.timedelta,
    "EmailField": formatted("email"),
    "FloatField": float,
    "IntegerField": int,
    "JSONField": Any,
    "TimeField": datetime.time,
    "UUIDField": uuid.UUID,
}


def by_class(module: types.ModuleType) -> dict[type, object]:
    """Return the hints of the values of fields, for the fields of forms or of serializers."""
    return {getattr(module, name): hint for name, hint in _HINTS.items()}


def nearest(table: Mapping[type, T], field: object) -> T | None:
    """Return the entry of the class of a field or of its nearest base that has one, or None."""
    return next((table[kind] for kind in type(field).__mro__ if kind in table), None)


def model_with(
    name: str, doc: str | None, fields: Mapping[str, tuple[object, Mapping[str, object]]]
) -> type[BaseModel]:
    """Return a closed model; ``fields`` has the hint and the options of ``Field`` by alias."""
    # Numbered, since a form or a serializer may use names that pydantic reserves.
    declared: dict[str, Any] = {}
    for alias, (hint, options) in fields.items():
        given: dict[str, Any] = {**options, "alias": alias}
        declared[f"f{len(declared)}"] = (hint, Field(**given))
    return create_model(name, __config__=FIELDS_CONFIG, __doc__=doc, **declared)


def sent_values(value: object) -> Any:
    """Return the values that were sent for a model, by alias, at any depth."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        sent = value.model_fields_set
        return {fields[name].alias: sent_values(getattr(value, name)) for name in sent}
    if isinstance(value, list):
        return [sent_values(each) for each in value]
    if isinstance(value, dict):
        return {key: sent_values(each) for key, each in value.items()}
    return value


def argument_error(
    code: str | None, text: str, path: tuple[str | int, ...], sent: object = None
) -> InitErrorDetails:
    """Return an error below an argument, for pydantic's ``from_exception_data()``."""
    # pydantic wants literals of both; the text may hold braces, so that it is no template itself.
    kind: Any = code or "invalid"
    error = PydanticCustomError(kind, "{text}", {"text": text})
    return InitErrorDetails(type=error, loc=path, input=sent)
