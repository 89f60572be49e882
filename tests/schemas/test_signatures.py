from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from mcp_bridge import Context
from mcp_bridge.schemas import Inputs, Outputs, Signature, UnsupportedSignature
from tests.schemas import examples as ex
from tests.schemas import structures
from tests.support.schemas import input_schema, output_schema
from tests.support.serving import giving, taking
from tests.support.values import label

if TYPE_CHECKING:
    from decimal import Decimal

INTEGER = {"type": "integer"}


def plain(context: Context, a: int) -> None: ...
def optional(a: int, context: Context | None = None) -> None: ...
def old_optional(a: int, context: Optional[Context] = None) -> None: ...  # noqa: UP045
def annotated(a: int, *, who: Annotated[Context, "who calls"]) -> None: ...
def quoted(a: int, context: "Context") -> None: ...  # noqa: UP037


@pytest.mark.parametrize("function", [plain, optional, old_optional, annotated, quoted])
def test_the_context_is_no_parameter(function: Any) -> None:
    assert input_schema(function) == {
        "type": "object",
        "properties": {"a": INTEGER},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_a_parameter_called_context_is_a_parameter() -> None:
    assert input_schema(lambda context: None)["properties"] == {"context": {}}


def test_what_something_else_fills_is_no_parameter() -> None:
    def function(a: int, rpc: Any) -> None: ...

    assert list(input_schema(function, skip=["rpc"])["properties"]) == ["a"]


def test_a_target_that_is_no_parameter_is_refused() -> None:
    with pytest.raises(UnsupportedSignature, match="lacks the parameter 'rpc'"):
        Signature.of(plain, skip=["rpc"])


def test_a_target_may_be_one_of_any_keywords() -> None:
    def function(**rest: int) -> None: ...

    assert Signature.of(function, skip=["rpc"]).hidden == {"rpc"}


def test_parameters_may_be_called_what_no_field_may() -> None:
    def function(schema: int, model_config: int, _private: int, self: int, p0: int) -> None: ...

    expected = ["schema", "model_config", "_private", "self", "p0"]
    assert list(input_schema(function)["properties"]) == expected


class Desk:
    def find(self, text: str) -> list[str]:
        """Find."""
        return [text]


def test_a_bound_method_has_no_self() -> None:
    assert list(input_schema(Desk().find)["properties"]) == ["text"]


def test_a_decorated_function_is_read_through_its_decorator() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert input_schema(wrapper) == input_schema(plain)


def unresolvable(good: int, bad: Decimal, worse: list[Nowhere]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_a_hint_that_cannot_be_resolved_takes_any_value_and_spares_the_others() -> None:
    signature = Signature.of(unresolvable)
    assert Inputs(signature).schema["properties"] == {"good": INTEGER, "bad": {}, "worse": {}}
    assert [problem.split(":")[0] for problem in signature.errors] == [
        "the hint of 'bad' cannot be resolved",
        "the hint of 'worse' cannot be resolved",
    ]


def test_a_hint_that_pydantic_cannot_read_spares_the_others() -> None:
    def function(good: int, bad: ex.Opaque, better: str = "x") -> None: ...

    inputs = Inputs(Signature.of(function))
    expected = {"good": INTEGER, "bad": {}, "better": {"type": "string", "default": "x"}}
    assert (inputs.schema["properties"], len(inputs.errors)) == (expected, 1)


UNREADABLE = [
    ex.Opaque,
    list[ex.Opaque],
    Callable[[int], int],
    ex.Unfinished,
    structures.Unfinished,
    type,
]


@pytest.mark.parametrize("hint", UNREADABLE, ids=label)
def test_a_hint_that_pydantic_cannot_read_takes_any_value(hint: Any) -> None:
    inputs = Inputs(Signature.of(taking(hint)))
    assert inputs.schema["properties"] == {"value": {}}
    assert inputs.schema["required"] == ["value"]
    (problem,) = inputs.errors
    assert problem.startswith("pydantic cannot read the hint of 'value'")


@pytest.mark.parametrize("hint", UNREADABLE, ids=label)
def test_a_result_that_pydantic_cannot_read_promises_nothing(hint: Any) -> None:
    outputs = Outputs(Signature.of(giving(hint, None)).returns)
    assert outputs.schema is None
    (problem,) = outputs.errors
    assert problem.startswith("pydantic cannot read the return hint")


def test_an_unresolvable_result_promises_nothing() -> None:
    def function() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert output_schema(function) is None
