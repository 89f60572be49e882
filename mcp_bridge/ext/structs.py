"""
Support attrs classes and msgspec Structs as parameters and results.

pydantic supports neither. It gets a TypedDict with the same members, and the class itself creates
the instance, so that its converters and validators run. Classes are recognised by the documented
attributes of their library, so that it is not imported unless the site does.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args

import pydantic
from pydantic_core import PydanticSerializationUnexpectedValue
from typing_extensions import TypedDict

from mcp_bridge.schemas.core_schemas import CONFIG
from mcp_bridge.schemas.hints import Adapter, Side, TypeHint, adapt, annotate, origin_of, register
from mcp_bridge.schemas.signatures import MISSING

# The constraints of a msgspec.Meta that have the same name in Field.
_CONSTRAINTS: Final = (
    *("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length"),
    *("title", "description", "examples"),
)
# By class and side, registered before their members are read, since these may be recursive.
_SHAPES: Final[dict[tuple[TypeHint, Side], TypeHint]] = {}


def register_adapters() -> None:
    """Register the adapter of these classes; a second call changes nothing."""
    register(StructAdapter())


class StructAdapter(Adapter):
    """attrs classes, msgspec Structs, and the constraints of a ``msgspec.Meta``."""

    def adapted(self, hint: TypeHint, metadata: tuple[Any, ...], side: Side) -> TypeHint | None:
        kind = origin_of(hint) or hint
        is_struct = (
            isinstance(kind, type)
            and (hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__struct_fields__"))
            and not hasattr(kind, "__get_pydantic_core_schema__")
        )
        if not is_struct and not metadata:
            return None
        # A hint cannot be of the package unless that is imported.
        meta: Any = getattr(sys.modules.get("msgspec"), "Meta", ())
        zones = [each.tz for each in metadata if isinstance(each, meta) and each.tz is not None]
        if hint is datetime.datetime and zones:
            hint = pydantic.AwareDatetime if zones[0] else pydantic.NaiveDatetime
        kept = [_field(each) if isinstance(each, meta) else each for each in metadata]
        if is_struct:
            shape = _shape(hint, side)
            convert = _constructor(hint) if side == "parameter" else _reader(hint)
            # In a union, errors name it by its tag.
            return annotate(shape, convert, pydantic.Tag(shape.__name__), *kept)
        if all(each is other for each, other in zip(kept, metadata, strict=True)):
            return None
        return adapt(annotate(hint, *kept), side)


def _field(meta: Any) -> object:
    """Return the constraints of a msgspec.Meta as pydantic's Field."""
    given = {name: getattr(meta, name) for name in _CONSTRAINTS}
    given["json_schema_extra"] = meta.extra_json_schema
    return pydantic.Field(**{name: value for name, value in given.items() if value is not None})


def _shape(hint: TypeHint, side: Side) -> TypeHint:
    """Return the TypedDict of a class, whose members may be of the class itself."""
    if (hint, side) in _SHAPES:
        return _SHAPES[hint, side]
    kind = origin_of(hint) or hint
    make: Any = TypedDict
    shape = _SHAPES[hint, side] = make(kind.__name__, {})
    shape.__doc__ = kind.__dict__.get("__doc__")
    shape.__pydantic_config__ = pydantic.ConfigDict(**{**CONFIG, "arbitrary_types_allowed": True})
    try:
        for each in _members(hint, side):
            # Parameters can be sent only if the constructor takes them, except for a tag.
            if side == "result" or each.argument or not each.attribute:
                member = adapt(each.hint, side)
                if each.default is not MISSING:
                    member = Annotated[member, pydantic.Field(default=each.default)]
                presence: Any = typing.Required if each.required else typing.NotRequired
                shape.__annotations__[each.name] = presence[member]
    except Exception:
        # Other shapes may contain the unfinished one.
        _SHAPES.clear()
        raise
    return shape


