"""A form class as a parameter: the procedure gets the valid form; and times as forms take them."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from django import forms
from django.conf import settings
from django.forms.utils import from_current_timezone
from django.utils import timezone
from django.utils.choices import BaseChoiceIterator, flatten_choices
from pydantic import AfterValidator, BaseModel
from pydantic_core import PydanticCustomError

from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.hints import TypeHint, annotate

_HINTS: Final = hints.by_class(forms)


class FormAdapter(Adapter):
    """Subclasses of Form and ModelForm. Raises TypeError for a field that no JSON value fills."""

    def parameter(self, hint: object, metadata: tuple[object, ...]) -> object:
        if not (isinstance(hint, type) and issubclass(hint, forms.BaseForm)):
            return None
        unbound = hint()
        fields = {
            name: _declared(name, field)
            for name, field in unbound.fields.items()
            if not field.disabled
        }

        def bind(values: BaseModel) -> forms.BaseForm:
            data, files = {}, {}
            for name, value in hints.sent_values(values).items():
                if value is not None:
                    field = unbound.fields[name]
                    sent = json.dumps(value) if isinstance(field, forms.JSONField) else value
                    given = files if isinstance(field, forms.FileField) else data
                    given[unbound.add_prefix(name)] = sent
            form = hint(data, files)
            for field in form.fields.values():
                # Other widgets read values as browsers send them: an absent box is one unticked.
                is_file = isinstance(field, forms.FileField)
                field.widget = forms.FileInput() if is_file else forms.Widget()
            if not form.is_valid():
                errors = (
                    (error.code, message, (name,) if name in form.fields else ())
                    for name, found in form.errors.as_data().items()
                    for error in found
                    for message in error.messages
                )
                raise hints.validation_error(hint.__name__, errors)
            return form

        shape = hints.model_with(hint.__name__, hint.__dict__.get("__doc__"), fields)
        return annotate(shape, *metadata, AfterValidator(bind))

    def result(self, hint: object, metadata: tuple[object, ...]) -> object:
        if isinstance(hint, type) and issubclass(hint, forms.BaseForm):
            raise TypeError("a form is no result: return the values of it that are to be shown")
        return None


def _declared(name: str, field: forms.Field) -> tuple[TypeHint, dict[str, Any]]:
    """Return a form's field as a hint and the options of pydantic's ``Field``."""
    hint = _hint(name, field)
    texts = (field.label, field.help_text)
    options = {"description": hints.describe(texts, _choices(field))}
    if field.required:
        return hint, options
    if hint is bool and not isinstance(field, forms.NullBooleanField):
        return hint, {**options, "default": False}
    return hint | None, {**options, "default": None}


def _hint(name: str, field: forms.Field) -> TypeHint:
    if isinstance(field, forms.ModelChoiceField):
        key = key_hint(field.queryset, field.to_field_name)
        return hints.list_of(key) if isinstance(field, forms.ModelMultipleChoiceField) else key
    if isinstance(field, forms.FileField):
        return hints.FILE
    least = 1 if field.required else None
    if isinstance(field, forms.ChoiceField):
        values = tuple(value for value, _ in _choices(field))
        choice: TypeHint = Literal[values] if values else str
        several = isinstance(field, forms.MultipleChoiceField)
        return hints.list_of(choice, field, least) if several else choice
    hint = hints.nearest(_HINTS, field)
    if hint is None:
        raise TypeError(f"the form field {name!r} is a {type(field).__name__}: no JSON fills it")
    if hint is bool and field.required and not isinstance(field, forms.NullBooleanField):
        # A required box is one that has to be ticked.
        return Literal[True]
    if hint in (Any, uuid.UUID):
        # Their fields are of texts, which may have a length; JSON values and UUIDs have none.
        return hint
    return hints.with_bounds(hint, field, least if isinstance(field, forms.CharField) else None)


def _choices(field: forms.Field) -> Sequence[tuple[object, object]]:
    """Return the choices that are known before a call; those of a function or query are not."""
    choices: Any = field.choices if isinstance(field, forms.ChoiceField) else []
    if isinstance(choices, BaseChoiceIterator):
        return []
    flat: Iterator[tuple[object, object]] = flatten_choices(choices)
    return [each for each in flat if each[0] not in ("", None)]


def in_site_time(value: datetime.datetime) -> datetime.datetime:
    """
    Return a time as the site keeps it: with USE_TZ aware, and else naive, in its time zone.

    Raises pydantic's error for one that the zone skips or has twice, or that Python cannot hold.
    """
    if not settings.USE_TZ and timezone.is_aware(value):
        default = timezone.get_default_timezone()
        try:
            return timezone.make_naive(value, default)
        except OverflowError as exception:
            text = "is before the year 1 or after the year 9999 in the time zone {zone}"
            raise PydanticCustomError("datetime_range", text, {"zone": str(default)}) from exception
    try:
        return from_current_timezone(value)
    except forms.ValidationError as exception:
        text = "is skipped or ambiguous in the time zone {zone}; send it with an offset"
        zone = timezone.get_current_timezone_name()
        raise PydanticCustomError("datetime_zone", text, {"zone": zone}) from exception
