"""Classes of attrs and msgspec, generic ones, and aliases, for the table of kinds."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any, Generic, NewType, NotRequired, Required, TypeVar

import attrs
import msgspec
from pydantic import BaseModel, Field, computed_field, field_validator, model_validator
from typing_extensions import ReadOnly, TypeAliasType, TypedDict

from tests.schemas.examples import Point

T = TypeVar("T")

ArticleId = NewType("ArticleId", int)
Numbers = TypeAliasType("Numbers", list[int])
Listed = TypeAliasType("Listed", list[T], type_params=(T,))
Nested = TypeAliasType("Nested", "dict[str, Nested] | int")  # type: ignore[misc]

# Syntax that Python before 3.12 cannot parse.
NEW_SYNTAX = """
from dataclasses import dataclass
from pydantic import BaseModel

type Numbers = list[int]
type Listed[T] = list[T]
type Nested = dict[str, Nested] | int

@dataclass
class Pair[T]:
    first: T
    second: T

class Page[T](BaseModel):
    items: list[T]
"""


class Kept(TypedDict, total=False):
    id: ReadOnly[Required[int]]
    name: Required[str]
    note: NotRequired[str]


@dataclasses.dataclass
class Base:
    name: str


@dataclasses.dataclass
class Derived(Base):
    tags: list[str] = dataclasses.field(default_factory=list)
    limit: int = dataclasses.field(default=1, kw_only=True)
    length: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.length = len(self.name)


@dataclasses.dataclass
class Pair(Generic[T]):
    first: T
    others: list[T] = dataclasses.field(default_factory=list)


class Order(BaseModel):
    """An alias, validators, and a member that is computed."""

    lines: list[int] = Field(alias="orderLines")
    code: str = "x"

    @field_validator("code")
    @classmethod
    def is_lower(cls, code: str) -> str:
        if not code.islower():
            raise ValueError("a code is in lower case")
        return code

    @model_validator(mode="after")
    def has_lines(self) -> Order:
        if not self.lines:
            raise ValueError("an order has lines")
        return self

    @computed_field
    @property
    def total(self) -> int:
        return sum(self.lines)


def split(text: str) -> list[str]:
    return text.split(",")


@attrs.define
class Item:
    """A thing to sell."""

    name: str
    count: Annotated[int, Field(ge=0)] = attrs.field(
        default=1, validator=attrs.validators.not_(attrs.validators.in_([13]))
    )
    _code: str = attrs.field(default="x", kw_only=True)
    tags: list[str] = attrs.Factory(list)
    words: list[str] = attrs.field(converter=split, default="a,b")
    code: ArticleId = attrs.field(converter=int, default=0, alias="number")
    length: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.length = len(self.name)


@attrs.frozen
class Branch:
    value: int
    next: Branch | None = None
    twigs: list[Branch] = attrs.Factory(list)


@attrs.define
class Parcel(Generic[T]):
    item: T
    more: list[T] = attrs.Factory(list)


class Named(msgspec.Struct, rename="camel"):
    """A renamed Struct."""

    first_name: Annotated[str, msgspec.Meta(min_length=1, description="how it is called")]
    ages: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    born: dt.date | None = None
    parent: Named | None = None

    def __post_init__(self) -> None:
        if self.first_name == "nobody":
            raise ValueError("somebody has to be named")


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True, frozen=True):
    tricks: list[str] = []


class Changes(msgspec.Struct):
    """What is not sent is not set."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    note: str | None | msgspec.UnsetType = msgspec.UNSET
    due: Annotated[dt.datetime, msgspec.Meta(tz=False)] | msgspec.UnsetType = msgspec.UNSET


@attrs.define
class Unfinished:
    value: Missing  # type: ignore[name-defined]  # noqa: F821


class Box(msgspec.Struct, Generic[T]):
    item: T


@dataclasses.dataclass
class Shipment:
    """A dataclass of what others make."""

    first: Branch
    second: Branch | None = None
    pets: list[Cat | Dog] = dataclasses.field(default_factory=list)
    place: Point | None = None


class Wrapped(msgspec.Struct):
    shipment: Shipment
    branch: Branch


def made_with_new_syntax() -> Any:
    """Return the types of NEW_SYNTAX by their names."""
    made: dict[str, Any] = {"__name__": __name__}
    exec(NEW_SYNTAX, made)
    return made
