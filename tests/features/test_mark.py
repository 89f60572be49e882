from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from django.urls import path
from django.utils.translation import gettext_lazy
from modernrpc import RpcNamespace
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.features.marks import MARK, ToolOptions, options_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.support.serving import names, served

OBJECT = {"type": "object"}
ICON = {"src": "https://example.com/a.png"}
LAZY = gettext_lazy("Yes")


KEPT: list[Any] = [
    ("name", "articles.get", "articles.get"),
    ("name", "x" * 128, "x" * 128),
    ("title", "A title", "A title"),
    ("title", LAZY, LAZY),
    ("description", "Words", "Words"),
    ("description", LAZY, LAZY),
    *(
        (hint, value, value)
        for value in (True, False)
        for hint in ToolOptions.__annotations__
        if hint in ("read_only", "destructive", "idempotent", "open_world")
    ),
    ("permissions", "auth.add_user", ("auth.add_user",)),
    (
        "permissions",
        ["auth.add_user", "auth.delete_user"],
        ("auth.add_user", "auth.delete_user"),
    ),
    ("permissions", (), ()),
    ("scopes", "read", ("read",)),
    ("scopes", {"read"}, ("read",)),
    ("public", True, True),
    ("confirm", True, True),
    ("exposed", False, False),
    ("deprecated", True, True),
    ("input_schema", OBJECT, OBJECT),
    ("output_schema", OBJECT, OBJECT),
    ("icons", ICON, (ICON,)),
    ("icons", [ICON, ICON], (ICON, ICON)),
    ("meta", {"example.com/a": 1}, {"example.com/a": 1}),
    ("throttle", "10/min", "10/min"),
    ("throttle", "reports", "reports"),
]


@pytest.mark.parametrize(
    ("option", "given", "kept"),
    KEPT,
)
def test_option_is_kept_as_given(option: str, given: Any, kept: Any) -> None:
    marked = mcp_tool(**{option: given})(lambda: None)
    options = options_of(marked)
    assert options is not None
    assert getattr(options, option) == kept


def test_every_option_of_the_contract_exists() -> None:
    fields = ToolOptions.__dataclass_fields__
    assert ", ".join(sorted(name for name, each in fields.items() if each.init)) == (
        "confirm, deprecated, description, destructive, exposed, icons, idempotent, input_schema, "
        "meta, name, open_world, output_schema, permissions, precheck, public, read_only, scopes, "
        "task, throttle, timeout, title"
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(
            (name, value)
            for name in ("read_only", "destructive", "idempotent", "open_world")
            for value in ("yes", "", [], 2, 1, 0, 1.0)
        ),
        *(
            (name, value)
            for name in ("public", "confirm", "exposed", "deprecated")
            for value in ("yes", None, 1, 0)
        ),
        *(
            (name, value)
            for name in ("permissions", "scopes")
            for value in (5, None, [5], [""], "", [None], {"a": 1}, b"auth.add_user")
        ),
        *(
            (name, value)
            for name in ("input_schema", "output_schema", "meta")
            for value in ("{}", [], 5, True)
        ),
        *(
            (name, value)
            for name in ("title", "description")
            for value in (5, [], b"bytes", True, object())
        ),
        *((name, value) for name in ("name", "throttle") for value in (5, [], b"x", LAZY)),
        *(("icons", value) for value in (5, None, "x", ["x"], [None])),
    ],
)
def test_wrong_type_raises_at_the_mark(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^mcp_tool\({option}="):
        mcp_tool(**{option: value})


@pytest.mark.parametrize("scope", ["read write", 'a"b', "a\\b", "caf\xe9", "a\n"])
def test_illegal_scope_raises_at_the_mark(scope: str) -> None:
    with pytest.raises(ValueError, match="give several scopes as a list"):
        mcp_tool(scopes=scope)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "a\n", "x" * 129, "a:b"])
def test_illegal_name_raises_at_the_mark(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 128 of the characters"):
        mcp_tool(name=name)


@pytest.mark.parametrize("rate", ["10/week", "/min", "10/", "0/s", "1.5/min", "10/min/s", "१/s"])
def test_malformed_rate_raises_at_the_mark(rate: str) -> None:
    with pytest.raises(ValueError, match=rf"throttle.*is '{rate}', which is not a rate.*20/min"):
        mcp_tool(throttle=rate)


@pytest.mark.parametrize("keyword", ["readonly", "readOnlyHint", "tags", "function"])
def test_unknown_keyword_raises_and_names_the_known_ones(keyword: str) -> None:
    with pytest.raises(TypeError, match=rf"unknown option '{keyword}'.*read_only.*throttle"):
        mcp_tool(**{keyword: True})


@pytest.mark.parametrize(
    "options",
    [
        {"public": True, "permissions": "auth.add_user"},
        {"public": True, "scopes": "read"},
        {"read_only": True, "destructive": True},
    ],
)
def test_contradictory_options_raise(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="drop one of them"):
        mcp_tool(**options)


@pytest.mark.parametrize("thing", ["name", 5, {}, True])
def test_only_functions_can_be_marked(thing: Any) -> None:
    with pytest.raises(TypeError, match="marks functions"):
        mcp_tool(thing)


def name_of(function: Callable[..., object]) -> str:
    return function.__name__


class Desk:
    @mcp_tool
    def find(self) -> None: ...

    @classmethod
    def open(cls) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "function", [Desk().close, Desk().find, Desk.open, "text".upper, len, [].append], ids=name_of
)
@pytest.mark.parametrize("options", [{}, {"read_only": True}])
def test_bound_methods_cannot_be_marked(function: Any, options: Any) -> None:
    with pytest.raises(TypeError, match="mark the function in its class, or a function that calls"):
        mcp_tool(**options)(function)


