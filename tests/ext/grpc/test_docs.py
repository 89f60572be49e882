"""The example in docs/sources/grpc.md, and the package's files for services of gRPC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from mcp_bridge.testing.checked import CheckedClient
from testproject.newsroom.archive import DESCRIPTORS
from tests.ext.grpc.conftest import Offer
from tests.support.protobuf import ROOT, compiled_file
from tests.support.serving import names
from tests.test_docs_code import block, run

PAGE = "sources/grpc"


def test_example_is_served(offer: Offer, user: Any, tmp_path: Path) -> None:
    proto = tmp_path / "orders.proto"
    proto.write_text(block(PAGE, "service Orders", kind="proto"))
    data = compiled_file(proto)
    options = run(PAGE, "orders.internal")["MCP_BRIDGE"]["SOURCES"]["orders"]["OPTIONS"]
    there = run(PAGE, "def metadata")

    def get(request: Any, sent: Any, context: Any) -> Any:
        assert sent["authorization"] == "Bearer the-sites-own-key"
        return {"number": request.number, "asked_by": sent["x-user-bin"].decode()}

    given = {"metadata": there["metadata"]}
    assert options.keys() - {"descriptors", "target", "credentials"} == given.keys()
    offer(data, {"GetOrder": get}, **given)
    assert names() == ["orders_cancel_order", "orders_get_order"]
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    result = CheckedClient(user=user).call_tool("orders_get_order", {"number": 1042})
    assert result["structuredContent"] == {"number": "1042", "asked_by": "ada"}


def only(data: bytes, name: str) -> Any:
    """Return one file of a set, without what differs from one compiler to the next."""
    (found,) = (each for each in FileDescriptorSet.FromString(data).file if each.name == name)
    found.ClearField("source_code_info")
    return found


def test_compiled_set_matches_its_source() -> None:
    path = ROOT / "mcp_bridge" / "ext" / "grpc" / "annotations.proto"
    compiled = compiled_file(ROOT / "testproject" / "newsroom" / "archive" / "archive.proto")
    assert only(compiled, "mcp_bridge/ext/grpc/annotations.proto").SerializeToString() == (
        path.with_suffix(".binpb").read_bytes()
    )
    kept = DESCRIPTORS.read_bytes()
    name = [each.name for each in FileDescriptorSet.FromString(kept).file][-1]
    ours = only(compiled, "archive.proto")
    ours.name = name
    assert only(kept, name) == ours


@pytest.mark.alone
@pytest.mark.parametrize("before", ["", "import google.protobuf.descriptor_pb2\n"])
def test_generated_code_needs_only_the_extra(tmp_path: Path, before: str) -> None:
    proto = tmp_path / "orders.proto"
    proto.write_text(block(PAGE, "service Orders", kind="proto"))
    compiled_file(proto, f"--python_out={tmp_path}")
    code = (
        f"{before}import sys\nimport orders_pb2\n"
        "from mcp_bridge.ext.grpc.annotations_pb2 import DESCRIPTOR\n"
        "options = orders_pb2.DESCRIPTOR.services_by_name['Orders'].methods[0].GetOptions()\n"
        "print(options.Extensions[DESCRIPTOR.extensions_by_name['tool']].permissions)\n"
        "print('django' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    assert done.stdout.splitlines() == ["['auth.view_user']", "False"], done.stderr
