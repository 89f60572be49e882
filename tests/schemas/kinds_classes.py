"""Classes, including generic ones, aliases of types, and recursive types."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.schemas import examples as ex
from tests.schemas import structures as st
from tests.schemas.kinds import INTEGER, NAIVE, STRING, Kind, nullable, same


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these members, and no other."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, **({"required": required} if required else {})}


def opened(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that may have other members."""
    return {"type": "object", "properties": properties, "required": required}


def array(items: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **keywords}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {**nullable(schema), "default": None}


STRINGS = array(STRING)
POINT = closed(["x"], x=INTEGER, y={**INTEGER, "default": 0})
CARD = opened(["method", "amount"], method={**STRING, "const": "card"}, amount=INTEGER)
CASH = opened(["method", "kind"], method={**STRING, "const": "cash"}, kind=STRING)
RED = opened(["colour", "depth"], colour={**STRING, "const": "red"}, depth=INTEGER)
BLUE = opened(["colour"], colour={**STRING, "const": "blue"})
BOOK = {
    **opened(
        ["title"],
        title={**STRING, "maxLength": 5, "description": "its title"},
        year=optional(INTEGER),
    ),
    "description": "A book.",
}
NAMED = {
    "type": "array",
    "prefixItems": [INTEGER, {**STRING, "default": "x"}],
    "minItems": 1,
    "maxItems": 2,
}
BRANCH = closed(["value"], value=INTEGER, next=optional(ref("Branch")), twigs=array(ref("Branch")))
CAT = closed(["type", "lives"], type={**STRING, "const": "Cat"}, lives=INTEGER)
DOG = closed(["type"], type={**STRING, "const": "Dog"}, tricks=STRINGS)
SHIPMENT = {
    **closed(
        ["first"],
        first=ref("Branch"),
        second=optional(ref("Branch")),
        pets=array({"anyOf": [CAT, DOG]}),
        place=optional(POINT),
    ),
    "description": "A dataclass of what others make.",
}

PLAIN = [
    Kind(
        hint=ex.Point,
        schema=POINT,
        taken=[({"x": 1}, ex.Point(1)), ({"x": 1.0, "y": 2}, ex.Point(1, 2))],
        refused=[{}, {"x": "1"}, {"x": 1, "z": 1}, [1], None],
    ),
    Kind(
        hint=ex.Described,
        schema={
            **closed(
                ["text"],
                text={**STRING, "maxLength": 5, "description": "the text"},
                tags=STRINGS,
            ),
            "description": "A thing with a text.",
        },
        taken=[({"text": "a"}, ex.Described("a", []))],
        refused=[{"text": "too long"}, {"text": "a", "tags": [1]}],
    ),
    # Inherited members, a factory, and members that the constructor does not accept
    Kind(
        hint=st.Derived,
        schema=closed(["name"], name=STRING, tags=STRINGS, limit={**INTEGER, "default": 1}),
        taken=[({"name": "ab", "limit": 2}, st.Derived("ab", [], limit=2))],
        refused=[{"name": "a", "length": 1}, {"tags": []}],
    ),
    Kind(
        hint=ex.Options,
        schema=closed(["a"], a=INTEGER, b=STRING),
        taken=same({"a": 1}, {"a": 1, "b": "x"}),
        refused=[{"b": "x"}, {"a": 1, "c": 1}, {"a": None}],
    ),
    Kind(
        hint=st.Kept,
        schema=closed(["id", "name"], id=INTEGER, name=STRING, note=STRING),
        taken=same({"id": 1, "name": "a"}),
        refused=[{"id": 1}, {"name": "a", "note": "x"}],
    ),
    Kind(
        hint=ex.Named,
        schema=NAMED,
        taken=[([1], ex.Named(1)), ([1, "a"], ex.Named(1, "a"))],
        refused=[[], [1, "a", 2], {"a": 1}],
    ),
    # pydantic's models ignore unknown members unless they forbid them
    Kind(
        hint=ex.Book,
        schema=BOOK,
        taken=[({"title": "t", "more": 1}, ex.Book(title="t"))],
        refused=[{"title": "too long"}, {"title": "t", "year": "1"}, {}],
    ),
    Kind(
        hint=ex.Closed,
        schema={**closed(["a"], a=INTEGER), "title": "A closed thing"},
        taken=[({"a": 1}, ex.Closed(a=1))],
        refused=[{"a": 1, "b": 1}],
    ),
    Kind(
        hint=st.Order,
        schema={
            **opened(["orderLines"], orderLines=array(INTEGER), code={**STRING, "default": "x"}),
            "description": "An alias, validators, and a member that is computed.",
        },
        taken=[({"orderLines": [1, 2]}, st.Order(orderLines=[1, 2]))],
        refused=[{"lines": [1]}, {"orderLines": []}, {"orderLines": [1], "code": "X"}],
        differs=True,
    ),
]

