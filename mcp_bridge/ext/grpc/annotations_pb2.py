"""Adds ``annotations.proto`` to the pool of protobuf: generated code of services imports this."""

from __future__ import annotations

from pathlib import Path

# Its import adds the file on which the description depends.
from google.protobuf import descriptor_pb2 as descriptor_pb2
from google.protobuf import descriptor_pool

_DESCRIBED = Path(__file__).with_name("annotations.binpb").read_bytes()
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_DESCRIBED)
