"""Support model classes as parameters (callers send ids, procedures get instances), and choices."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeGuard, get_args, get_origin

from annotated_types import BaseMetadata, GroupedMetadata
from django.contrib.auth import get_permission_codename
from django.db import models
from django.db.models.manager import BaseManager
from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from mcp_bridge.features import Completer, Context
from mcp_bridge.protocol.text import cut, quoted
from mcp_bridge.schemas.core_schemas import BESIDE
from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.hints import Adapter, Side, TypeHint, annotate, split_annotated
from mcp_bridge.schemas.limits import check_hashes
from mcp_bridge.schemas.signatures import Parameter

_HINTS: Final[Mapping[type, TypeHint]] = {
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
# The range of integers that all of Django's databases can compare with a column.
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Lookup:
    """
    The unique field by which callers identify an instance, instead of the primary key.

    ``Annotated[Article, Lookup("slug")]``, also around or within ``list[Article]``.
    """

    field: str

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        """Return the schema of an instance, so that pydantic models may have such members."""
        several = get_origin(source) is list
        model = get_args(source)[0] if several else source
        if not _is_model(model):
            raise TypeError(
                f"Lookup({self.field!r}) must annotate a model class or a list of one: "
                f"Annotated[Article, Lookup({self.field!r})] | None"
            )
        instance = core_schema.is_instance_schema(model, metadata={BESIDE: (self,)})
        return core_schema.list_schema(instance) if several else instance


class ModelAdapter(Adapter):
    """Models, lists of them, and querysets and managers as the values of results."""

    def adapted(self, hint: object, metadata: tuple[object, ...], side: Side) -> object:
        if side == "result" and _is_model(hint):
            raise TypeError(
                f"{hint.__name__} cannot be a result: declare the members to show as a dataclass "
                "with the same names, or as a serializer"
            )
        kind = get_origin(hint) or hint
        if isinstance(kind, type) and issubclass(kind, models.QuerySet | BaseManager):
            raise TypeError(
                "QuerySet cannot be a parameter; use list[Article] (one query)"
                if side == "parameter"
                else "QuerySet cannot be a result; use list[Row] with a dataclass Row"
            )
        several = get_origin(hint) is list
        model, inner = split_annotated(get_args(hint)[0] if several else hint)
        if side == "result" or not _is_model(model):
            return None
        if model._meta.abstract:
            text = "is abstract and does not have rows: use a model that inherits from it"
            raise TypeError(f"{model.__name__} {text}")
        lookups = [each.field for each in (*inner, *metadata) if isinstance(each, Lookup)]
        key, find = _finder(model, lookups[0] if lookups else model._meta.pk.name, several)
        if several:
            # Other metadata of an item would be applied before the instance exists.
            kept = [each for each in inner if isinstance(each, _CONSTRAINTS)]
            key = hints.list_of(annotate(key, *kept))
        # Constraints apply to the value sent, other metadata to the instance.
        constraints = [each for each in metadata if isinstance(each, _CONSTRAINTS)]
        others = [each for each in metadata if not isinstance(each, (*_CONSTRAINTS, Lookup))]
        return annotate(key, *constraints, AfterValidator(find), *others)

    def items(self, value: object) -> Iterable[object] | None:
        return value.all() if isinstance(value, models.QuerySet | BaseManager) else None

    def has_members(self, value: object) -> bool:
        return isinstance(value, models.Model)


class ChoicesAdapter(Adapter):
    """TextChoices, IntegerChoices, and other subclasses of Choices."""

    def adapted(self, hint: object, metadata: tuple[object, ...], side: Side) -> object:
        members = list(hint) if isinstance(hint, type) and issubclass(hint, models.Choices) else []
        if side == "result" or not members:
            return None
        text = hints.labels((each.value, each.label) for each in members)
        return annotate(hint, Field(description=text), *metadata)


def _finder(
    model: type[models.Model], name: str, several: bool
) -> tuple[TypeHint, Callable[[Any], object]]:
    """Return the hint of a unique field, and a function that finds a value's instance or list."""
    field = model._meta.get_field(name)
    if not (isinstance(field, models.Field) and field.unique):
        raise TypeError(f"{model.__name__}.{name} is not unique, so it cannot identify instances")
    noun, words, linked = str(model._meta.verbose_name_raw), field.name.replace("_", " "), field
    # "page id" for the parent link of a child of Page.
    while isinstance(linked, models.ForeignKey) and linked.remote_field.parent_link:
        linked = linked.target_field
        words = f"{linked.model._meta.verbose_name_raw} {linked.name.replace('_', ' ')}"
    article = "an" if noun[:1].lower() in "aeiou" else "a"

    def find(sent: Any) -> object:
        keys = sent if several else [sent]
        # Databases raise errors for keys that are out of range for a column.
        askable = [key for key in keys if not isinstance(key, int) or _LEAST <= key <= _MOST]
        check_hashes(askable)
        # The relation's own name would return the related instance.
        found = model._default_manager.in_bulk(askable, field_name=field.attname)
        missing: list[hints.FieldError] = []
        for index, key in enumerate(keys):
            if key not in found:
                shown = quoted(key) if isinstance(key, str) else cut(str(key))
                text = f"There is no {noun} with the {words} {shown}"
                missing.append(("not_found", text, (index,) if several else ()))
        if missing:
            raise hints.validation_error(noun, missing)
        return [found[key] for key in keys] if several else found[sent]

    description = f"The {words} of {article} {noun}."
    return annotate(key_hint(model._default_manager, name), Field(description=description)), find


def key_hint(queryset: Any, name: str | None) -> TypeHint:
    """Return the hint of a field (default: the primary key). Raises TypeError if it has none."""
    options = queryset.model._meta
    field = options.get_field(name or options.pk.name)
    while field.remote_field is not None:
        field = field.target_field
    hint = hints.nearest(_HINTS, field)
    if hint is None:
        raise TypeError(f"{field.model.__name__}.{field.name} has a type without a JSON equivalent")
    return hints.with_bounds(str, field) if hint is str else hint


def row_completers(parameters: Iterable[Parameter]) -> dict[str, Completer]:
    """
    Return what completes the parameters that take an instance, by name.

    The values are those of its unique field in the default manager, for callers who may view the
    model: for them, a function that hides some rows needs a completer.
    """
    found = dict[str, Completer]()
    for each in parameters:
        model, metadata = split_annotated(each.hint)
        if _is_model(model):
            lookups = [given.field for given in metadata if isinstance(given, Lookup)]
            found[each.name] = partial(_rows, model, (*lookups, model._meta.pk.name)[0])
    return found


def _rows(
    model: type[models.Model], name: str, value: str, earlier: object, context: Context
) -> Iterable[object]:
    options = model._meta
    if not context.user.has_perm(f"{options.app_label}.{get_permission_codename('view', options)}"):
        return []
    begun = model._default_manager.filter(**{f"{name}__startswith": value})
    return begun.order_by(name).values_list(name, flat=True)


def _is_model(hint: object) -> TypeGuard[type[models.Model]]:
    return isinstance(hint, type) and issubclass(hint, models.Model)
