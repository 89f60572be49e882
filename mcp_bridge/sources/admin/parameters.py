"""The parameters of an admin's tools that are the fields of its forms."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

from django import forms
from django.contrib.admin.utils import flatten_fieldsets
from django.utils import translation
from django.utils.html import strip_tags
from pydantic import AfterValidator
from pydantic import Field as Described

from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.django.forms import declared, in_site_time
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.schemas.signatures import ABSENT
from mcp_bridge.sources.admin.controls import controls, inner, is_settable
from mcp_bridge.sources.admin.forms import argument
from mcp_bridge.sources.admin.pages import superuser_request
from mcp_bridge.sources.base import LeftOut

# The names of the tools that find the rows of a model, by its label.
Finders: TypeAlias = Mapping[str, str]
# The most rows of an inline, and of an action.
MOST_ROWS: Final = 100
# Django's help text of lists in which several options can be selected.
_MOUSE: Final = "Hold down “Control”, or “Command” on a Mac, to select more than one."
_OR_CHANGE: Final = {True: "", False: "; with an id, to change or delete. Others stay"}
# Clients want a type for each value.
_NO_LIST: TypeAlias = dict[str, Any] | str | int | float | bool | None
_JSON: TypeAlias = _NO_LIST | list[_NO_LIST | list[_NO_LIST]]
DATETIME: Final = Annotated[datetime.datetime, AfterValidator(in_site_time)]


def parameter(name: str, hint: TypeHint, text: str = "", default: Any = ABSENT) -> Any:
    """Return a parameter with a description; without a default if it is omitted by default."""
    annotation = Annotated[hint, Described(description=text)] if text else hint
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def id_hint(model: Any) -> TypeHint:
    """Return the hint of a primary key; whether there is such a row, the page says."""
    try:
        hint = key_hint(model._default_manager.all(), None)
    except TypeError:
        return str
    return int | str if hint is int else str


def id_text(model: Any, finders: Finders, name: str = "id") -> str:
    """Return the description of an id, with the tool that finds the rows, if there is one."""
    finder = finders.get(model._meta.label_lower, "")
    return f"The {name} of the {model._meta.verbose_name}{finder and f'; {finder} finds it'}."


def page_parameters(admin: Any, finders: Finders, row: Any, *, add: bool) -> Iterator[Any]:
    """
    Yield a parameter for each field and inline of a row's form for a superuser.

    Raises LeftOut if a required field is a secret, UnknownWidget, and any exception of the site's
    own code.
    """
    request = superuser_request()
    form, shown = _form(admin, request, row, add=add)
    # A field that some users do not have cannot be required of them.
    always = _of_everyone(admin) if add else frozenset()
    for name, (hint, text, is_required) in _fields(form, shown, finders, add=add).items():
        default = inspect.Parameter.empty if is_required and name in always else ABSENT
        yield parameter(argument(name), hint, text, default)
    seen: dict[str, int] = {}
    for formset, inline in admin.get_formsets_with_inlines(request, row):
        prefix = formset.get_default_prefix()
        seen[prefix] = seen.get(prefix, 0) + 1
        # As ModelAdmin numbers them.
        own = prefix if seen[prefix] == 1 and prefix else f"{prefix}-{seen[prefix]}"
        hint = _rows(inline, formset, row, finders, add=add)
        about = str(formset.model._meta.verbose_name_plural)
        yield parameter(argument(own), hint, f"{about.capitalize()} to add{_OR_CHANGE[add]}.")


def _form(admin: Any, request: Any, row: Any, *, add: bool) -> tuple[Any, list[str]]:
    """Return the form of a page for the user of a request, and the fields that can be set."""
    names = flatten_fieldsets(admin.get_fieldsets(request, row))
    kind = admin.get_form(request, row, change=not add, fields=names)
    initial = admin.get_changeform_initial_data(request) if add else {}
    form = kind(initial=initial) if row is None else kind(instance=row)
    read_only = {*admin.get_readonly_fields(request, row)}
    return form, [each for each in names if each in form.fields and each not in read_only]


def _of_everyone(admin: Any) -> frozenset[str]:
    """Return the fields that staff without permissions could set; none if that raises."""
    try:
        return frozenset(_form(admin, superuser_request(is_superuser=False), None, add=True)[1])
    except Exception:
        # The site's code may need a user with a row.
        return frozenset()


def _rows(inline: Any, formset: Any, row: Any, finders: Finders, *, add: bool) -> TypeHint:
    """Return the hint of an inline: a list of its rows, with the fields that it shows."""
    request = superuser_request()
    form = formset(instance=row).empty_form
    names = flatten_fieldsets(inline.get_fieldsets(request, row))
    parent = getattr(getattr(formset, "fk", None), "name", "")
    hidden = {*inline.get_readonly_fields(request, row), parent}
    shown = [each for each in names if each in form.fields and each not in hidden]
    found = _fields(form, shown, finders, add=False)
    members: dict[str, tuple[TypeHint, dict[str, Any]]] = {}
    if not add:
        text = "The id of an existing row; leave it out to add a row."
        members["id"] = id_hint(formset.model) | None, {"default": None, "description": text}
    for each, (hint, text, _) in found.items():
        # Only members that were sent count, so that the default is never used.
        options = {"default_factory": lambda: None, "description": text or None}
        members[argument(each, ("id", "DELETE"))] = hint, options
    if not add and formset.can_delete:
        text = "Whether to delete the row."
        members["DELETE"] = bool, {"default": False, "description": text}
    model = hints.model_with(f"{formset.model.__name__}Row", None, members)
    # The page may show more rows than it lets add.
    most = min(MOST_ROWS, formset.max_num or MOST_ROWS) if add else MOST_ROWS
    return hints.list_of(model, most=most)


def _fields(
    form: Any, names: Iterable[str], finders: Finders, *, add: bool
) -> dict[str, tuple[TypeHint, str, bool]]:
    """Return the hint, description and whether it is required, of each field that can be set."""
    found = {}
    for name in names:
        field = form.fields[name]
        # Raises if it is not known what a browser sends of it.
        list(controls(field.widget, name, field.prepare_value(form[name].initial)))
        has_initial = form[name].initial not in (None, "", [])
        is_required = add and field.required and not has_initial
        hint, options = _declared(type(form), name, field)
        if hint is None:
            if is_required and not field.disabled:
                raise LeftOut(f"its required field {name!r} is a secret, hidden, or cannot be JSON")
            continue
        # Help text about the mouse is useless to a model.
        text = strip_tags(options["description"] or "")
        text = text.replace(translation.gettext(_MOUSE), "").strip()
        if (rows := getattr(field, "queryset", None)) is not None:
            text = f"{text} {id_text(rows.model, finders, field.to_field_name or 'id')}".lstrip()
        found[name] = hint, text, is_required
    return found


def _declared(kind: Any, name: str, field: Any) -> tuple[TypeHint, dict[str, Any]]:
    """Return the hint of a field; None if callers cannot set it, and it stays as it is."""
    if not is_settable(name, field):
        return None, {}
    options = {"description": hints.describe([field.label, field.help_text])}
    if isinstance(field, forms.SplitDateTimeField):
        return DATETIME if field.required else DATETIME | None, options
    if isinstance(field, forms.JSONField):
        return _JSON, options
    if hasattr(field, "base_field") and hasattr(field, "delimiter"):
        # An array of PostgreSQL; its page joins the items.
        hint, _ = _declared(kind, name, field.base_field)
        return hint and hints.list_of(hint), options
    try:
        return declared(kind, name, field)
    except TypeError:
        is_text = isinstance(inner(field.widget), forms.TextInput | forms.Textarea | forms.Select)
        return (str if is_text else None), options
