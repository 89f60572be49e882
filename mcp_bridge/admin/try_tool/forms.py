"""A tool's input schema as a Django form, whose cleaned values are the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import capfirst
from django.utils.timezone import get_current_timezone_name, is_naive, make_aware
from django.utils.translation import gettext

from mcp_bridge.admin.schema_tables import (
    ANYTHING,
    KINDS,
    NOTHING,
    as_json,
    choice,
    describe_type,
    kinds_of,
    spelled,
    with_null_as_type,
)
from mcp_bridge.protocol import JSONObject, JSONSchema, ProtocolError
from mcp_bridge.protocol.jsonrpc import decode
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument

MAX_FIELDS: Final = 200
# Objects further in than this are written as JSON.
MAX_LEVEL: Final = 4
# The value of a field that was left empty: nothing is sent.
ABSENT: Final = object()
_EXAMPLE: Final = '{"name": "value"}'
# Text that may be longer than this has an input of several lines.
_LINE: Final = 200
# Types that need no words beside their inputs.
_SHOWN: Final = (*(KINDS[name] for name in ("string", "boolean", "object")), ANYTHING)
_BRANCHES: Final = {*REFERENCES, "anyOf", "oneOf", "allOf"}
_INPUTS: Final = {
    "email": forms.EmailInput,
    "uri": forms.URLInput,
    "password": forms.PasswordInput,
}
_SHORT_FORMATS: Final = ("time", "duration", "uuid", "ipv4", "ipv6", "hostname", "regex", *_INPUTS)

Read = Callable[[str], object]


class ArgumentField(forms.Field):
    """
    A field whose cleaned value is a JSON value, or ABSENT.

    ``read`` makes the value of the typed text and raises ValidationError; ``when_empty`` is sent
    where the field is left empty. The default of the schema is shown in the empty input.
    """

    when_empty: object = ABSENT

    def __init__(
        self, read: Read, widget: forms.Widget, hint: str = "", schema: JSONSchema | None = None
    ) -> None:
        # Missing arguments are for the server to refuse, as for any other caller.
        super().__init__(required=False, widget=widget, help_text=hint)
        self.read = read
        default = (schema or {}).get("default")
        if default not in (None, "", [], {}):
            text = default if isinstance(default, str) else as_json(default)
            self.widget.attrs["placeholder"] = cut(text, 80)

    def clean(self, value: object) -> object:
        if isinstance(value, bool):
            return value
        # Browsers send the lines of a textarea with CRLF.
        text = str(value or "").replace("\r\n", "\n")
        return ABSENT if text == "" else self.read(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """
    One member of the arguments: a ``field``, or an object of ``members``.

    ``key`` is its name in the form. A node without a ``name`` is the field for the members that
    the schema does not name.
    """

    key: str
    title: str
    name: str | None = None
    # The name as people can read it.
    label: str = ""
    required: bool = False
    help: str = ""
    when_empty: object = ABSENT
    field: forms.BoundField | None = None
    members: tuple[Node, ...] | None = None


class ArgumentsForm(forms.Form):
    """
    The form of a tool's input schema: ``ArgumentsForm(tool.input_schema, request.POST)``.

    It refuses only texts that cannot be made JSON; all else is for the server to refuse, whose
    errors ``add_tool_errors`` takes. An empty field is not sent.
    """

    prefix = "arguments"

    def __init__(self, schema: JSONSchema, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._document = SchemaDocument(with_null_as_type(schema))
        self._left = MAX_FIELDS
        # The fields' names in the form, by the JSON pointers of their values.
        self._keys: dict[str, str] = {}
        root, seen = self._document.merged(self._document.root)
        self.nodes = tuple(self._members(root, (), seen, certain=True))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments to send. Only for a form that is valid."""
        typed = {key: value for key, value in self.cleaned_data.items() if value is not ABSENT}
        return _object(self.nodes, typed)

    def add_tool_errors(self, errors: Iterable[JSONObject]) -> None:
        """Put each error of ``_meta["mcp-bridge/errors"]`` at its field, or at the form's top."""
        for error in errors:
            path, message = str(error.get("path", "")), str(error.get("message", ""))
            found = [each for each in self._keys if path == each or path.startswith(f"{each}/")]
            nearest = max(found, key=len, default="")
            rest = path.removeprefix(nearest)
            self.add_error(self._keys.get(nearest), f"{rest}: {message}" if rest else message)

    def prefill(self, arguments: JSONObject) -> None:
        """Show arguments in the fields, as far as each field reads the same from what it shows."""
        for place, key in self._keys.items():
            value: Any = arguments
            for name in place.split("/")[1:]:
                name = name.replace("~1", "/").replace("~0", "~")
                value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
            if value is ABSENT:
                continue
            lines = value if isinstance(value, list) else []
            written = [value, json.dumps(value), json.dumps(value, ensure_ascii=False)]
            for shown in (*written, "\n".join(map(str, lines))):
                if isinstance(shown, bool | str) and _is_read_from(self.fields[key], shown, value):
                    self.initial[key] = shown
                    break

    def _members(
        self, schema: JSONSchema, place: tuple[str, ...], seen: frozenset[int], certain: bool
    ) -> Iterator[Node]:
        """Yield the nodes of an object's members; ``certain`` is whether it is sent in any case."""
        properties = schema.get("properties", {})
        # A schema of more fields than a page can hold is one field for all of it.
        shown = properties if len(properties) <= self._left else {}
        self._left -= len(shown)
        required = schema.get("required", ())
        for name, each in shown.items():
            yield self._node(each, (*place, name), seen, name in required, certain)
        others = schema.get("additionalProperties", not shown)
        if others is not False or schema.get("patternProperties"):
            words = describe_type(others, self._document)
            text = gettext("Write a JSON object, such as %(example)s.") % {"example": _EXAMPLE}
            if words not in map(str, (ANYTHING, NOTHING)):
                text += " " + gettext("Each value: %(type)s.") % {"type": words}
            key = ".".join([*map(_encoded, place), "*"])
            self.fields[key] = _json({}, _read_object, text)
            title = gettext("Other members") if shown else gettext("All members")
            yield Node(key=key, title=title, field=self[key])

    def _node(
        self,
        schema: object,
        place: tuple[str, ...],
        seen: frozenset[int],
        required: bool,
        certain: bool,
    ) -> Node:
        words = describe_type(schema, self._document, seen)
        known, seen = self._document.merged(schema, seen)
        certain = certain and required
        key = ".".join(map(_encoded, place))
        field, members, when_empty, hint = None, None, ABSENT, ""
        kind = _kind(known, required)
        if kind == "object" and len(place) <= MAX_LEVEL and len(known["properties"]) <= self._left:
            nullable = "null" in kinds_of(known)
            members = tuple(self._members(known, place, seen, certain=certain and not nullable))
            if required:
                when_empty = None if nullable else _object(members, {})
        else:
            self._keys[pointer(place)] = key
            field = self.fields[key] = _field(known, kind, required, certain)
            when_empty, hint = field.when_empty, str(field.help_text)
        # The type and the default, as far as the input itself does not show them.
        notes = [] if words in map(str, _SHOWN) else [words]
        if "default" in known:
            notes.append(gettext("default: %(value)s") % {"value": as_json(known["default"], 80)})
        note = "; ".join(notes)
        notes = [f"{capfirst(note)}."] if note else []
        if required and not certain:
            notes.append(gettext("Required where anything else of its object is sent."))
        notes += [hint] if hint else []
        help_text = "\n".join(filter(None, [str(known.get("description", "")), " ".join(notes)]))
        if field:
            field.help_text = help_text
        return Node(
            key=key,
            title=str(known.get("title", "")),
            name=place[-1],
            label=spelled(place[-1]),
            required=required,
            help=help_text,
            when_empty=when_empty,
            field=self[key] if field else None,
            members=members,
        )


