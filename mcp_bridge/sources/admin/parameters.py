"""The parameters of an admin's tools: the fields of its forms, and the filters of its lists."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from django import forms
from django.contrib.admin import ModelAdmin, SimpleListFilter, filters
from django.contrib.admin.utils import (
    flatten_fieldsets,
    get_fields_from_path,
    label_for_field,
)
from django.core.exceptions import FieldDoesNotExist
from django.db.models import DateField, DateTimeField
from pydantic import AfterValidator
from pydantic import Field as Described

from mcp_bridge.conf import conf
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.django.forms import declared, in_site_time
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.schemas.signatures import ABSENT
from mcp_bridge.sources.admin.controls import controls, inner, is_settable
from mcp_bridge.sources.admin.forms import argument
from mcp_bridge.sources.admin.pages import superuser_request
from mcp_bridge.sources.base import LeftOut

# The most rows of an inline, and of an action.
MOST_ROWS: Final = 100
_DATETIME: Final = Annotated[datetime.datetime, AfterValidator(in_site_time)]


def parameter(name: str, hint: TypeHint, text: str = "", default: Any = ABSENT) -> Any:
    """Return a parameter with a description; without a default if it is omitted by default."""
    annotation = Annotated[hint, Described(description=text)] if text else hint
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def key(model: Any, text: str) -> Any:
    """Return the parameter ``id``, which any row's key can be: the page tells which there are."""
    return parameter("id", _key(model), text, inspect.Parameter.empty)


def _key(model: Any) -> TypeHint:
    try:
        hint = key_hint(model._default_manager.all(), None)
    except TypeError:
        return str
    return int | str if hint is int else str


def page_parameters(admin: ModelAdmin[Any], *, add: bool) -> Iterator[Any]:
    """
    Yield a parameter for each field and inline of a model's form for a superuser.

    Raises LeftOut if a required field is a secret, UnknownWidget, and any exception of the site's
    own code.
    """
    request = superuser_request()
    row = None if add else admin.model()
    form, shown = _form(admin, request, row)
    # A field that some users do not have cannot be required of them.
    always = _of_everyone(admin) if add else frozenset()
    for name, (hint, text, is_required) in _fields(admin, form, shown, add=add).items():
        default = inspect.Parameter.empty if is_required and name in always else ABSENT
        yield parameter(argument(name), hint, text, default)
    seen: dict[str, int] = {}
    for formset, inline in admin.get_formsets_with_inlines(request, row):
        prefix = formset.get_default_prefix()
        seen[prefix] = seen.get(prefix, 0) + 1
        # As ModelAdmin numbers them.
        own = prefix if seen[prefix] == 1 or not prefix else f"{prefix}-{seen[prefix]}"
        hint = _rows(inline, formset, request, row, own)
        about = str(formset.model._meta.verbose_name_plural)
        yield parameter(argument(own), hint, f"{about.capitalize()} to add{_OR_CHANGE[add]}.")


def _form(admin: Any, request: Any, row: Any) -> tuple[Any, list[str]]:
    """Return the form of a page for the user of a request, and the fields that can be set."""
    names = flatten_fieldsets(admin.get_fieldsets(request, row))
    kind = admin.get_form(request, row, change=row is not None, fields=names)
    initial = admin.get_changeform_initial_data(request) if row is None else {}
    form = kind(initial=initial) if row is None else kind(instance=row)
    read_only = {*admin.get_readonly_fields(request, row)}
    return form, [each for each in names if each in form.fields and each not in read_only]


def _of_everyone(admin: Any) -> frozenset[str]:
    """Return the fields that staff without any permission could set, if the site can tell."""
    try:
        return frozenset(_form(admin, superuser_request(is_superuser=False), None)[1])
    except Exception:
        # The site's code may need a user with a row.
        return frozenset()


_OR_CHANGE: Final = {True: "", False: ", or by id to change or delete; others stay"}


