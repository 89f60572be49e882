"""The rows of a model as resources, in one statement."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import reduce
from typing import Any, Final, Unpack

from django.core import checks
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model, QuerySet

from mcp_bridge.features import Context
from mcp_bridge.features.marks import OfResource, mcp_resource, mcp_toolset
from mcp_bridge.features.uris import UriTemplate

# The maximum of rows in the list.
MOST: Final = 100
# Options that apply to the rows only.
_OF_ROWS: Final = frozenset({"name", "title", "description", "mime_type"})


def ModelResource(
    model: type[Model],
    *,
    uri: str,
    fields: str | Sequence[str],
    queryset: QuerySet[Any] | Callable[[Context], QuerySet[Any]] | None = None,
    list_uri: str | None = None,
    **options: Unpack[OfResource],
) -> type:
    """
    Return a toolset with a template of a model's rows as resources, and a resource that lists them.

    Assign it to a name in a module ``mcp_tools``. The variables of ``uri`` are lookups of the
    model: "articles://{slug}". A row is read as a JSON object of its ``fields``, or as the text of
    one field that is named as a string. ``queryset`` has the rows that a caller may read, or is a
    function of the Context that returns them (default: all). The list, at ``list_uri`` (default:
    the template up to its first variable, and "all"), has the URIs and texts of the first 100 rows.
    The other options are those of ``mcp_resource``, for both. Variables are completed from the
    queryset. Raises ValueError for a URI without a variable, FieldError for unknown fields, and the
    errors of ``mcp_resource``.
    """
    template = UriTemplate(uri)
    if not template.variables:
        raise ValueError(f"ModelResource(uri={uri!r}): the URI needs a variable, such as {{slug}}.")
    names = [fields] if isinstance(fields, str) else [*fields]
    # Unknown fields are an error now, and not when a row is read.
    model._default_manager.values(*names, *template.variables)

    def rows(context: Context) -> QuerySet[Any]:
        found = queryset(context) if callable(queryset) else queryset
        return model._default_manager.all() if found is None else found.all()

    def one(self: object, context: Context, **variables: str) -> Any:
        try:
            row = rows(context).values(*names).get(**variables)
        except (ValueError, ValidationError) as why:
            # A value that the field cannot have, such as a text for a number.
            raise ObjectDoesNotExist from why
        return str(row[fields]) if isinstance(fields, str) else row

    all_of_them, meta = _list_of(rows, template), model._meta
    variables = dict.fromkeys(template.variables, inspect.Parameter.empty)
    shared: Any = {key: value for key, value in options.items() if key not in _OF_ROWS}
    own: dict[str, Any] = {"name": meta.model_name, "description": f"One {meta.verbose_name}."}
    marked = mcp_resource(uri, **{**own, **options})(_with_parameters(one, variables))
    for name in template.variables:
        others = {each: "" for each in variables if each != name}
        given = {"value": inspect.Parameter.empty, **others}
        marked.complete(name)(_with_parameters(_completer(rows, name), given))
    listed = mcp_resource(
        list_uri or f"{uri.partition('{')[0]}all",
        name=f"{options.get('name') or meta.model_name}_list",
        description=f"The first {MOST} {meta.verbose_name_plural}, with their URIs.",
        **shared,
    )(all_of_them)
    toolset = type(f"{model.__name__}Resource", (), {"one": marked, "all_of_them": listed})
    _place(toolset, one, all_of_them)
    if not _identify(variables.keys(), model):
        toolset.finding = checks.Warning(  # type: ignore[attr-defined]
            f"ModelResource({model.__name__}, uri={uri!r}) in {toolset.__module__}: several rows "
            "may have one URI, which then cannot be read.",
            hint="Use variables that are unique, alone or together, such as {pk}. If the queryset "
            "makes them unique, add mcp_bridge.W045 to SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W045",
        )
    return mcp_toolset(prefix="")(toolset)


def _identify(names: Set[str], model: type[Model]) -> bool:
    """Return whether constraints allow one row at most for values of these lookups."""
    meta = model._meta
    unique: list[Any] = [[each.name] for each in meta.fields if each.unique]
    unique += [*meta.unique_together, *(each.fields for each in meta.total_unique_constraints)]
    return any(all(_fix(names, meta.get_field(name)) for name in each) for each in unique)


def _fix(names: Set[str], field: Any) -> bool:
    """Return whether values of these lookups fix the value of a field."""
    own = {field.name, field.attname, "pk" if field.primary_key else field.name}
    further = {each.partition("__")[2] for each in names if each.startswith(f"{field.name}__")}
    is_below = further and field.is_relation and _identify(further, field.related_model)
    return bool(is_below or own & names)


def _list_of(rows: Callable[[Context], QuerySet[Any]], template: UriTemplate) -> Any:
    """Return a method that lists the URIs and texts of the first rows."""
    related = {name.rpartition("__")[0] for name in template.variables if "__" in name}

    def all_of_them(self: object, context: Context) -> list[dict[str, str]]:
        found, listed = list[dict[str, str]](), rows(context)
        # Without names, it would join every relation.
        for row in (listed.select_related(*related) if related else listed)[:MOST]:
            given = {it: str(reduce(getattr, it.split("__"), row)) for it in template.variables}
            # Reading would refuse any other value, as completion does.
            if all(template.accepts(*each) for each in given.items()):
                found.append({"uri": template.expand(given), "title": str(row)})
        return found

    return all_of_them


def _place(toolset: type, *functions: Any) -> None:
    """Let messages and the admin name the statement that makes the toolset."""
    caller = sys._getframe(2)
    file, line = caller.f_code.co_filename, caller.f_lineno
    toolset.__module__ = caller.f_globals["__name__"]
    for each in functions:
        each.__code__ = each.__code__.replace(co_filename=file, co_firstlineno=line)
        each.__module__ = toolset.__module__
        each.__qualname__ = f"{toolset.__name__}.{each.__name__}"


def _completer(rows: Callable[[Context], QuerySet[Any]], name: str) -> Callable[..., QuerySet[Any]]:
    """Return what completes a variable: the values of rows that have the earlier variables."""

    def complete(context: Context, value: str, **earlier: str) -> QuerySet[Any]:
        found = rows(context).filter(**{f"{name}__startswith": value})
        found = found.filter(**{lookup: each for lookup, each in earlier.items() if each})
        return found.order_by(name).values_list(name, flat=True).distinct()

    return complete


def _with_parameters(function: Any, defaults: Mapping[str, object]) -> Any:
    """Return a function whose keyword arguments are parameters that take texts, with defaults."""
    parameters = [*inspect.signature(function).parameters.values()]
    kept = [each for each in parameters if each.name in ("self", "context")]
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(name, kind, default=each) for name, each in defaults.items()]
    function.__signature__ = inspect.Signature([*kept, *own])
    function.__annotations__ = {"context": Context, **dict.fromkeys(defaults, str)}
    return function
