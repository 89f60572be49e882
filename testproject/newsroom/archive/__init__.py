"""The newspaper's archive: a gRPC service of its own, whose methods are tools of the newsroom."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

DESCRIPTORS: Final = Path(__file__).with_name("archive.binpb")


def with_archive(bridge: dict[str, Any], address: str) -> dict[str, Any]:
    """Return MCP_BRIDGE with the archive that is served at ``address``, as "127.0.0.1:50051"."""
    archive = {
        "BACKEND": "mcp_bridge.ext.grpc.GRPCSource",
        "OPTIONS": {
            "descriptors": DESCRIPTORS,
            "target": address,
            "metadata": f"{__name__}.metadata",
        },
    }
    return {**bridge, "SOURCES": {**bridge["SOURCES"], "archive": archive}}


def metadata(call: Any) -> list[tuple[str, bytes]]:
    """Say to the archive who calls: names are not of ASCII alone."""
    return [("x-user-bin", call.context.user.get_username().encode())]
