"""Functions and classes in the modules mcp_tools of apps, and marked namespaces."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core import checks
from django.urls import path
from modernrpc import RpcNamespace
from modernrpc.server import RpcServer

from mcp_bridge import mcp_namespace, mcp_tool, mcp_toolset
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.base import Source
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.support.serving import messages, names, served
from tests.test_docs_code import PAGES, block, run

FUNCTIONS = "mcp_bridge.sources.functions.FunctionSource"
HEADER = """
from __future__ import annotations
import warnings
from typing import Any
from mcp_bridge import Context, ToolError, mcp_tool, mcp_toolset
"""

# Creates and installs an app with this name and writes the modules given by name.
MakeApp = Callable[..., None]


@pytest.fixture
def app(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeApp]:
    monkeypatch.syspath_prepend(tmp_path)
    route(settings)
    made = []

    def make(name: str = "shop", **modules: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        made.append(name)
        for module, text in modules.items():
            (file := tmp_path / name / f"{module}.py").parent.mkdir(exist_ok=True)
            file.write_text(HEADER + dedent(text))
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, name]
        registry.reload()

    yield make
    for module in [each for each in sys.modules if each.split(".")[0] in made]:
        del sys.modules[module]


def may(user: Any, *permissions: str) -> Any:
    """Return the user with these permissions, reloaded from the database."""
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return type(user).objects.get(pk=user.pk)


STOCK = """
    @mcp_tool(public=True, read_only=True)
    def stock(sku: str, *, caller: Context, pieces: int = 1) -> dict[str, Any]:
        '''
        Say what there is.

        :param sku: the number of an article
        '''
        return {"sku": sku, "pieces": pieces, "user": str(caller.user)}

    def helper() -> None: ...
"""
ORDERS = """
    @mcp_toolset(prefix="order", permissions="auth.view_user", read_only=True)
    class OrderTools:
        made = 0

        def __init__(self, context: Context) -> None:
            type(self).made += 1
            self.user = context.user

        @mcp_tool
        def status(self, number: int) -> str:
            '''Say how far it is.'''
            return f"{number} of {self.user}, {self.made}"

        @mcp_tool(permissions="auth.change_user", read_only=False, destructive=True)
        async def cancel(self, number: int, why: str = "") -> str:
            '''Cancel it.'''
            return f"{number} of {self.user}: {why}"

        @mcp_tool(public=True)
        @staticmethod
        def hours() -> str:
            '''Say when we are there.'''
            return "9 to 5"

        @classmethod
        @mcp_tool
        def kind(cls) -> str:
            '''Say which class it is.'''
            return cls.__name__

        @mcp_tool(exposed=False)
        def hidden(self) -> None: ...

        def helper(self) -> None: ...