def _rows(inline: Any, formset: Any, request: Any, row: Any, name: str) -> TypeHint:
    """Return the hint of an inline: a list of its rows, with the fields that it shows."""
    form = formset.form()
    names = flatten_fieldsets(inline.get_fieldsets(request, row))
    hidden = {*inline.get_readonly_fields(request, row), getattr(formset.fk, "name", "")}
    shown = [each for each in names if each in form.fields and each not in hidden]
    found = _fields(inline, form, shown, add=False)
    declared_fields: dict[str, tuple[TypeHint, dict[str, Any]]] = {}
    if row is not None:
        text = "Of a row that is there; leave it out to add one."
        declared_fields["id"] = _key(formset.model) | None, {"default": None, "description": text}
    for each, (hint, text, _) in found.items():
        # Only members that were sent count, so that the default is never used.
        options = {"default_factory": lambda: None, "description": text or None}
        declared_fields[argument(each, ("id", "DELETE"))] = hint, options
    if row is not None and formset.can_delete:
        text = "Whether to delete the row."
        declared_fields["DELETE"] = bool, {"default": False, "description": text}
    model = hints.model_with(f"{formset.model.__name__}Row", None, declared_fields)
    return hints.list_of(model, most=min(MOST_ROWS, formset.max_num or MOST_ROWS))


def _fields(
    owner: Any, form: Any, names: Iterable[str], *, add: bool
) -> dict[str, tuple[TypeHint, str, bool]]:
    """Return the hint, description and whether it is required, of each field that can be set."""
    found = {}
    for name in names:
        field = form.fields[name]
        # Raises if it is not known what a browser sends of it.
        list(controls(field.widget, name, field.prepare_value(form[name].initial)))
        has_initial = form[name].initial not in (None, "", [])
        if not is_settable(name, field, conf.sensitive_names):
            if add and field.required and not has_initial and not field.disabled:
                raise LeftOut(f"its field {name!r}, which is required, is a secret or hidden")
            continue
        hint, options = _declared(type(form), name, field)
        if hint is None:
            continue
        text = " ".join(filter(None, [options["description"], _finder(owner, field)]))
        is_required = add and field.required and not has_initial
        found[name] = hint, text, is_required
    return found


def _declared(kind: Any, name: str, field: Any) -> tuple[TypeHint, dict[str, Any]]:
    """Return the hint of a field; None if JSON cannot fill it, and it stays as it is."""
    if isinstance(field, forms.SplitDateTimeField):
        texts = field.label, field.help_text
        hint = _DATETIME if field.required else _DATETIME | None
        return hint, {"description": hints.describe(texts)}
    try:
        return declared(kind, name, field)
    except TypeError:
        is_text = isinstance(inner(field.widget), forms.TextInput | forms.Textarea)
        return (str if is_text else None), {"description": hints.describe([field.label])}


