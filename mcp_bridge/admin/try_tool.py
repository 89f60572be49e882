"""The page to try a tool: a form for its input schema, a confirmation, and the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext

from mcp_bridge.admin.base import Context, PagesAdmin
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import recorded_arguments
from mcp_bridge.admin.schema_tables import PLAIN, as_json, choice, describe_type, kinds_of, spelled
from mcp_bridge.admin.tool_calls import call, find_errors, shown
from mcp_bridge.confirmation.rendering import visible
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.protocol import JSONObject, JSONSchema, ProtocolError
from mcp_bridge.protocol.jsonrpc import decode
from mcp_bridge.protocol.text import cut, pointer
from mcp_bridge.schemas.forms import flat
from mcp_bridge.schemas.walk import SchemaDocument

# Schemas with more members get a single JSON field.
MAX_FIELDS: Final = 200
# The value of an empty field: it is not sent.
ABSENT: Final = object()
# The field for members that the schema does not name; quoted names are never "*".
_OTHERS: Final = "*"
# Texts that may be longer get a multi-line input.
_LINE: Final = 200
# An example value of each format and type; the levels of examples, and the members at each.
_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H30M",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_EXAMPLES: Final[Mapping[str, object]] = {
    "boolean": True,
    "integer": 1,
    "null": None,
    "number": 1.5,
    "string": "text",
}
_LEVELS: Final = 3
_MEMBERS: Final = 10

Read = Callable[[str], object]


def try_page(model_admin: PagesAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a form for a tool's parameters; submitting it calls the tool as the user."""
    setting: ToolSetting = model_admin.viewed(request, object_id)
    entry = Entry.of(setting)
    context: Context = {"title": gettext("Try it"), "subtitle": setting}
    context |= {"original": setting, "entry": entry}
    if entry.shown is None or not entry.is_served:
        return model_admin.page(request, "try", context)
    form = ArgumentsForm(entry.shown.input_schema, request.POST or None)
    if request.method == "GET" and model_admin.can_link(request, ToolCallRecord):
        sent = recorded_arguments(request.GET.get("record", ""), setting)
        form.prefill(sent)
        context["is_filled_in"] = bool(sent)
    context |= {"form": form, "media": model_admin.media + form.media}
    if request.method == "POST" and "_edit" not in request.POST and form.is_valid():
        arguments, asks_first = form.arguments(), entry.shown.is_irreversible
        form.add_tool_errors(find_errors(setting.label, arguments, request))
        if asks_first and "_confirmed" not in request.POST and not form.errors:
            context["arguments"] = visible(json.dumps(arguments, indent=2, ensure_ascii=False))
            return model_admin.page(request, "confirm", context)
        if not form.errors:
            outcome = call(setting.label, arguments, request, confirmed=asks_first)
            context["refusal"] = outcome.refusal
            context["shown"] = result = outcome.result and shown(outcome.result)
            form.add_tool_errors(result.errors if result else ())
    for field in [each for each in form if each.errors][:1]:
        field.field.widget.attrs["autofocus"] = True
    return model_admin.page(request, "try", context)


class ArgumentField(forms.Field):
    """
    The field of one member; its cleaned value is a JSON value or ABSENT.

    ``read`` converts a non-empty text to a value, or raises ValidationError. ``when_empty`` is the
    value of an empty field: the server reports missing arguments.
    """

    name = ""

    def __init__(
        self, read: Read, widget: forms.Widget, hint: str = "", when_empty: object = ABSENT
    ) -> None:
        super().__init__(required=False, widget=widget, help_text=hint)
        self.read, self.when_empty = read, when_empty

    def clean(self, value: object) -> object:
        if isinstance(value, bool):
            return value
        # Browsers send the lines of a textarea with CRLF.
        text = str(value or "").replace("\r\n", "\n")
        return self.when_empty if text == "" else self.read(text)


