"""Compute what a browser sends for the controls of a form (HTML, "Form submission")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from itertools import islice
from typing import Any, Final, TypeAlias

from django import forms
from django.contrib.admin.widgets import AutocompleteMixin, RelatedFieldWidgetWrapper
from django.contrib.auth.forms import ReadOnlyPasswordHashWidget
from django.forms.boundfield import BoundField
from django.forms.models import ModelChoiceIterator
from django.forms.widgets import ChoiceWidget, Input
from django.utils.choices import flatten_choices

from mcp_bridge.sources.secrets import secret_among

# The name and the text of a control.
Control: TypeAlias = tuple[str, str]
# The value of a field that its user leaves as it is.
SHOWN: Final = object()


class UnknownWidget(ValueError):
    """Raised for a widget of which it is not known what a browser sends."""


def inner(widget: Any) -> Any:
    """Return a widget without the admin's links beside it."""
    return widget.widget if isinstance(widget, RelatedFieldWidgetWrapper) else widget


def sent(bound: BoundField, value: Any = SHOWN) -> Iterator[Control]:
    """Yield the names and texts that a browser sends for a field, with a value entered in it."""
    field, name = bound.field, bound.html_name
    widget = inner(field.widget)
    if field.disabled:
        return
    if value is SHOWN:
        yield from controls(widget, name, bound.value())
    elif value is None and isinstance(widget, forms.ClearableFileInput):
        yield widget.clear_checkbox_name(name), "on"
    elif value is None and isinstance(widget, forms.Select) and not widget.allow_multiple_selected:
        # Never the first option, which a browser would send.
        yield name, ""
    else:
        yield from controls(widget, name, field.prepare_value(value), typed=True)
    if field.show_hidden_initial:
        old = field.prepare_value(bound.initial)
        yield from controls(field.hidden_widget(), bound.html_initial_name, old)


def controls(wrapped: Any, name: str, value: Any, typed: bool = False) -> Iterator[Control]:
    """Yield the names and texts that a browser sends for a widget. Raises UnknownWidget."""
    widget: Any = inner(wrapped)
    if widget.attrs.get("disabled"):
        return
    if isinstance(widget, forms.MultiWidget):
        values: Any = value if isinstance(value, list | tuple) else widget.decompress(value)
        names: list[str] = widget.widgets_names  # type: ignore[attr-defined]
        parts = zip(names, widget.widgets, values, strict=False)
        for suffix, part, each in parts:
            # As for the page.
            part.is_localized |= widget.is_localized
            yield from controls(part, name + suffix, each, typed)
    elif isinstance(widget, forms.CheckboxInput):
        if widget.check_test(value):
            yield name, widget.format_value(value) or "on"
    elif isinstance(widget, forms.FileInput | ReadOnlyPasswordHashWidget):
        # A browser never sends a file again.
        return
    elif isinstance(widget, ChoiceWidget):
        yield from _choices(widget, name, value)
    elif isinstance(widget, forms.MultipleHiddenInput):
        yield from ((name, str(each)) for each in value or ())
    elif isinstance(widget, forms.SelectDateWidget):
        for part in widget.get_context(name, value, {})["widget"]["subwidgets"]:
            options = [each for _, group, _ in part["optgroups"] for each in group]
            selected = [each for each in options if each["selected"]] or options[:1]
            yield part["name"], str(selected[0]["value"])
    elif typed and isinstance(value, time | datetime) and not getattr(widget, "format", None):
        # The page's format may lack seconds, which a person can type.
        yield name, str(value)
    elif isinstance(widget, Input | forms.Textarea):
        hides = isinstance(widget, forms.PasswordInput) and not widget.render_value
        shown = None if hides else widget.format_value(value)
        yield name, "" if shown is None else str(shown)
    else:
        raise UnknownWidget(
            f"its widget {type(widget).__qualname__} is not a subclass of a known widget of Django"
        )


def _choices(widget: Any, name: str, value: Any) -> Iterator[Control]:
    found = widget.format_value(value)
    chosen = [found] if isinstance(found, str) else [str(each) for each in found]
    if widget.allow_multiple_selected:
        yield from ((name, each) for each in chosen if each)
    elif any(chosen) or isinstance(widget, AutocompleteMixin):
        yield name, "".join(chosen[:1])
    elif not isinstance(widget, forms.RadioSelect):
        # A list without a selected option shows and sends its first one. A list of rows is not read
        # further: its empty option, if any, is the first.
        is_of_rows = isinstance(widget.choices, ModelChoiceIterator)
        options: Any = islice(iter(widget.choices), 1) if is_of_rows else widget.choices
        flat: Any = flatten_choices(options)
        values = ["" if each[0] is None else str(each[0]) for each in flat]
        yield name, "" if "" in values else "".join(values[:1])


def is_shown(name: str, field: forms.Field | None) -> bool:
    """Return whether a caller may see a value: not a secret's, and not hidden by its widget."""
    widget = field and inner(field.widget)
    hides = widget and (widget.is_hidden or isinstance(widget, ReadOnlyPasswordHashWidget))
    kind = widget and widget.attrs.get("type", getattr(widget, "input_type", ""))
    return not (hides or kind == "password" or secret_among([name]))


def is_settable(name: str, field: forms.Field) -> bool:
    """Return whether a caller may see and set a field."""
    is_disabled = field.disabled or inner(field.widget).attrs.get("disabled")
    return not is_disabled and is_shown(name, field)
