"""One value of a tool's arguments as a field of a Django form: typed text becomes a JSON value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.timezone import get_current_timezone_name, is_naive, make_aware

from mcp_bridge.admin.schema_tables import as_json, choice, kinds_of
from mcp_bridge.protocol import ProtocolError
from mcp_bridge.protocol.jsonrpc import decode
from mcp_bridge.protocol.text import cut

# What a field gives that was left empty: nothing is sent.
ABSENT: Final = object()

# Text that may be longer than this has an input of several lines.
_LINE: Final = 200
_NUMBERS: Final = ("integer", "number")
_SCALARS: Final = ("string", *_NUMBERS)
_INPUTS: Final[Mapping[str, type[forms.Widget]]] = {
    "email": forms.EmailInput,
    "uri": forms.URLInput,
    "password": forms.PasswordInput,
}
# Formats that are always short, besides those that have an input of their own.
_SHORT: Final = ("time", "duration", "uuid", "ipv4", "ipv6", "hostname", "regex")

Read = Callable[[str], Any]


class ArgumentField(forms.Field):
    """
    A field whose cleaned value is a JSON value, or ABSENT.

    ``read`` makes the value of what was typed and raises ValidationError; ``hint`` tells how to
    type it; ``when_empty`` is what is sent where the field is left empty.
    """

    def __init__(
        self, read: Read, widget: forms.Widget, *, hint: str = "", when_empty: Any = ABSENT
    ) -> None:
        # What is missing is the server's to refuse, as for any other caller.
        super().__init__(required=False, widget=widget)
        self.read, self.hint, self.when_empty = read, hint, when_empty

    def clean(self, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        # Browsers send the lines of a textarea with CRLF.
        text = str(value or "").replace("\r\n", "\n")
        return ABSENT if text == "" else self.read(text)


def argument_field(schema: Mapping[str, Any], *, required: bool, certain: bool) -> ArgumentField:
    """
    The field for values of a schema without references.

    ``required`` is whether the member must be sent with its object, ``certain`` whether that
    object is sent in any case.
    """
    kinds = kinds_of(schema)
    nullable = "null" in kinds
    kind = (
        next((each for each in kinds if each != "null"), "") if len(kinds) <= 1 + nullable else ""
    )
    if kind == "boolean" and required and certain and not nullable and "enum" not in schema:
        return ArgumentField(str, forms.CheckboxInput())
    if "enum" in schema or "const" in schema or kind == "boolean":
        return _choices(schema, nullable=nullable, empty=not (required and certain))
    when_empty = None if nullable and required else ABSENT
    if nullable and not required and schema.get("default") is not None:
        # Left empty it means the default, so that null has to be written.
        return _json(schema, ABSENT)
    if kind == "string":
        return _text(schema, when_empty)
    if kind in _NUMBERS:
        return _number(schema, kind, when_empty)
    if kind == "array" and _has_lines(schema):
        return _lines(schema, required, when_empty)
    return _json(schema, when_empty)


def read_json(text: str) -> Any:
    """The JSON value in a text, read as strictly as on the wire. Raises ValidationError."""
    try:
        return decode(text.encode())
    except (ProtocolError, UnicodeEncodeError) as refused:
        raise ValidationError(_complaint(text, str(refused))) from None


def _complaint(text: str, refused: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return f"This is not JSON: {error.msg.lower()} at {place}. Text stands in double quotes."
    except (ValueError, RecursionError):
        pass
    return f"This JSON cannot be sent: {refused.partition(': ')[2] or refused}"


def _read_number(text: str) -> Any:
    try:
        value = decode(text.strip().encode())
    except (ProtocolError, UnicodeEncodeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError("This is not a number. Write one such as 3 or 2.5.")
    return value


def _read_text(text: str) -> str:
    return "" if text == '""' else text


def _read_moment(text: str) -> str:
    """What a browser gives for a date and time, with the offset that JSON Schema asks for."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return make_aware(moment).isoformat() if is_naive(moment) else text


