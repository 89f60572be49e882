"""manage.py mcp_stdio: the site as a command that a client starts."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.processes.test_end_of_servers import environment
from tests.support.processes import ROOT

pytestmark = pytest.mark.alone

USERS = """
from django.contrib.auth import get_user_model as users
from mcp_bridge.tokens.models import Token
ada = users().objects.create_superuser("ada")
users().objects.create_user("gone", is_active=False)
for options in ({}, {"tools": ["add", "look"]}, {"read_only": True}):
    print(Token.objects.issue(user=ada, name="laptop", **options)[1])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[str]]:
    """Return the environment of a site with users, and the secrets of their tokens."""
    found = environment(tmp_path_factory.mktemp("stdio") / "site.sqlite3")
    run = partial_run(found)
    run("migrate", "--verbosity=0")
    return found, run("shell", "--verbosity=0", "-c", USERS).split()


def partial_run(env: dict[str, str]) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


class Session:
    """A process that serves, and its messages."""

    def __init__(self, env: dict[str, str], *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "django", "mcp_stdio", *options],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.revision = "2026-07-28"

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, method: str, id: object = 1, meta: Any = None, **params: Any) -> None:
        if self.revision == "2026-07-28":
            envelope = {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params["_meta"] = {**envelope, **(meta or {})}
        elif meta:
            params["_meta"] = meta
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message | ({} if id is None else {"id": id})).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.send("tools/call", name=tool, arguments=arguments)
        return self.read()

    def begin(self, revision: str, **capabilities: Any) -> None:
        """Initialize a legacy session."""
        self.revision = revision
        params = {"capabilities": capabilities, "clientInfo": {"name": "x"}}
        self.send("initialize", protocolVersion=revision, **params)
        assert self.read()["result"]["protocolVersion"] == revision
        self.send("notifications/initialized", id=None)

    def end(self) -> tuple[int, bytes, str]:
        """End the input; return the status, what else was written, and the errors."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err.decode()


@pytest.fixture
def serve(site: tuple[dict[str, str], list[str]]) -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def serve(*options: str, **more: str) -> Session:
        sessions.append(Session({**site[0], **more}, *options))
        return sessions[-1]

    yield serve
    for each in sessions:
        each.process.kill()
        each.process.wait(30)
        for pipe in (each.process.stdin, each.process.stdout, each.process.stderr):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def rows(site: tuple[dict[str, str], list[str]], query: str) -> list[Any]:
    with closing(sqlite3.connect(site[0]["SERVED_DATABASE"], timeout=30)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
def test_official_client_lists_calls_and_gets_progress(
    site: tuple[dict[str, str], list[str]], era: str
) -> None:
    reports: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    async def main() -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "django", "mcp_stdio", "--user", "ada"],
            env=site[0],
            cwd=str(ROOT),
        )
        async with Client(stdio_client(command), mode=era) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"look", "whoami"} <= {*names}
            said = await client.call_tool("whoami", {})
            assert said.structured_content == {"result": "ada"}
            for tool in ("count", "acount"):
                counting = client.call_tool(
                    tool, {"of": 3, "seconds": 0.02}, progress_callback=note
                )
                assert (await counting).structured_content == {"result": 3}

    asyncio.run(main())
    assert reports == [1, 2, 3, 1, 2, 3]


@pytest.mark.requirement("stdio.nothing-else")
def test_output_of_the_site_goes_to_standard_error(serve: Callable[..., Session]) -> None:
    session = serve()
    assert session.call("shout", word="loud")["result"]["structuredContent"] == {"result": "loud"}
    status, out, err = session.end()
    assert (status, out) == (0, b"")
    for said in ("printed loud", "written loud", "echoed loud", "warned loud", "logged loud"):
        assert said in err


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_revision_of_initialize_holds(serve: Callable[..., Session], revision: str) -> None:
    session = serve()
    session.begin(revision)
    assert session.call("look", number=3)["result"]["structuredContent"] == {"result": 3}


def test_revision_holds_for_lines_sent_at_once(serve: Callable[..., Session]) -> None:
    session = serve()
    session.revision = "2025-06-18"
    session.send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
    session.send("tools/call", id=2, name="look", arguments={"number": 3})
    assert session.read()["id"] == 1
    assert session.read()["result"]["structuredContent"] == {"result": 3}


def test_batches_belong_to_one_revision(serve: Callable[..., Session]) -> None:
    session = serve()
    batch = json.dumps([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, 2)]).encode()
    session.begin("2025-03-26")
    session.write(batch + b"\n")
    assert [each["id"] for each in session.read()] == [1, 2]  # type: ignore[index]
    session.begin("2025-11-25")
    session.write(batch + b"\n")
    assert session.read()["error"]["code"] == -32600


def test_anonymous_client_has_public_tools_only(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve()
    session.send("tools/list")
    names = [each["name"] for each in session.read()["result"]["tools"]]
    assert "look" in names
    assert "whoami" not in names
    assert session.call("whoami")["error"]["message"] == "Unknown tool: whoami"
    assert session.end()[0] == 0
    ((outcome, code),) = rows(
        site,
        "SELECT outcome, error_code FROM mcp_bridge_toolcallrecord WHERE tool = 'whoami' "
        "AND user_name = ''",
    )
    assert (outcome, code) == ("refused", "forbidden")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--user", "nobody"], "Unknown user 'nobody'"),
        (["--user", "gone"], "The user 'gone' is not active"),
        (["--token-env", "MISSING"], "The environment variable MISSING is not set"),
        (["--user", "ada", "--token-env", "X"], "not allowed with argument --user"),
        (["--toolset", "none"], "Unknown toolset 'none'"),
    ],
)
def test_wrong_caller_ends_before_anything_is_read(
    serve: Callable[..., Session], options: list[str], text: str
) -> None:
    session = serve(*options)
    status, out, err = session.end()
    assert status != 0
    assert out == b""
    assert text in err


def test_failing_check_ends_before_anything_is_read(serve: Callable[..., Session]) -> None:
    session = serve(DJANGO_SETTINGS_MODULE="tests.management.wrong_settings")
    status, out, err = session.end()
    assert (status, out) == (1, b"")
    assert "mcp_bridge.E002" in err
    assert "printed by an app" in err


def test_token_brings_its_limits(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    whole, some, reading = site[1]
    session = serve("--token-env", "T", T=whole)
    assert session.call("whoami")["result"]["structuredContent"] == {"result": "ada"}
    session = serve("--token-env", "T", T=some)
    assert session.call("look", number=1)["result"]["structuredContent"] == {"result": 1}
    assert "Unknown tool" in session.call("whoami")["error"]["message"]
    session = serve("--token-env", "T", T=reading)
    assert "Unknown tool" in session.call("act", number=1)["error"]["message"]
    session = serve("--token-env", "T", T="wrong")
    assert session.call("look", number=1)["error"]["code"] == 401


def test_revoked_user_is_refused_at_the_next_message(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve("--user", "ada")
    assert "result" in session.call("whoami")
    with closing(sqlite3.connect(site[0]["SERVED_DATABASE"], timeout=30)) as connection:
        for is_active, expected in ((0, "error"), (1, "result")):
            connection.execute("UPDATE auth_user SET is_active = ?", [is_active])
            connection.commit()
            assert expected in session.call("whoami")


@pytest.mark.parametrize("line", [b"\xff\xfe\n", b"{\n", b"x" * 10_000_000 + b"\n", b"[1\n"])
def test_line_that_is_not_json_is_a_parse_error(serve: Callable[..., Session], line: bytes) -> None:
    session = serve()
    session.write(line)
    answer = session.read()
    assert (answer["error"]["code"], answer["id"]) == (-32700, None)
    assert session.call("look", number=1)["result"]["structuredContent"] == {"result": 1}


def test_blank_lines_and_half_a_line_are_ignored(serve: Callable[..., Session]) -> None:
    session = serve()
    session.write(b"\n  \n\r\n")
    assert "result" in session.call("look", number=1)
    session.write(b'{"jsonrpc":"2.0","id":5,"method":"ping"')
    status, out, _ = session.end()
    assert (status, out) == (0, b"")


@pytest.mark.requirement("stdio.lines")
def test_thousand_lines_are_served_in_turn(serve: Callable[..., Session]) -> None:
    session = serve()
    lines = []
    for id in range(1000):
        session_meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "look", "arguments": {"number": id}, "_meta": session_meta}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        lines.append(json.dumps(message).encode() + b"\n")
    out, _ = session.process.communicate(b"".join(lines), timeout=120)
    answers = [json.loads(line) for line in out.splitlines()]
    assert {each["id"]: each["result"]["structuredContent"]["result"] for each in answers} == {
        id: id for id in range(1000)
    }
    assert session.process.returncode == 0


def test_eight_calls_run_at_once(serve: Callable[..., Session]) -> None:
    session = serve()
    for id in range(12):
        session.send("tools/call", id=id, name="crowd", arguments={"seconds": 0.4})
    most = [session.read()["result"]["structuredContent"]["result"] for _ in range(12)]
    assert max(most) == 8


@pytest.mark.requirement("stdio.cancelled")
@pytest.mark.parametrize("tool", ["fill", "afill"])
def test_cancelled_call_is_undone_and_not_answered(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]], tool: str
) -> None:
    session = serve()
    session.send("tools/call", id="a", name=tool, arguments={"of": 500}, meta={"progressToken": 1})
    assert session.read()["method"] == "notifications/progress"
    for unknown in ("b", 7, None, [1]):
        session.send("notifications/cancelled", id=None, requestId=unknown)
    session.send("notifications/cancelled", id=None, requestId="a")
    session.send("ping" if session.revision != "2026-07-28" else "server/discover", id="after")
    while (answer := session.read()).get("method") == "notifications/progress":
        pass
    assert answer["id"] == "after"
    status, out, _ = session.end()
    assert (status, b'"id":"a"' in out) == (0, False)
    ((outcome,),) = rows(
        site, f"SELECT outcome FROM mcp_bridge_toolcallrecord WHERE tool = '{tool}'"
    )
    assert outcome == "cancelled"
    assert rows(site, "SELECT * FROM auth_group WHERE name LIKE 'filled%'") == []


@pytest.mark.requirement("stdio.ends")
def test_sigterm_cancels_what_runs(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve("--user", "ada")
    session.send("tools/call", name="afill", arguments={"of": 5000}, meta={"progressToken": 1})
    session.read()
    session.process.send_signal(signal.SIGTERM)
    assert session.process.wait(30) == 0
    found = rows(
        site,
        "SELECT outcome FROM mcp_bridge_toolcallrecord WHERE tool = 'afill' AND user_name = 'ada'",
    )
    assert found == [("cancelled",)]


@pytest.mark.requirement("stdio.ends")
def test_call_is_answered_after_the_end_of_input(serve: Callable[..., Session]) -> None:
    session = serve()
    session.send("tools/call", name="look", arguments={"number": 4, "seconds": 0.5})
    status, out, _ = session.end()
    assert status == 0
    assert json.loads(out)["result"]["structuredContent"] == {"result": 4}


def test_client_that_closes_its_output_ends_the_process(serve: Callable[..., Session]) -> None:
    session = serve()
    assert session.process.stdout is not None
    assert session.process.stdin is not None
    session.process.stdout.close()
    session.send("tools/call", name="look", arguments={"number": 4})
    session.process.stdin.close()
    assert session.process.wait(30) == 0


def test_no_thread_or_file_is_left_by_calls(serve: Callable[..., Session]) -> None:
    session = serve()

    def census() -> dict[str, int]:
        found: dict[str, int] = session.call("census")["result"]["structuredContent"]
        return found

    session.call("look", number=1)
    before = census()
    for number in range(30):
        session.call("look", number=number)
        session.call("acount", of=1)
    latest = time.monotonic() + 5
    while (after := census()) != before and time.monotonic() < latest:
        time.sleep(0.1)
    for name in ("threads", "tasks"):
        assert after[name] <= before[name] + 1, (before, after)
    # SQLite closes a file only when no other connection of the process has a lock.
    assert after["files"] <= before["files"] + 10


def ping(id: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def call_of(id: object, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def test_batches_are_answered_while_calls_run(serve: Callable[..., Session]) -> None:
    session = serve()
    session.begin("2025-03-26")
    for id in range(8):
        session.send("tools/call", id=id, name="look", arguments={"number": id, "seconds": 1})
    for id in range(3):
        batch = [
            ping(f"p{id}"),
            call_of(f"a{id}", "look", number=1),
            call_of(f"b{id}", "crowd", seconds=0.1),
        ]
        session.write(json.dumps(batch).encode() + b"\n")
    found = [session.read() for _ in range(11)]
    batches = [each for each in found if isinstance(each, list)]
    assert len(batches) == 3
    assert all("result" in each for batch in batches for each in batch)


def test_cancelled_request_of_a_batch_keeps_the_others(serve: Callable[..., Session]) -> None:
    session = serve()
    session.begin("2025-03-26")
    batch = [call_of("a", "look", number=1), call_of("b", "look", number=2, seconds=1)]
    session.write(json.dumps(batch).encode() + b"\n")
    time.sleep(0.3)
    session.send("notifications/cancelled", id=None, requestId="b")
    assert [each["id"] for each in session.read()] == ["a", "b"]  # type: ignore[index]


def test_word_initialize_does_not_stop_reading(serve: Callable[..., Session]) -> None:
    session = serve()
    session.begin("2025-11-25")
    session.send("tools/call", id=1, name="shout", arguments={"word": "initialize"})
    session.send(
        "tools/call", id=2, name="look", arguments={"number": 1, "seconds": 2, "a": "initialize"}
    )
    for id in range(3, 11):
        session.send("tools/call", id=id, name="look", arguments={"number": 1, "seconds": 2})
    # Answered beside eight calls.
    session.send("ping", id="ping")
    ids = [session.read()["id"] for _ in range(3)]
    assert "ping" in ids


def test_refused_notification_is_not_answered(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve("--token-env", "T", T="wrong")
    session.send("notifications/initialized", id=None)
    assert session.call("look", number=1)["error"]["code"] == 401
    assert session.end()[1] == b""


def test_help_is_printed_to_standard_output(site: tuple[dict[str, str], list[str]]) -> None:
    assert "--token-env" in partial_run(site[0])("mcp_stdio", "--help")


def test_token_is_not_inherited_by_child_processes(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve("--token-env", "T", T=site[1][0])
    said = session.call("variable", name="T")["result"]["structuredContent"]
    assert said == {"result": ""}


def test_legacy_client_is_recorded_by_its_name(
    serve: Callable[..., Session], site: tuple[dict[str, str], list[str]]
) -> None:
    session = serve()
    session.revision = "2025-11-25"
    info = {"name": "Editor", "version": "7"}
    session.send("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
    session.read()
    session.call("variable", name="X")
    assert session.end()[0] == 0
    query = "SELECT client_name FROM mcp_bridge_toolcallrecord WHERE tool = 'variable' "
    assert ("Editor",) in rows(site, query + "ORDER BY started_at")


def test_site_without_public_tools_needs_a_caller(serve: Callable[..., Session]) -> None:
    session = serve(DJANGO_SETTINGS_MODULE="tests.management.closed_settings")
    status, out, err = session.end()
    assert (status, out) == (1, b"")
    assert "No tool is public: pass --user or --token-env." in err


@pytest.mark.parametrize("tool", ["book", "abook"])
def test_legacy_client_answers_questions_of_tools(
    site: tuple[dict[str, str], list[str]], tool: str
) -> None:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message[:3]})

    async def main() -> tuple[str, Any]:
        options = ["-m", "django", "mcp_stdio"]
        parameters = StdioServerParameters(command=sys.executable, args=options, env=site[0])
        way = stdio_client(parameters)
        async with Client(way, mode="legacy", elicitation_callback=answer) as client:
            prompt = await client.get_prompt("greeting")
            called = await client.call_tool(tool, {"train": f"{tool} of the night"})
            return called.content[0].text, prompt.messages[0].content

    text, greeting = asyncio.run(main())
    assert text.startswith("Who and And: ")
    assert greeting.text == "Greet Who."


def test_confirmation_is_asked_of_a_legacy_client(serve: Callable[..., Session]) -> None:
    session = serve("--user", "ada")
    session.begin("2025-11-25", elicitation={})
    session.send("tools/call", name="wipe", arguments={})
    question = session.read()
    assert question["method"] == "elicitation/create"
    assert "May wipe" in question["params"]["message"]
    agreed = {"action": "accept", "content": {"confirm": True}}
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": agreed}
    session.write(json.dumps(answer).encode() + b"\n")
    assert session.read()["result"]["content"][0]["text"] == "wiped"
    assert session.end()[0] == 0


def test_end_of_input_ends_a_question(serve: Callable[..., Session]) -> None:
    session = serve()
    session.begin("2025-11-25", elicitation={})
    session.send("tools/call", name="book", arguments={"train": "the last train"})
    assert session.read()["method"] == "elicitation/create"
    status, out, _ = session.end()
    assert status == 0
    assert b"did not answer: cancel" in out


def test_answers_pass_calls_that_wait(serve: Callable[..., Session]) -> None:
    session = serve(SERVED_CALLS="200")
    session.begin("2025-11-25", elicitation={})
    for number in range(110):
        session.send("tools/call", id=number, name="greet", arguments={})
    ended = 0
    while ended < 110:
        message = session.read()
        if "method" in message:
            answer = {"action": "accept", "content": {"name": "Ada"}}
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
            session.write(json.dumps(reply).encode() + b"\n")
        else:
            assert message["result"]["content"][0]["text"] == "Hello, Ada."
            ended += 1
