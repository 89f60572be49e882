"""Hints for the fields of forms, models and serializers, and errors of their values."""

from __future__ import annotations

import datetime
import decimal
import mimetypes
import types
import uuid
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist, SuspiciousFileOperation
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import Error
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator, flatten_choices
from django.utils.encoding import force_str
from django.utils.translation import override
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter
from pydantic.main import create_model
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.core_schemas import CONFIG
from mcp_bridge.schemas.hints import TypeHint, annotate

T = TypeVar("T")
_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)
# A form or serializer may query when it is created, before its tables or rows exist.
NOT_YET: Final[tuple[type[Exception], ...]] = (Error, ObjectDoesNotExist)
# The description for choices that a function provides, or the form when it is created.
LATER: Final = "One of the choices at the time of the call; an error lists them"
# An error lists at most this many choices, and the number of others.
_MOST_OFFERED: Final = 50
# The most items of a list that are looked up one by one, unless its author sets a bound.
MOST_LOOKED_UP: Final = 1_000
# The code of an error, its text, and its path below the argument.
FieldError = tuple[str | None, str, tuple[str | int, ...]]


# pydantic generates a title from the class name, which is useless to callers.
FIELDS_CONFIG: Final = ConfigDict(
    **{**CONFIG, "json_schema_extra": lambda schema: schema.pop("title", None)}
)


def formatted(name: str) -> TypeHint:
    """Return the hint of a string with a ``format`` of JSON Schema, which is not enforced."""
    return Annotated[str, Field(json_schema_extra={"format": name})]


# By the class names that form fields and serializer fields share.
_HINTS: Final[Mapping[str, TypeHint]] = {
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


# A file in a form or serializer, with MCP's names. A docstring would appear in the schema.
class _File(BaseModel):
    model_config = FIELDS_CONFIG
    name: str = Field(description="The name of the file, with its extension.", min_length=1)
    data: bytes = Field(description="The content of the file.")
    mimeType: str = Field("", description="Its media type; if left out, that of its name.")


def _uploaded(file: _File) -> SimpleUploadedFile:
    media_type = file.mimeType or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    try:
        return SimpleUploadedFile(file.name, file.data, media_type)
    except SuspiciousFileOperation as exception:
        raise PydanticCustomError("file_name", "the name is not a valid file name") from exception


# The form or serializer gets the upload, also from sent_values().
FILE: Final[TypeHint] = Annotated[
    _File, AfterValidator(_uploaded), PlainSerializer(lambda upload: upload, return_type=Any)
]


def by_class(module: types.ModuleType) -> dict[type, TypeHint]:
    """Return the hints of field values, by the field classes of forms or of serializers."""
    return {getattr(module, name): hint for name, hint in _HINTS.items()}


def nearest(table: Mapping[type, T], field: object) -> T | None:
    """Return the entry of a field's class or of its nearest base class with one, or None."""
    return next((table[kind] for kind in type(field).__mro__ if kind in table), None)


def with_bounds(
    hint: TypeHint, field: object, least: int | None = None, most: int | None = None
) -> TypeHint:
    """Return the hint with a field's bounds; ``least`` and ``most`` are default lengths."""
    bounds = {
        "ge": getattr(field, "min_value", None),
        "le": getattr(field, "max_value", None),
        "min_length": getattr(field, "min_length", None) or least,
        "max_length": most if (own := getattr(field, "max_length", None)) is None else own,
    }
    # A callable bound is evaluated by the form or serializer for each value.
    known: dict[str, Any] = {
        name: bound for name, bound in bounds.items() if bound is not None and not callable(bound)
    }
    return annotate(hint, Field(**known)) if known else hint


def list_of(
    hint: TypeHint, field: object = None, least: int | None = None, most: int | None = None
) -> TypeHint:
    """Return ``list[hint]`` with a field's bounds, as with_bounds() does."""
    return with_bounds(types.GenericAlias(list, hint), field, least, most)


def listed(field: Any) -> list[tuple[object, object]]:
    """Return the choices of a field except the empty one."""
    choices = field.choices
    flat = choices.items() if isinstance(choices, Mapping) else flatten_choices(choices)
    return [each for each in flat if each[0] not in ("", None)]


def is_fixed(field: Any, declared: Any) -> bool:
    """Return whether the class declares a field's choices, rather than a function."""
    choices = getattr(declared, "choices", None)
    while isinstance(choices, BlankChoiceIterator):
        choices = choices.choices
    if not field.choices or choices is None or isinstance(choices, BaseChoiceIterator):
        return False
    return listed(field) == listed(declared)


def labels(choices: Iterable[tuple[object, object]]) -> str:
    """Return values with their labels, as a sentence in the site's own language."""
    # A schema is built once and must not depend on the first request's language.
    with override(settings.LANGUAGE_CODE):
        return "; ".join(f"{value}: {force_str(label)}" for value, label in choices) + "."


def describe(texts: Iterable[object], choices: Iterable[tuple[object, object]] = ()) -> str | None:
    """Return texts, and the labels of choices that differ from their values, as sentences."""
    sentences = [f"{str(text).rstrip('.')}." for text in texts if text]
    known = list(choices)
    if any(str(value) != str(label) for value, label in known):
        sentences.append(labels(known))
    return " ".join(sentences) or None


def offered(choices: Iterable[tuple[object, object]]) -> str:
    """Return the current choices, as a sentence in the site's own language."""
    with override(settings.LANGUAGE_CODE):
        known = [(str(value), force_str(label)) for value, label in choices]
    texts = [cut(value if value == label else f"{value}: {label}", 200) for value, label in known]
    if len(texts) > _MOST_OFFERED:
        texts[_MOST_OFFERED:] = [f"and {len(texts) - _MOST_OFFERED} more"]
    return f"One of: {'; '.join(texts)}." if texts else "There are currently no choices."


def model_with(
    name: str, doc: str | None, fields: Mapping[str, tuple[TypeHint, dict[str, Any]]]
) -> type[BaseModel]:
    """Return a closed model; ``fields`` has the hint and the options of ``Field`` by alias."""
    # Numbered, since a form or serializer may use names that pydantic reserves.
    declared: dict[str, Any] = {
        f"f{index}": (hint, Field(**options, alias=alias))
        for index, (alias, (hint, options)) in enumerate(fields.items())
    }
    return create_model(name, __config__=FIELDS_CONFIG, __doc__=doc, **declared)


def sent_values(value: object) -> Any:
    """Return the values that were sent for a model, by alias, at any depth."""
    return _ANY.dump_python(value, by_alias=True, exclude_unset=True)


def validation_error(name: str, errors: Iterable[FieldError]) -> ValidationError:
    """Return the error for a validator to raise, from errors below the argument."""
    details: list[InitErrorDetails] = []
    for code, text, path in errors:
        # Both are typed as literals. The text may contain braces, so it is passed as a value.
        kind: Any = code or "invalid"
        error = PydanticCustomError(kind, "{text}", {"text": text})
        details.append(InitErrorDetails(type=error, loc=path, input=None))
    return ValidationError.from_exception_data(name, details)
