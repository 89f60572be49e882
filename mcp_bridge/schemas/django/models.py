"""A model class as a parameter: a caller sends an id, the procedure gets the instance."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeGuard, get_args, get_origin

from annotated_types import BaseMetadata, GroupedMetadata
from django.db import models
from django.db.models.manager import BaseManager
from pydantic import AfterValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from mcp_bridge.protocol.text import cut, quoted
from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.core_schemas import BESIDE
from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.hints import annotate

_HINTS: Final[Mapping[type, object]] = {
    models.CharField: str,
    models.DateField: datetime.date,
    models.DateTimeField: None,
    models.DecimalField: decimal.Decimal,
    models.GenericIPAddressField: str,
    models.IntegerField: int,
    models.TextField: str,
    models.UUIDField: uuid.UUID,
}
_CONSTRAINTS: Final = (FieldInfo, BaseMetadata, GroupedMetadata)
# The integers that every database of Django's can compare a column with.
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Lookup:
    """
    The unique field by which a caller names an instance, instead of the primary key.

    ``Annotated[Article, Lookup("slug")]``, and the same around or within ``list[Article]``.
    """

    field: str

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        """Return the schema of an instance, so that any pydantic model may have such a member."""
        several = get_origin(source) is list
        model = get_args(source)[0] if several else source
        if not _is_model(model):
            raise TypeError(
                f"Lookup({self.field!r}) has to stand beside a model class or a list of one: "
                f"Annotated[Article, Lookup({self.field!r})] | None"
            )
        instance = core_schema.is_instance_schema(model, metadata={BESIDE: (self,)})
        return core_schema.list_schema(instance) if several else instance


class ModelAdapter(Adapter):
    """Models, lists of them, and querysets and managers as the values of results."""

    def parameter(self, hint: object, metadata: tuple[object, ...]) -> object:
        if _is_queryset(hint):
            raise TypeError("a queryset is no parameter: take list[Article], which is one query")
        several = get_origin(hint) is list
        model, inner = get_args(hint)[0] if several else hint, []
        if several and get_origin(model) is Annotated:
            model, *inner = get_args(model)
        if not _is_model(model):
            return None
        lookups = [each for each in (*inner, *metadata) if isinstance(each, Lookup)]
        finder = Finder(model, lookups[0].field if lookups else model._meta.pk.name)
        # Constraints are of the value that is sent; other metadata is of the instance.
        constraints = [each for each in metadata if isinstance(each, _CONSTRAINTS)]
        others = [each for each in metadata if not isinstance(each, (*_CONSTRAINTS, Lookup))]
        sent, find = finder.key, AfterValidator(finder.one)
        if several:
            # Other metadata of an item would be applied before there is an instance.
            kept = [each for each in inner if isinstance(each, _CONSTRAINTS)]
            sent, find = hints.list_of(annotate(sent, *kept)), AfterValidator(finder.every)
        return annotate(sent, *constraints, find, *others)

    def result(self, hint: object, metadata: tuple[object, ...]) -> object:
        if _is_model(hint):
            raise TypeError(
                f"{hint.__name__} as a result has no shape: say what is shown of it by a dataclass "
                "with members of the same names, or by a serializer"
            )
        if _is_queryset(hint):
            raise TypeError("a queryset as a result has no shape: say list[Row], of a dataclass")
        return None

    def items(self, value: object) -> Iterable[object] | None:
        if isinstance(value, BaseManager):
            return value.all()
        return value if isinstance(value, models.QuerySet) else None

    def has_members(self, value: object) -> bool:
        return isinstance(value, models.Model)


class Finder:
    """
    Instances of a model by the values of one unique field; ``key`` is the hint of such a value.

    Raises TypeError for a field that does not tell instances apart, or is of no known type.
    """

    def __init__(self, model: type[models.Model], name: str) -> None:
        field = model._meta.get_field(name)
        if not (isinstance(field, models.Field) and field.unique):
            raise TypeError(f"{model.__name__}.{name} is not unique, so it names no one instance")
        self.model = model
        # The name of a relation would give the instance that it leads to.
        self.column = field.attname
        self.words = name.replace("_", " ")
        self.noun = str(model._meta.verbose_name_raw)
        article = "an" if self.noun[:1].lower() in "aeiou" else "a"
        text = f"The {self.words} of {article} {self.noun}."
        self.key = annotate(key_hint(field), Field(description=text))

    def one(self, key: object) -> models.Model:
        """Return the instance; raises PydanticCustomError if there is none."""
        found = self._found([key]).get(key)
        if found is None:
            raise self._missing(key)
        return found

    def every(self, keys: Sequence[object]) -> list[models.Model]:
        """Return the instances in this order; raises ValidationError with all that are missing."""
        found = self._found(keys)
        missing = [
            InitErrorDetails(type=self._missing(key), loc=(index,), input=key)
            for index, key in enumerate(keys)
            if key not in found
        ]
        if missing:
            raise ValidationError.from_exception_data(self.noun, missing)
        return [found[key] for key in keys]

    def _found(self, keys: Sequence[object]) -> dict[Any, models.Model]:
        # A database raises errors of its own for keys that no column can hold.
        askable = [
            key
            for key in keys
            if (_LEAST <= key <= _MOST if isinstance(key, int) else "\0" not in str(key))
        ]
        return self.model._default_manager.in_bulk(askable, field_name=self.column)

    def _missing(self, key: object) -> PydanticCustomError:
        shown = quoted(key) if isinstance(key, str) else cut(str(key))
        context = {"noun": self.noun, "name": self.words, "key": shown}
        return PydanticCustomError("not_found", "There is no {noun} with the {name} {key}", context)


def key_hint(field: Any) -> object:
    """Return the hint of a model field's values; raises TypeError where JSON has none."""
    if field.remote_field is not None:
        return key_hint(field.target_field)
    hint = hints.nearest(_HINTS, field)
    if hint is None:
        raise TypeError(f"{field.model.__name__}.{field.name} has no type that JSON can name")
    return hints.with_bounds(str, field) if hint is str else hint


def related_key_hint(field: Any, name: str | None) -> object:
    """Return the hint of the column, by default the primary key, that names a related row."""
    options = field.queryset.model._meta
    return key_hint(options.get_field(name or options.pk.name))


def _is_model(hint: object) -> TypeGuard[type[models.Model]]:
    return isinstance(hint, type) and issubclass(hint, models.Model)


def _is_queryset(hint: object) -> bool:
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, models.QuerySet | BaseManager)
