"""Hypothesis strategies of values that fit a JSON Schema, and of values that nearly do."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from hypothesis import strategies as st

DEPTH = 3
# Texts in arguments never contain a NUL, even if the schema allows it (docs/tools/schemas.md,
# "Differences").
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = partial(st.text, CHARACTERS)
offsets = st.sampled_from(["", "Z", "z", "+05:30", "-00:00", "+14:00"])
clocks = st.builds(lambda time, offset: f"{time:%H:%M:%S}{offset}", st.times(), offsets)
days = st.dates().map(str)
FORMATS: dict[str, st.SearchStrategy[str]] = {
    "date": days,
    "time": clocks,
    "date-time": st.builds("{}{}{}".format, days, st.sampled_from("Tt "), clocks),
    "duration": st.builds("P{}DT{}H{}M{}S".format, *[st.integers(0, 59)] * 4),
    "uuid": st.uuids().map(str),
    "ipv4": st.ip_addresses(v=4).map(str),
}
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 1.0, 2.0, 0.5, -0.0, 2**63, 1e300, "1", "true", "a", "é"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(max_size=6)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)


def fitting(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that fit a schema of the kinds that hints produce."""
    return _Drawn(schema.get("$defs", {})).of(schema)


class _Drawn:
    """Strategies for the parts of one schema; recursive references are followed DEPTH times."""

    def __init__(self, definitions: Mapping[str, Any], depth: int = DEPTH) -> None:
        self._definitions = definitions
        self._depth = depth

    def of(self, schema: Any) -> st.SearchStrategy[Any]:
        if schema is True or not schema.keys() - {"description", "title", "default", "$defs"}:
            return anything
        if "$ref" in schema:
            named = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
            return _Drawn(self._definitions, self._depth - 1).of(named)
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return st.one_of([self.of(each) for each in schema[key] if not self._ends(each)])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return st.one_of([getattr(self, f"_{kind}")(schema) for kind in kinds])

    def _ends(self, schema: Any) -> bool:
        return not self._depth and "$ref" in str(schema)

    def _null(self, schema: Any) -> st.SearchStrategy[Any]:
        return st.none()

    def _boolean(self, schema: Any) -> st.SearchStrategy[Any]:
        return st.booleans()

    def _integer(self, schema: Any) -> st.SearchStrategy[Any]:
        step = schema.get("multipleOf", 1)
        low, high = schema.get("minimum"), schema.get("maximum")
        low = schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else low
        return st.integers(low, high).map(lambda number: number * step)

    def _number(self, schema: Any) -> st.SearchStrategy[Any]:
        below = schema.get("exclusiveMaximum")
        bounds: Any = {
            "allow_nan": False,
            "allow_infinity": False,
            "exclude_max": below is not None,
        }
        return st.floats(max_value=below, **bounds) | st.integers(
            max_value=None if below is None else below - 1
        )

    def _string(self, schema: Any) -> st.SearchStrategy[Any]:
        if "format" in schema:
            return FORMATS[schema["format"]]
        if "contentEncoding" in schema:
            return st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
        if "pattern" in schema:
            whole = schema["pattern"].endswith("$")
            return st.from_regex(schema["pattern"], fullmatch=whole, alphabet=CHARACTERS)
        return texts(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 6))

    def _array(self, schema: Any) -> st.SearchStrategy[Any]:
        if "prefixItems" in schema:
            return st.tuples(*map(self.of, schema["prefixItems"])).map(list)
        if self._ends(schema):
            return st.just([])
        return st.lists(
            self.of(schema.get("items", True)),
            min_size=schema.get("minItems", 0),
            max_size=schema.get("maxItems", 2),
            unique_by=repr if schema.get("uniqueItems") else None,
        )

    def _object(self, schema: Any) -> st.SearchStrategy[Any]:
        members = {
            name: self.of(each)
            for name, each in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or not self._ends(each)
        }
        required = {name: members.pop(name) for name in schema.get("required", ())}
        known = st.fixed_dictionaries(required, optional=members)
        more = schema.get("additionalProperties", True)
        if more is False or self._ends(more):
            return known
        named = schema.get("properties", {})
        keys = self.of({"type": "string", **schema.get("propertyNames", {})})
        keys = keys.filter(lambda key: key not in named)
        most = min(2, schema.get("maxProperties", 2))
        rest = st.dictionaries(keys, self.of(more), max_size=most)
        return st.builds(lambda given, rest: {**rest, **given}, known, rest)


def mutated(value: Any, random: Random, others: Sequence[Any]) -> Any:
    """Return the value with one place of it changed, perhaps to one of the others."""
    changed = [copy.deepcopy(value)]
    path = (0, *random.choice(list(_places((), value))))
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    near = _near(holder[path[-1]], random)
    holder[path[-1]] = random.choice(near if near and random.random() < 0.6 else others)
    return changed[0]


def _places(path: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places((*path, key), value[key])


def _near(value: Any, random: Random) -> list[Any]:
    """Return values that are nearly this one."""
    if isinstance(value, dict):
        gone = random.choice(sorted(value)) if value else ""
        less = {key: each for key, each in value.items() if key != gone}
        more = {**value, random.choice(["x", "title", "more", ""]): 1}
        return [less, more, list(value), [value]]
    if isinstance(value, list):
        return [value + value[:1], value[1:], [*value, None], value[::-1], {"0": value}]
    if isinstance(value, str):
        return [value + "0", value[1:], value.upper(), [value], f" {value}", f"{value}\n"]
    if isinstance(value, int | float):
        real = [float(value)] if abs(value) < 2**1000 else []
        return [
            value + 1,
            -value,
            not value,
            str(value),
            [value],
            *real,
            *(each / 2 for each in real),
        ]
    return []