"""


def test_marked_functions_of_apps_are_tools(app: MakeApp) -> None:
    app(mcp_tools=STOCK)
    client = CheckedClient()
    (tool,) = client.list_tools()
    assert (tool["name"], tool["description"]) == ("stock", "Say what there is.")
    assert tool["inputSchema"]["properties"].keys() == {"sku", "pieces"}
    assert tool["inputSchema"]["properties"]["sku"]["description"] == "the number of an article"
    result = client.call_tool("stock", {"sku": "a"})
    assert result["structuredContent"] == {"sku": "a", "pieces": 1, "user": "AnonymousUser"}
    assert served("stock").function == "shop.mcp_tools.stock"


@pytest.mark.parametrize("directory", ["/", "/tmp"])
def test_source_location_is_relative_to_the_site(
    app: MakeApp, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.chdir(directory)
    app(mcp_tools=STOCK)
    assert re.fullmatch(r"shop/mcp_tools\.py:\d+", served("stock").source)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_functions_are_called_refused_and_recorded_at_every_revision(
    app: MakeApp, user: Any, revision: str
) -> None:
    app(mcp_tools=STOCK + ORDERS)
    client = CheckedClient(user=may(user, "view_user"), revision=revision)
    assert [each["name"] for each in client.list_tools()] == [
        "order_hours",
        "order_kind",
        "order_status",
        "stock",
    ]
    assert text_of(client.call_tool("order_kind", {})) == "OrderTools"
    refused = client.call_tool("order_status", {"number": "x", "self": 1})
    assert refused["isError"]
    assert "/number" in text_of(refused)
    assert "/self: is not a parameter" in text_of(refused)
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call_tool("order_cancel", {"number": 1})
    written = ToolCallRecord.objects.order_by("pk").values_list("tool", "outcome", "error_code")
    assert sorted(written) == [
        ("order_cancel", "refused", "forbidden"),
        ("order_kind", "succeeded", ""),
        ("order_status", "refused", "invalid"),
    ]


def test_each_method_call_has_a_new_instance(app: MakeApp, user: Any) -> None:
    app(mcp_tools=ORDERS)
    client = CheckedClient(user=may(user, "view_user"))
    said = [text_of(client.call_tool("order_status", {"number": 5})) for _ in range(2)]
    assert said == ["5 of ada, 1", "5 of ada, 2"]


def test_permissions_of_class_and_method_are_combined(app: MakeApp, user: Any) -> None:
    app(mcp_tools=ORDERS)
    named = ["order_hours", "order_kind", "order_status"]
    for granted, found in (
        ((), ["order_hours"]),
        (("change_user",), ["order_hours"]),
        (("view_user",), named),
        (("view_user", "change_user"), sorted([*named, "order_cancel"])),
    ):
        client = CheckedClient(user=may(user, *granted))
        assert [each["name"] for each in client.list_tools()] == found
    assert served("order_status").annotations == {"readOnlyHint": True}
    assert served("order_cancel").annotations == {"readOnlyHint": False, "destructiveHint": True}
    assert text_of(client.call_tool("order_cancel", {"number": 2, "why": "no"})) == "2 of ada: no"
    assert text_of(CheckedClient().call_tool("order_hours", {})) == "9 to 5"


def test_methods_are_served_under_asgi(app: MakeApp, user: Any, settings: Any) -> None:
    app(mcp_tools=ORDERS)
    route(settings, asynchronous=True)
    client = CheckedClient(user=may(user, "view_user", "change_user"))
    assert text_of(client.call_tool("order_cancel", {"number": 3})) == "3 of ada: "
    assert text_of(client.call_tool("order_status", {"number": 3})) == "3 of ada, 2"


def test_imported_function_is_one_tool(app: MakeApp) -> None:
    app(
        other=STOCK,
        mcp_tools="""
        from shop.other import stock
        from shop.mcp_tools_more import more

        @mcp_tool
        def own() -> int:
            '''One.'''
            return 1

        second_name = own
        """,
        mcp_tools_more="""
        @mcp_tool
        def more() -> int:
            '''More.'''
            return 2
        """,
    )
    assert names() == ["own"]


def test_package_can_import_tools_from_its_submodules(app: MakeApp) -> None:
    app(**{"mcp_tools/__init__": "from .inner import stock", "mcp_tools/inner": STOCK})
    assert names() == ["stock"]


def test_unexposed_or_deprecated_functions_are_not_tools(app: MakeApp) -> None:
    app(
        mcp_tools="""
        @mcp_tool(exposed=False)
        def one() -> None: ...

        @mcp_tool(deprecated=True)
        def two() -> None: ...

        @mcp_tool
        def three() -> None: ...

        three.__deprecated__ = "use four"
        """
    )
    assert names() == []


def test_broken_module_does_not_affect_others(app: MakeApp) -> None:
    app("broken", mcp_tools="\n1 / 0\n")
    app("shop", mcp_tools=STOCK)
    assert names() == ["stock"]
    (message,) = messages("mcp_bridge.E010")
    assert message == (
        "The module broken.mcp_tools cannot be imported, so its functions are not served: "
        "division by zero."
    )
    (found,) = [each for each in registry.discovered.messages if each.id == "mcp_bridge.E010"]
    assert "broken/mcp_tools.py:" in str(found.hint)


STAR = """
@mcp_tool
def star(*values: int) -> None: ...
"""
ASKING = """
@mcp_toolset
class Desk:
    def __init__(self, number: int) -> None: ...

    @mcp_tool
    def ask(self) -> None: ...
