"""A tool's input schema as a Django form, whose cleaned values are the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from django import forms
from django.core.exceptions import ValidationError

from mcp_bridge.admin.schema_tables import as_json, describe_type, kinds_of, spelled
from mcp_bridge.admin.try_tool.fields import (
    ABSENT,
    ArgumentField,
    argument_field,
    json_area,
    read_json,
)
from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.text import pointer
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument

MAX_FIELDS: Final = 200
# Objects further in than this are written as JSON.
MAX_LEVEL: Final = 4
# Types that need no words beside their inputs.
_SHOWN: Final = ("string", "boolean", "object", "anything")
_BRANCHES: Final = {*REFERENCES, "enum", "const", "anyOf", "oneOf", "allOf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """
    One member of the arguments: a field, or where ``members`` is given an object of fields.

    ``key`` is the field's name in the form, ``place`` the path of the value. A node without a
    ``name`` is a field for the members that the schema does not name.
    """

    form: forms.Form
    name: str | None
    key: str
    place: tuple[str, ...]
    required: bool
    title: str
    help: str
    when_empty: object = ABSENT
    members: tuple[Node, ...] | None = None

    @property
    def field(self) -> forms.BoundField:
        """The bound field of a node without members."""
        return self.form[self.key]

    @property
    def id(self) -> str:
        return f"id_{self.form.add_prefix(self.key)}"

    @property
    def label(self) -> str:
        """The name as people can read it; empty without a name."""
        return "" if self.name is None else spelled(self.name)


class ArgumentsForm(forms.Form):
    """
    The form of a tool's input schema: ``ArgumentsForm(tool.input_schema, request.POST)``.

    It refuses only texts that cannot be made JSON; all else is for the server to refuse, whose
    errors ``add_tool_errors`` takes. An empty field is not sent.
    """

    prefix = "arguments"

    class Media:
        css = {"all": ["mcp_bridge/admin.css"]}

    def __init__(self, schema: JSONSchema, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._document = SchemaDocument(schema)
        self._left = MAX_FIELDS
        root, seen = self._document.merged(schema)
        self.nodes = tuple(self._members(root, (), seen, certain=True))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments to send. Only for a form that is valid."""
        return self._object(self.nodes)

    def add_tool_errors(self, errors: Iterable[JSONObject]) -> None:
        """Put each error of ``_meta["mcp-bridge/errors"]`` at its field, or at the form's top."""
        fields = {pointer(node.place): node.key for node in _leaves(self.nodes) if node.name}
        for error in errors:
            path, message = str(error.get("path", "")), str(error.get("message", ""))
            found = [each for each in fields if path == each or path.startswith(f"{each}/")]
            nearest = max(found, key=len, default="")
            rest = path.removeprefix(nearest)
            self.add_error(fields.get(nearest), f"{rest}: {message}" if rest else message)

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
            field = ArgumentField(_read_object, json_area({}))
            words = describe_type(others, self._document)
            kind = "" if words in ("anything", "nothing") else f" Each value: {words}."
            field.help_text = f'Write a JSON object, such as {{"name": "value"}}.{kind}'
            yield self._leaf(
                field,
                form=self,
                name=None,
                key=".".join([*map(_encoded, place), "*"]),
                place=place,
                required=False,
                title="Other members" if shown else "All members",
            )

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
        options: dict[str, Any] = {
            "form": self,
            "name": place[-1],
            "key": ".".join(map(_encoded, place)),
            "place": place,
            "required": required,
            "title": str(known.get("title", "")),
        }
        # The type and the default, as far as the input itself does not show them.
        notes = [] if words in _SHOWN else [words]
        notes += [f"default: {as_json(known['default'], 80)}"] if "default" in known else []
        note = "; ".join(notes)
        notes = [f"{note[:1].upper()}{note[1:]}."] if note else []
        if required and not certain:
            notes.append("Required where anything else of its object is sent.")
        is_group = self._is_group(known, place, required)
        field = None if is_group else argument_field(known, required=required, certain=certain)
        notes += [field.hint] if field and field.hint else []
        help_text = "\n".join(filter(None, [str(known.get("description", "")), " ".join(notes)]))
        if field is None:
            nullable = "null" in kinds_of(known)
            sent = certain and required and not nullable
            members = tuple(self._members(known, place, seen, certain=sent))
            when_empty = (None if nullable else _filled(members, {})) if required else ABSENT
            return Node(**options, help=help_text, members=members, when_empty=when_empty)
        field.help_text = help_text
        if required and certain and field.when_empty is ABSENT:
            field.widget.attrs["required"] = not isinstance(field.widget, forms.CheckboxInput)
        return self._leaf(field, **options)

    def _leaf(self, field: ArgumentField, **options: Any) -> Node:
        self.fields[options["key"]] = field
        return Node(**options, help=str(field.help_text), when_empty=field.when_empty)

    def _is_group(self, schema: JSONSchema, place: tuple[str, ...], required: bool) -> bool:
        """Return whether the members of a schema have fields of their own."""
        kinds = kinds_of(schema)
        properties = schema.get("properties", {})
        if not properties or schema.keys() & _BRANCHES or set(kinds) - {"object", "null"}:
            return False
        # Left empty it would mean the default, so that null has to be written.
        writes_null = "null" in kinds and not required and schema.get("default") is not None
        return not writes_null and len(place) <= MAX_LEVEL and len(properties) <= self._left

    def _object(self, nodes: Iterable[Node]) -> dict[str, Any]:
        """Return the object that the nodes are of."""
        given: dict[str, object] = {}
        for node in nodes:
            if node.members is None:
                given[node.key] = self.cleaned_data.get(node.key, ABSENT)
            # An object of which no field is filled in is as absent as an empty field.
            elif any(self._is_given(each) for each in node.members):
                given[node.key] = self._object(node.members)
        return _filled(nodes, given)

    def _is_given(self, node: Node) -> bool:
        return any(
            self.cleaned_data.get(each.key, ABSENT) is not ABSENT for each in _leaves([node])
        )


def _filled(nodes: Iterable[Node], given: JSONObject) -> dict[str, Any]:
    """Return the object of values given by key, with the ``when_empty`` of absent ones."""
    found: dict[str, Any] = {}
    for node in nodes:
        value: Any = given.get(node.key, ABSENT)
        value = node.when_empty if value is ABSENT else value
        if value is not ABSENT:
            # A member with a field of its own comes before one written among the others.
            found = {**value, **found} if node.name is None else {**found, node.name: value}
    return found


def _leaves(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from [node] if node.members is None else _leaves(node.members)


def _encoded(name: str) -> str:
    """Return a name as it can stand between dots in an HTML name and id; "%" for the empty one."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E") or "%"


def _read_object(text: str) -> object:
    if not text.strip():
        return ABSENT
    value = read_json(text)
    if not isinstance(value, dict):
        raise ValidationError('This is not a JSON object. Write one such as {"name": "value"}.')
    return value