OTHERS = [
    # attrs: a validator, a private name, a converter with a hint, an alias
    Kind(
        hint=st.Item,
        schema={
            **closed(
                ["name"],
                name=STRING,
                count={**INTEGER, "minimum": 0, "default": 1},
                code={**STRING, "default": "x"},
                tags=STRINGS,
                words={**STRING, "default": "a,b"},
                number={**INTEGER, "default": 0},
            ),
            "description": "A thing to sell.",
        },
        taken=[
            ({"name": "a"}, st.Item("a")),
            ({"name": "a", "words": "c", "code": "y"}, st.Item("a", words="c", code="y")),
            ({"name": "a", "number": 2}, st.Item("a", number=2)),
        ],
        refused=[{}, {"name": "a", "length": 1}, {"name": "a", "count": 13}, {"name": 1}, "a"],
        differs=True,
    ),
    Kind(
        hint=st.Branch,
        schema={**ref("Branch"), "$defs": {"Branch": BRANCH}},
        taken=[({"value": 1, "twigs": [{"value": 2}]}, st.Branch(1, None, [st.Branch(2)]))],
        refused=[{"value": 1, "next": {}}, {"value": 1, "twigs": [{"value": "2"}]}],
    ),
    Kind(
        hint=st.Parcel[int],
        schema=closed(["item"], item=INTEGER, more=array(INTEGER)),
        taken=[({"item": 1, "more": [2]}, st.Parcel(1, [2]))],
        refused=[{"item": "1"}, {"item": 1, "more": ["2"]}],
    ),
    # msgspec: names in JSON, constraints of a Meta, a custom check, tags
    Kind(
        hint=st.Named,
        schema={
            **ref("Named"),
            "$defs": {
                "Named": {
                    **closed(
                        ["firstName"],
                        firstName={**STRING, "minLength": 1, "description": "how it is called"},
                        ages=array({**INTEGER, "minimum": 0}),
                        born=optional({**STRING, "format": "date"}),
                        parent=optional(ref("Named")),
                    ),
                    "description": "A renamed Struct.",
                }
            },
        },
        taken=[
            (
                {"firstName": "a", "born": "2024-02-29", "parent": {"firstName": "b"}},
                st.Named("a", [], dt.date(2024, 2, 29), st.Named("b")),
            )
        ],
        refused=[{"first_name": "a"}, {"firstName": ""}, {"firstName": "a", "ages": [-1]}],
    ),
    Kind(
        hint=st.Cat | st.Dog,
        schema={"anyOf": [CAT, DOG]},
        taken=[({"type": "Dog"}, st.Dog()), ({"type": "Cat", "lives": 9}, st.Cat(9))],
        refused=[{"lives": 9}, {"type": "Dog", "lives": 9}, {"type": "Cow"}],
    ),
    Kind(
        hint=st.Changes,
        schema={
            **closed([], name=STRING, note=nullable(STRING), due={**STRING, "pattern": NAIVE}),
            "description": "What is not sent is not set.",
        },
        taken=[({}, st.Changes()), ({"note": None}, st.Changes(note=None))],
        refused=[{"name": None}, {"due": "2024-02-29T12:00:00Z"}],
        differs=True,
    ),
    Kind(
        hint=st.Box[st.Parcel[str]],
        schema=closed(["item"], item=closed(["item"], item=STRING, more=STRINGS)),
        taken=[({"item": {"item": "a"}}, st.Box(st.Parcel("a")))],
        refused=[{"item": "a"}, {"item": {"item": 1}}],
    ),
    # Each in the other
    Kind(
        hint=st.Wrapped,
        schema={
            **closed(["shipment", "branch"], shipment=SHIPMENT, branch=ref("Branch")),
            "$defs": {"Branch": BRANCH},
        },
        taken=[
            (
                {
                    "shipment": {"first": {"value": 1}, "pets": [{"type": "Cat", "lives": 9}]},
                    "branch": {"value": 2, "next": {"value": 3}},
                },
                st.Wrapped(st.Shipment(st.Branch(1), pets=[st.Cat(9)]), st.Branch(2, st.Branch(3))),
            )
        ],
        refused=[
            {"shipment": {"first": {"value": 1, "more": 1}}, "branch": {"value": 2}},
        ],
    ),
]

_NESTED = {"anyOf": [{"type": "object", "additionalProperties": ref("Nested")}, INTEGER]}
_NODE = closed(["value", "children"], value=INTEGER, children=array(ref("Node")))


def names(made: Any) -> list[Kind]:
    """Return rows of aliases and generic classes for either syntax that defines them."""
    return [
        Kind(hint=made["Numbers"], schema=array(INTEGER), taken=same([1]), refused=[["1"]]),
        Kind(hint=made["Listed"][str], schema=STRINGS, taken=same(["a"]), refused=[[1]]),
        Kind(
            hint=made["Nested"],
            schema={**ref("Nested"), "$defs": {"Nested": _NESTED}},
            taken=same(1, {"a": {"b": 1}}),
            refused=["a", {"a": {"b": "c"}}],
        ),
        Kind(
            hint=made["Page"][int],
            schema=opened(["items"], items=array(INTEGER)),
            taken=[({"items": [1]}, made["Page"][int](items=[1]))],
            refused=[{"items": ["1"]}],
        ),
    ]


NAMES = [
    *names({**vars(st), "Page": ex.Page}),
    Kind(hint=st.ArticleId, schema=INTEGER, taken=same(1), refused=["1"]),
    Kind(
        hint=st.Pair[int],
        schema=closed(["first"], first=INTEGER, others=array(INTEGER)),
        taken=[({"first": 1, "others": [2]}, st.Pair(1, [2]))],
        refused=[{"first": "1"}, {"first": 1, "others": ["2"]}],
    ),
    Kind(
        hint=ex.Node,
        schema={**ref("Node"), "$defs": {"Node": _NODE}},
        taken=[({"value": 1, "children": []}, ex.Node(1, []))],
        refused=[{"value": 1, "children": [{"value": 1}]}],
    ),
    Kind(
        hint=ex.Hen,
        schema={
            **ref("Hen"),
            "$defs": {
                "Hen": closed([], egg=optional(ref("Egg"))),
                "Egg": closed([], hen=optional(ref("Hen"))),
            },
        },
        taken=[({"egg": {"hen": {}}}, ex.Hen(ex.Egg(ex.Hen())))],
        refused=[{"egg": {"egg": {}}}],
    ),
]