"""
STARRED = """
@mcp_toolset
class Desk:
    def __init__(self, *numbers: int) -> None: ...

    @mcp_tool
    def ask(self) -> None: ...
"""
CONTRADICTING = """
@mcp_toolset(read_only=True)
class Desk:
    @mcp_tool(destructive=True)
    def ask(self) -> None: ...
"""
SELFLESS = """
@mcp_toolset
class Desk:
    @mcp_tool
    def ask() -> None: ...
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (STAR, "is marked, but not served: it takes *values"),
        (ASKING, "Desk (shop.mcp_tools) is marked, but not served: its __init__ takes 'n"),
        (STARRED, "Desk (shop.mcp_tools) is marked, but not served: it takes *numbers"),
        (CONTRADICTING, "its mark and that of Desk conflict: mcp_tool(): a read_only tool cannot"),
        (SELFLESS, "it lacks the parameter 'self', which the server fills"),
    ],
)
def test_unsupported_functions_are_errors_with_a_reason(app: MakeApp, text: str, told: str) -> None:
    app(mcp_tools=dedent(STOCK) + text)
    (message,) = messages("mcp_bridge.E006")
    assert told in message
    assert names() == ["stock"]


def test_unusual_classes_are_ignored_beside_toolsets(app: MakeApp) -> None:
    app(
        mcp_tools=dedent(STOCK)
        + dedent(
            """
            @mcp_toolset
            class Desk:
                @mcp_tool
                def hours(self) -> str:
                    '''Say when it is open.'''
                    return "9 to 5"

            from typing import Protocol, TypedDict

            class Row(TypedDict):
                number: int

            class Shy(type):
                def __subclasscheck__(cls, other: type) -> bool:
                    raise TypeError("no questions")

            class Closed(metaclass=Shy): ...
            """
        )
    )
    assert names() == ["desk_hours", "stock"]


def test_marked_methods_of_unmarked_classes_are_warnings(app: MakeApp) -> None:
    app(
        mcp_tools="""
        class Base:
            @mcp_tool
            def inherited(self) -> str:
                '''Say who it is.'''
                return type(self).__name__

        @mcp_toolset
        class HTTPDesk(Base):
            pass

        class Lost(HTTPDesk):
            @mcp_tool
            def lost(self) -> None: ...
        """
    )
    assert names() == ["http_desk_inherited"]
    (message,) = messages("mcp_bridge.W036")
    assert message.startswith("Lost (shop.mcp_tools) has methods with @mcp_tool")


def test_init_that_raises_fails_the_call(app: MakeApp) -> None:
    app(
        mcp_tools="""
        @mcp_toolset(public=True, prefix="")
        class Desk:
            def __init__(self, context: Context | None = None, extra: int = 1) -> None:
                raise ToolError("The desk is closed.")

            @mcp_tool(read_only=True)
            def ask(self) -> str:
                '''Ask.'''
                return "yes"
        """
    )
    result = CheckedClient().call_tool("ask", {})
    assert (result["isError"], text_of(result)) == (True, "The desk is closed.")


@pytest.mark.parametrize(
    ("style", "expected"), [("underscore", "x_order_kind"), ("dotted", "x_order.kind")]
)
def test_modules_and_a_prefix_are_options(
    app: MakeApp, settings: Any, style: str, expected: str
) -> None:
    app(ai=ORDERS)
    entry = {"BACKEND": FUNCTIONS, "OPTIONS": {"modules": ["shop.ai"], "prefix": "x_"}}
    settings.MCP_BRIDGE = {"SOURCES": {"functions": entry}, "TOOL_NAME_STYLE": style}
    assert expected in names()
    assert len(names()) == 4


