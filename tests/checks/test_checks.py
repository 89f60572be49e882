from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.urls import path
from django.utils.translation import gettext_lazy
from modernrpc.server import RpcServer

import mcp_bridge
from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.calls.test_arguments import errors_of
from tests.support.processes import run_python
from tests.support.serving import giving, names, taking

RPC = "mcp_bridge.sources.modernrpc.ModernRPCSource"
PACKAGE = Path(mcp_bridge.__file__).parent


# Most sites of the tests serve their tools publicly at /rpc as well: see test_procedures.
OPEN_AT_RPC = ("mcp_bridge.W033", "mcp_bridge.W035")


def found(but: Collection[str] = OPEN_AT_RPC) -> list[checks.CheckMessage]:
    """Return the messages of ``manage.py check`` about this app, but for those with these ids."""
    messages = checks.run_checks(tags=["mcp_bridge"])
    assert all(message.hint and message.msg for message in messages)
    assert all(message.id.startswith("mcp_bridge.") for message in messages if message.id)
    return [message for message in messages if message.id not in but]


def ids(but: Collection[str] = OPEN_AT_RPC) -> list[str]:
    return [str(message.id).removeprefix("mcp_bridge.") for message in found(but)]


def test_test_site_has_no_errors() -> None:
    assert found() == []


class Nothing:
    """An interceptor without a method."""


class Plain:
    """An interceptor whose ``call`` is not a generator."""

    def call(self, call: Any) -> Any:
        return call


class Awaiting:
    async def request(self, request: Any, context: Any) -> None:
        raise ToolError("never awaited")


class Yielding:
    def result(self, call: Any, result: Any) -> Any:
        yield result


class Unmade:
    def __init__(self) -> None:
        raise ValueError("no key")

    def request(self, request: Any, context: Any) -> None:
        return None


def plain(call: Any) -> Any:
    return call


class OnlyRemote:
    def remote_message(self, message: Any, context: Any) -> None:
        return None


