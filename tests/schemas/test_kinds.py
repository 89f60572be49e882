"""The table of kinds: schema, accepted, received, refused and written values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.calls.results import write
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Outputs, Signature
from tests.schemas import kinds, kinds_classes, kinds_composed
from tests.schemas.kinds import Kind
from tests.schemas.structures import made_with_new_syntax
from tests.support.schemas import FORMATS
from tests.support.serving import taking
from tests.support.values import label

KINDS: list[Kind] = [
    *(*kinds.PRIMITIVES, *kinds.CHOICES, *kinds.FORMATS),
    *(*kinds_composed.ARRAYS, *kinds_composed.OBJECTS, *kinds_composed.UNIONS),
    *(*kinds_classes.PLAIN, *kinds_classes.OTHERS, *kinds_classes.NAMES),
]
if sys.version_info >= (3, 12):
    KINDS += kinds_classes.names(made_with_new_syntax())


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    # In Python, unlike in JSON Schema, "$" also matches before a trailing line feed.
    whole = f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern
    yield from Draft202012Validator.VALIDATORS["pattern"](validator, whole, instance, schema)


Validator = extend(Draft202012Validator, {"pattern": _pattern})


def valid(schema: dict[str, Any]) -> Callable[[Any], bool]:
    """Return whether values fit a schema whose formats are asserted."""
    return Validator(schema, format_checker=FORMATS).is_valid


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: label(kind.hint))
def test_kind_matches_its_row(kind: Kind) -> None:
    inputs = Inputs(Signature.of(taking(kind.hint)))
    assert inputs.errors == []
    Draft202012Validator.check_schema(inputs.schema)
    expected = {key: each for key, each in kind.schema.items() if key != "$defs"}
    assert inputs.schema["properties"] == {"value": expected}
    assert inputs.schema.get("$defs") == kind.schema.get("$defs")
    assert (inputs.schema["required"], inputs.schema["additionalProperties"]) == (["value"], False)
    check, fits = typed_checker(inputs), valid(inputs.schema)
    for value, wanted in kind.taken:
        received = check({"value": value})["value"]
        assert (received, type(received)) == (wanted, type(wanted))
        assert kind.differs or fits({"value": value})
        written_back(kind.hint, received)
    for value in kind.refused:
        with pytest.raises(InvalidArguments):
            check({"value": value})
        assert kind.differs or not fits({"value": value}), value


def written_back(hint: Any, value: Any) -> None:
    """Have the value be a result of the same kind, which must fit the output schema."""
    outputs = Outputs(hint)
    structured = json.loads(write(outputs, value)[1])
    assert outputs.errors == []
    assert outputs.schema is None or valid(outputs.schema)(structured), structured
