"""A tool's input schema as a Django form, whose answers are the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from django import forms
from django.core.exceptions import ValidationError

from mcp_bridge.admin.schema_tables import as_json, in_words, kinds_of, spelled
from mcp_bridge.admin.try_tool.fields import ABSENT, ArgumentField, argument_field, read_json
from mcp_bridge.protocol.text import pointer
from mcp_bridge.schemas.walk import SchemaDocument

MAX_FIELDS: Final = 200
# Objects further in than this are written as JSON.
MAX_LEVEL: Final = 4
# Types that need no words beside their inputs.
_SHOWN: Final = ("string", "boolean", "object", "anything")
_BRANCHES: Final = {"$ref", "enum", "const", "anyOf", "oneOf", "allOf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """
    One member of the arguments: a field, or where ``members`` is given an object of fields.

    ``key`` is the field's name in the form, ``place`` the path of the value. What has no ``name``
    is a field for the members that the schema does not name.
    """

    name: str | None
    key: str
    place: tuple[str, ...]
    required: bool
    title: str
    help: str
    when_empty: Any = ABSENT
    members: tuple[Node, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a template shows of a node: a bound field, or a fieldset with parts."""

    title: str
    name: str
    required: bool
    help: str
    id: str
    field: forms.BoundField | None = None
    parts: list[Part] | None = None

    @property
    def is_checkbox(self) -> bool:
        return self.field is not None and self.field.widget_type == "checkbox"