def _is_read_from(field: forms.Field, shown: object, value: object) -> bool:
    """Return whether a field reads a value, and one of its type, from what it shows."""
    with suppress(ValidationError):
        return json.dumps(field.clean(shown)) == json.dumps(value)
    return False


def _object(nodes: Iterable[Node], typed: JSONObject) -> dict[str, Any]:
    """Return the object of which the nodes are the members; ``typed`` is what was filled in."""
    found: dict[str, Any] = {}
    for node in nodes:
        value: Any = node.when_empty
        if node.members is None:
            value = typed.get(node.key, value)
        # An object of which no field is filled in is as absent as an empty field.
        elif any(key.startswith(f"{node.key}.") for key in typed):
            value = _object(node.members, typed)
        if value is not ABSENT:
            # A member with a field of its own comes before one written among the others.
            found = {**value, **found} if node.name is None else {**found, node.name: value}
    return found


def _encoded(name: str) -> str:
    """Return a name as it can stand between dots in an HTML name and id; "%" for the empty one."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E") or "%"


def _kind(schema: JSONSchema, required: bool) -> str:
    """Return the kind of a member's inputs: a JSON type, "choice", or "" where JSON is written."""
    kinds = [each for each in kinds_of(schema) if each != "null"]
    if "enum" in schema or "const" in schema or kinds == ["boolean"]:
        return "choice"
    if not required and "null" in kinds_of(schema) and schema.get("default") is not None:
        # Left empty it means the default, so that null has to be written.
        return ""
    if kinds in ([], ["object"]):
        return "object" if schema.get("properties") and not schema.keys() & _BRANCHES else ""
    return kinds[0] if len(kinds) == 1 else ""


