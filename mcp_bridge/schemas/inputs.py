"""A signature as a pydantic model: the input schema, and what enforces it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, get_args, get_origin

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaValidator

from mcp_bridge.schemas.adapters import adapted, note
from mcp_bridge.schemas.definitions import at_root
from mcp_bridge.schemas.generator import generate, ignore_readonly_warnings
from mcp_bridge.schemas.members import model_of
from mcp_bridge.schemas.signatures import MISSING, Parameter, Signature, UnsupportedSignature
from mcp_bridge.schemas.strictness import strict_validator, takes_paths

# Strict JSON mode: what the schema says is what is enforced.
CONFIG = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    val_json_bytes="base64",
    ser_json_bytes="base64",
    ser_json_inf_nan="constants",
)
# The field of an open model that holds the type of what it takes besides its own.
_REST: Final = "rest"


class Inputs:
    """
    What a function's caller may send.

    ``schema`` is the input schema, whose root is always an object. ``problems`` are sentences on
    hints that pydantic cannot read; such a parameter takes any value. Raises UnsupportedSignature
    for a parameter that takes a path.
    """

    def __init__(self, signature: Signature) -> None:
        self.problems: list[str] = []
        parameters = list(signature.parameters)
        try:
            self._core, self.schema = _built(parameters, signature.extra)
        except Exception:
            parameters = [self._readable(each) for each in parameters]
            self._core, self.schema = _built(parameters, signature.extra)
        self._validator = strict_validator(self._core, receives=True)
        # Fields have names of their own, since a parameter may be called what no field may.
        self._names = {f"p{index}": each.name for index, each in enumerate(parameters)}
        # A default inside a hint is one that the function does not know of.
        self._given = {name for name in self._names if parameters[int(name[1:])].required}
        self._hidden = signature.hidden if signature.extra is not MISSING else frozenset()

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """
        JSON values by name as Python values; what was not sent is not in the answer.

        Raises pydantic's ValidationError, with every violation.
        """
        body = pydantic_core.to_json(arguments)
        try:
            instance = self._validator.validate_json(body)
        except ValidationError:
            # JSON Schema counts 2.0 among the integers, and pydantic's strict mode does not.
            if not _has_whole_float(arguments):
                raise
            instance = self._lenient.validate_json(body)
        fields = instance.__dict__
        sent = {
            name: fields[field]
            for field, name in self._names.items()
            if name in arguments or field in self._given
        }
        return {**(instance.__pydantic_extra__ or {}), **sent}

    @cached_property
    def _lenient(self) -> SchemaValidator:
        return strict_validator(self._core, receives=True, whole_numbers=True)

    def hidden(self, arguments: Mapping[str, Any]) -> list[str]:
        """The arguments that no caller may send, though ``**kwargs`` would take them."""
        return sorted(self._hidden & arguments.keys())

    def _readable(self, parameter: Parameter) -> Parameter:
        try:
            _built([parameter], MISSING)
        except UnsupportedSignature:
            raise
        except Exception as exception:
            self.problems.append(
                f"the hint of {parameter.name!r} is not one that pydantic reads: {exception}"
            )
        else:
            return parameter
        return Parameter(
            name=parameter.name,
            hint=Any,
            default=parameter.default,
            description=parameter.description,
        )


def _has_whole_float(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def _built(parameters: list[Parameter], extra: Any) -> tuple[Any, dict[str, Any]]:
    """The core schema of some parameters, and their JSON Schema."""
    with ignore_readonly_warnings():
        model = _model(parameters, extra)
    core = model.__pydantic_core_schema__
    if takes_paths(core):
        # With several, each was tried by itself before, and it is none of them.
        what = (
            f"its parameter {parameters[0].name!r}" if extra is MISSING else "what it takes by **"
        )
        raise UnsupportedSignature(
            f"{what} holds a path, by which a caller could name any of the server's files; take a "
            "str that names what callers may use, or the content itself as a str or bytes"
        )
    schema = generate(core, "validation")
    schema.setdefault("properties", {})
    if extra is MISSING or extra is Any:
        schema["additionalProperties"] = extra is Any
    return core, schema


def _model(parameters: list[Parameter], extra: Any) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        hint = adapted(parameter.hint)
        brought = note(hint) if hint is not parameter.hint else ""
        fields[f"p{index}"] = (hint, _field(parameter, brought))
    if extra is not MISSING:
        fields[_REST] = (dict[str, adapted(extra)], ...)  # type: ignore[misc]
    model = model_of("Arguments", CONFIG, fields, "parameter")
    if extra is not MISSING:
        model.__pydantic_core_schema__ = at_root(model.__pydantic_core_schema__, _opened)
    return model


def _opened(schema: Any) -> Any:
    """The core schema of a model that takes what else is sent, and whose members stay closed."""
    fields = dict(schema["schema"]["fields"])
    rest = fields.pop(_REST)["schema"]["values_schema"]
    inner = {**schema["schema"], "fields": fields, "extras_schema": rest}
    config = {**schema["config"], "extra_fields_behavior": "allow"}
    return {**schema, "schema": inner, "config": config}


def _field(parameter: Parameter, brought: str) -> Any:
    options: dict[str, Any] = {"alias": parameter.name}
    if not parameter.required:
        options["default"] = parameter.default
    if parameter.description and not _has_description(parameter.hint):
        end = "" if parameter.description.endswith((".", "!", "?")) else "."
        # What only the type knows, such as what a number is the id of, is told as well.
        options["description"] = parameter.description + (f"{end} {brought}" if brought else "")
    return Field(**options)


def _has_description(hint: Any) -> bool:
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(isinstance(each, FieldInfo) and each.description for each in metadata)