class ArgumentsForm(forms.Form):
    """
    The form of a tool's input schema: ``ArgumentsForm(tool.input_schema, request.POST)``.

    It refuses only what cannot be made JSON; all else is for the server to refuse, whose errors
    ``add_tool_errors`` takes. An empty field is not sent.
    """

    prefix = "arguments"

    class Media:
        css = {"all": ["mcp_bridge/admin.css"]}

    def __init__(self, schema: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._document = SchemaDocument(schema)
        self._left = MAX_FIELDS
        root, seen = self._document.merged(schema)
        self._nodes = tuple(self._members(root, (), seen, certain=True))

    def arguments(self) -> dict[str, Any]:
        """The arguments to send. Only for a form that is valid."""
        found: dict[str, Any] = self._object(self._nodes, certain=True)
        return found

    def add_tool_errors(self, errors: Iterable[Mapping[str, Any]]) -> None:
        """Put each error of ``_meta["mcp-bridge/errors"]`` at its field, or at the form's top."""
        fields = {pointer(node.place): node.key for node in _leaves(self._nodes) if node.name}
        for error in errors:
            path, message = str(error.get("path", "")), str(error.get("message", ""))
            found = [each for each in fields if path == each or path.startswith(f"{each}/")]
            nearest = max(found, key=len, default="")
            rest = path.removeprefix(nearest)
            self.add_error(fields.get(nearest), f"{rest}: {message}" if rest else message)

    def parts(self) -> list[Part]:
        """What a template shows, in the order of the schema."""
        return [self._part(node) for node in self._nodes]

    def _members(
        self, schema: Mapping[str, Any], place: tuple[str, ...], seen: frozenset[int], certain: bool
    ) -> Iterator[Node]:
        properties = schema.get("properties", {})
        # A schema of more fields than a page can hold is one field for all of it.
        shown = properties if len(properties) <= self._left else {}
        self._left -= len(shown)
        required = schema.get("required", ())
        for name, each in shown.items():
            yield self._node(each, (*place, name), seen, name in required, certain)
        others = schema.get("additionalProperties", not shown)
        if others is not False or schema.get("patternProperties"):
            yield self._others(others, place, named=bool(shown))

    def _node(
        self,
        schema: Any,
        place: tuple[str, ...],
        seen: frozenset[int],
        required: bool,
        certain: bool,
    ) -> Node:
        words = in_words(schema, self._document, seen)
        known, seen = self._document.merged(schema, seen)
        options: dict[str, Any] = {
            "name": place[-1],
            "key": ".".join(map(_encoded, place)),
            "place": place,
            "required": required,
            "title": str(known.get("title", "")),
        }
        notes = [_typed_as(words, known)]
        if required and not certain:
            notes.append("Required where anything else of its object is sent.")
        if self._is_group(known, place, required):
            sent = certain and required and "null" not in kinds_of(known)
            members = tuple(self._members(known, place, seen, certain=sent))
            empty = _when_empty(known, members, required)
            return Node(**options, help=_help(known, notes), members=members, when_empty=empty)
        field = argument_field(known, required=required, certain=certain)
        field.help_text = _help(known, [*notes, field.hint])
        if required and certain and field.when_empty is ABSENT:
            field.widget.attrs["required"] = not isinstance(field.widget, forms.CheckboxInput)
        self.fields[options["key"]] = field
        return Node(**options, help=field.help_text, when_empty=field.when_empty)

    def _is_group(self, schema: Mapping[str, Any], place: tuple[str, ...], required: bool) -> bool:
        kinds = kinds_of(schema)
        properties = schema.get("properties", {})
        if not properties or schema.keys() & _BRANCHES or set(kinds) - {"object", "null"}:
            return False
        # Left empty it would mean the default, so that null has to be written.
        writes_null = "null" in kinds and not required and schema.get("default") is not None
        return not writes_null and len(place) <= MAX_LEVEL and len(properties) <= self._left

    def _others(self, schema: Any, place: tuple[str, ...], named: bool) -> Node:
        key = ".".join([*map(_encoded, place), "*"])
        field = ArgumentField(_read_object, forms.Textarea({"rows": 3}))
        field.widget.attrs |= {"spellcheck": "false", "class": "vLargeTextField mcp-json"}
        words = in_words(schema, self._document)
        kind = "" if words in ("anything", "nothing") else f" Each value: {words}."
        field.help_text = f'Write a JSON object, such as {{"name": "value"}}.{kind}'
        self.fields[key] = field
        title = "Other members" if named else "All members"
        return Node(
            name=None, key=key, place=place, required=False, title=title, help=field.help_text
        )

    def _object(self, nodes: tuple[Node, ...], *, certain: bool) -> Any:
        """The object of what was filled in, or ABSENT where nothing was and nothing need be."""
        given = [
            self.cleaned_data.get(node.key, ABSENT)
            if node.members is None
            else self._object(node.members, certain=False)
            for node in nodes
        ]
        if not certain and all(value is ABSENT for value in given):
            return ABSENT
        return _filled(nodes, given)

    def _part(self, node: Node) -> Part:
        shown: dict[str, Any] = {
            "title": node.title,
            "name": "" if node.name is None else spelled(node.name),
            "required": node.required,
            "help": node.help,
            "id": f"id_{self.add_prefix(node.key)}",
        }
        if node.members is None:
            return Part(**shown, field=self[node.key])
        return Part(**shown, parts=[self._part(each) for each in node.members])


def _filled(nodes: Iterable[Node], given: Iterable[Any]) -> dict[str, Any]:
    """The object of the given values, with what is sent for those that are absent."""
    found: dict[str, Any] = {}
    for node, each in zip(nodes, given, strict=True):
        value = node.when_empty if each is ABSENT else each
        if value is not ABSENT:
            # What has a field of its own stands above what was written among the others.
            found = {**value, **found} if node.name is None else {**found, node.name: value}
    return found


def _when_empty(schema: Mapping[str, Any], members: tuple[Node, ...], required: bool) -> Any:
    if not required:
        return ABSENT
    return None if "null" in kinds_of(schema) else _filled(members, [ABSENT] * len(members))


def _leaves(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.members is None:
            yield node
        else:
            yield from _leaves(node.members)


def _encoded(name: str) -> str:
    """A name as it can stand between dots in an HTML name and id; "%" for the empty one."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E") or "%"


def _typed_as(words: str, schema: Mapping[str, Any]) -> str:
    """The type and the default, as far as the input itself does not show them."""
    shown = "" if words in _SHOWN else f"{words[:1].upper()}{words[1:]}"
    default = f"default: {as_json(schema['default'], 80)}" if "default" in schema else ""
    said = "; ".join(filter(None, [shown, default]))
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _help(schema: Mapping[str, Any], notes: list[str]) -> str:
    lines = [str(schema.get("description", "")), " ".join(filter(None, notes))]
    return "\n".join(filter(None, lines))


def _read_object(text: str) -> Any:
    if not text.strip():
        return ABSENT
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValidationError('This is not a JSON object. Write one such as {"name": "value"}.')
    return value
