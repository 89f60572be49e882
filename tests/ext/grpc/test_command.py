"""``manage.py mcp_grpc``: which methods are tools, and what the server returns by reflection."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import pytest
from django.core.management import CommandError, call_command
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection

from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.echo import DATA, ECHO, PUBLIC
from tests.support.protobuf import compiled, proto3
from tests.support.serving import messages, names


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_grpc", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def reflecting() -> Iterator[str]:
    """The address of a server that returns DATA by reflection."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(DATA).file:
        file.ClearField("source_code_info")
        pool.Add(file)
    server = grpc.server(ThreadPoolExecutor(2))
    services = ["tested.Echo", reflection.SERVICE_NAME]
    reflection.enable_server_reflection(services, server, pool=pool)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None).wait()


def test_command_lists_tools_and_reasons_for_others(offer: Offer) -> None:
    service = f"""
        service Echo {{
          rpc Say(Asked) returns (Told) {{ {PUBLIC} }}
          rpc Up(stream Asked) returns (Told) {{ {PUBLIC} }}
          rpc Other(Asked) returns (Told);
        }}
    """
    offer(compiled(proto3(ECHO, service)))
    out, err = run("tested")
    assert out.splitlines() == [
        "tested.Echo/Say    echo_say",
        "tested.Echo/Up     not a tool: it streams from the client",
        "tested.Echo/Other  not a tool: it lacks the option (mcp_bridge.tool)",
    ]
    assert "mcp_bridge.W054" in err
    assert "mcp_bridge.W050" in err


def test_command_writes_the_reflected_set(offer: Offer, reflecting: str, tmp_path: Path) -> None:
    path = tmp_path / "reflected.binpb"
    offer(DATA, descriptors=path, target=reflecting)
    assert names() == []
    out, err = run("tested", "--reflect")
    assert f"{path}: written (" in err
    assert "tested.Echo/Say    echo_say\n" in out
    offer(DATA, descriptors=path, target=reflecting)
    assert names() == ["echo_count", "echo_look", "echo_say"]
    assert "without comments" in messages("mcp_bridge.W050")[0]
    # Again, now that the file exists.
    run("tested", "--reflect")


def test_command_keeps_a_set_with_comments(offer: Offer, reflecting: str) -> None:
    offer(DATA, target=reflecting)
    with pytest.raises(CommandError, match="has comments"):
        run("tested", "--reflect")


def test_command_compares_the_set_with_the_server(offer: Offer, reflecting: str) -> None:
    offer(DATA, target=reflecting)
    run("tested", "--check")
    other = ECHO.replace("int32 number", "int64 number")
    service = f"service Echo {{ rpc Say(Asked) returns (Told) {{ {PUBLIC} }} }}"
    gone = f"service Gone {{ rpc Say(Asked) returns (Told) {{ {PUBLIC} }} }}"
    offer(compiled(proto3(other, service, gone)), target=reflecting)
    with pytest.raises(CommandError) as refused:
        run("tested", "--check")
    assert str(refused.value).splitlines() == [
        "tested.Echo: the server has a different tested.proto",
        "tested.Gone: the server does not have it",
    ]


def test_comparing_requires_a_set(offer: Offer, reflecting: str, tmp_path: Path) -> None:
    offer(DATA, target=reflecting, descriptors=tmp_path / "lost")
    with pytest.raises(CommandError, match="There is no .*lost: write it with --reflect"):
        run("tested", "--check")


def test_missing_reflection_or_server_is_a_command_error(offer: Offer) -> None:
    offer(DATA, {})
    with pytest.raises(CommandError, match="does not offer reflection"):
        run("tested", "--check")
    offer(DATA, target="127.0.0.1:1")
    with pytest.raises(CommandError, match=r"127.0.0.1:1 answers UNAVAILABLE"):
        run("tested", "--check")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "is not a gRPC source"),
        ({"BACKEND": "no.such.Source"}, "No module named 'no'"),
        ({"BACKEND": "mcp_bridge.ext.grpc.GRPCSource"}, "'descriptors' is missing"),
    ],
)
def test_unusable_source_is_a_command_error(settings: Any, config: Any, why: str) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"other": config}}
    with pytest.raises(CommandError, match=why):
        run("other")
    with pytest.raises(CommandError, match="Unknown source 'another'. Did you mean 'other'"):
        run("another")