def _constructor(kind: TypeHint) -> pydantic.AfterValidator:
    """Return the validator that creates an instance from checked members."""
    arguments = {each.name: each.argument for each in _members(kind, "parameter")}

    def make(given: Mapping[str, object]) -> object:
        named = {arguments[name]: value for name, value in given.items()}
        try:
            return kind(**{name: value for name, value in named.items() if name})
        except (TypeError, ValueError) as exception:
            # attrs adds further arguments for programs, such as the value.
            raise ValueError(next(iter(exception.args), "the value is refused")) from exception

    return pydantic.AfterValidator(make)


def _reader(hint: TypeHint) -> pydantic.WrapSerializer:
    """Return the serializer that reads the members of an instance."""
    kind = origin_of(hint) or hint
    attributes = {each.name: each.attribute for each in _members(hint, "result")}
    config = getattr(kind, "__struct_config__", None)
    tag = {config.tag_field: config.tag} if config and config.tag_field else {}
    unset = getattr(sys.modules.get("msgspec"), "UNSET", MISSING)

    # Without hints: pydantic would use a return hint for the result's schema.
    def read(instance, write):  # type: ignore[no-untyped-def]
        if not isinstance(instance, kind):
            raise PydanticSerializationUnexpectedValue(f"no {kind.__name__}")
        own = {name: getattr(instance, each) for name, each in attributes.items() if each}
        return write({**tag, **{name: each for name, each in own.items() if each is not unset}})

    return pydantic.WrapSerializer(read)


class Member(NamedTuple):
    """
    A member of such a class, called ``name`` in JSON.

    ``attribute`` is its name on an instance, or None for the tag of a Struct. ``argument`` is its
    name in the constructor, or None if it is not a parameter.
    """

    name: str
    hint: TypeHint
    attribute: str | None = None
    argument: str | None = None
    required: bool = True
    default: object = MISSING


@functools.cache
def _members(hint: TypeHint, side: Side) -> tuple[Member, ...]:
    kind = origin_of(hint) or hint
    return tuple(_of_struct(hint) if hasattr(kind, "__struct_fields__") else _of_attrs(hint, side))


def _of_struct(hint: TypeHint) -> Iterator[Member]:
    from msgspec import NODEFAULT, UNSET, UnsetType, structs

    config = (origin_of(hint) or hint).__struct_config__
    if config.tag_field:
        yield Member(config.tag_field, typing.Literal[config.tag])
    for each in structs.fields(hint):
        kinds = get_args(each.type)
        # UNSET is not a JSON value and is not sent.
        kept = [kind for kind in kinds if kind is not UnsetType]
        sent = each.type if len(kept) == len(kinds) else typing.Union[tuple(kept)]  # noqa: UP007
        default = MISSING if each.default is NODEFAULT or each.default is UNSET else each.default
        yield Member(each.encode_name, sent, each.name, each.name, each.required, default)


def _of_attrs(hint: TypeHint, side: Side) -> Iterator[Member]:
    from attrs import NOTHING, fields

    kind = origin_of(hint) or hint
    hints = typing.get_type_hints(kind, include_extras=True)
    given = dict(zip(getattr(kind, "__parameters__", ()), get_args(hint), strict=False))
    for each in fields(kind):
        declared = _filled_in(hints.get(each.name, each.type or Any), given)
        received = _converted(each.converter, declared)
        # The default may be a factory, and has the type that the converter takes.
        known = each.default is not NOTHING and not hasattr(each.default, "takes_self")
        known = known and (side == "parameter" or received == declared)
        yield Member(
            name=each.alias,
            hint=received if side == "parameter" else declared,
            attribute=each.name,
            argument=each.alias if each.init else None,
            required=each.default is NOTHING,
            default=each.default if known else MISSING,
        )


def _filled_in(hint: TypeHint, given: Mapping[TypeVar, TypeHint]) -> TypeHint:
    """Return the hint with a generic class's type variables replaced by their arguments."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, each) for each in variables)] if variables else hint


def _converted(converter: object, declared: TypeHint) -> TypeHint:
    """Return the hint of a converter's parameter, else that of the member."""
    function: Any = getattr(converter, "converter", converter)
    try:
        first = next(iter(inspect.signature(function, eval_str=True).parameters.values()))
    except (TypeError, ValueError, NameError, StopIteration):
        return declared
    return declared if first.annotation is first.empty else first.annotation
