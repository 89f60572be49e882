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
def test_context_is_not_a_parameter(function: Any) -> None:
    assert input_schema(function) == {
        "type": "object",
        "properties": {"a": INTEGER},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_parameter_called_context_is_a_parameter() -> None:
    assert input_schema(lambda context: None)["properties"] == {"context": {}}


def test_injected_arguments_are_not_parameters() -> None:
    def function(a: int, rpc: Any) -> None: ...

    assert list(input_schema(function, skip=["rpc"])["properties"]) == ["a"]


def test_target_without_a_parameter_is_refused() -> None:
    with pytest.raises(UnsupportedSignature, match="lacks the parameter 'rpc'"):
        Signature.of(plain, skip=["rpc"])


def test_target_can_be_an_arbitrary_keyword() -> None:
    def function(**rest: int) -> None: ...

    assert Signature.of(function, skip=["rpc"]).hidden == {"rpc"}


def test_parameters_can_have_names_illegal_for_fields() -> None:
    def function(schema: int, model_config: int, _private: int, self: int, p0: int) -> None: ...

    expected = ["schema", "model_config", "_private", "self", "p0"]
    assert list(input_schema(function)["properties"]) == expected


class Desk:
    def find(self, text: str) -> list[str]:
        """Find."""
        return [text]


def test_bound_method_omits_self() -> None:
    assert list(input_schema(Desk().find)["properties"]) == ["text"]


def test_decorated_function_keeps_its_signature() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert input_schema(wrapper) == input_schema(plain)


def unresolvable(good: int, bad: Decimal, worse: list[Nowhere]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_unresolvable_hint_accepts_anything_without_affecting_others() -> None:
    signature = Signature.of(unresolvable)
    assert Inputs(signature).schema["properties"] == {"good": INTEGER, "bad": {}, "worse": {}}
    assert [problem.split(":")[0] for problem in signature.errors] == [
        "the hint of 'bad' cannot be resolved",
        "the hint of 'worse' cannot be resolved",
    ]


def test_unreadable_hint_does_not_affect_others() -> None:
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
def test_unreadable_hint_accepts_any_value(hint: Any) -> None:
    inputs = Inputs(Signature.of(taking(hint)))
    assert inputs.schema["properties"] == {"value": {}}
    assert inputs.schema["required"] == ["value"]
    (problem,) = inputs.errors
    assert problem.startswith("pydantic cannot read the hint of 'value'")


@pytest.mark.parametrize("hint", UNREADABLE, ids=label)
def test_unreadable_result_hint_has_no_schema(hint: Any) -> None:
    outputs = Outputs(Signature.of(giving(hint, None)).returns)
    assert outputs.schema is None
    (problem,) = outputs.errors
    assert problem.startswith("pydantic cannot read the return hint")


def test_unresolvable_result_hint_has_no_schema() -> None:
    def function() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert output_schema(function) is None
