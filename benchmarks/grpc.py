"""
``python -m benchmarks.grpc``: what a call of a gRPC method costs as a tool, beside the bare stub.

The newsroom's archive answers from a process of its own. In each round the same method is called
by the stub alone, as the tool (arguments checked, message made, called, answer written), and as a
whole request to the view, in turns; the differences are made round by round. No server of HTTP.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CALLS: Final = 300
ROUNDS: Final = 9
TOOL: Final = "print_archive_find_pages"
ARGUMENTS: Final = {"words": "harbour", "section": "HARBOUR", "limit": 5}


def serve() -> None:
    """The archive, until standard input ends."""
    from testproject.newsroom.archive.service import PrintArchive, served

    with served(PrintArchive()) as address:
        print(address, flush=True)
        sys.stdin.read()


@contextmanager
def archive() -> Any:
    """The address of an archive in another process."""
    command = [sys.executable, "-m", "benchmarks.grpc", "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def set_up(address: str, database: Path) -> None:
    """The newsroom with that archive, for anybody, in this process."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    from testproject import settings as newsroom
    from testproject.newsroom.archive import with_archive

    names = (each for each in dir(newsroom) if each.isupper())
    bridge = {**newsroom.MCP_BRIDGE, "ALLOW_ANONYMOUS": True}
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": database}
    settings.configure(
        **{name: getattr(newsroom, name) for name in names}
        | {"MCP_BRIDGE": with_archive(bridge, address), "DATABASES": {"default": file}}
    )
    django.setup()
    call_command("migrate", verbosity=0)


def contestants(address: str) -> dict[str, Callable[[], object]]:
    """What is called, by its title."""
    import grpc
    from django.contrib.auth.models import AnonymousUser
    from google.protobuf.message_factory import GetMessageClass

    from benchmarks.counting import Site
    from mcp_bridge.features import Context, ToolCall
    from mcp_bridge.registry.registry import registry
    from testproject.newsroom.archive.service import SERVICE, PrintArchive

    method = PrintArchive().methods["FindPages"]
    request, answer = (GetMessageClass(each) for each in (method.input_type, method.output_type))
    stub = grpc.insecure_channel(address).unary_unary(
        f"/{SERVICE}/FindPages",
        request_serializer=request.SerializeToString,
        response_deserializer=answer.FromString,
    )
    message = request(words="harbour", section=2, limit=5)
    tool, context = registry.discovered.tools[TOOL], Context(user=AnonymousUser())
    os.environ |= {"BENCHMARK_MODE": "anonymous", "BENCHMARK_TOKEN": ""}
    site = Site()
    environ = site.request("tools/call", name=TOOL, arguments=ARGUMENTS)
    body = environ["wsgi.input"].read()

    def as_tool() -> object:
        call = ToolCall(tool=tool, arguments=tool.check(ARGUMENTS), context=context)
        return tool.encode(tool.invoke(call))

    def as_request() -> object:
        asked = {**environ, "wsgi.input": io.BytesIO(body)}
        response = site.application(asked, lambda status, headers: None)
        written = b"".join(response)
        response.close()
        return written

    told = json.loads(as_request())["result"]
    assert told["structuredContent"]["total"] == "2", told
    metadata = [("x-user-bin", b"")]
    return {
        "the stub alone": lambda: stub(message, timeout=10, metadata=metadata),
        "the tool": as_tool,
        "the whole request": as_request,
    }


def measure() -> str:
    """The figures, as Markdown."""
    with tempfile.TemporaryDirectory() as folder, archive() as address:
        set_up(address, Path(folder) / "newsroom.sqlite3")
        called = contestants(address)
        found: dict[str, list[float]] = {title: [] for title in called}
        # The first round only warms up.
        for number in range(-1, ROUNDS):
            for title, run in [*called.items()][:: -1 if number % 2 else 1]:
                begun = time.perf_counter()
                for _ in range(CALLS):
                    run()
                if number >= 0:
                    took = (time.perf_counter() - begun) / CALLS * 1000
                    found[title].append(took)
    stub = found["the stub alone"]
    lines = ["| | ms a call | above the stub |", "| :-- | --: | --: |"]
    for title, took in found.items():
        above = statistics.median(one - other for one, other in zip(took, stub, strict=True))
        lines.append(f"| {title} | {statistics.median(took):.2f} | {above:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        print(measure())
