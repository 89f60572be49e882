"""The input schema of a signature, and the core schema of pydantic that enforces it."""

from __future__ import annotations

import math
import os
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from mcp_bridge.schemas import signatures
from mcp_bridge.schemas.core_schemas import CONFIG, CoreNode, ReadHint, is_plain, parts
from mcp_bridge.schemas.generator import generate
from mcp_bridge.schemas.hints import TRANSIENT, TypeHint, description_in, split_annotated
from mcp_bridge.schemas.limits import with_bounds

# Keywords that a field's metadata adds to its JSON Schema, in pydantic's order.
_UPDATES: Final = ("title", "description", "deprecated", "examples")
_SCALARS: Final = (str, int, bool, type(None))


# The base of all arguments and results. A docstring would appear in every schema.
class Members(BaseModel):
    model_config = CONFIG


MODEL: Final = cast(CoreNode, TypeAdapter(Members).core_schema)


class _Hint(ReadHint):
    """A hint without the name, default and description of a parameter."""

    side = "parameter"

    def __init__(self, hint: TypeHint) -> None:
        super().__init__(hint)
        core = with_bounds(self.core)
        kinds = [each["cls"] for each in parts(core) if each.get("type") == "is-instance"]
        self._has_path = any(isinstance(it, type) and issubclass(it, os.PathLike) for it in kinds)
        # The definitions that ``core`` refers to.
        self.definitions: list[CoreNode] = core.get("definitions", [])
        root: CoreNode = {**(core["schema"] if self.definitions else core)}
        root["metadata"] = {**root.get("metadata", {})}
        self._updates: dict[str, Any] = root["metadata"].pop("pydantic_js_updates", {})
        given = [each for each in split_annotated(hint)[1] if isinstance(each, FieldInfo)]
        self._has_text = any(each.description for each in given)
        defaults = [each for each in given if not each.is_required()]
        self.has_default = bool(defaults)
        for each in defaults[-1:]:
            name = "default" if each.default_factory is None else "default_factory"
            root = {"type": "default", "schema": root, name: getattr(each, name)}
        self.core = root
        # Whether its check runs none of the site's code.
        self.is_plain = is_plain(root, *self.definitions)
        # An adapter may add text, such as the model that an id belongs to.
        self._adapters_text = "" if self.adapted is hint else description_in(self.adapted)
        whole = generate(model_of({"p": field_of(root)}, None, self.definitions), "validation")
        # None if it depends on other parameters.
        self._schema: Any = None if "$defs" in whole else whole["properties"]["p"]

    def refuse_paths(self, place: str) -> None:
        """Raise UnsupportedSignature for a hint that contains a path."""
        if self._has_path:
            raise signatures.UnsupportedSignature(
                f"{place} contains a path, with which callers could access any file of the server; "
                "use a str that names an allowed file, or the content itself as a str or bytes"
            )

    def field(self, parameter: signatures.Parameter) -> CoreNode:
        """Return the core schema of a parameter's field."""
        core = self.core
        if parameter.has_default and not self.has_default:
            core = {"type": "default", "schema": core}
        if parameter.default is signatures.ABSENT and not self.has_default:
            # A factory, whose value is never used, keeps the default out of the schema.
            core["default_factory"] = lambda: None
        elif parameter.has_default and parameter.default is not signatures.ABSENT:
            core = {**core, "default": parameter.default}
            core.pop("default_factory", None)
        texts = self._texts(parameter)
        named = dict.fromkeys(("validation_alias", "serialization_alias"), parameter.name)
        metadata = {"pydantic_js_updates": texts} if texts else {}
        return {**field_of(core), **named, "metadata": metadata}

    def property(self, parameter: signatures.Parameter) -> JsonSchemaValue | None:
        """Return the JSON Schema of a parameter, or None if it needs that of all parameters."""
        texts, has_default = self._texts(parameter), parameter.has_default
        if self._schema is None or (has_default and self.has_default):
            return None
        if not has_default or parameter.default is signatures.ABSENT:
            return {**self._schema, **texts} if texts else self._schema
        value: Any = parameter.default
        # Other defaults need a serializer.
        is_json = type(value) in _SCALARS or (type(value) is float and math.isfinite(value))
        return {**self._schema, "default": value, **texts} if is_json else None

    def _texts(self, parameter: signatures.Parameter) -> dict[str, Any]:
        text, more = parameter.description, self._adapters_text
        if not text or self._has_text:
            return self._updates
        if more:
            text += ("" if text.endswith((".", "!", "?")) else ".") + f" {more}"
        texts = {**self._updates, "description": text}
        return {key: texts[key] for key in _UPDATES if key in texts}