def _text(schema: Mapping[str, Any], when_empty: Any) -> ArgumentField:
    given = schema.get("format", "")
    attrs = {"class": "vTextField", **_placeholder(schema)}
    if given == "date":
        # Not the bare DateInput, which is a text input.
        return ArgumentField(str, forms.TextInput({"type": "date"}), when_empty=when_empty)
    if given == "date-time":
        widget = forms.TextInput({"type": "datetime-local", "step": "1"})
        hint = f"In the time zone {get_current_timezone_name()}."
        return ArgumentField(_read_moment, widget, hint=hint, when_empty=when_empty)
    if given in _INPUTS:
        return ArgumentField(_read_text, _INPUTS[given](attrs), when_empty=when_empty)
    short = given in _SHORT or schema.get("maxLength", _LINE + 1) <= _LINE
    if short:
        return ArgumentField(_read_text, forms.TextInput(attrs), when_empty=when_empty)
    # Where no length is given it may be a word or a page: one line that grows.
    rows = 4 if "maxLength" in schema else 1
    return ArgumentField(_read_text, _area(schema, rows), when_empty=when_empty)


def _number(schema: Mapping[str, Any], kind: str, when_empty: Any) -> ArgumentField:
    attrs: dict[str, Any] = {"class": "vIntegerField", "step": "any", **_placeholder(schema)}
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":
        step = schema.get("multipleOf", 1)
        # A browser counts its steps from the minimum.
        attrs["step"] = step if (low or 0) % step == 0 else "any"
    attrs |= {name: bound for name, bound in (("min", low), ("max", high)) if bound is not None}
    return ArgumentField(_read_number, forms.NumberInput(attrs), when_empty=when_empty)


def _choices(schema: Mapping[str, Any], *, nullable: bool, empty: bool) -> ArgumentField:
    values = schema.get("enum") or [True, False]
    if "const" in schema:
        values = [schema["const"]]
    elif nullable and "enum" not in schema:
        values = [*values, None]
    written = {json.dumps(value): value for value in values}
    choices = [(text, choice(value)) for text, value in written.items()]
    if empty:
        default = f"; default: {choice(schema['default'])}" if "default" in schema else ""
        choices = [("", f"(not sent{default})"), *choices]

    def read(text: str) -> Any:
        if text not in written:
            raise ValidationError("Choose one of the values.")
        return written[text]

    return ArgumentField(read, forms.Select(choices=choices))


def _has_lines(schema: Mapping[str, Any]) -> bool:
    items = schema.get("items")
    if not isinstance(items, Mapping) or "prefixItems" in schema:
        return False
    plain = items.get("type") in _SCALARS and not items.keys() & {"$ref", "anyOf", "oneOf", "allOf"}
    # A value with lines of its own cannot be one of several lines.
    return plain and items.get("maxLength", 0) <= _LINE


def _lines(schema: Mapping[str, Any], required: bool, when_empty: Any) -> ArgumentField:
    read_item = _read_text if schema["items"]["type"] == "string" else _read_number

    def read(text: str) -> Any:
        if text.strip() == "[]":
            return []
        values = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                values += [read_item(line)] if line.strip() else []
            except ValidationError as error:
                raise ValidationError(f"Line {number}: {error.message}") from None
        return values or ABSENT

    if required and when_empty is ABSENT:
        when_empty = []
    widget = _area(schema, 3)
    return ArgumentField(read, widget, hint="One value a line.", when_empty=when_empty)


def _json(schema: Mapping[str, Any], when_empty: Any) -> ArgumentField:
    def read(text: str) -> Any:
        return read_json(text) if text.strip() else ABSENT

    widget = _area(schema, 3)
    widget.attrs |= {"spellcheck": "false", "class": "vLargeTextField mcp-json"}
    hint = 'Write JSON, such as {"name": "value"}, ["a", "b"], "text" or 12.'
    return ArgumentField(read, widget, hint=hint, when_empty=when_empty)


def _area(schema: Mapping[str, Any], rows: int) -> forms.Textarea:
    return forms.Textarea({"rows": rows, "class": "vLargeTextField", **_placeholder(schema)})


def _placeholder(schema: Mapping[str, Any]) -> dict[str, str]:
    default = schema.get("default")
    if default in (None, "", [], {}):
        return {}
    text = default if isinstance(default, str) else as_json(default)
    return {"placeholder": cut(text, 80)}