@pytest.mark.parametrize(
    ("options", "id", "told"),
    [
        ({"module": "shop"}, "E003", "unknown option 'module'; known are 'modules', 'prefix'"),
        ({"modules": "shop"}, "E003", "its option 'modules' is not a list of dotted paths"),
        ({"modules": ["shop.gone"]}, "E010", "No module named 'shop"),
        ({"modules": ["json"]}, "W012", "no function in json is marked"),
    ],
)
def test_invalid_options_are_errors(
    settings: Any, options: dict[str, Any], id: str, told: str
) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"own": {"BACKEND": FUNCTIONS, "OPTIONS": options}}}
    (message,) = messages(f"mcp_bridge.{id}")
    assert told in message


def test_configured_source_without_tools_is_a_warning(app: MakeApp, settings: Any) -> None:
    assert len(messages("mcp_bridge.W012")) == 1
    app(mcp_tools=STOCK)
    assert messages("mcp_bridge.W012") == []
    settings.MCP_BRIDGE = {"SOURCES": {"own": {"BACKEND": FUNCTIONS}, "rpc": {}}}
    assert len(messages("mcp_bridge.W012")) == 1


def test_marks_outside_tool_modules_are_warnings(app: MakeApp) -> None:
    app(mcp_tools="from . import views", views="@mcp_tool\ndef lost() -> None: ...")
    assert names() == []
    (message,) = [each for each in checks.run_checks() if each.id == "mcp_bridge.W034"]
    assert "lost" in str(message.msg)
    assert "mcp_tools" in str(message.hint)


TOOLSET = """
    @mcp_toolset
    class Orders:
        @mcp_tool
        def status(self) -> str:
            'Say how far an order is.'
"""


def warned(id: str) -> list[str]:
    """Return the texts of a check."""
    return [str(each.msg) for each in checks.run_checks() if each.id == f"mcp_bridge.{id}"]


@pytest.mark.parametrize(
    ("sources", "module", "named"),
    [
        ({"functions": None}, STOCK, ["stock (", "shop/mcp_tools.py:"]),
        ({"functions": None}, TOOLSET, ["orders_status ("]),
        ({"functions": None, "other": {}}, STOCK + TOOLSET, ["stock (", "orders_status ("]),
        ({"functions": {"BACKEND": f"{__name__}.Nothing"}}, STOCK, ["stock ("]),
        ({"functions": None}, "def helper() -> None: ...", []),
        ({"functions": None}, "raise ValueError", []),
        ({"functions": None, "own": {"BACKEND": FUNCTIONS}}, STOCK, []),
        ({}, STOCK, []),
        ({"own": {"OPTIONS": {"servers": []}}}, STOCK, []),
    ],
)
def test_unread_marks_are_reported_by_a_check(
    sources: Any, module: str, named: list[str], app: MakeApp, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"SOURCES": sources}
    app(mcp_tools=module)
    for _ in range(2):
        told = " ".join(warned("W039"))
        assert bool(told) == bool(named)
        assert all(each in told for each in named)
        assert warned("W034") == []


class Nothing(Source):
    """A source without tools."""

    def tools(self) -> list[Any]:
        return []


@pytest.mark.parametrize(
    "module",
    [
        "@mcp_tool(name='bad name')\ndef f() -> None: ...",
        "@mcp_tool(name='x' * 65)\ndef f() -> None: ...",
        "@mcp_tool\ndef f(value: Missing) -> None: ...",
        *["\n".join(f"@mcp_tool(name='same')\ndef {name}() -> None: ..." for name in "fg")],
        "@mcp_tool(exposed=False)\ndef f() -> None: ...",
        "@mcp_tool(deprecated=True)\ndef f() -> None: ...",
    ],
)
def test_marks_found_by_a_source_are_not_reported(module: str, app: MakeApp) -> None:
    app(mcp_tools=f"import re\n{module}")
    assert names() == []
    assert warned("W034") == []


