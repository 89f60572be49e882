from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.urls import include, path
from jsonschema import Draft202012Validator
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.revisions import SUPPORTED_VERSIONS
from mcp_bridge.testing.serving import route, serve
from tests.support import site
from tests.support.revisions import SPOKEN
from tests.support.serving import giving, set_tool, taking
from tests.support.site import TOOLS

HIDDEN = ["permitted", "permitted_twice", "for_nobody"]


def run(command: str, *arguments: str) -> tuple[str, str]:
    """The standard output and the standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def test_mcp_tools_lists_all_whoever_may_use_them() -> None:
    out, err = run("mcp_tools")
    listed = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert listed[:-1] == sorted([*TOOLS, *HIDDEN])
    assert f"{len(TOOLS) + 3} of {len(TOOLS) + 3} tools." in listed[-1]
    assert err == ""


def test_mcp_tools_says_where_a_tool_is_and_who_may_use_it() -> None:
    out, _ = run("mcp_tools")
    assert f"tests/support/site.py:{site.add.__code__.co_firstlineno}" in out
    assert "access: auth.add_user + auth.delete_user" in out
    assert "access: everybody" in out
    assert "access: authenticated users + the procedure's own auth" in out
    assert "hints:  readOnlyHint, idempotentHint" in out


@pytest.mark.django_db
def test_mcp_tools_of_a_user_are_what_the_user_sees(user: Any) -> None:
    out, _ = run("mcp_tools", "--user", "ada")
    listed = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert listed[:-1] == TOOLS
    assert "for ada" in listed[-1]


@pytest.mark.django_db
def test_mcp_tools_of_a_user_follow_the_permissions(user: Any) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=["add_user"]))
    shown = json.loads(run("mcp_tools", "--user", "ada", "--json")[0])
    assert sorted({tool["name"] for tool in shown} - set(TOOLS)) == ["permitted"]


def test_mcp_tools_shows_which_tools_are_switched_off() -> None:
    set_tool("add", enabled=False)
    out, _ = run("mcp_tools")
    assert out.count("state:") == 1
    lines = out.splitlines()
    assert "    state:  off" in lines[lines.index("add") :][:5]
    told = {tool["name"]: tool["status"] for tool in json.loads(run("mcp_tools", "--json")[0])}
    assert (told["add"], told["echo"]) == ("disabled", "served")


@pytest.mark.django_db
def test_mcp_tools_says_of_a_new_tool_what_the_next_request_makes_of_it(settings: Any) -> None:
    for new_tools, state in (("enabled", None), ("disabled", "new, waits for approval")):
        settings.MCP_BRIDGE = {"NEW_TOOLS": new_tools}
        serve(settings, taking(int), confirm=True)
        out, _ = run("mcp_tools")
        assert ("state:" in out) is bool(state)
        assert state is None or f"state:  {state}" in out


def test_mcp_tools_as_json_holds_the_schemas() -> None:
    tools = {tool["name"]: tool for tool in json.loads(run("mcp_tools", "--json")[0])}
    assert sorted(tools) == sorted([*TOOLS, *HIDDEN])
    assert tools["permitted"]["permissions"] == ["auth.add_user"]
    assert tools["ping_public"]["public"] is True
    assert tools["add"]["source"].startswith("tests/support/site.py:")
    for tool in tools.values():
        Draft202012Validator.check_schema(tool["inputSchema"])


def test_mcp_tools_says_what_is_left_out_and_why(settings: Any) -> None:
    def star(*values: int) -> None:
        """Take any."""

    serve(settings, star, giving(int, 1))
    out, err = run("mcp_tools")
    assert "1 of 1 tools" in out
    assert "mcp_bridge.E006: star (tests/management/test_commands.py:" in err


def test_mcp_tools_of_a_site_without_any(settings: Any) -> None:
    route(settings)
    out, err = run("mcp_tools")
    assert "0 of 0 tools" in out
    assert "mcp_bridge.W012: " in err
    assert "no RpcServer in the URLconf" in err
    assert run("mcp_tools", "--json")[0] == "[]\n"


def call(*arguments: str) -> tuple[str, int, dict[str, Any]]:
    """The request line, the status and the response that mcp_call shows."""
    out, _ = run("mcp_call", *arguments)
    request, _, answer = out.partition("\n}\n")
    status, _, body = answer.lstrip().partition("\n")
    return request, int(status.split()[0]), json.loads(body)


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("revision", SPOKEN)
def test_mcp_call_shows_request_status_and_response(revision: str) -> None:
    request, status, answer = call("add", '{"a": 2}', "--user", "ada", "--revision", revision)
    assert request.startswith("POST /mcp\n{")
    assert ('"io.modelcontextprotocol/protocolVersion"' in request) is (revision == LATEST.version)
    assert (status, answer["result"]["content"][0]["text"]) == (200, "3")


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("revision", SUPPORTED_VERSIONS)
def test_mcp_call_gets_a_json_answer_at_every_revision_it_offers(revision: str) -> None:
    _, _, answer = call("add", '{"a": 2}', "--user", "ada", "--revision", revision)
    assert answer["jsonrpc"] == "2.0"


@pytest.mark.django_db
def test_mcp_call_without_a_user_is_nobody() -> None:
    assert call("ping_public")[2]["result"]["isError"] is False
    _, status, answer = call("add", '{"a": 2}')
    assert (status, answer["error"]["message"]) == (200, "Unknown tool: add")


@pytest.mark.django_db
@pytest.mark.parametrize("hosts", [["testserver"], [".example.com"], ["*"], []])
def test_mcp_call_uses_an_allowed_host(hosts: list[str], settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.DEBUG = hosts, not hosts
    assert call("ping_public")[1] == 200


@pytest.mark.django_db
def test_mcp_call_works_where_http_is_redirected(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert call("ping_public")[1] == 200


@pytest.mark.django_db
def test_mcp_call_goes_to_the_endpoint_of_the_site(settings: Any) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(public=True)(taking(str)))
    route(settings, path("rpc", server.view), path("deep/", include("mcp_bridge.urls")))
    request, status, answer = call("take", '{"value": "ü\\u2028"}')
    assert (status, answer["result"]["isError"]) == (200, False)
    assert request.startswith("POST /")


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
def test_mcp_call_shows_an_error_as_the_model_gets_it() -> None:
    _, status, answer = call("fail", '{"how": "tool"}', "--user", "ada")
    assert (status, answer["result"]["content"][0]["text"]) == (200, "Say please.")


@pytest.mark.django_db
@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("arguments", ["[]", "5", '"x"', "NaN", '{"a": NaN}', '{"a": "\\ud800"}'])
def test_mcp_call_shows_how_bad_arguments_are_refused(arguments: str) -> None:
    _, _, answer = call("add", arguments, "--user", "ada")
    assert "error" in answer


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["mcp_call", "add", "{"], "not JSON"),
        (["mcp_call", "add", ""], "not JSON"),
        (["mcp_call", "add", "{'a': 1}"], "not JSON"),
        (["mcp_call", "add", "{}", "--user", "nobody"], "no user 'nobody'"),
        (["mcp_call", "add", "{}", "--revision", "2020-01-01"], "invalid choice"),
        (["mcp_call"], "required: name"),
        (["mcp_tools", "--user", "nobody"], "no user 'nobody'"),
    ],
)
def test_bad_input_is_an_error_of_one_line(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error) as raised:
        run(*arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.django_db
def test_users_are_found_by_the_name_they_log_in_with() -> None:
    get_user_model().objects.create_user("Ada.Lovelace@example.com")
    out, _ = run("mcp_tools", "--user", "Ada.Lovelace@example.com")
    assert "for Ada.Lovelace@example.com" in out