def test_only_functions_can_be_marked_with_options() -> None:
    with pytest.raises(TypeError, match="marks functions"):
        mcp_tool(read_only=True)("name")  # type: ignore[type-var]


def plain() -> int:
    return 1


async def coroutine() -> int:
    return 1


@pytest.mark.parametrize("function", [plain, coroutine])
@pytest.mark.parametrize("mark", [mcp_tool, mcp_tool(), mcp_tool(read_only=True)])
def test_mark_returns_the_same_function(function: Any, mark: Any) -> None:
    before = dict(function.__dict__)
    assert mark(function) is function
    assert {name: value for name, value in function.__dict__.items() if name != MARK} == {
        name: value for name, value in before.items() if name != MARK
    }


def test_options_cannot_be_changed_after_the_mark() -> None:
    options = options_of(mcp_tool(lambda: None))
    with pytest.raises(FrozenInstanceError):
        options.public = True  # type: ignore[misc, union-attr]


@pytest.mark.parametrize("stranger", [len, "text", None, object(), plain.__class__])
def test_unmarked_function_has_no_options(stranger: Any) -> None:
    assert options_of(stranger) is None


def test_unrelated_attribute_of_that_name_is_not_a_mark() -> None:
    def function() -> None: ...

    setattr(function, MARK, {"public": True})
    assert options_of(function) is None


def test_marking_registers_nothing(modern: CheckedClient) -> None:
    before = [tool["name"] for tool in modern.list_tools()]
    mcp_tool(name="never_registered")(lambda: None)
    assert [tool["name"] for tool in modern.list_tools()] == before


def above(server: Any, function: Callable[..., Any]) -> None:
    mcp_tool(read_only=True)(server.register_procedure(name="it")(function))


def below(server: Any, function: Callable[..., Any]) -> None:
    server.register_procedure(name="it")(mcp_tool(read_only=True)(function))


def above_bare(server: Any, function: Callable[..., Any]) -> None:
    function.__name__ = "it"
    mcp_tool(server.register_procedure(function))


@pytest.mark.parametrize("order", [above, below, above_bare])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_order_of_the_decorators_does_not_matter(
    order: Any, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    def sync_it() -> str:
        return "called"

    async def async_it() -> str:
        return "called"

    server = RpcServer()
    order(server, async_it if asynchronous else sync_it)
    route(settings, path("rpc", server.view))
    assert modern.call_tool("it")["structuredContent"] == {"result": "called"}


@pytest.mark.parametrize("order", [above, below])
def test_mark_survives_a_namespace(order: Any, modern: CheckedClient, settings: Any) -> None:
    server, namespace = RpcServer(), RpcNamespace()
    order(namespace, lambda: "called")
    server.register_namespace(namespace, "deep.er")
    route(settings, path("rpc", server.view))
    assert names() == ["deep_er_it"]
    assert modern.call_tool("deep_er_it")["structuredContent"] == {"result": "called"}
    assert served("deep_er_it").annotations == {"readOnlyHint": True}


def test_name_replaces_that_of_the_procedure(settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(name="articles.list")(mcp_tool(name="all-articles")(lambda: None))
    route(settings, path("rpc", server.view))
    assert names() == ["all-articles"]


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"])
def test_options_are_sent_to_clients_that_know_them(version: str, user: Any, settings: Any) -> None:
    said = {"title": "Find", "icons": ICON, "meta": {"example.com/a": 1}, "destructive": False}
    serve(settings, plain, description="By hand.", **said)
    client = CheckedClient(user=user, revision=version)
    (tool,) = client.list_tools()
    sent = {
        "title": "Find",
        "description": "By hand.",
        "icons": [ICON],
        "_meta": {"example.com/a": 1},
        "annotations": {"destructiveHint": False},
    }
    known = {name: value for name, value in sent.items() if name in client.revision.tool_fields}
    assert {name: tool.get(name) for name in sent if name in tool} == known


@pytest.mark.alone
def test_marking_needs_no_django() -> None:
    program = (
        "import sys\n"
        "from mcp_bridge import Context, ToolError, mcp_tool\n"
        "from mcp_bridge.schemas import Inputs, Outputs, Signature\n"
        "@mcp_tool(permissions='a.b')\n"
        "def tool(a: int, context: Context) -> list[int]:\n"
        "    'Words.'\n"
        "signature = Signature.of(tool)\n"
        "assert Inputs(signature).schema['required'] == ['a']\n"
        "assert Outputs(signature.returns).schema and signature.description == 'Words.'\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'django', 'modernrpc', 'rest_framework', 'asgiref', 'mcp'}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("[]\n", "")