def _field(schema: JSONSchema, kind: str, required: bool, certain: bool) -> ArgumentField:
    """Return the field of a member; ``certain`` is whether it must be sent in any case."""
    if kind != "choice":
        makers = {"string": _text, "integer": _number, "number": _number, "array": _list}
        field = makers.get(kind, _json)(schema)
        if not required:
            field.when_empty = ABSENT
        elif "null" in kinds_of(schema):
            field.when_empty = None
    elif certain and kinds_of(schema) == ["boolean"] and "enum" not in schema:
        return ArgumentField(str, forms.CheckboxInput())
    else:
        field = _choices(schema, empty=not certain)
    if certain and field.when_empty is ABSENT:
        field.widget.attrs["required"] = True
    return field


def _read_json(given: str) -> object:
    """Return the JSON value in a text, read as strictly as on the wire, or ABSENT without one."""
    if not given.strip():
        return ABSENT
    try:
        return decode(given.encode())
    except (ProtocolError, UnicodeEncodeError) as error:
        reason = str(error)
        reason = reason.partition(": ")[2] or reason
        refused = gettext("This JSON cannot be sent: %(reason)s") % {"reason": reason}
    try:
        json.loads(given)
    except json.JSONDecodeError as error:
        text = gettext(
            "This is not JSON: %(reason)s at line %(line)d, column %(column)d. Text stands in "
            "double quotes."
        )
        values = {"reason": error.msg.lower(), "line": error.lineno, "column": error.colno}
        refused = text % values
    except (ValueError, RecursionError):
        pass
    raise ValidationError(refused)


def _read_object(given: str) -> object:
    value = _read_json(given)
    if value is not ABSENT and not isinstance(value, dict):
        text = gettext("This is not a JSON object. Write one such as %(example)s.")
        raise ValidationError(text % {"example": _EXAMPLE})
    return value


def _read_number(text: str) -> object:
    with suppress(ProtocolError, UnicodeEncodeError):
        value: object = decode(text.strip().encode())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    raise ValidationError(gettext("This is not a number. Write one such as 3 or 2.5."))


def _read_text(text: str) -> str:
    return "" if text == '""' else text


