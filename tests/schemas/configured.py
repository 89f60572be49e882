"""Types with custom configuration, validators or serializers."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from tests.schemas.examples import Card, Cash

T = TypeVar("T")


class Lax(BaseModel):
    model_config = ConfigDict(strict=False)
    x: int


class LaxField(BaseModel):
    x: int = Field(strict=False)


@pydantic_dataclass(config=ConfigDict(strict=False))
class LaxDataclass:
    x: int


@pydantic_dataclass(config=ConfigDict(extra="ignore"))
class OpenDataclass:
    x: int


class OpenDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    x: int


class Partial(TypedDict, total=False):
    x: int
    title: str


class Numbers(RootModel[list[int]]):
    pass


class Aliased(BaseModel):
    x: int = Field(alias="title")


class Box(BaseModel, Generic[T]):
    x: T


class Half(enum.Enum):
    ONE = 1.0
    TWO = 2.5


class Truth(enum.Enum):
    YES = True
    NO = False


def method_of(value: Any) -> str:
    return "card" if isinstance(value, dict) and value.get("method") == "card" else "cash"


ByFunction = Annotated[
    Annotated[Card, Tag("card")] | Annotated[Cash, Tag("cash")], Discriminator(method_of)
]
Checked = Annotated[int, AfterValidator(lambda value: value)]
Prepared = Annotated[int, BeforeValidator(lambda value: value)]


class Tricky(BaseModel):
    """Its default looks like a validator's core schema."""

    spec: dict[str, Any] = {"type": "date", "strict": False}
    x: int = 0


class Square(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Shouting(BaseModel):
    word: int

    @field_serializer("word")
    def shout(self, word: int) -> str:
        return f"{word}!"


class Other(BaseModel):
    x: int

    @model_serializer
    def turned(self) -> dict[str, int]:
        return {"z": self.x}


class Renamed(BaseModel):
    x: int = Field(serialization_alias="ex")


class Reserved(BaseModel):
    x: int
    y: int = Field(default=1, exclude=True)


@dataclass
class Counted:
    x: int
    double: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.double = 2 * self.x


class Unique(BaseModel):
    """Input must be a new value, which output never is."""

    slug: str

    @field_validator("slug")
    @classmethod
    def is_new(cls, slug: str) -> str:
        raise ValueError("there is one already")


class Once(BaseModel):
    slug: str

    @model_validator(mode="before")
    @classmethod
    def is_new(cls, given: Any) -> Any:
        raise ValueError("there is one already")
