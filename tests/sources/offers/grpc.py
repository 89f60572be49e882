"""The methods of a gRPC service, which is served in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from django.urls import URLPattern

from tests.sources.offers import MISSING, RUNS, SECRET
from tests.support.protobuf import compiled, proto3, serving

DESCRIPTORS = compiled(
    proto3("""
    service Offered {
      // Count.
      rpc Count(CountRequest) returns (Counted) {
        option (mcp_bridge.tool) = {name: "count", public: true, read_only: true};
      }
      // Miss.
      rpc Missing(google.protobuf.Empty) returns (Counted) {
        option (mcp_bridge.tool) = {name: "missing", public: true};
      }
      // Break.
      rpc Broken(google.protobuf.Empty) returns (Counted) {
        option (mcp_bridge.tool) = {name: "broken", public: true};
      }
      // Count for some.
      rpc Guarded(CountRequest) returns (Counted) {
        option (mcp_bridge.tool) = {
          name: "guarded", permissions: "auth.view_user", read_only: true
        };
      }
      // Wipe.
      rpc Wipe(WipeRequest) returns (WipeRequest) {
        option (mcp_bridge.tool) = {name: "wipe", public: true, destructive: true};
      }
      // Not offered.
      rpc Other(WipeRequest) returns (WipeRequest);
    }
    message CountRequest {
      // What to count.
      int32 number = 1 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
    }
    message Counted {
      int32 number = 1;
      string user = 2;
    }
    message WipeRequest {
      string name = 1 [(mcp_bridge.argument).required = true];
    }
    """)
)
SOURCE: dict[str, Any] = {
    "BACKEND": "mcp_bridge.ext.grpc.GRPCSource",
    "OPTIONS": {"metadata": f"{__name__}.metadata"},
}


def metadata(call: Any) -> list[tuple[str, str]]:
    return [("x-user", call.context.user.get_username())]


def count(request: Any, sent: Any, context: Any) -> Any:
    return {"number": request.number, "user": sent["x-user"]}


def missing(request: Any, sent: Any, context: Any) -> Any:
    context.abort(grpc.StatusCode.NOT_FOUND, MISSING)


def broken(request: Any, sent: Any, context: Any) -> Any:
    raise RuntimeError(SECRET)


def wipe(request: Any, sent: Any, context: Any) -> Any:
    RUNS.append(request.name)
    return {"name": request.name}


METHODS = {
    "Count": count,
    "Missing": missing,
    "Broken": broken,
    "Guarded": count,
    "Wipe": wipe,
    "Other": wipe,
}


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    with TemporaryDirectory() as directory, serving(DESCRIPTORS, METHODS) as port:
        path = Path(directory) / "offered.binpb"
        path.write_bytes(DESCRIPTORS)
        SOURCE["OPTIONS"] |= {"descriptors": path, "target": f"localhost:{port}"}
        yield []
