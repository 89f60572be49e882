"""Read the services of a server (gRPC Server Reflection Protocol)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from mcp_bridge.ext.grpc.descriptors import Descriptors, in_order

# Both versions have the same messages, and servers support one or both.
_PATHS: Final = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    for version in ("v1", "v1alpha")
)


def reflect(channel: grpc.Channel, timeout: float) -> bytes:
    """Return the descriptor set of a server's services. Raises ValueError if it fails."""
    files: dict[str, FileDescriptorProto] = {}

    def ask(**asked: str) -> Any:
        (answer,) = _answers(channel, Request(**asked), timeout)
        if answer.HasField("error_response"):
            named, error = [*asked.values()][0], answer.error_response.error_message
            raise ValueError(f"says of {named}: {error}")
        for each in answer.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(each)
            files[file.name] = file
        return answer

    for service in ask(list_services="*").list_services_response.service:
        if not service.name.startswith("grpc.reflection."):
            ask(file_containing_symbol=service.name)
    while lacking := {each for file in files.values() for each in file.dependency} - files.keys():
        for name in sorted(lacking):
            ask(file_by_filename=name)
    written: bytes = FileDescriptorSet(file=in_order(files.values())).SerializeToString()
    return written


def differences(known: bytes, reflected: bytes) -> Iterator[str]:
    """Yield the services of a set that are missing or different on the server."""
    ours, theirs = _files_by_service(known), _files_by_service(reflected)
    for service, file in ours.items():
        if service not in theirs:
            yield f"{service}: the server does not have it"
        elif file != theirs[service]:
            yield f"{service}: the server has a different {file.name}"


def _files_by_service(data: bytes) -> dict[str, FileDescriptorProto]:
    found: dict[str, FileDescriptorProto] = {}
    for method in Descriptors(data).methods():
        file = FileDescriptorProto()
        # Normalised by the pool, since compilers differ in what they omit.
        method.containing_service.file.CopyToProto(file)
        file.ClearField("source_code_info")
        found[method.containing_service.full_name] = file
    return found


def _answers(channel: grpc.Channel, request: Request, timeout: float) -> list[Response]:
    for path in _PATHS:
        ask = channel.stream_stream(
            path,
            request_serializer=Request.SerializeToString,
            response_deserializer=Response.FromString,
        )
        try:
            return list(ask(iter([request]), timeout=timeout))
        except grpc.RpcError as error:
            status: Any = error
            if status.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise ValueError(f"answers {status.code().name}: {status.details()}") from error
    raise ValueError("does not offer reflection")
