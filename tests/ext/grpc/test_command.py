"""``manage.py mcp_grpc``: which methods are tools, and why others are not."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.echo import ECHO, PUBLIC
from tests.support.protobuf import compiled, proto3


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_grpc", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_it_shows_which_methods_are_tools_and_why_others_are_not(offer: Offer) -> None:
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
        "tested.Echo/Up     no tool: it streams from the client",
        "tested.Echo/Other  no tool: it has no option (mcp_bridge.tool)",
    ]
    assert "mcp_bridge.W054" in err
    assert "mcp_bridge.W050" in err


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "it is no source of gRPC"),
        ({"BACKEND": "no.such.Source"}, "No module named 'no'"),
        ({"BACKEND": "mcp_bridge.ext.grpc.GRPCSource"}, "'descriptors' is missing"),
    ],
)
def test_a_source_that_cannot_be_used_is_a_sentence(settings: Any, config: Any, why: str) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"other": config}}
    with pytest.raises(CommandError, match=why):
        run("other")
    with pytest.raises(CommandError, match="There is no source 'another'. Did you mean 'other'"):
        run("another")