class ArgumentsForm(forms.Form):
    """
    The form for a tool's input schema: a field for each member, as JSON for nested values.

    It rejects only texts that cannot become JSON; the tool checks the rest, and its errors are
    added by ``add_tool_errors``. Empty fields are not sent.
    """

    prefix = "arguments"

    class Media:
        # Shows the pictures and plays the sounds of a result.
        js = ["mcp_bridge/results.js"]

    def __init__(self, schema: JSONSchema, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        document = SchemaDocument(schema)
        root, seen = document.merged(document.root)
        members, required = root.get("properties", {}), root.get("required", ())
        if len(members) > MAX_FIELDS:
            members = {}
        # By field name, which is valid in an HTML name and id.
        self._members: dict[str, ArgumentField] = {}
        for name, each in members.items():
            key = quote(name, safe="", errors="surrogatepass") or "%"
            self._members[key] = _member(document, each, name, name in required, seen)
        self.fields |= self._members
        others = root.get("additionalProperties", not members)
        if others is not False or root.get("patternProperties"):
            example = _example(document, {"type": "object", "additionalProperties": others}, seen)
            field = self.fields[_OTHERS] = _json(example, _read_object)
            field.label = gettext("Other members") if members else gettext("All members")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments to send. Requires a valid form."""
        values = {key: value for key, value in self.cleaned_data.items() if value is not ABSENT}
        # A member's own field takes precedence over one among the others.
        found: dict[str, Any] = dict(values.pop(_OTHERS, {}))
        return found | {self._members[key].name: value for key, value in values.items()}

    def add_tool_errors(self, errors: Iterable[JSONObject]) -> None:
        """Add each error of ``_meta["mcp-bridge/errors"]`` to its field, or to the form."""
        keys = {pointer((field.name,)): key for key, field in self._members.items()}
        for error in errors:
            path, message = str(error.get("path", "")), str(error.get("message", ""))
            first = "/".join(path.split("/")[:2])
            rest = path.removeprefix(first) if first in keys else path
            self.add_error(keys.get(first), f"{rest}: {message}" if rest else message)

    def prefill(self, arguments: JSONObject) -> None:
        """Fill the fields with arguments that survive a round trip through the field."""
        for key, field in self._members.items():
            if field.name not in arguments:
                continue
            value = arguments[field.name]
            for text in (value, json.dumps(value), json.dumps(value, ensure_ascii=False)):
                with suppress(ValidationError):
                    # With the same type: true is not 1.
                    is_same = json.dumps(field.clean(text)) == json.dumps(value)
                    if isinstance(text, bool | str) and is_same:
                        self.initial[key] = text
                        break


def _member(
    document: SchemaDocument, schema: object, name: str, required: bool, seen: frozenset[int]
) -> ArgumentField:
    """Return the field of a member, from the type, values and format in its schema."""
    known, _seen = document.merged(schema, seen)
    found = flat(document, schema, seen)
    branches = [each for each in known.get("anyOf", ()) if isinstance(each, Mapping)]
    nullable = any("null" in kinds_of(each) for each in (known, *branches))
    kinds = [each for each in kinds_of(found) if each != "null"]
    default = found.get("default")
    if "enum" in found or kinds == ["boolean"]:
        field = _choices(found, nullable=nullable, required=required)
    elif len(kinds) == 1 and kinds[0] in _TYPED and (required or not nullable or default is None):
        widget = _input(found, kinds[0])
        if default not in (None, ""):
            shown = default if isinstance(default, str) else as_json(default)
            widget.attrs["placeholder"] = cut(shown, 80)
        when_empty = None if required and nullable else ABSENT
        field = ArgumentField(_TYPED[kinds[0]], widget, when_empty=when_empty)
    else:
        # Also if null must be entered, since an empty field means another default.
        field = _json(_example(document, schema, seen))
    is_sent_empty = field.when_empty is None or isinstance(field.widget, forms.CheckboxInput)
    field.name, field.required = name, required and not is_sent_empty
    field.label = format_html("{} <code>{}</code>", found.get("title", ""), spelled(name))
    notes = []
    if not isinstance(field.widget, forms.Select):
        words = describe_type(schema, document, seen)
        notes += [] if words in map(str, PLAIN) else [words]
        if "default" in found:
            notes.append(gettext("default: %(value)s") % {"value": as_json(default, 80)})
    note = f"{capfirst('; '.join(notes))}." if notes else ""
    about = " ".join(filter(None, [note, str(field.help_text)]))
    field.help_text = "\n".join(filter(None, [str(found.get("description", "")), about]))
    return field


def _input(schema: JSONSchema, kind: str) -> forms.Widget:
    """Return the input for a text or a number."""
    given = schema.get("format", "")
    if kind != "string":
        # Django omits attributes that are False.
        bounds = {"min": schema.get("minimum", False), "max": schema.get("maximum", False)}
        step = 1 if kind == "integer" else "any"
        return forms.NumberInput({"class": "vIntegerField", "step": step, **bounds})
    if given == "date":
        # DateInput would be a text input.
        return forms.TextInput({"type": "date"})
    if given == "password":
        return forms.PasswordInput({"class": "vTextField"})
    if given in _FORMATS or schema.get("maxLength", _LINE + 1) <= _LINE:
        shown = _FORMATS.get(given, False)
        return forms.TextInput({"class": "vTextField", "placeholder": shown})
    # A textarea that grows with its content.
    return forms.Textarea({"rows": 1, "class": "vLargeTextField"})


def _example(
    document: SchemaDocument, schema: object, seen: frozenset[int], level: int = 0
) -> object:
    """Return an example value that matches a schema's types."""
    found = flat(document, schema, seen)
    for values in (found.get("examples"), found.get("enum"), [found.get("default")]):
        if values and values[0] is not None:
            return values[0]
    kind = next((each for each in kinds_of(found) if each != "null"), "")
    # The level limit ends recursive schemas.
    is_inside = level < _LEVELS
    for keyword in ("anyOf", "oneOf", "allOf"):
        if not kind and found.get(keyword) and is_inside:
            return _example(document, found[keyword][0], seen, level + 1)
    if kind == "array":
        items = found.get("items", {})
        return [_example(document, items, seen, level + 1)] if is_inside else []
    if kind == "object" or "properties" in found:
        members = found.get("properties") or {"name": found.get("additionalProperties", {})}
        chosen = [each for each in members if each in found.get("required", ())] or [*members]
        return {
            each: _example(document, members[each], seen, level + 1)
            for each in chosen[: _MEMBERS * is_inside]
        }
    return _FORMATS.get(found.get("format", ""), _EXAMPLES.get(kind, "value"))


def _read_json(given: str) -> object:
    """Parse JSON as strictly as in requests; ABSENT for an empty text."""
    if not given.strip():
        return ABSENT
    try:
        return decode(given.encode())
    except ProtocolError as error:
        reason = str(error)
    refused = gettext("This JSON cannot be sent: %(reason)s")
    refused %= {"reason": reason.partition(": ")[2] or reason}
    try:
        json.loads(given)
    except json.JSONDecodeError as error:
        text = gettext(
            "This is not JSON: %(reason)s at line %(line)d, column %(column)d. Put text in "
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
        text = gettext("This is not a JSON object. Enter one such as %(example)s.")
        raise ValidationError(text % {"example": '{"name": "value"}'})
    return value


def _read_number(text: str) -> object:
    with suppress(ProtocolError):
        value: object = decode(text.strip().encode())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    raise ValidationError(gettext("This is not a number. Enter one such as 3 or 2.5."))


def _choices(schema: JSONSchema, *, nullable: bool, required: bool) -> ArgumentField:
    values = schema.get("enum", [True, False])
    if nullable and None not in values:
        values = [*values, None]
    elif required and "enum" not in schema:
        return ArgumentField(str, forms.CheckboxInput())
    written = {json.dumps(value): value for value in values}
    choices = [(text, choice(value)) for text, value in written.items()]
    if not required:
        label = gettext("(not sent)")
        if "default" in schema:
            label = gettext("(not sent; default: %(value)s)")
            label %= {"value": choice(schema["default"])}
        choices = [("", label), *choices]

    def read(text: str) -> object:
        if text not in written:
            raise ValidationError(gettext("Select one of the values."))
        return written[text]

    return ArgumentField(read, forms.Select(choices=choices))


def _json(example: object, read: Read = _read_json) -> ArgumentField:
    attrs = {"rows": 3, "class": "vLargeTextField mcp-json", "spellcheck": "false"}
    hint = gettext("Enter JSON, such as %(example)s.") % {"example": as_json(example, 1_000)}
    return ArgumentField(read, forms.Textarea(attrs), hint)


# Converters for types that have their own input.
_TYPED: Final[Mapping[str, Read]] = {
    "string": lambda text: "" if text == '""' else text,
    "integer": _read_number,
    "number": _read_number,
}
