"""
Parameters as the fields of a pydantic model: its core schema, and its JSON Schema.

A hint is read once for all parameters that have it, until forget_fields() is called. Read for each
tool are those that an adapter changes, that refer to themselves, or that bring their own default.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from mcp_bridge.schemas.adapters import adapt
from mcp_bridge.schemas.core_schemas import CoreNode, is_plain, parts, with_adapted
from mcp_bridge.schemas.generator import generate, plain_default, reading_hints
from mcp_bridge.schemas.hashed import with_bounds
from mcp_bridge.schemas.hints import TypeHint, description_in, identity, split_annotated
from mcp_bridge.schemas.signatures import MISSING, Parameter, UnsupportedSignature

# Strict JSON mode, so that the schema is enforced as it reads.
CONFIG = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    val_json_bytes="base64",
    ser_json_bytes="base64",
    ser_json_inf_nan="constants",
)
# The field of a model for ``**kwargs``, whose hint is the type of all other arguments.
_REST: Final = "rest"
# With a factory, whose value is never used, the schema shows no default.
_ABSENT: Final[dict[str, Any]] = {"default_factory": lambda: None}
# What a field's metadata says in its JSON Schema, in pydantic's order.
_UPDATES: Final = ("title", "description", "deprecated", "examples")


# The arguments of every tool are instances of it. A docstring would stand in every input schema.
class Arguments(BaseModel):
    model_config = CONFIG


_MODEL: Final = cast(CoreNode, TypeAdapter(Arguments).core_schema)


class SharedField:
    """
    A hint as pydantic reads it, without the name, the default and the text of one parameter.

    ``core`` is its core schema, and ``updates`` what its metadata says in the JSON Schema.
    """

    def __init__(self, hint: TypeHint, core: CoreNode, updates: Mapping[str, Any]) -> None:
        # Its key holds ids, which are its own as long as the hint is alive.
        self.hint = hint
        self.core = core
        self.updates = updates
        self.refs = _refs(core)

    @cached_property
    def is_plain(self) -> bool:
        return is_plain(self.core)

    @cached_property
    def schema(self) -> JsonSchemaValue | None:
        """Its JSON Schema, or None where that depends on what stands beside it."""
        whole = generate(_model({"p": {"type": "model-field", "schema": self.core}}), "validation")
        schema: JsonSchemaValue = whole["properties"]["p"]
        # simplify() takes texts out of a branch where there is none beside the branches.
        has_text = "anyOf" in schema and ("title" in schema or "description" in schema)
        return None if has_text or "$defs" in whole else schema

    def field(self, parameter: Parameter) -> CoreNode:
        """Return the core schema of a parameter's field."""
        core, name = self.core, parameter.name
        if parameter.may_be_absent:
            core = {"type": "default", "schema": core, **_ABSENT}
        elif _has_default(parameter):
            core = {"type": "default", "schema": core, "default": parameter.default}
        about = {"pydantic_js_updates": updates} if (updates := self._texts(parameter)) else {}
        names = {"validation_alias": name, "serialization_alias": name}
        return {"type": "model-field", "schema": core, **names, "metadata": about}

    def property(self, parameter: Parameter) -> JsonSchemaValue | None:
        """Return the JSON Schema of a parameter, or None where only that of all is one."""
        if self.schema is None:
            return None
        texts = self._texts(parameter)
        if parameter.may_be_absent or not _has_default(parameter):
            return {**self.schema, **texts} if texts else self.schema
        try:
            return {**self.schema, "default": plain_default(parameter.default), **texts}
        except TypeError:
            return None

    def _texts(self, parameter: Parameter) -> dict[str, Any]:
        if not parameter.description or "description" in self.updates:
            return {**self.updates}
        texts = {**self.updates, "description": parameter.description}
        return {key: texts[key] for key in _UPDATES if key in texts}


_SHARED: Final[dict[Hashable, SharedField]] = {}


def forget_fields() -> None:
    """Have each hint of a parameter read anew."""
    _SHARED.clear()


class Fields:
    """
    The fields of some parameters, and of ``extra``, the hint of all other arguments, if any.

    Raises what pydantic raises for a hint that it cannot read, and UnsupportedSignature for a path.
    """

    def __init__(self, parameters: tuple[Parameter, ...], extra: TypeHint = MISSING) -> None:
        self._parameters = {f"p{index}": each for index, each in enumerate(parameters)}
        self._extra = extra
        self._shared = self._known()
        if self._shared is None:
            core = _read_together(self._parameters, extra)
            self._shared = self._known()
            self._core = core if self._shared is None else None

    def core(self) -> CoreNode:
        """Return the core schema of a model with these fields."""
        if self._shared is None:
            return cast(CoreNode, self._core)
        return _model({k: self._shared[k].field(each) for k, each in self._parameters.items()})

    def schema(self) -> JsonSchemaValue:
        """Return their JSON Schema, whose root is an object."""
        schema = self._composed() or generate(self.core(), "validation")
        schema.setdefault("properties", {})
        if self._extra is MISSING or self._extra is Any:
            schema["additionalProperties"] = self._extra is Any
        return schema

    @property
    def is_plain(self) -> bool:
        """Whether all arguments are plain data, whose check runs no code of the site's own."""
        if self._shared is not None:
            return all(each.is_plain for each in self._shared.values())
        core = self.core()
        model, definitions = _root(core)["schema"], core.get("definitions", ())
        kinds = list(model["fields"].values())
        if self._extra is not MISSING:
            kinds.append(model["extras_schema"])
        return all(is_plain(each, definitions) for each in kinds)

    def _known(self) -> dict[str, SharedField] | None:
        """Return the shared field of each parameter, or None unless there is nothing else."""
        found = {name: _SHARED.get(identity(each.hint)) for name, each in self._parameters.items()}
        known = {name: each for name, each in found.items() if each is not None}
        refs = [ref for each in known.values() for ref in each.refs]
        # Of two that hold the same class, pydantic makes one definition.
        is_complete = len(known) == len(found) and len(set(refs)) == len(refs)
        return known if is_complete and self._extra is MISSING else None

    def _composed(self) -> JsonSchemaValue | None:
        """Return it made of the schemas of shared fields, or None if there are others."""
        if self._shared is None:
            return None
        properties: dict[str, JsonSchemaValue] = {}
        for name, each in self._parameters.items():
            one = self._shared[name].property(each)
            if one is None:
                return None
            properties[each.name] = one
        required = [each.name for each in self._parameters.values() if not _has_default(each)]
        composed = {"type": "object", "properties": properties}
        return {**composed, "required": required} if required else composed


