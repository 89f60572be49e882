"""Support form classes as parameters (a procedure gets the valid form), and times as in forms."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from django import forms
from django.conf import settings
from django.forms.utils import from_current_timezone
from django.utils import timezone
from django.utils.datastructures import MultiValueDict
from pydantic import AfterValidator, BaseModel
from pydantic_core import PydanticCustomError

from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.hints import Adapter, Side, TypeHint, annotate
from mcp_bridge.schemas.limits import check_hashes

_Choice: TypeAlias = tuple[object, object]
_HINTS: Final = hints.by_class(forms)


class FormAdapter(Adapter):
    """Subclasses of Form and ModelForm. Raises TypeError for a field that JSON cannot fill."""

    def adapted(self, hint: object, metadata: tuple[object, ...], side: Side) -> object:
        if not (isinstance(hint, type) and issubclass(hint, forms.BaseForm)):
            return None
        if side == "result":
            raise TypeError("a form cannot be a result: return the values to show instead")
        unbound = hint()
        enabled = {name: each for name, each in unbound.fields.items() if not each.disabled}
        fields = {name: declared(hint, name, each) for name, each in enabled.items()}

        def bind(values: BaseModel) -> forms.BaseForm:
            data: dict[str, Any] = {}
            files: MultiValueDict[str, Any] = MultiValueDict()
            for name, value in hints.sent_values(values).items():
                if value is not None:
                    field = unbound.fields[name]
                    sent = json.dumps(value) if isinstance(field, forms.JSONField) else value
                    is_file = isinstance(field, forms.FileField)
                    (files if is_file else data)[unbound.add_prefix(name)] = sent
            form = hint(data, files)
            for field in form.fields.values():
                # Other widgets expect values as browsers send them: an absent box is unchecked.
                is_file = isinstance(field, forms.FileField)
                field.widget = forms.FileInput() if is_file else forms.Widget()
            if not form.is_valid():
                raise hints.validation_error(hint.__name__, _errors(hint, form))
            return form

        shape = hints.model_with(hint.__name__, hint.__dict__.get("__doc__"), fields)
        return annotate(shape, *metadata, AfterValidator(bind))


def declared(
    form: type[forms.BaseForm], name: str, field: forms.Field
) -> tuple[TypeHint, dict[str, Any]]:
    """Return a form field as a hint and the options of pydantic's ``Field``."""
    choices = _fixed_choices(form, name, field)
    hint = _hint(name, field, choices)
    texts: tuple[object, ...] = (field.label, field.help_text)
    options: dict[str, Any] = {}
    if not field.required:
        is_box = hint is bool and not isinstance(field, forms.NullBooleanField)
        hint, options["default"] = (hint, False) if is_box else (hint | None, None)
    if choices is None:
        texts, choices = (*texts, hints.LATER), []
    return hint, {**options, "description": hints.describe(texts, choices)}


def _hint(name: str, field: forms.Field, choices: Sequence[_Choice] | None) -> TypeHint:
    if isinstance(field, forms.ModelChoiceField):
        key = key_hint(field.queryset, field.to_field_name)
        if isinstance(field, forms.ModelMultipleChoiceField):
            # The form field makes a set of them, and prepares a query for each, which is as slow.
            several = hints.list_of(key, field, None, hints.MOST_LOOKED_UP)
            return annotate(several, AfterValidator(check_hashes))
        return key
    if isinstance(field, forms.FileField):
        return hints.FILE
    least = 1 if field.required else None
    if isinstance(field, forms.ChoiceField):
        # Forms compare strings, even if the values of the choices are numbers.
        choice: TypeHint = Literal[tuple(value for value, _ in choices)] if choices else str
        several = isinstance(field, forms.MultipleChoiceField)
        return hints.list_of(choice, field, least) if several else choice
    hint = hints.nearest(_HINTS, field)
    if hint is None:
        raise TypeError(f"the form field {name!r} ({type(field).__name__}) cannot be JSON")
    if hint is bool and field.required and not isinstance(field, forms.NullBooleanField):
        # A required checkbox must be checked.
        return Literal[True]
    if hint in (Any, uuid.UUID):
        # Their fields are CharFields, which may have a length; JSON values and UUIDs do not.
        return hint
    return hints.with_bounds(hint, field, least if isinstance(field, forms.CharField) else None)


def _fixed_choices(
    form: type[forms.BaseForm], name: str, field: forms.Field
) -> Sequence[_Choice] | None:
    """Return the choices of a field, or None if a function or ``__init__`` provides them."""
    if not isinstance(field, forms.ChoiceField) or isinstance(field, forms.ModelChoiceField):
        return []
    declared = getattr(form, "base_fields", {}).get(name)
    return (hints.is_fixed(field, declared) and hints.listed(field)) or None


def _errors(kind: type[forms.BaseForm], form: forms.BaseForm) -> Iterator[hints.FieldError]:
    """Yield the errors of a form, with the choices of a field whose schema cannot list them."""
    for name, errors in form.errors.get_json_data().items():
        field = form.fields.get(name)
        for error in errors:
            code, text = error["code"], error["message"]
            is_open = field is not None and _fixed_choices(kind, name, field) is None
            if code == "invalid_choice" and is_open:
                text += f" {hints.offered(hints.listed(field))}"
            yield code, text, () if field is None else (name,)


def in_site_time(value: datetime.datetime) -> datetime.datetime:
    """Return a time in the site's zone. Raises pydantic's error if invalid there or in UTC."""
    zone = datetime.UTC if settings.USE_TZ else timezone.get_default_timezone()
    try:
        value = from_current_timezone(value)
        stored = timezone.make_naive(value, zone) if timezone.is_aware(value) else value
        return value if settings.USE_TZ else stored
    except OverflowError as exception:
        text = "is before the year 1 or after the year 9999 in the time zone {zone}"
        raise PydanticCustomError("datetime_range", text, {"zone": str(zone)}) from exception
    except forms.ValidationError as exception:
        text = "is skipped or ambiguous in the time zone {zone}; send it with an offset"
        name = timezone.get_current_timezone_name()
        raise PydanticCustomError("datetime_zone", text, {"zone": name}) from exception


def without_offset(value: datetime.time) -> datetime.time:
    """Return a time. Raises pydantic's error for one with an offset: databases do not store it."""
    if value.tzinfo is not None:
        raise PydanticCustomError("time_offset", "has an offset from UTC; leave it out")
    return value
