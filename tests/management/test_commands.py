from __future__ import annotations

import io
import json
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, ManagementUtility, call_command
from django.urls import NoReverseMatch, path, reverse
from jsonschema import Draft202012Validator
from mcp_types import methods
from modernrpc.server import RpcServer

from mcp_bridge import Context, mcp_tool
from mcp_bridge.models import PendingCall
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.protocol import LATEST, REVISIONS
from mcp_bridge.protocol.revisions import SUPPORTED_VERSIONS
from mcp_bridge.testing.serving import route, serve
from tests.support import site
from tests.support.recording import record
from tests.support.serving import giving, set_tool, taking
from tests.support.site import TOOLS

HIDDEN = ["permitted", "permitted_twice", "for_nobody"]


def run(command: str, *arguments: str) -> tuple[str, str]:
    """Return the standard output and the standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def test_mcp_tools_lists_all_tools() -> None:
    out, err = run("mcp_tools")
    listed = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert listed[:-2] == sorted([*TOOLS, *HIDDEN])
    assert f"{len(TOOLS) + 3} of {len(TOOLS) + 3} tools." in listed[-2]
    assert err == ""


def test_mcp_tools_shows_source_and_access_of_tools() -> None:
    out, _ = run("mcp_tools")
    assert f"tests/support/site.py:{site.add.__code__.co_firstlineno}" in out
    assert "access: auth.add_user + auth.delete_user" in out
    assert "access: everyone" in out
    assert "access: authenticated users + custom rule" in out
    assert "hints:  readOnlyHint, idempotentHint" in out


@pytest.mark.django_db
def test_mcp_tools_of_a_user_matches_their_list(user: Any) -> None:
    out, _ = run("mcp_tools", "--user", "ada")
    listed = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert listed[:-2] == TOOLS
    assert "for ada" in listed[-2]


@pytest.mark.django_db
def test_mcp_tools_of_a_user_follows_permissions(user: Any) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=["add_user"]))
    shown = json.loads(run("mcp_tools", "--user", "ada", "--json")[0])
    assert sorted({tool["name"] for tool in shown} - set(TOOLS)) == ["permitted"]


def test_mcp_tools_shows_disabled_tools() -> None:
    set_tool("add", enabled=False)
    out, _ = run("mcp_tools")
    assert out.count("state:") == 1
    lines = out.splitlines()
    assert "    state:  disabled" in lines[lines.index("add") :][:5]
    told = {tool["name"]: tool["status"] for tool in json.loads(run("mcp_tools", "--json")[0])}
    assert (told["add"], told["echo"]) == ("disabled", "served")


@pytest.mark.django_db
def test_mcp_tools_shows_the_future_state_of_new_tools(settings: Any) -> None:
    for new_tools, state in (("enabled", None), ("disabled", "new, pending approval")):
        settings.MCP_BRIDGE = {"NEW_TOOLS": new_tools}
        serve(settings, taking(int), confirm=True)
        out, _ = run("mcp_tools")
        assert ("state:" in out) is bool(state)
        assert state is None or f"state:  {state}" in out


def test_mcp_tools_as_json_includes_the_schemas() -> None:
    tools = {tool["name"]: tool for tool in json.loads(run("mcp_tools", "--json")[0])}
    assert sorted(tools) == sorted([*TOOLS, *HIDDEN])
    assert tools["permitted"]["permissions"] == ["auth.add_user"]
    assert tools["ping_public"]["public"] is True
    assert tools["add"]["source"].startswith("tests/support/site.py:")
    for tool in tools.values():
        Draft202012Validator.check_schema(tool["inputSchema"])


def test_mcp_tools_lists_withheld_tools_with_reasons(settings: Any) -> None:
    def star(*values: int) -> None:
        """Take any."""

    serve(settings, star, giving(int, 1))
    out, err = run("mcp_tools")
    assert "1 of 1 tools" in out
    assert "mcp_bridge.E006: star (tests/management/test_commands.py:" in err


def test_mcp_tools_works_on_a_site_without_tools(settings: Any) -> None:
    route(settings)
    out, err = run("mcp_tools")
    assert "0 of 0 tools" in out
    assert "mcp_bridge.W012: " in err
    assert "no RpcServer in the URLconf" in err
    assert run("mcp_tools", "--json")[0] == "[]\n"


def call(*arguments: str) -> dict[str, Any]:
    """Return the result that mcp_call prints."""
    out, err = run("mcp_call", *arguments)
    assert err == ""
    result: dict[str, Any] = json.loads(out)
    assert out == json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    return result


def failed_call(*arguments: str) -> tuple[str, str]:
    """Return the output of mcp_call and the one-line error of its exit status 1."""
    out = io.StringIO()
    with pytest.raises(CommandError) as raised:
        call_command("mcp_call", *arguments, stdout=out)
    assert raised.value.returncode == 1
    assert "\n" not in str(raised.value)
    return out.getvalue(), str(raised.value)


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("revision", SUPPORTED_VERSIONS)
def test_mcp_call_prints_the_result_at_every_revision(revision: str) -> None:
    given = call("add", '{"a": 2}', "--user", "ada", "--revision", revision)
    assert (given["content"][0]["text"], given["isError"]) == ("3", False)
    assert ("structuredContent" in given) is REVISIONS[revision].structured_content
    assert ("resultType" in given) is REVISIONS[revision].modern
    methods.validate_server_result("tools/call", revision, given)
    who = call("who", "--user", "ada", "--revision", revision)
    assert json.loads(who["content"][0]["text"]) == {"user": "ada", "revision": revision}


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_prints_the_latest_revision_by_default() -> None:
    assert call("who", "--user", "ada")["structuredContent"]["revision"] == LATEST.version


@pytest.mark.django_db
def test_mcp_call_without_a_user_is_anonymous() -> None:
    assert call("ping_public")["isError"] is False
    out, error = failed_call("add", '{"a": 2}')
    assert out == ""
    assert error == "Unknown tool: add. It is not public: pass --user."


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["permitted", "for_nobody", "unmarked", "no such tool", ""])
def test_mcp_call_reports_a_tool_hidden_from_the_user(name: str, user: Any) -> None:
    out, error = failed_call(name, "--user", "ada")
    assert out == ""
    assert error.startswith(f"Unknown tool: {name}. ")
    assert record().outcome == Outcome.REFUSED


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_passes_a_request_of_the_user() -> None:
    given = call("for_ada", '{"word": "hers"}', "--user", "ada")
    assert given["structuredContent"] == {"result": "hers: ada's own"}


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_runs_coroutine_functions() -> None:
    assert call("later", '{"text": "soon"}', "--user", "ada")["content"][0]["text"] == "soon"


@pytest.mark.django_db
@pytest.mark.parametrize("hosts", [["testserver"], [".example.com"], ["*"], []])
def test_mcp_call_needs_no_host(hosts: list[str], settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.DEBUG = hosts, not hosts
    settings.SECURE_SSL_REDIRECT = True
    assert call("ping_public")["isError"] is False


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hosts", "host"), [(["library.example"], "library.example"), (["*"], "localhost")]
)
def test_tool_receives_a_host_of_the_site(hosts: list[str], host: str, settings: Any) -> None:
    def where(context: Context) -> str:
        """Say which host was called."""
        return str(context.request.get_host())

    serve(settings, where, public=True)
    settings.ALLOWED_HOSTS = hosts
    assert call("where")["structuredContent"] == {"result": host}


@pytest.mark.django_db
def test_mcp_call_needs_no_url_of_the_endpoint(settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(public=True)(taking(str)))
    urlconf = ModuleType("tests.without_endpoint")
    urlconf.urlpatterns = [path("rpc", server.view)]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urlconf
    with pytest.raises(NoReverseMatch):
        reverse("mcp")
    given = call("take", '{"value": "ü\\u2028"}')
    assert given["structuredContent"] == {"result": repr("ü\u2028")}


@pytest.mark.django_db
def test_mcp_call_needs_no_url_at_all(settings: Any) -> None:
    urlconf = ModuleType("tests.without_urls")
    urlconf.urlpatterns = []  # type: ignore[attr-defined]
    options = {"servers": ["tests.support.site.server"]}
    source = {"BACKEND": "mcp_bridge.sources.modernrpc.ModernRPCSource", "OPTIONS": options}
    settings.ROOT_URLCONF, settings.MCP_BRIDGE = urlconf, {"SOURCES": {"default": source}}
    assert call("ping_public")["structuredContent"] == {"pong": True}


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("fail", '{"how": "tool"}', "Say please."),
        ("add", "{}", "a: is required"),
        ("add", '{"a": "2"}', "a: "),
    ],
)
def test_mcp_call_fails_with_the_models_error(name: str, arguments: str, text: str) -> None:
    out, error = failed_call(name, arguments, "--user", "ada")
    result = json.loads(out)
    assert result["isError"] is True
    assert text in result["content"][0]["text"]
    assert error == "The result is an error."


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("arguments", ["[]", "5", '"x"', "false"])
def test_mcp_call_refuses_non_object_arguments(arguments: str) -> None:
    out, error = failed_call("add", arguments, "--user", "ada")
    assert out == ""
    assert error == ("The call was refused: Invalid params: arguments must be an object.")


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    "arguments", ["NaN", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}']
)
def test_mcp_call_refuses_invalid_json(arguments: str) -> None:
    out, error = failed_call("add", arguments, "--user", "ada")
    assert out == ""
    assert error.startswith("The arguments are not JSON: ")


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_accepts_null_as_no_arguments() -> None:
    assert call("who", "null", "--user", "ada")["isError"] is False


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_names_a_missing_capability() -> None:
    out, error = failed_call("needs_sampling", "--user", "ada")
    assert out == ""
    assert error.startswith("The call was refused: This request requires the client capability")


def test_mcp_call_is_recorded_for_its_user(user: Any) -> None:
    call("add", '{"a": 2}', "--user", "ada")
    recorded = record()
    assert (recorded.tool, recorded.user, recorded.outcome) == ("add", user, Outcome.SUCCEEDED)
    assert recorded.client_name == "manage.py mcp_call"


def test_call_requiring_approval_is_queued(user: Any, settings: Any) -> None:
    serve(settings, taking(int), confirm=True)
    out, error = failed_call("take", '{"value": 1}', "--user", "ada")
    assert (
        "Nothing was run: take requires a person's approval"
        in json.loads(out)["content"][0]["text"]
    )
    assert error == "The result is an error."
    waiting = PendingCall.objects.get()
    assert (waiting.user, waiting.status) == (user, PendingCall.Status.WAITING)


def test_approval_address_is_a_path_without_a_host(user: Any, settings: Any) -> None:
    server = serve(settings, taking(int), confirm=True)
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
    out, _ = failed_call("take", '{"value": 1}', "--user", "ada")
    assert " is pending at /admin/mcp_bridge/pendingcall/" in out


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["ping_public"], 0), (["add"], 1), (["no such tool"], 1), (["ping_public", "{"], 1)],
)
def test_mcp_call_works_in_scripts(
    arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) if status else nullcontext() as ended:
        ManagementUtility(["manage.py", "mcp_call", *arguments]).execute()
    printed = capsys.readouterr()
    assert bool(printed.err) is bool(status)
    assert bool(printed.out) is not bool(status)
    assert ended is None or ended.value.code == status


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["mcp_call", "add", "{"], "not JSON"),
        (["mcp_call", "add", ""], "not JSON"),
        (["mcp_call", "add", "{'a': 1}"], "not JSON"),
        (["mcp_call", "add", "{}", "--user", "nobody"], "Unknown user 'nobody'"),
        (["mcp_call", "add", "{}", "--revision", "2020-01-01"], "invalid choice"),
        (["mcp_call"], "required: name"),
        (["mcp_tools", "--user", "nobody"], "Unknown user 'nobody'"),
    ],
)
def test_invalid_input_is_a_one_line_error(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error) as raised:
        run(*arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.django_db
def test_users_are_found_by_username_field() -> None:
    get_user_model().objects.create_user("Ada.Lovelace@example.com")
    out, _ = run("mcp_tools", "--user", "Ada.Lovelace@example.com")
    assert "for Ada.Lovelace@example.com" in out


def test_mcp_tools_shows_token_counts(settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "TOOLSETS": {"sums": ["add"], "reading": {"tools": ["*"], "read_only": True}}
    }
    set_tool("echo", enabled=False)
    tools = json.loads(run("mcp_tools", "--json")[0])
    add = next(tool for tool in tools if tool["name"] == "add")
    assert add["toolsets"] == ["sums", "reading"]
    total = sum(tool["tokens"] for tool in tools if tool["name"] != "echo")
    reading = sum(tool["tokens"] for tool in tools if "reading" in tool["toolsets"])
    out, _ = run("mcp_tools")
    assert f"    tokens: {add['tokens']}\n" in out
    assert out.splitlines()[-3:] == [
        f"All tools: {len(tools) - 1} enabled, about {total:,} tokens (bytes / 4).",
        f"Toolset sums: 1 enabled, about {add['tokens']} tokens (bytes / 4).",
        f"Toolset reading: 2 enabled, about {reading} tokens (bytes / 4).",
    ]


def test_mcp_tools_lists_a_toolset(settings: Any) -> None:
    settings.MCP_BRIDGE = {"TOOLSETS": {"sums": ["add"]}}
    out, _ = run("mcp_tools", "--toolset", "sums")
    assert [line for line in out.splitlines() if line and not line.startswith(" ")][0] == "add"
    assert "All tools" not in out
    with pytest.raises(CommandError, match=r"Unknown toolset 'sum'. Did you mean 'sums'\?"):
        run("mcp_tools", "--toolset", "sum")