def _finder(owner: Any, field: Any) -> str:
    """Return which tool finds the rows that a field refers to, if one may."""
    model = getattr(getattr(field, "queryset", None), "model", None)
    if model is None or not owner.admin_site.is_registered(model):
        return ""
    return f"A key of {model._meta.label_lower}."


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A filter of a list: the parameter of its URL, and the hint and description of its values."""

    parameter: str
    hint: TypeHint
    text: str

    def sent(self, value: Any) -> str:
        """Return a value as the links of the page have it."""
        is_box = isinstance(value, bool) and not self.parameter.endswith("__isnull")
        return str(int(value)) if is_box else str(value)


def list_filters(admin: ModelAdmin[Any]) -> dict[str, Filter]:
    """
    Return the filters of a list by the names of their arguments, without those of secrets.

    Raises any exception of the site's own filters.
    """
    request = superuser_request()
    found: dict[str, Filter] = {}
    own: Any
    for each in admin.get_list_filter(request):
        if inspect.isclass(each):
            simple = each(request, {}, admin.model, admin)
            if isinstance(simple, SimpleListFilter):
                choices = [(str(value), label) for value, label in simple.lookup_choices]
                texts = hints.describe([simple.title], choices)
                hint = Literal[tuple(value for value, _ in choices)] if choices else str
                name = str(simple.parameter_name)
                found[name] = Filter(parameter=name, hint=hint, text=texts or "")
            continue
        own = each
        path, kind = own if isinstance(own, list | tuple) else (own, None)
        if not names_secret(path, conf.sensitive_names):
            found |= _of_field(path, get_fields_from_path(admin.model, path)[-1], kind)
    if admin.date_hierarchy:
        for part, most in (("year", 9999), ("month", 12), ("day", 31)):
            name, hint = f"{admin.date_hierarchy}__{part}", Annotated[int, Described(ge=1, le=most)]
            found[name] = Filter(parameter=name, hint=hint, text=f"The {part}.")
    return found


def _of_field(path: str, field: Any, kind: Any) -> dict[str, Filter]:
    """Return the filters of a field, as Django's filter of that field names them."""
    label = str(getattr(field, "verbose_name", path))
    if kind is not None and issubclass(kind, filters.EmptyFieldListFilter):
        name = f"{path}__isempty"
        return {name: Filter(parameter=name, hint=bool, text=f"Whether {label} is empty.")}
    made: dict[str, tuple[str, TypeHint, str]] = {}
    if field.remote_field is not None:
        target = field.target_field if hasattr(field, "target_field") else field.model._meta.pk
        text = f"The key of a {field.related_model._meta.label_lower}."
        made[path] = f"{path}__{target.name}__exact", _key(field.related_model), text
    elif field.get_internal_type() == "BooleanField":
        made[path] = f"{path}__exact", bool, label
    elif field.flatchoices:
        choices = [each for each in field.flatchoices if each[0] not in ("", None)]
        text = hints.describe([label], choices) or ""
        made[path] = f"{path}__exact", Literal[tuple(value for value, _ in choices)], text
    elif isinstance(field, DateField):
        hint = _DATETIME if isinstance(field, DateTimeField) else datetime.date
        made[f"{path}__gte"] = f"{path}__gte", hint, f"{label}: the first."
        made[f"{path}__lt"] = f"{path}__lt", hint, f"{label}: the end, excluded."
    else:
        made[path] = path, str, label
    if field.null and (field.remote_field is not None or isinstance(field, DateField)):
        made[f"{path}__isnull"] = f"{path}__isnull", bool, f"Whether there is no {label}."
    return {
        name: Filter(parameter=known, hint=hint, text=text)
        for name, (known, hint, text) in made.items()
    }


def columns(admin: ModelAdmin[Any], request: Any) -> dict[str, Any]:
    """Return the columns of a list by name, without secrets; the text of a row is none of them."""
    named = {
        getattr(each, "__name__", str(each)): each
        for each in admin.get_list_display(request)
        if each != "__str__"
    }
    return {name: it for name, it in named.items() if not names_secret(name, conf.sensitive_names)}


def sortable(admin: ModelAdmin[Any], request: Any) -> dict[str, int]:
    """Return the columns by which a list can be ordered, with their numbers in the URL."""
    display = [*admin.get_list_display(request)]
    offset = 1 if admin.get_actions(request) else 0
    allowed = admin.get_sortable_by(request)
    return {
        getattr(each, "__name__", str(each)): number
        for number, each in enumerate(display, offset)
        if each in allowed and _has_order(admin, each)
    }


def _has_order(admin: ModelAdmin[Any], name: Any) -> bool:
    """Return whether a column is a field, or has an ``admin_order_field``."""
    try:
        admin.opts.get_field(name)
        return True
    except FieldDoesNotExist:
        found = name if callable(name) else getattr(admin, name, None)
        found = found or getattr(admin.model, name, None)
        return hasattr(getattr(found, "fget", found), "admin_order_field")


def label_of(admin: ModelAdmin[Any], name: Any) -> str:
    """Return the label of a column, for people."""
    return str(label_for_field(name, admin.model, admin))


def ordering(names: Iterable[str]) -> TypeHint:
    """Return the hint of the columns to order by, each also with "-" before it."""
    every = [each for name in names for each in (name, f"-{name}")]
    return list[Literal[tuple(every)]]  # type: ignore[misc]


def query_of(filters: Mapping[str, Filter], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the query string of a list with filters."""
    for name, each in filters.items():
        if values.get(name) is not None:
            yield each.parameter, each.sent(values[name])
