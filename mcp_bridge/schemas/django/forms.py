"""A form class as a parameter: its fields come in, the valid form goes on."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from django import forms
from django.utils.choices import BaseChoiceIterator, flatten_choices
from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.django.choices import labels
from mcp_bridge.schemas.django.hints import SHAPE, After
from mcp_bridge.schemas.django.models import key_hint

# The first that matches counts: a subclass stands before its base.
_HINTS: Final[Sequence[tuple[type[forms.Field], Any]]] = (
    (forms.FloatField, float),
    (forms.DecimalField, decimal.Decimal),
    (forms.DurationField, datetime.timedelta),
    (forms.IntegerField, int),
    (forms.DateTimeField, datetime.datetime),
    (forms.DateField, datetime.date),
    (forms.TimeField, datetime.time),
    (forms.UUIDField, uuid.UUID),
    (forms.EmailField, Annotated[str, Field(json_schema_extra={"format": "email"})]),
    (forms.JSONField, Any),
    (forms.CharField, str),
    (forms.NullBooleanField, bool),
)
_BOUNDS: Final = (("min_value", "ge"), ("max_value", "le"))


class FormAdapter(Adapter):
    """Subclasses of Form and ModelForm."""

    def parameter(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        if not (isinstance(hint, type) and issubclass(hint, forms.BaseForm)):
            return None
        binder = Binder(hint)
        return Annotated[(binder.shape, *metadata, After(binder.bound))]

    def result(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        if isinstance(hint, type) and issubclass(hint, forms.BaseForm):
            raise TypeError("a form is no result: return the values of it that are to be shown")
        return None


class Binder:
    """
    From the values of a form's fields to the form that they make.

    Raises TypeError for a field that no JSON value can fill.
    """

    def __init__(self, form: type[forms.BaseForm]) -> None:
        self.form = form
        self.unbound = form()
        fields = self.unbound.fields.items()
        shown = {name: field for name, field in fields if not field.disabled}
        # Fields have names of their own, since a form's may be what no pydantic field may.
        self.names = {f"f{index}": name for index, name in enumerate(shown)}
        declared: dict[str, Any] = {
            own: _declared(name, shown[name]) for own, name in self.names.items()
        }
        self.shape: type[BaseModel] = create_model(
            form.__name__, __config__=SHAPE, __doc__=form.__dict__.get("__doc__"), **declared
        )

    def bound(self, values: BaseModel) -> forms.BaseForm:
        """The valid form; raises ValidationError with all that the form refuses."""
        sent = {self.names[own]: getattr(values, own) for own in values.model_fields_set}
        form = self.form(
            {
                self.unbound.add_prefix(name): _as_data(self.unbound.fields[name], value)
                for name, value in sent.items()
                if value is not None
            }
        )
        for field in form.fields.values():
            # What browsers send is not what is sent here, and unsent is not unticked.
            field.widget = _Given()
        if not form.is_valid():
            raise ValidationError.from_exception_data(self.form.__name__, list(_errors(form, sent)))
        return form


class _Given(forms.Widget):
    """A widget that gives its field the value as it was sent."""


def _errors(form: forms.BaseForm, sent: dict[str, Any]) -> Iterator[InitErrorDetails]:
    for name, errors in form.errors.as_data().items():
        location = (name,) if name in form.fields else ()
        for error in errors:
            for message in error.messages:
                # The texts may hold anything, so that they are no template themselves.
                kind: Any = error.code or "invalid"
                told = PydanticCustomError(kind, "{text}", {"text": message})
                yield InitErrorDetails(type=told, loc=location, input=sent.get(name))


def _as_data(field: forms.Field, value: Any) -> Any:
    return json.dumps(value) if isinstance(field, forms.JSONField) else value


def _declared(name: str, field: forms.Field) -> tuple[Any, Any]:
    """A form's field as a field of a pydantic model."""
    hint = field_hint(name, field)
    options: dict[str, Any] = {"alias": name, "description": _description(field)}
    if field.required:
        return hint, Field(**options)
    if isinstance(field, forms.BooleanField) and not isinstance(field, forms.NullBooleanField):
        return hint, Field(default=False, **options)
    return hint | None, Field(default=None, **options)


def _description(field: forms.Field) -> str | None:
    texts = [str(text).rstrip(".") + "." for text in (field.label, field.help_text) if text]
    choices = _choices(field)
    if choices and any(str(value) != str(label) for value, label in choices):
        texts.append(labels(choices))
    return " ".join(texts) or None


def field_hint(name: str, field: forms.Field) -> Any:
    """The hint of what fills a form's field; raises TypeError where no JSON value can."""
    if isinstance(field, forms.ModelMultipleChoiceField):
        return list[_key(field)]  # type: ignore[misc]
    if isinstance(field, forms.ModelChoiceField):
        return _key(field)
    if isinstance(field, forms.ChoiceField):
        values = tuple(value for value, _ in _choices(field))
        hint: Any = Literal[values] if values else str
        several = isinstance(field, forms.MultipleChoiceField | forms.TypedMultipleChoiceField)
        if several and field.required:
            return Annotated[list[hint], Field(min_length=1)]
        return list[hint] if several else hint
    if isinstance(field, forms.BooleanField) and not isinstance(field, forms.NullBooleanField):
        # A required tick is one that has to be there.
        return Literal[True] if field.required else bool
    hint = next((hint for kind, hint in _HINTS if isinstance(field, kind)), None)
    if hint is None:
        raise TypeError(f"the form field {name!r} is a {type(field).__name__}: no JSON fills it")
    return _bounded(hint, field)


def _bounded(hint: Any, field: forms.Field) -> Any:
    bounds = {ours: getattr(field, its, None) for its, ours in _BOUNDS}
    if isinstance(field, forms.CharField) and not isinstance(
        field, forms.JSONField | forms.UUIDField
    ):
        least = getattr(field, "min_length", None) or (1 if field.required else None)
        bounds = {"min_length": least, "max_length": getattr(field, "max_length", None)}
    given = {key: value for key, value in bounds.items() if value is not None}
    given = {key: value for key, value in given.items() if not callable(value)}
    return Annotated[hint, Field(**given)] if given else hint


def _key(field: Any) -> Any:
    model = field.queryset.model
    return key_hint(model._meta.get_field(field.to_field_name or model._meta.pk.name))


def _choices(field: forms.Field) -> list[tuple[Any, Any]]:
    """The choices that are known before a call; those of a function or a query are not."""
    if not isinstance(field, forms.ChoiceField) or isinstance(field, forms.ModelChoiceField):
        return []
    choices: Any = field.choices
    if isinstance(choices, BaseChoiceIterator):
        return []
    flat: Any = flatten_choices(choices)
    return [each for each in flat if each[0] not in ("", None)]