def test_example_of_the_page_works(app: MakeApp, user: Any) -> None:
    app(mcp_tools=block("sources/functions", "class OrderTools").replace("from __future__", ""))
    client = CheckedClient(user=may(user, "view_user", "change_user"))
    named = [each["name"] for each in client.list_tools()]
    assert named == ["order_cancel", "order_status", "stock"]
    for name in named:
        assert f"`{name}`" in PAGES["docs/sources/functions.md"]
    result = client.call_tool("stock", {"sku": "lamp-1"})
    assert result["structuredContent"] == {"sku": "lamp-1", "pieces": 7}
    assert text_of(client.call_tool("stock", {"sku": "x"})) == "There is no article 'x'."
    assert (
        text_of(client.call_tool("order_status", {"number": 1})) == "Order 1 of ada is on its way."
    )
    assert not client.call_tool("order_cancel", {"number": 1})["isError"]


def test_namespace_of_the_page_works(settings: Any) -> None:
    names_there = run("sources/functions", "RpcNamespace()")
    server = RpcServer()
    server.register_namespace(names_there["articles"], "articles")
    route(settings, path("rpc", server.view))
    assert names() == ["articles_count"]


# Marks.


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"name": "a"},
            TypeError,
            r"mcp_toolset\(\): unknown option 'name'. Its options are: read",
        ),
        ({"prefix": 1}, TypeError, r"mcp_toolset\(prefix=1\): prefix must be a string"),
        ({"permissions": 1}, TypeError, r"mcp_toolset\(permissions=1\)"),
        ({"throttle": "1/x"}, ValueError, r"mcp_toolset\(throttle=…\)"),
        ({"public": True, "scopes": "a"}, ValueError, r"mcp_toolset\(public=True\)"),
    ],
)
def test_toolset_options_are_checked_by_the_decorator(
    options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        mcp_toolset(**options)


def test_marks_refuse_unsupported_objects() -> None:
    with pytest.raises(TypeError, match="marks classes"):
        mcp_toolset(len)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="marks an RpcNamespace"):
        mcp_namespace(RpcServer)


# Namespaces.


def test_marked_namespace_makes_all_procedures_tools(settings: Any, user: Any) -> None:
    namespace, server = RpcNamespace(), RpcServer()

    @namespace.register_procedure
    def count(section: str) -> int:
        """Count."""
        return len(section)

    mcp_namespace(namespace, permissions="auth.view_user", read_only=True)

    @namespace.register_procedure
    @mcp_tool(permissions="auth.change_user", read_only=False)
    def change() -> str:
        """Change."""
        return "done"

    @namespace.register_procedure
    @mcp_tool(public=True)
    def about() -> str:
        """Say what it is."""
        return "articles"

    @namespace.register_procedure
    @mcp_tool(exposed=False)
    def hidden() -> None: ...

    @server.register_procedure
    def other() -> None: ...

    server.register_namespace(namespace, "articles")
    route(settings, path("rpc", server.view))
    assert names() == ["articles_about", "articles_change", "articles_count"]
    assert [each["name"] for each in CheckedClient().list_tools()] == ["articles_about"]
    client = CheckedClient(user=may(user, "view_user"))
    assert [each["name"] for each in client.list_tools()] == ["articles_about", "articles_count"]
    assert client.call_tool("articles_count", {"section": "abc"})["structuredContent"] == {
        "result": 3
    }
    assert served("articles_change").annotations == {"readOnlyHint": False}


def test_procedure_conflicting_with_its_namespace_is_withheld(settings: Any) -> None:
    namespace, server = RpcNamespace(), RpcServer()

    @namespace.register_procedure
    @mcp_tool(destructive=True)
    def remove() -> None:
        """Remove."""

    mcp_namespace(namespace, read_only=True)
    server.register_namespace(namespace, "articles")
    route(settings, path("rpc", server.view))
    (message,) = messages("mcp_bridge.E006")
    assert ("its marks conflict" in message, names()) == (True, [])
    checks.run_checks()
