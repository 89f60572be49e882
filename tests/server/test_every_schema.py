"""Every schema that is sent is valid for strict clients, for every kind of hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from django.core import checks
from jsonschema import Draft202012Validator

from mcp_bridge.registry.linting import lint
from mcp_bridge.schemas.validation import FORMATS
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import test_kinds
from tests.schemas.test_agreement import CONFIGURED
from tests.support import site
from tests.support.serving import served, taking

KINDS: list[Any] = [*(each.hint for each in test_kinds.KINDS), *CONFIGURED]


def flaws(definition: dict[str, Any], *, also_minor: bool = True) -> list[str]:
    """Return the linter's findings on a tool; raise if its definition is invalid for clients."""
    mcp_types.Tool.model_validate(definition)
    for name in ("inputSchema", "outputSchema"):
        if name in definition:
            Draft202012Validator.check_schema(definition[name], format_checker=FORMATS)
    findings = lint(served(definition["name"]))
    return [each.msg for each in findings if also_minor or each.level > checks.INFO]


def misfits(definition: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Return the ways in which a result breaks the definition of its tool."""
    if "outputSchema" not in definition:
        return []
    validator = Draft202012Validator(definition["outputSchema"], format_checker=FORMATS)
    return [str(error) for error in validator.iter_errors(result["structuredContent"])]


def through(kind: Any, number: int) -> Callable[[Any], Any]:
    """Return a function that takes and returns a kind."""
    function = taking(kind)
    function.__name__ = f"through_{number}"
    function.__annotations__["return"] = kind
    return function


@pytest.mark.requirement("schema.valid", "schema.dialect", "tools.input-schema")
def test_schemas_of_every_kind_pass_the_linter(modern: CheckedClient, settings: Any) -> None:
    serve(settings, *(through(kind, number) for number, kind in enumerate(KINDS)))
    definitions = modern.list_tools()
    assert len(definitions) == len(KINDS)
    # Their parameters lack descriptions, which is the only finding.
    assert [flaw for each in definitions for flaw in flaws(each, also_minor=False)] == []


def test_every_schema_of_the_site_passes_the_linter(client: CheckedClient, user: Any) -> None:
    user.is_superuser = True
    definitions = client.list_tools()
    names = {each["name"] for each in definitions}
    assert names > set(site.TOOLS) - {"for_ada"}
    assert [flaw for each in definitions for flaw in flaws(each, also_minor=False)] == []


NODE = {"value": 1, "children": [{"value": 2, "children": []}]}
CALLS: dict[str, dict[str, Any]] = {
    "add": {"a": 1},
    "anything": {"value": [None]},
    "blocks": {"kind": "mixed"},
    "by_hand": {"code": "a@b.c"},
    "echo": {"text": "é"},
    "for_ada": {"word": "x"},
    "later": {"text": ""},
    "make_group": {"name": "g"},
    "open_ended": {"a": 1, "b": 2},
    "ping_public": {},
    "positional": {"a": 1},
    "returns": {"what": "none"},
    "shop_orders_find": {"limit": 2},
    "shop_translated": {},
    "tree": {"root": NODE},
    "who": {},
}
# They only fail, or need a client with more capabilities.
FAILING = {"fail", "type_error", "wrong_result", "needs_sampling"}


@pytest.mark.requirement("tools.output-schema")
def test_every_result_of_the_site_matches_its_schema(client: CheckedClient) -> None:
    definitions = {each["name"]: each for each in client.list_tools()}
    assert set(definitions) == CALLS.keys() | FAILING
    for name, arguments in CALLS.items():
        result = client.call_tool(name, arguments)
        assert result["isError"] is False, name
        assert misfits(definitions[name], result) == []


@pytest.mark.parametrize(
    ("wrong", "raised"),
    [({"inputSchema": []}, ValueError), ({"outputSchema": {"type": "objekt"}}, Exception)],
)
def test_wrong_definition_does_not_pass(
    wrong: Any, raised: type[Exception], modern: CheckedClient
) -> None:
    definition = modern.list_tools()[0]
    with pytest.raises(raised):
        flaws({**definition, **wrong})
    assert misfits({"outputSchema": {"required": ["a"]}}, {"structuredContent": {}})
