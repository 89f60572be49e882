"""A signature as a pydantic model: the input schema, and the validator that enforces it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, cast

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import SchemaValidator

from mcp_bridge.schemas.adapters import TRANSIENT, adapt
from mcp_bridge.schemas.core_schemas import CoreNode, parts, reuse, with_adapted
from mcp_bridge.schemas.generator import generate, ignore_readonly_warnings
from mcp_bridge.schemas.hints import TypeHint, description_in, split_annotated
from mcp_bridge.schemas.signatures import MISSING, Parameter, Signature, UnsupportedSignature
from mcp_bridge.schemas.strictness import strict_validator

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


class Inputs:
    """
    The arguments that a function's caller may send.

    ``schema`` is the input schema, whose root is always an object. ``errors`` are sentences on
    hints that pydantic cannot read; as it stands, such a parameter takes any value. ``validator``
    makes an instance of JSON text, whose fields ``names`` maps to parameters; those in ``given``
    count also where they were not sent. ``hidden`` are names that no caller may send, though
    ``**kwargs`` takes them. Raises UnsupportedSignature for a parameter that takes a path.
    """

    def __init__(self, signature: Signature) -> None:
        self.errors: list[str] = []
        parameters = signature.parameters
        try:
            self._core, self.schema = _built(parameters, signature.extra)
        except Exception:
            parameters = tuple(map(self._readable, parameters))
            self._core, self.schema = _built(parameters, signature.extra)
        self.validator = strict_validator(self._core, receives=True)
        # Fields have names of their own, since a parameter may be called what no field may.
        self.names = {f"p{index}": each.name for index, each in enumerate(parameters)}
        # A default inside a hint is one that the function does not know of.
        self.given = {f"p{i}" for i, each in enumerate(parameters) if each.default is MISSING}
        self.hidden = signature.hidden if signature.extra is not MISSING else frozenset()

    @cached_property
    def lenient_validator(self) -> SchemaValidator:
        """The validator that takes 2.0 for an integer, as JSON Schema does."""
        return strict_validator(self._core, receives=True, whole_numbers=True)

    def _readable(self, parameter: Parameter) -> Parameter:
        """Return the parameter, or one that takes any value where pydantic cannot read its hint."""
        try:
            _built((parameter,), MISSING)
        except UnsupportedSignature:
            raise
        except tuple(TRANSIENT):
            raise
        except Exception as exception:
            self.errors.append(
                f"the hint of {parameter.name!r} is not one that pydantic reads: {exception}"
            )
            return replace(parameter, hint=Any)
        return parameter


@ignore_readonly_warnings()
def _built(parameters: tuple[Parameter, ...], extra: TypeHint) -> tuple[CoreNode, JsonSchemaValue]:
    """Return the core schema of some parameters, and their JSON Schema."""
    fields: dict[str, tuple[TypeHint, FieldInfo]] = {}
    for index, parameter in enumerate(parameters):
        hint = adapt(parameter.hint, "parameter")
        fields[f"p{index}"] = (hint, _field(parameter, hint))
    if extra is not MISSING:
        hint = dict[str, adapt(extra, "parameter")]  # type: ignore[misc]
        fields[_REST] = (hint, Field())

    def build(config: ConfigDict) -> CoreNode:
        given: dict[str, Any] = {
            name: (reuse(hint, config), field) for name, (hint, field) in fields.items()
        }
        model = create_model("Arguments", __config__=config, **given)
        # Where a name is not known, this says which; else it does nothing.
        model.model_rebuild()
        return cast(CoreNode, TypeAdapter(model).core_schema)

    core = with_adapted(build, CONFIG, "parameter")
    if extra is not MISSING:
        # Not by the config of the model, which those of nested classes follow.
        root = core["schema"] if core["type"] == "definitions" else core
        rest = root["schema"]["fields"].pop(_REST)["schema"]
        root["schema"]["extras_schema"] = rest["values_schema"]
        root["config"]["extra_fields_behavior"] = "allow"
    kinds = [each["cls"] for each in parts(core) if each.get("type") == "is-instance"]
    if any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds):
        # With several, each was tried by itself before, and it is none of them.
        it = f"its parameter {parameters[0].name!r}" if extra is MISSING else "what it takes by **"
        raise UnsupportedSignature(
            f"{it} holds a path, by which a caller could name any of the server's files; take a "
            "str that names what callers may use, or the content itself as a str or bytes"
        )
    schema = generate(core, "validation")
    schema.setdefault("properties", {})
    if extra is MISSING or extra is Any:
        schema["additionalProperties"] = extra is Any
    return core, schema


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
    field: FieldInfo = Field(alias=parameter.name, **options)
    return field
