"""Generate pydantic's JSON Schemas (2020-12), simplified for strict clients."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema

from mcp_bridge.schemas.core_schemas import DESCRIPTION, CoreNode
from mcp_bridge.schemas.strictness import LONGEST_DECIMAL
from mcp_bridge.schemas.walk import DEFS, Bundler

# Python's text form of a finite Decimal.
_WRITTEN: Final = r"^-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?$"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?"
_OFFSET: Final = "([Zz]|[+-][0-9]{2}:[0-9]{2})?"
_DURATION: Final = "^-?P([0-9]+Y)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\\.[0-9]+)?S)?)?$"


class SchemaGenerator(GenerateJsonSchema):
    """
    pydantic's generator without titles from field names.

    With ``of_results``, times and durations have a pattern instead of a format: clients assert
    formats, which require an offset and do not allow a fraction or sign.
    """

    # A default that is not JSON is omitted from the schema; the parameter stays optional.
    ignored_warning_kinds = {"non-serializable-default"}

    def __init__(self, *, of_results: bool = False) -> None:
        super().__init__()
        self._of_results = of_results

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        # The hint's lengths count bytes, not characters of the encoded text.
        return {"type": "string", "contentEncoding": "base64"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        result = super().enum_schema(schema)
        description = schema.get("metadata", {}).get(DESCRIPTION)
        return {**result, "description": description} if description else result

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        result = super().tagged_union_schema(schema)
        # An OpenAPI keyword that refers to definitions.
        result.pop("discriminator", None)
        return result

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        # A serializer function without a return hint may return anything.
        function = schema.get("function")
        code = getattr(getattr(function, "func", function), "__module__", None) or "pydantic"
        known = super().ser_schema(schema)
        return {} if known is None and not code.startswith("pydantic") else known

    def encode_default(self, dft: object) -> object:
        if isinstance(dft, bytes):
            # pydantic uses the URL-safe alphabet.
            return base64.b64encode(dft).decode("ascii")
        found = super().encode_default(dft)
        try:
            json.dumps(found, allow_nan=False)
        except ValueError as exception:
            # pydantic catches it and omits the default.
            raise PydanticSerializationError("JSON has no such number") from exception
        return found

    def field_is_present(self, field: Any) -> bool:
        # A member that the constructor does not take cannot be sent.
        sent = self.mode != "validation" or field.get("init") is not False
        return sent and super().field_is_present(field)

    def get_decimal_pattern(self, schema: core_schema.DecimalSchema) -> str:
        # For results, pydantic's pattern is needlessly long.
        if self.mode != "validation":
            return _WRITTEN
        # Python refuses larger exponents, or is slow with them.
        return self.build_decimal_pattern(schema).replace("[eE][+-]?[0-9]+", "[eE][+-]?[0-9]{1,4}")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        result = super().decimal_schema(schema)
        # The branches of a parameter are a number and a string.
        for branch in result.get("anyOf", ())[1:]:
            branch["maxLength"] = LONGEST_DECIMAL
        return result

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        # The format "date-time" requires an offset, which a naive one must not have.
        zone = schema.get("tz_constraint")
        result = super().datetime_schema(schema)
        if zone == "naive":
            return _with_pattern(result, f"^{_DAY}[Tt ]{_CLOCK}$")
        is_open = self._of_results and zone is None
        return _with_pattern(result, f"^{_DAY}T{_CLOCK}{_OFFSET}$") if is_open else result

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        # The format "time" requires an offset too, which no Django database can store.
        offset = _OFFSET if self._of_results else ""
        return _with_pattern(super().time_schema(schema), f"^{_CLOCK}{offset}$")

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        result = super().timedelta_schema(schema)
        return _with_pattern(result, _DURATION) if self._of_results else result


def _with_pattern(schema: JsonSchemaValue, pattern: str) -> JsonSchemaValue:
    """Return the schema of a time with its format, if any, replaced by a pattern."""
    return {"type": "string", "pattern": pattern} if "format" in schema else schema


def generate(schema: CoreNode, mode: JsonSchemaMode, *, of_results: bool = False) -> dict[str, Any]:
    """Return a schema with ``$defs`` only for recursion, without titles that repeat a name."""
    root = SchemaGenerator(of_results=of_results).generate(cast(CoreSchema, schema), mode)
    definitions = {DEFS + name: dict(each) for name, each in root.pop("$defs", {}).items()}
    for name, each in definitions.items():
        # A title made from a class name, possibly followed by type arguments.
        title = re.escape(re.sub(r"\W", "_", str(each.get("title"))))
        if re.search(rf"(^|/|__){title}_|{title}$", name):
            each.pop("title", None)
    root.pop("title", None)
    return Bundler(definitions.__getitem__).inlined(root)