def _read_moment(text: str) -> str:
    """Add the offset that JSON Schema asks for to a browser's date and time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return make_aware(moment).isoformat() if is_naive(moment) else text


def _choices(schema: JSONSchema, *, empty: bool) -> ArgumentField:
    values = [True, False, None] if "null" in kinds_of(schema) else [True, False]
    values = [schema["const"]] if "const" in schema else schema.get("enum") or values
    written = {json.dumps(value): value for value in values}
    choices = [(text, choice(value)) for text, value in written.items()]
    if empty:
        label = gettext("(not sent)")
        if "default" in schema:
            default = choice(schema["default"])
            label = gettext("(not sent; default: %(value)s)") % {"value": default}
        choices = [("", label), *choices]

    def read(text: str) -> object:
        if text not in written:
            raise ValidationError(gettext("Choose one of the values."))
        return written[text]

    return ArgumentField(read, forms.Select(choices=choices))


def _text(schema: JSONSchema) -> ArgumentField:
    given = schema.get("format", "")
    if given == "date":
        # Not the bare DateInput, which is a text input.
        return ArgumentField(str, forms.TextInput({"type": "date"}))
    if given == "date-time":
        widget = forms.TextInput({"type": "datetime-local", "step": "1"})
        hint = gettext("In the time zone %(zone)s.") % {"zone": get_current_timezone_name()}
        return ArgumentField(_read_moment, widget, hint)
    if given in _SHORT_FORMATS or schema.get("maxLength", _LINE + 1) <= _LINE:
        line = _INPUTS.get(given, forms.TextInput)({"class": "vTextField"})
        return ArgumentField(_read_text, line, schema=schema)
    # Where no length is given it may be a word or a page: one line that grows.
    return ArgumentField(_read_text, _area(4 if "maxLength" in schema else 1), schema=schema)


def _number(schema: JSONSchema) -> ArgumentField:
    step = schema.get("multipleOf", 1)
    # A browser counts its steps from the minimum.
    fits = "integer" in kinds_of(schema) and schema.get("minimum", 0) % step == 0
    attrs = {"class": "vIntegerField", "step": step if fits else "any"}
    # Django leaves out an attribute that is False.
    bounds = {"min": schema.get("minimum", False), "max": schema.get("maximum", False)}
    return ArgumentField(_read_number, forms.NumberInput({**attrs, **bounds}), schema=schema)


def _list(schema: JSONSchema) -> ArgumentField:
    """Return a field with one value a line where the items are plain, or one of JSON."""
    items: Any = schema.get("items")
    is_plain = (
        isinstance(items, Mapping)
        and "prefixItems" not in schema
        and not items.keys() & _BRANCHES
        # A value with lines of its own cannot be one of several lines.
        and items.get("maxLength", 0) <= _LINE
    )
    readers = {"string": _read_text, "integer": _read_number, "number": _read_number}
    read_item = readers.get(" ".join(kinds_of(items))) if is_plain else None
    if read_item is None:
        return _json(schema)

    def read(text: str) -> object:
        if text.strip() == "[]":
            return []
        values = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                values += [read_item(line)] if line.strip() else []
            except ValidationError as error:
                refused = gettext("Line %(number)d: %(error)s")
                refused %= {"number": number, "error": error.message}
                raise ValidationError(refused) from None
        return values or ABSENT

    field = ArgumentField(read, _area(3), gettext("One value a line."), schema)
    field.when_empty = []
    return field


def _json(
    schema: JSONSchema,
    read: Read = _read_json,
    hint: str = "",
) -> ArgumentField:
    area = _area(3, "vLargeTextField mcp-json", spellcheck="false")
    hint = hint or gettext("Write JSON, such as %(examples)s or %(number)s.") % {
        "examples": f'{_EXAMPLE}, ["a", "b"], "text"',
        "number": "12",
    }
    return ArgumentField(read, area, hint, schema)


def _area(rows: int, kind: str = "vLargeTextField", **attrs: str) -> forms.Textarea:
    return forms.Textarea({"rows": rows, "class": kind, **attrs})
