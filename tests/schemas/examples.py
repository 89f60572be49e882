"""Types of every kind for parameters and results."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Kind(enum.StrEnum):
    A = "a"
    B = "b"


class Mixed(enum.Enum):
    WORD = "a"
    NUMBER = 2


class Written(enum.Enum):
    # Values that have another type in JSON.
    NONE = None
    DAY = datetime.date(2024, 2, 29)
    PAIR = (1, 2)


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Described:
    """A thing with a text."""

    text: Annotated[str, Field(description="the text", max_length=5)]
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    a: int
    b: NotRequired[str]


class Named(NamedTuple):
    a: int
    b: str = "x"


class Book(BaseModel):
    """A book."""

    title: str = Field(max_length=5, description="its title")
    year: int | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", title="A closed thing")
    a: int


class Page(BaseModel, Generic[T]):
    items: list[T]


class Card(BaseModel):
    method: Literal["card"]
    amount: int


class Cash(BaseModel):
    method: Literal["cash"]
    kind: str


Payment = Annotated[Card | Cash, Field(discriminator="method")]


class Red(BaseModel):
    colour: Literal[Colour.RED]
    depth: int


class Blue(BaseModel):
    colour: Literal[Colour.BLUE]


Paint = Annotated[Red | Blue, Field(discriminator="colour")]


@dataclass
class Node:
    value: int
    children: list[Node]


@dataclass
class Linked:
    next: Linked | None = None


@dataclass
class Hen:
    egg: Egg | None = None


@dataclass
class Egg:
    hen: Hen | None = None


class Tree(TypedDict):
    branches: list[Tree]


class Folder(BaseModel):
    folders: dict[str, Folder] = {}


@dataclass
class Forest:
    first: Node
    second: Node
    place: Point


@dataclass
class Unfinished:
    value: Missing  # type: ignore[name-defined]  # noqa: F821


class Opaque:
    """A class that pydantic knows nothing of."""


class Hostile:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise RuntimeError("this type describes itself wrongly")
