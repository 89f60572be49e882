"""A thousand generated dataclasses that contain each other are built, listed and enforced."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from random import Random
from typing import Any

from jsonschema import Draft202012Validator

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Outputs, Signature
from tests.schemas.drawing import mutated
from tests.schemas.families import families
from tests.schemas.test_agreement import VALUES
from tests.schemas.test_recursion import references
from tests.support.schemas import output_schema
from tests.support.serving import giving, taking

# All of them by `make fuzz`, which makes others by its seed.
FUZZ = "FUZZ_EXAMPLES" in os.environ
COUNT = 1000 if FUZZ else 50
SEED = int(os.environ.get("FUZZ_SEED", "3"))
DEPTH = 4


def drawn(schema: Any, definitions: Any, random: Random, depth: int = DEPTH) -> Any:
    """Return a value that fits a schema, which goes no deeper than it has to after some levels."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "enum" in schema:
        return random.choice(schema["enum"])
    kinds = schema.get("anyOf") or [{**schema, "type": each} for each in listed(schema["type"])]
    if depth < 0:
        kinds = [
            each for each in kinds if listed(each.get("type", "object")) != ["object"]
        ] or kinds
    kind = random.choice(kinds)
    if "type" not in kind or "anyOf" in schema:
        return drawn(kind, definitions, random, depth)
    if kind["type"] == "array":
        count = random.randint(0, 2) if depth >= 0 else 0
        return [drawn(kind["items"], definitions, random, depth - 1) for _ in range(count)]
    if kind["type"] == "object":
        return drawn_object(kind, definitions, random, depth)
    return random.choice(LEAVES[kind["type"]])


LEAVES = {
    "null": [None],
    "boolean": [True, False],
    "integer": [0, -1, 2**40],
    "number": [0.5, 1, -2.0],
    "string": ["", "a", "é"],
}


def drawn_object(schema: Any, definitions: Any, random: Random, depth: int) -> dict[str, Any]:
    more = schema["additionalProperties"]
    members = dict(schema.get("properties", {}))
    if more is not False and depth >= 0:
        members = {random.choice("xyz"): more for _ in range(random.randint(0, 2))}
    required = schema.get("required", members)
    return {
        name: drawn(each, definitions, random, depth - 1)
        for name, each in members.items()
        if name in required or (depth >= 0 and random.random() < 0.5)
    }


def listed(kind: Any) -> list[str]:
    return kind if isinstance(kind, list) else [kind]


def accepts(inputs: Inputs, value: Any) -> bool:
    try:
        typed_checker(inputs)({"value": value})
    except InvalidArguments:
        return False
    return True


def check(kind: type, random: Random) -> None:
    inputs = Inputs(Signature.of(taking(kind)))
    outputs = Outputs(kind)
    assert inputs.errors == outputs.errors == []
    for schema in (inputs.schema, outputs.schema):
        assert references(schema) == {f"#/$defs/{name}" for name in schema.get("$defs", ())}
    validator = Draft202012Validator(inputs.schema)
    value = drawn(inputs.schema["properties"]["value"], inputs.schema.get("$defs", {}), random)
    assert validator.is_valid({"value": value}), "it is drawn wrongly"
    assert accepts(inputs, value)
    assert not accepts(inputs, {**value, "unknown": 1})
    changed = [mutated(value, random, VALUES) for _ in range(4)]
    fits = [validator.is_valid({"value": each}) for each in changed]
    assert [accepts(inputs, each) for each in changed] == fits, changed


def test_generated_dataclasses_are_listed_and_enforced() -> None:
    random = Random(SEED)
    for number, kind in enumerate(itertools.islice(families(SEED), COUNT)):
        try:
            check(kind, random)
        except Exception as exception:
            exception.add_note(f"seed {SEED}, class {number}: {kind.__annotations__}")
            raise


@dataclass
class Endless:
    inner: Endless


def test_class_without_possible_values_is_listed() -> None:
    schema = output_schema(giving(Endless, None))
    assert references(schema) == {"#/$defs/Endless"}
    assert not accepts(Inputs(Signature.of(taking(Endless))), {"inner": {"inner": {}}})