@reading_hints()
def _read_together(parameters: Mapping[str, Parameter], extra: TypeHint) -> CoreNode:
    """Return the core schema of a model of parameters by name; share the fields that can be."""
    fields: dict[str, tuple[TypeHint, FieldInfo]] = {}
    for name, parameter in parameters.items():
        hint = adapt(parameter.hint, "parameter")
        fields[name] = (hint, _field(parameter, hint))
    if extra is not MISSING:
        hint = dict[str, adapt(extra, "parameter")]  # type: ignore[misc]
        fields[_REST] = (hint, Field())

    def build(config: ConfigDict) -> CoreNode:
        model = create_model("Arguments", __config__=config, **cast(Any, fields))
        # Where a name is not known, this says which; else it does nothing.
        model.model_rebuild()
        return cast(CoreNode, TypeAdapter(model).core_schema)

    core, is_adapted = with_adapted(build, CONFIG, "parameter")
    kinds = [each["cls"] for each in parts(core) if each.get("type") == "is-instance"]
    if any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds):
        # With several, each was tried by itself before, and it is none of them.
        names = [each.name for each in parameters.values()]
        it = f"its parameter {names[0]!r}" if extra is MISSING else "what it takes by **"
        raise UnsupportedSignature(
            f"{it} holds a path, by which a caller could name any of the server's files; take a "
            "str that names what callers may use, or the content itself as a str or bytes"
        )
    is_adapted |= any(fields[name][0] is not each.hint for name, each in parameters.items())
    core = with_bounds(core)
    definitions, known = core.get("definitions"), _root(core)["schema"]["fields"]
    # Not by the config of the model, which those of nested classes follow.
    rest = None if extra is MISSING else known.pop(_REST)["schema"]["values_schema"]
    if rest is None and not is_adapted and not definitions:
        for name, each in parameters.items():
            shared = _shareable(each, known[name])
            if shared is not None:
                _SHARED.setdefault(identity(each.hint), shared)
    return _model(known, rest, definitions)


def _shareable(parameter: Parameter, field: CoreNode) -> SharedField | None:
    """Return what other parameters with the hint share of this one's field, or None."""
    core, about = field["schema"], dict(field.get("metadata", {}))
    updates = dict(about.pop("pydantic_js_updates", {}))
    metadata = split_annotated(parameter.hint)[1]
    given = [each for each in metadata if isinstance(each, FieldInfo)]
    if any(not each.is_required() or each.validate_default is not None for each in given):
        return None
    if about or field.keys() - {
        *("type", "schema", "metadata", "validation_alias", "serialization_alias")
    }:
        return None
    if _has_default(parameter):
        core = core["schema"]
    if not any(each.description for each in given):
        updates.pop("description", None)
    return SharedField(parameter.hint, core, updates)


def _has_default(parameter: Parameter) -> bool:
    # To pydantic an ellipsis is no default.
    has_own = parameter.default is not MISSING and parameter.default is not ...
    return has_own or parameter.may_be_absent


def _root(core: CoreNode) -> CoreNode:
    root: CoreNode = core["schema"] if core["type"] == "definitions" else core
    return root


def _refs(core: object) -> list[str]:
    return [each["ref"] for each in parts(core) if "ref" in each]


def _model(
    fields: Mapping[str, CoreNode],
    rest: CoreNode | None = None,
    definitions: list[CoreNode] | None = None,
) -> CoreNode:
    """Return the core schema of the model of some fields; ``rest`` is that of all others."""
    inner = {**_MODEL["schema"], "fields": fields}
    config = _MODEL["config"]
    if rest is not None:
        inner["extras_schema"] = rest
        config = {**config, "extra_fields_behavior": "allow"}
    root = {**_MODEL, "schema": inner, "config": config}
    if not definitions:
        return root
    return {"type": "definitions", "schema": root, "definitions": definitions}


def _field(parameter: Parameter, adapted: TypeHint) -> FieldInfo:
    description = parameter.description
    metadata = split_annotated(parameter.hint)[1]
    if any(isinstance(each, FieldInfo) and each.description for each in metadata):
        description = ""
    # An adapter knows more, such as the model that a number is the id of.
    brought = description_in(adapted) if adapted is not parameter.hint else ""
    if description and brought:
        description += ("" if description.endswith((".", "!", "?")) else ".") + f" {brought}"
    options: dict[str, Any] = {"description": description} if description else {}
    if parameter.default is not MISSING:
        options["default"] = parameter.default
    elif parameter.may_be_absent:
        options |= _ABSENT
    field: FieldInfo = Field(alias=parameter.name, **options)
    return field
