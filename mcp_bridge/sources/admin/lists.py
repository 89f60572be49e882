"""The change lists of an admin: their filters, columns and orders, as arguments and in URLs."""

from __future__ import annotations

import datetime
import inspect
from typing import Annotated, Any, Final, Literal, NamedTuple

from django.contrib.admin import ModelAdmin, SimpleListFilter, filters
from django.contrib.admin.utils import get_fields_from_path
from django.core.exceptions import FieldDoesNotExist
from django.db import connections, router
from django.db.models import DateField, DateTimeField
from django.db.models.constants import LOOKUP_SEP
from pydantic import Field as Described

from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.sources.admin.forms import argument
from mcp_bridge.sources.admin.pages import superuser_request
from mcp_bridge.sources.admin.parameters import DATETIME, Finders, id_hint, id_text
from mcp_bridge.sources.admin.values import named
from mcp_bridge.sources.secrets import secret_among

# Names of arguments that are not filters: a filter of the same name gets another.
RESERVED: Final = frozenset({"search", "order", "page"})


class Filter(NamedTuple):
    """A filter of a list: the parameter of its URL, and the hint and description of its values."""

    parameter: str
    hint: TypeHint
    text: str

    def sent(self, value: Any) -> str:
        """Return a value as the links of the page have it."""
        is_box = isinstance(value, bool) and not self.parameter.endswith("__isnull")
        return str(int(value)) if is_box else str(value)


def list_filters(admin: ModelAdmin[Any], finders: Finders) -> dict[str, Filter]:
    """Return the filters of a list by argument, without secrets. Raises what the site raises."""
    request = superuser_request()
    found: dict[str, Filter] = {}
    each: Any
    for each in admin.get_list_filter(request):
        if inspect.isclass(each):
            simple, asks = _made(each, request, admin)
            if isinstance(simple, SimpleListFilter):
                known = [(value, label) for value, label in simple.lookup_choices]
                # Choices that are rows may be added later.
                choices = [] if asks else [(str(v), label) for v, label in known if v is not None]
                texts = hints.describe([simple.title], choices)
                hint = Literal[tuple(value for value, _ in choices)] if choices else str
                name = str(simple.parameter_name)
                found[name] = Filter(name, hint, texts or "")
            continue
        path, kind = each if isinstance(each, list | tuple) else (each, None)
        if not secret_among([path]):
            found |= _of_field(path, get_fields_from_path(admin.model, path)[-1], kind, finders)
    if admin.date_hierarchy:
        for part, least, most in (("year", 2, 9998), ("month", 1, 12), ("day", 1, 31)):
            hint = Annotated[int, Described(ge=least, le=most)]
            text = f"The {part}; the larger parts of the date are needed, too."
            name = f"{admin.date_hierarchy}__{part}"
            found[name] = Filter(name, hint, text)
    return {argument(name, RESERVED): each for name, each in found.items()}


def _made(kind: Any, request: Any, admin: ModelAdmin[Any]) -> tuple[object, bool]:
    """Return a filter of the site, and whether it queries the database for its choices."""
    asked = False

    def note(execute: Any, *given: Any) -> Any:
        nonlocal asked
        asked = True
        return execute(*given)

    with connections[router.db_for_read(admin.model)].execute_wrapper(note):
        return kind(request, {}, admin.model, admin), asked


def _of_field(path: str, field: Any, kind: Any, finders: Finders) -> dict[str, Filter]:
    """Return the filters of a field, as Django's filter of that field names them."""
    label = str(getattr(field, "verbose_name", path))
    if kind is not None and issubclass(kind, filters.EmptyFieldListFilter):
        text = f"Whether {label} is empty."
        return {f"{path}__isempty": Filter(f"{path}__isempty", bool, text)}
    made: dict[str, Filter] = {}
    if field.remote_field is not None:
        target = field.target_field if hasattr(field, "target_field") else field.model._meta.pk
        text, hint = id_text(field.related_model, finders), id_hint(field.related_model)
        # For the page, a text that is not a number is an error.
        hint = int if hint == int | str else hint
        made[path] = Filter(f"{path}__{target.name}__exact", hint, text)
    elif field.get_internal_type() == "BooleanField":
        made[path] = Filter(f"{path}__exact", bool, label)
    elif field.flatchoices:
        choices = [each for each in field.flatchoices if each[0] is not None]
        text = hints.describe([label], choices) or ""
        made[path] = Filter(f"{path}__exact", Literal[tuple(value for value, _ in choices)], text)
    elif isinstance(field, DateField):
        hint = DATETIME if isinstance(field, DateTimeField) else datetime.date
        made[f"{path}__gte"] = Filter(f"{path}__gte", hint, f"{label}: at or after this.")
        made[f"{path}__lt"] = Filter(f"{path}__lt", hint, f"{label}: before this.")
    else:
        made[path] = Filter(path, str, label)
    if field.null or field.many_to_many:
        made[f"{path}__isnull"] = Filter(f"{path}__isnull", bool, f"Whether there is no {label}.")
    return made


def columns(admin: ModelAdmin[Any], request: Any) -> dict[str, Any]:
    """Return the columns of a list by name, without secrets; the text of a row is none of them."""
    every = named(admin.get_list_display(request))
    return {n: it for n, it in every.items() if it != "__str__" and not secret_among([n])}


def sortable(admin: ModelAdmin[Any], request: Any) -> dict[str, int]:
    """Return the columns by which a list can be ordered, with their numbers in the URL."""
    offset = 1 if admin.get_actions(request) else 0
    allowed = admin.get_sortable_by(request)
    every = named(admin.get_list_display(request))
    return {
        name: number
        for number, (name, each) in enumerate(every.items(), offset)
        if each in allowed and _has_order(admin, each) and not secret_among([name])
    }


def _has_order(admin: ModelAdmin[Any], name: Any) -> bool:
    """Return whether a column is a field, or has an ``admin_order_field``."""
    try:
        # A generic foreign key does not have one.
        return bool(admin.opts.get_field(name).concrete)
    except FieldDoesNotExist:
        found = name if callable(name) else getattr(admin, name, None)
        found = found or getattr(admin.model, name, None)
        is_path = found is None and LOOKUP_SEP in name
        return is_path or hasattr(getattr(found, "fget", found), "admin_order_field")
