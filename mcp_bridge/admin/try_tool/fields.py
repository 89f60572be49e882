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
from mcp_bridge.protocol import JSONSchema, ProtocolError
from mcp_bridge.protocol.jsonrpc import decode
from mcp_bridge.protocol.text import cut

# The value of a field that was left empty: nothing is sent.
ABSENT: Final = object()

# Text that may be longer than this has an input of several lines.
_LINE: Final = 200
_NUMBERS: Final = ("integer", "number")
_INPUTS: Final[Mapping[str, type[forms.Widget]]] = {
    "email": forms.EmailInput,
    "uri": forms.URLInput,
    "password": forms.PasswordInput,
    # Formats that are always short.
    **dict.fromkeys(
        ("time", "duration", "uuid", "ipv4", "ipv6", "hostname", "regex"), forms.TextInput
    ),
}

Read = Callable[[str], object]


class ArgumentField(forms.Field):
    """
    A field whose cleaned value is a JSON value, or ABSENT.

    ``read`` makes the value of the typed text and raises ValidationError; ``hint`` tells how to
    type it; ``when_empty`` is sent where the field is left empty.
    """

    def __init__(
        self, read: Read, widget: forms.Widget, *, hint: str = "", when_empty: object = ABSENT
    ) -> None:
        # Missing arguments are for the server to refuse, as for any other caller.
        super().__init__(required=False, widget=widget)
        self.read, self.hint, self.when_empty = read, hint, when_empty

    def clean(self, value: object) -> object:
        if isinstance(value, bool):
            return value
        # Browsers send the lines of a textarea with CRLF.
        text = str(value or "").replace("\r\n", "\n")
        return ABSENT if text == "" else self.read(text)


def argument_field(schema: JSONSchema, *, required: bool, certain: bool) -> ArgumentField:
    """
    Return the field for values of a schema without references.

    ``required`` is whether the member must be sent with its object, ``certain`` whether that
    object is sent in any case.
    """
    kinds = kinds_of(schema)
    nullable = "null" in kinds
    others = [each for each in kinds if each != "null"]
    kind = others[0] if len(others) == 1 else ""
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
    items = schema.get("items")
    if kind == "array" and isinstance(items, Mapping) and "prefixItems" not in schema:
        is_plain = not items.keys() & {"$ref", "anyOf", "oneOf", "allOf"}
        # A value with lines of its own cannot be one of several lines.
        if is_plain and items.get("maxLength", 0) <= _LINE:
            read = {"string": _read_text, "integer": _read_number, "number": _read_number}
            if items.get("type") in read:
                empty = [] if required and not nullable else when_empty
                return _lines(schema, read[items["type"]], empty)
    return _json(schema, when_empty)


def read_json(text: str) -> Any:
    """Return the JSON value in a text, read as strictly as on the wire. Raises ValidationError."""
    try:
        return decode(text.encode())
    except (ProtocolError, UnicodeEncodeError) as error:
        refused = str(error)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        refused = f"{error.msg.lower()} at {place}. Text stands in double quotes."
        raise ValidationError(f"This is not JSON: {refused}") from None
    except (ValueError, RecursionError):
        pass
    raise ValidationError(f"This JSON cannot be sent: {refused.partition(': ')[2] or refused}")


def json_area(attrs: Mapping[str, str]) -> forms.Textarea:
    """Return an input for JSON of several lines."""
    return _area({"spellcheck": "false", "class": "vLargeTextField mcp-json", **attrs}, 3)


def _area(attrs: Mapping[str, str], rows: int) -> forms.Textarea:
    return forms.Textarea({"rows": rows, "class": "vLargeTextField", **attrs})


def _read_number(text: str) -> object:
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
    """Add the offset that JSON Schema asks for to a browser's date and time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return make_aware(moment).isoformat() if is_naive(moment) else text


def _text(schema: JSONSchema, when_empty: object) -> ArgumentField:
    given = schema.get("format", "")
    if given == "date":
        # Not the bare DateInput, which is a text input.
        return ArgumentField(str, forms.TextInput({"type": "date"}), when_empty=when_empty)
    if given == "date-time":
        widget = forms.TextInput({"type": "datetime-local", "step": "1"})
        hint = f"In the time zone {get_current_timezone_name()}."
        return ArgumentField(_read_moment, widget, hint=hint, when_empty=when_empty)
    attrs = _placeholder(schema)
    if given in _INPUTS or schema.get("maxLength", _LINE + 1) <= _LINE:
        one_line = _INPUTS.get(given, forms.TextInput)({"class": "vTextField", **attrs})
        return ArgumentField(_read_text, one_line, when_empty=when_empty)
    # Where no length is given it may be a word or a page: one line that grows.
    area = _area(attrs, 4 if "maxLength" in schema else 1)
    return ArgumentField(_read_text, area, when_empty=when_empty)


def _number(schema: JSONSchema, kind: str, when_empty: object) -> ArgumentField:
    attrs: dict[str, object] = {"class": "vIntegerField", "step": "any", **_placeholder(schema)}
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":
        step = schema.get("multipleOf", 1)
        # A browser counts its steps from the minimum.
        attrs["step"] = step if (low or 0) % step == 0 else "any"
    attrs |= {name: bound for name, bound in (("min", low), ("max", high)) if bound is not None}
    return ArgumentField(_read_number, forms.NumberInput(attrs), when_empty=when_empty)


def _choices(schema: JSONSchema, *, nullable: bool, empty: bool) -> ArgumentField:
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

    def read(text: str) -> object:
        if text not in written:
            raise ValidationError("Choose one of the values.")
        return written[text]

    return ArgumentField(read, forms.Select(choices=choices))


def _lines(schema: JSONSchema, read_item: Read, when_empty: object) -> ArgumentField:
    def read(text: str) -> object:
        if text.strip() == "[]":
            return []
        values = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                values += [read_item(line)] if line.strip() else []
            except ValidationError as error:
                raise ValidationError(f"Line {number}: {error.message}") from None
        return values or ABSENT

    area = _area(_placeholder(schema), 3)
    return ArgumentField(read, area, hint="One value a line.", when_empty=when_empty)


def _json(schema: JSONSchema, when_empty: object) -> ArgumentField:
    def read(text: str) -> object:
        return read_json(text) if text.strip() else ABSENT

    hint = 'Write JSON, such as {"name": "value"}, ["a", "b"], "text" or 12.'
    area = json_area(_placeholder(schema))
    return ArgumentField(read, area, hint=hint, when_empty=when_empty)


def _placeholder(schema: JSONSchema) -> dict[str, str]:
    default = schema.get("default")
    if default in (None, "", [], {}):
        return {}
    return {"placeholder": cut(default if isinstance(default, str) else as_json(default), 80)}
