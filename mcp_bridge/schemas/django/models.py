"""A model class as a parameter: what identifies an instance comes in, the instance goes on."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin

from annotated_types import BaseMetadata, GroupedMetadata
from django.db import models
from django.db.models.manager import BaseManager
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from mcp_bridge.protocol.text import cut, quoted
from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.django.hints import After
from mcp_bridge.schemas.members import BESIDE

# The first that matches counts: a subclass stands before its base.
_HINTS: Final[Sequence[tuple[type[models.Field[Any, Any]], Any]]] = (
    (models.UUIDField, uuid.UUID),
    (models.IntegerField, int),
    (models.DecimalField, decimal.Decimal),
    (models.DateTimeField, None),
    (models.DateField, datetime.date),
    (models.CharField, str),
    (models.TextField, str),
    (models.GenericIPAddressField, str),
)
# What the databases that Django knows can compare an integer with.
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Lookup:
    """
    The unique field by which a caller names an instance, instead of the primary key.

    ``Annotated[Article, Lookup("slug")]``, and the same around or within ``list[Article]``.
    """

    field: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """What makes it a member that any pydantic model may have: in Python, an instance."""
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
    """Models, lists of them, and what a database gives back of them."""

    def parameter(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        if _is_queryset(hint):
            raise TypeError("a queryset is no parameter: take list[Article], which is one query")
        several = get_origin(hint) is list
        item = get_args(hint)[0] if several else hint
        inner: tuple[Any, ...] = ()
        if several and get_origin(item) is Annotated:
            item, *beside = get_args(item)
            inner = tuple(beside)
        if not _is_model(item):
            return None
        lookups = [each for each in (*inner, *metadata) if isinstance(each, Lookup)]
        resolver = Resolver(item, lookups[0].field if lookups else item._meta.pk.name)
        if not several:
            return resolver.annotated(resolver.key, metadata, resolver.one)
        # What checks single instances would run before there are any.
        kept = [each for each in inner if _is_constraint(each)]
        keys: Any = Annotated[(resolver.key, *kept)] if kept else resolver.key
        return resolver.annotated(list[keys], metadata, resolver.every)

    def result(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        if _is_model(hint):
            raise TypeError(
                f"{hint.__name__} as a result has no shape: say what is shown of it by a dataclass "
                "with members of the same names, or by a serializer"
            )
        if _is_queryset(hint):
            raise TypeError("a queryset as a result has no shape: say list[Row], of a dataclass")
        return None

    def items(self, value: Any) -> Iterable[Any] | None:
        if isinstance(value, BaseManager):
            return value.all()
        return value if isinstance(value, models.QuerySet) else None

    def has_members(self, value: Any) -> bool:
        return isinstance(value, models.Model)


class Resolver:
    """
    From the values of one unique field to the instances that have them.

    Raises TypeError for a field that does not tell instances apart, or is of no known type.
    """

    def __init__(self, model: type[models.Model], name: str) -> None:
        field: Any = model._meta.get_field(name)
        if not getattr(field, "unique", False):
            raise TypeError(f"{model.__name__}.{name} is not unique, so it names no one instance")
        self.model = model
        self.name = name
        # The name of a relation would give what it leads to.
        self.column: str = field.attname
        noun = str(model._meta.verbose_name_raw)
        self.noun = noun
        article = "an" if noun[:1].lower() in "aeiou" else "a"
        text = f"The {name.replace('_', ' ')} of {article} {noun}."
        self.key: Any = Annotated[key_hint(field), Field(description=text)]

    def annotated(self, hint: Any, metadata: tuple[Any, ...], resolve: Any) -> Any:
        """The hint of what is sent, with its constraints, then what makes instances of it."""
        before = tuple(each for each in metadata if _is_constraint(each))
        after = tuple(
            each for each in metadata if each not in before and not isinstance(each, Lookup)
        )
        return Annotated[(hint, *before, After(resolve), *after)]

    def one(self, key: Any) -> models.Model:
        found = self._found([key]).get(key)
        if found is None:
            raise self._missing(key)
        return found

    def every(self, keys: list[Any]) -> list[models.Model]:
        found = self._found(keys)
        missing = [
            InitErrorDetails(type=self._missing(key), loc=(index,), input=key)
            for index, key in enumerate(keys)
            if key not in found
        ]
        if missing:
            raise ValidationError.from_exception_data(self.noun, missing)
        return [found[key] for key in keys]

    def _found(self, keys: list[Any]) -> dict[Any, models.Model]:
        askable = [key for key in keys if _is_askable(key)]
        return self.model._default_manager.in_bulk(askable, field_name=self.column)

    def _missing(self, key: Any) -> PydanticCustomError:
        shown = quoted(key) if isinstance(key, str) else cut(str(key))
        context = {"noun": self.noun, "name": self.name.replace("_", " "), "key": shown}
        return PydanticCustomError("not_found", "There is no {noun} with the {name} {key}", context)


def key_hint(field: Any) -> Any:
    """The hint of a model field's values; raises TypeError where JSON has none."""
    if field.remote_field is not None:
        return key_hint(field.target_field)
    hint = next((hint for kind, hint in _HINTS if isinstance(field, kind)), None)
    if hint is None:
        raise TypeError(f"{field.model.__name__}.{field.name} has no type that JSON can name")
    length = getattr(field, "max_length", None)
    return Annotated[hint, Field(max_length=length)] if hint is str and length else hint


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, models.Model)


def _is_queryset(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, models.QuerySet | BaseManager)


def _is_constraint(metadata: Any) -> bool:
    return isinstance(metadata, FieldInfo | BaseMetadata | GroupedMetadata)


def _is_askable(key: Any) -> bool:
    """Whether a database can be asked for it: an error of its own would tell the model nothing."""
    if isinstance(key, int):
        return _LEAST <= key <= _MOST
    return not (isinstance(key, str) and "\0" in key)
