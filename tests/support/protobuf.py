"""Descriptor sets compiled while the tests run, and gRPC servers in their process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import google.api
import grpc
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
# The folders of imports: protobuf's own files, Google's, those of the tests, the package.
INCLUDES = (
    files("grpc_tools") / "_proto",
    Path(next(iter(google.api.__path__))).parents[1],
    Path(__file__).parent / "protos",
    ROOT,
)
HEADER = """
import "mcp_bridge/ext/grpc/annotations.proto";
import "buf/validate/validate.proto";
import "google/api/field_behavior.proto";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
"""


@cache
def compiled(text: str, *arguments: str) -> bytes:
    """Return the descriptor set of a .proto file, with its imports; further arguments of protoc."""
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "tested.proto").write_text(text)
        return compiled_file(folder / "tested.proto", *arguments)


def compiled_file(path: Path, *arguments: str) -> bytes:
    with TemporaryDirectory() as directory:
        written = os.path.join(directory, "set")
        done = protoc.main(
            [
                *("protoc", "--include_imports", f"--descriptor_set_out={written}"),
                *(f"-I{each}" for each in (path.parent, *INCLUDES)),
                *(arguments or ("--include_source_info",)),
                str(path),
            ]
        )
        assert done == 0
        return Path(written).read_bytes()


def proto3(*parts: str) -> str:
    """Return a .proto file of the package ``tested``, with all imports that the tests use."""
    return "\n".join(('syntax = "proto3";', "package tested;", HEADER, *parts))


@contextmanager
def serving(
    data: bytes,
    methods: Mapping[str, Callable[..., Any]],
    credentials: grpc.ServerCredentials | None = None,
    **options: Any,
) -> Iterator[int]:
    """
    Serve the methods by name, on a port of this machine.

    Each takes the request, the metadata and the context, and returns the fields of the answer (or
    yields them), or a message.
    """
    from mcp_bridge.ext.grpc.descriptors import Descriptors

    descriptors = Descriptors(data)
    server = grpc.server(ThreadPoolExecutor(8), **options)
    for method in descriptors.methods():
        if method.name not in methods:
            continue
        handler = _handler(method, methods[method.name])
        service = method.containing_service.full_name
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {method.name: handler})]
        )
    address = "localhost:0"
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def _handler(method: Any, run: Callable[..., Any]) -> Any:
    answer = GetMessageClass(method.output_type)

    def message(value: Any) -> Any:
        return answer(**value) if isinstance(value, dict) else value

    def unary(request: Any, context: grpc.ServicerContext) -> Any:
        return message(run(request, dict(context.invocation_metadata()), context))

    def stream(request: Any, context: grpc.ServicerContext) -> Any:
        yield from map(message, run(request, dict(context.invocation_metadata()), context))

    make: Any = grpc.unary_unary_rpc_method_handler
    if method.server_streaming:
        make = grpc.unary_stream_rpc_method_handler
    return make(
        stream if method.server_streaming else unary,
        GetMessageClass(method.input_type).FromString,
        lambda value: value.SerializeToString(),
    )