def test_interceptor_may_see_remote_messages_alone(settings: Any) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.OnlyRemote"]}
    assert found() == []


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Nothing", "has none of the methods request, call, result and remote_message"),
        ("Plain", "has a call that does not yield the call"),
        ("plain", "has a call that does not yield the call"),
        ("Awaiting", "has a request that is not a plain function"),
        ("Yielding", "has a result that is not a plain function"),
        ("Unmade", "cannot be made: no key"),
    ],
)
def test_interceptor_that_cannot_work_is_an_error(name: str, part: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.{name}"]}
    (message,) = found()
    assert message.id == "mcp_bridge.E027"
    assert part in message.msg


def test_path_of_an_interceptor_must_exist(settings: Any) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": ["no.such.Interceptor"]}
    assert ids() == ["E008"]


def test_ids_are_unique_and_all_explained() -> None:
    sources = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    used = re.findall(r'"(?:mcp_bridge\.)?([EW][0-9]{3})"', sources)
    page = PACKAGE.parent / "docs" / "reference" / "checks.md"
    explained = re.findall(r"^\| `([EW][0-9]{3})` ", page.read_text(), re.MULTILINE)
    assert sorted(used) == sorted(set(used)) == sorted(explained)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("PAGESIZE", "PAGE_SIZE"), ("page_size", None), ("SERVERINFO", "SERVER_INFO"), (5, None)],
)
def test_e001_unknown_key(key: Any, meant: str | None, settings: Any) -> None:
    settings.MCP_BRIDGE = {key: 1}
    (message,) = found()
    assert (message.id, repr(key) in message.msg) == ("mcp_bridge.E001", True)
    assert meant is None or f"Did you mean '{meant}'?" in str(message.hint)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"PAGE_SIZE": "50"},
        {"PAGE_SIZE": 0},
        {"PAGE_SIZE": True},
        {"PAGE_SIZE": -1},
        {"PAGE_BYTES": 0},
        {"PAGE_BYTES": None},
        {"BUILD": "early"},
        {"CACHE_TTL": "300"},
        {"CACHE_TTL": -1},
        {"MAX_BODY_BYTES": 0},
        {"MAX_BODY_BYTES": 1.5},
        {"MAX_RESULT_BYTES": -5},
        {"SERVER_INFO": "newsroom"},
        {"ALLOWED_ORIGINS": "https://example.com"},
        {"AUTHENTICATION_CLASSES": "a.b.C"},
        {"TOOL_NAME_STYLE": "camel"},
        {"SOURCES": []},
        {"THROTTLE_CLASSES": "rest_framework.throttling.UserRateThrottle"},
        {"THROTTLE_RATES": "20/min"},
        *(
            {"THROTTLE_RATES": {"add": rate}}
            for rate in ("20", "0/min", "5/week", "-1/s", " 1/s", 5)
        ),
        {"THROTTLE_WITHOUT_CACHE": "ajar"},
    ],
)
def test_e002_value_of_a_wrong_type(value: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = value
    assert ids() == ["E002"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"PAGE_SIZE": "50"}, "['PAGE_SIZE'] must be a valid integer, not '50'."),
        ({"PAGE_SIZE": 0}, "['PAGE_SIZE'] must be greater than or equal to 1, not 0."),
        ({"STATE_MAX_AGE": True}, "['STATE_MAX_AGE'] must be a valid number, not True."),
        ({"SOURCES": []}, "['SOURCES'] must be a valid dictionary, not []."),
        ({"SOURCES": {"rpc": RPC}}, f"['SOURCES']['rpc'] must be a valid dictionary, not {RPC!r}."),
        ({"SOURCES": {"rpc": 5}}, "['SOURCES']['rpc'] must be a valid dictionary, not 5."),
        ({"AUDIT": "full"}, "['AUDIT'] must be a valid dictionary, not 'full'."),
        ({"AUDIT": {"MAX_ARGUMENTS_BYTES": "1"}}, "must be a valid integer, not '1'."),
        ({"AUDIT": {"REQUIRED": "no"}}, "['AUDIT']['REQUIRED'] must be a valid boolean, not 'no'."),
        ({"AUDIT": {"ARGUMENTS": "all"}}, "must be 'none', 'redacted' or 'full', not 'all'."),
        ({"AUDIT": {"SENSITIVE_NAMES": [""]}}, "[0] must have at least 1 character, not ''."),
        ({"TOOL_NAME_STYLE": "camel"}, "must be 'underscore' or 'dotted', not 'camel'."),
        ({"ALLOWED_ORIGINS": "https://a.b"}, "must be a list, not 'https://a.b'."),
        ({"ALLOWED_ORIGINS": 5}, "['ALLOWED_ORIGINS'] must be a list, not 5."),
        ({"ACCESS_POLICY": 5}, "['ACCESS_POLICY'] must be a valid string, not 5."),
        ({"ERROR_MAPPER": 5}, "['ERROR_MAPPER'] must be a valid string, not 5."),
        (
            {"AUTHENTICATION_CLASSES": [5]},
            "['AUTHENTICATION_CLASSES'][0] must be a valid string, not 5.",
        ),
        ({"THROTTLE_RATES": {"add": 5}}, "['add'] must be a valid string, not 5."),
        ({"INSTRUCTIONS": 5}, "['INSTRUCTIONS'] must be a valid string, not 5."),
    ],
)
def test_e002_names_place_and_expected_type(value: Any, text: str, settings: Any) -> None:
    settings.MCP_BRIDGE = value
    (message,) = found()
    assert (message.id, text in message.msg) == ("mcp_bridge.E002", True), message.msg
    assert message.msg.startswith("MCP_BRIDGE['")


def test_e002_accepts_lists_tuples_and_lazy_translations(settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "ALLOWED_ORIGINS": ("https://a.b",),
        "INSTRUCTIONS": gettext_lazy("Search."),
        "STATE_MAX_AGE": 0,
        "THROTTLE_RATES": {"tools": None},
    }
    assert found() == []