class Inputs:
    """
    The arguments that callers of a function may send.

    ``schema`` is the input schema, whose root is always an object. ``errors`` are sentences about
    hints that pydantic cannot read; such a parameter takes any value. ``core()`` is the schema of a
    model whose fields ``names`` maps to parameters, with ``definitions`` that may be recursive;
    fields in ``given`` are passed even if not sent. ``is_plain``: checking arguments runs none of
    the site's code. ``is_open``: the function takes ``**kwargs``. ``hidden`` are names that callers
    must not send, though the function takes them. Raises UnsupportedSignature for a parameter that
    takes a path.
    """

    def __init__(self, signature: signatures.Signature) -> None:
        self.errors: list[str] = []
        # Fields are numbered, since not every parameter name is valid for a field.
        self._parameters = {f"p{index}": each for index, each in enumerate(signature.parameters)}
        self._hints = {name: self._hint(each) for name, each in self._parameters.items()}
        self.names = {name: each.name for name, each in self._parameters.items()}
        # A default inside a hint must be passed, since the function does not know it.
        self.given = {
            name for name, it in self._parameters.items() if it.default is signatures.MISSING
        }
        self._rest: CoreNode | None = None
        hints = list(self._hints.values())
        self.is_open = signature.extra is not signatures.MISSING
        self.hidden = signature.hidden if self.is_open else frozenset()
        if self.is_open:
            rest = _Hint.of(dict[str, signature.extra])  # type: ignore[name-defined]
            rest.refuse_paths("its **kwargs")
            # Not through the model's config, which nested classes inherit.
            self._rest = rest.core["values_schema"]
            hints.append(rest)
        self.is_plain = all(each.is_plain for each in hints)
        definitions = {each["ref"]: each for hint in hints for each in hint.definitions}
        self.definitions = list(definitions.values())
        self.schema = self._composed() or generate(self.core(), "validation")
        self.schema.setdefault("properties", {})
        if not self.is_open or signature.extra is Any:
            self.schema["additionalProperties"] = self.is_open

    def _hint(self, parameter: signatures.Parameter) -> _Hint:
        try:
            found = _Hint.of(parameter.hint)
        except tuple(TRANSIENT):
            raise
        except Exception as exception:
            self.errors.append(f"pydantic cannot read the hint of {parameter.name!r}: {exception}")
            return _Hint.of(Any)
        found.refuse_paths(f"its parameter {parameter.name!r}")
        return found

    def core(self) -> CoreNode:
        """Return pydantic's core schema of all arguments."""
        fields = {name: each.field(self._parameters[name]) for name, each in self._hints.items()}
        return model_of(fields, self._rest, self.definitions)

    def _composed(self) -> JsonSchemaValue | None:
        """Return the schema composed of the hints' schemas, or None if one cannot be composed."""
        if self._rest not in (None, {"type": "any"}):
            return None
        properties: dict[str, JsonSchemaValue] = {}
        required = []
        for name, hint in self._hints.items():
            parameter = self._parameters[name]
            if (found := hint.property(parameter)) is None:
                return None
            properties[parameter.name] = found
            if not parameter.has_default and not hint.has_default:
                required.append(parameter.name)
        composed = {"type": "object", "properties": properties}
        return {**composed, "required": required} if required else composed


def field_of(core: CoreNode) -> CoreNode:
    """Return the core schema of a field of a model."""
    return {"type": "model-field", "schema": core}


def model_of(fields: Any, rest: CoreNode | None, definitions: list[CoreNode]) -> CoreNode:
    """Return the core schema of a model with these fields; ``rest`` is that of extra fields."""
    root = {**MODEL, "schema": {**MODEL["schema"], "fields": fields}}
    if rest is not None:
        root["schema"]["extras_schema"] = rest
        root["config"] = {**MODEL["config"], "extra_fields_behavior": "allow"}
    if not definitions:
        return root
    return {"type": "definitions", "schema": root, "definitions": definitions}