@pytest.mark.parametrize(
    "config",
    [
        {"BACKEND": "no.such.Source"},
        {"BACKEND": "mcp_bridge.sources.modernrpc.Nothing"},
        {"BACKEND": "builtins.dict"},
        {"BACKEND": "operator.eq"},
        {"BACKEND": "mcp_bridge.sources.base.Source"},
        {"BACKEND": None},
        {"BACKEN": RPC},
        {"servers": ["tests.support.site.server"]},
        {"OPTIONS": {"server": ["tests.support.site.server"]}},
    ],
)
def test_e003_unusable_backend(config: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": config}}
    (message,) = found()
    assert (message.id, "rpc" in message.msg) == ("mcp_bridge.E003", True)


@pytest.mark.parametrize(
    "server",
    ["no.such.server", "tests.support.site.nothing", "tests.support.site.TOOLS", "tests", "", None],
)
def test_e004_invalid_server(server: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": {"BACKEND": RPC, "OPTIONS": {"servers": [server]}}}}
    (message,) = found()
    assert (message.id, repr(server) in message.msg) == ("mcp_bridge.E004", True)


def test_e004_names_the_line_that_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_rpc.py").write_text("value = 1\nserver = value / 0\n")
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": {"OPTIONS": {"servers": ["broken_rpc.server"]}}}}
    (message,) = found()
    assert message.id == "mcp_bridge.E004"
    assert "division by zero" in message.msg
    assert "broken_rpc.py:2, which raises" in str(message.hint)


def test_e004_reports_a_string_instead_of_a_list_once(settings: Any) -> None:
    options = {"servers": "tests.support.site.server"}
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": {"BACKEND": RPC, "OPTIONS": options}}}
    assert ids() == ["E004"]


@pytest.mark.requirement("tools.names")
@pytest.mark.parametrize("name", ["find.ä", "a b", "a/b", "x" * 65, "a:b"])
def test_e005_illegal_name(name: str, settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(giving(int, 1)), name=name)
    route(settings, path("rpc", server.view))
    (message,) = found()
    assert message.id == "mcp_bridge.E005"
    assert "tests/support/serving.py:" in message.msg


def star(*values: int) -> None:
    """Take any."""


@pytest.mark.parametrize(
    ("function", "mark", "registration", "why"),
    [
        (star, {}, {}, r"\*values"),
        (taking(int), {"input_schema": {"type": "objekt"}}, {}, ""),
        (taking(int), {"input_schema": {"type": "array"}}, {}, "object"),
        (taking(int), {"output_schema": {"type": "array"}}, {}, "object"),
        (taking(int), {"meta": {"a": object()}}, {}, ""),
        (taking(int), {}, {"context_target": "rpc"}, "rpc"),
    ],
)
def test_e006_unsupported_marked_function(
    function: Any, mark: Any, registration: Any, why: str, settings: Any
) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(**mark)(function), **registration)
    route(settings, path("rpc", server.view))
    (message,) = found()
    assert message.id == "mcp_bridge.E006"
    assert re.search(rf"{function.__name__} \(tests/.*\.py:[0-9]+\).*{why}", message.msg)


def test_e007_two_tools_with_one_name_names_both(settings: Any) -> None:
    functions = taking(int), giving(int, 1)
    server = RpcServer()
    server.register_procedure(mcp_tool(functions[0]), name="a.b")
    server.register_procedure(mcp_tool(name="a_b")(functions[1]))
    route(settings, path("rpc", server.view))
    (message,) = found()
    assert (message.id, "'a_b'" in message.msg) == ("mcp_bridge.E007", True)
    for function in functions:
        name, line = function.__qualname__, function.__code__.co_firstlineno
        assert f"tests.support.serving.{name} (tests/support/serving.py:{line})" in message.msg


@pytest.mark.parametrize("key", ["ACCESS_POLICY", "ERROR_MAPPER", "AUTHENTICATION_CLASSES"])
@pytest.mark.parametrize("named", ["no.such.thing", "mcp_bridge.nothing", "word", ""])
def test_e008_unimportable_path(key: str, named: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {key: [named] if key == "AUTHENTICATION_CLASSES" else named}
    (message,) = found()
    assert message.id == "mcp_bridge.E008"
    assert key in message.msg
    assert repr(named) in message.msg


def test_e008_default_authentication_without_its_app(settings: Any) -> None:
    tokens = "mcp_bridge.tokens"
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != tokens]
    (message,) = found()
    assert message.id == "mcp_bridge.E008"
    assert "MCP_BRIDGE['AUTHENTICATION_CLASSES'] (the default) names" in message.msg
    assert "mcp_bridge.tokens is not in INSTALLED_APPS" in message.msg
    assert message.hint == 'Add "mcp_bridge.tokens" to INSTALLED_APPS.'


@pytest.mark.alone
def test_e008_default_authentication_without_its_tables() -> None:
    code = (
        "import django; from django.conf import settings as s; from testproject import settings; "
        "given = {key: value for key, value in vars(settings).items() if key.isupper()}; "
        "given['INSTALLED_APPS'].remove('mcp_bridge.tokens'); s.configure(**given); "
        "django.setup(); from mcp_bridge.checks.settings import check_settings; "
        "(message,) = check_settings(); print(message.msg, message.hint)"
    )
    found = run_python("-c", code)
    assert "mcp_bridge.tokens is not in INSTALLED_APPS" in found
    assert 'Add "mcp_bridge.tokens" to INSTALLED_APPS.' in found


@dataclass
class Holder:
    server: RpcServer


def unresolved(value: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take."""


def unresolved_result() -> list[Nowhere]:  # type: ignore[name-defined]  # noqa: F821
    """Give."""


def unresolved_rest(**rest: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take."""


def unresolved_branch(value: int | Nowhere = 1) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take."""


UNREADABLE: list[tuple[Any, str, str]] = [
    (unresolved, "the hint of 'value'", "Nowhere"),
    (unresolved_result, "the return hint", "Nowhere"),
    (unresolved_rest, "the hint of 'rest'", "Nowhere"),
    (unresolved_branch, "the hint of 'value'", "Nowhere"),
    (taking(RpcServer), "the hint of 'value'", "RpcServer"),
    (taking(list[RpcServer] | None), "the hint of 'value'", "RpcServer"),
    (taking(Holder), "the hint of 'value'", "RpcServer"),
    (giving(RpcServer, None), "the return hint", "RpcServer"),
    (giving(Holder, None), "the return hint", "RpcServer"),
]


@pytest.mark.parametrize(("function", "where", "what"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_e006_unreadable_hint_withholds_the_tool(
    function: Any, where: str, what: str, settings: Any
) -> None:
    serve(settings, function)
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.E006", checks.ERROR)
    assert where in message.msg
    assert what in message.msg
    assert ".." not in message.msg
    assert "use Any to accept any value" in str(message.hint)
    assert names() == []


def test_e006_names_each_unreadable_hint(settings: Any) -> None:
    def find(good: int, bad: Nowhere) -> list[Nowhere]:  # type: ignore[name-defined]  # noqa: F821
        """Find."""

    serve(settings, find)
    (message,) = found()
    assert ["'bad'" in message.msg, "return" in message.msg] == [True, True]


@pytest.mark.parametrize("hint", [Any, object, dict[str, Any], list])
def test_hint_any_is_served(hint: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(hint))
    assert found() == []
    value = {dict[str, Any]: {"a": [1]}, list: [1]}.get(hint, "text")
    assert text_of(modern.call_tool("take", {"value": value})) == repr(value)


def test_injected_parameter_can_have_any_hint(settings: Any) -> None:
    def take(value: int, own: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
        """Take."""
        return value

    server = RpcServer(register_system_procedures=False)
    server.register_procedure(mcp_tool(take), context_target="own")
    route(settings, path("rpc", server.view))
    assert (found(), names()) == ([], ["take"])


def test_w001_hint_conflicting_with_an_explicit_schema(
    modern: CheckedClient, settings: Any
) -> None:
    schema = {"type": "object", "properties": {"value": {"type": "integer"}}}
    serve(settings, taking(RpcServer), input_schema=schema)
    (message,) = found()
    assert (message.id, "'value'" in message.msg) == ("mcp_bridge.W001", True)
    assert text_of(modern.call_tool("take", {"value": 1})) == "1"
    assert errors_of(modern.call_tool("take", {"value": "x"})) == [("/value", "type")]


@pytest.mark.parametrize("docstring", [None, "", "   ", ":param value: only that"])
def test_w002_tool_without_a_description(docstring: str | None, settings: Any) -> None:
    function = taking(int)
    function.__doc__ = docstring
    serve(settings, function)
    (message,) = found()
    assert (message.id, "take (tests/support/serving.py:" in message.msg) == (
        "mcp_bridge.W002",
        True,
    )


def test_w002_is_avoided_by_an_explicit_description(settings: Any) -> None:
    function = taking(int)
    function.__doc__ = None
    serve(settings, function, description="Take.")
    assert found() == []


def test_all_errors_are_reported_at_once(settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGESIZE": 1, "CACHE_TTL": "x", "ERROR_MAPPER": "no.such.thing"}
    assert ids() == ["E001", "E002", "E008"]


@pytest.mark.django_db
def test_manage_check_stops_on_an_error(settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGESIZE": 1}
    with pytest.raises(SystemCheckError, match=r"mcp_bridge\.E001"):
        call_command("check")
