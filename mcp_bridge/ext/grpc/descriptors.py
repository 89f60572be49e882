"""Descriptor sets of protobuf (``protoc --descriptor_set_out``) in pools of their own."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# protobuf's classes of descriptors and messages have no types that its runtimes share.
Descriptor: TypeAlias = Any
Message: TypeAlias = Any

_OPTIONS: Final = "google.protobuf.{}Options"
# What tools of others write into comments for themselves.
_FOREIGN: Final = re.compile(r"\(--.*?--\)|^ *buf:lint:.*$", re.DOTALL | re.MULTILINE)
# The field numbers in google/protobuf/descriptor.proto, by which the places of comments are told.
_PARTS: Final[Mapping[str, Mapping[str, int]]] = {
    "file": {"message_type": 4, "enum_type": 5, "service": 6},
    "message_type": {"field": 2, "nested_type": 3, "enum_type": 4},
    "nested_type": {"field": 2, "nested_type": 3, "enum_type": 4},
    "enum_type": {"value": 2},
    "service": {"method": 2},
}


class Comment(NamedTuple):
    """The comments above and beside something in a .proto file, and the line where it stands."""

    text: str
    line: int


class Descriptors:
    """
    The files of a descriptor set, apart from all other messages in the process.

    Raises ValueError, with a sentence that goes on from the set's name, for bytes that are no such
    set, and for one that lacks a file that another one imports.
    """

    def __init__(self, data: bytes) -> None:
        try:
            files = FileDescriptorSet.FromString(data).file
        except Exception:
            files = []
        # A file without a name: other bytes may be read as a set by chance.
        if not files or not all(each.name for each in files):
            raise ValueError(
                "is no descriptor set: write it with protoc --include_imports "
                "--include_source_info --descriptor_set_out=FILE"
            )
        self.pool = DescriptorPool()
        self._names = []
        self._comments: dict[str, Comment] = {}
        for file in in_order(files):
            try:
                self.pool.AddSerializedFile(file.SerializeToString())
            except Exception as exception:
                # Its first line says that it could not; what follows says why.
                why = " ".join(str(exception).split())
                raise ValueError(f"holds {file.name}, which cannot be read: {why}") from exception
            self._names.append(file.name)
            if file.package != "google.protobuf":
                # Those are long, and for people who write compilers.
                self._comments.update(_comments_of(file))
        # Only with all extensions in the pool do the options show them.
        self._options: dict[str, Any] = {}

    @property
    def has_comments(self) -> bool:
        """Return whether it was written with comments (``--include_source_info``)."""
        return bool(self._comments)

    def methods(self) -> Iterator[Descriptor]:
        """Yield the methods of all services, in their order."""
        for name in self._names:
            for service in self.pool.FindFileByName(name).services_by_name.values():
                yield from service.methods

    def comment(self, name: str) -> Comment:
        """Return the comment of what has this full name; its text may be empty."""
        return self._comments.get(name, Comment("", 0))

    def has_option(self, name: str) -> bool:
        """Return whether the set declares an option of that full name."""
        with suppress(KeyError):
            return self.pool.FindExtensionByName(name) is not None
        return False

    def options(self, descriptor: Descriptor, kind: str) -> dict[str, Any]:
        """Return the options of a "Method" or "Field" that are set, by their full names."""
        if kind not in self._options:
            try:
                found = self.pool.FindMessageTypeByName(_OPTIONS.format(kind))
            except KeyError:
                # No file of the set declares an option.
                found = None
            self._options[kind] = found and GetMessageClass(found)
        if self._options[kind] is None:
            return {}
        # protobuf reads options with the classes of its default pool, which know none of these.
        options = self._options[kind].FromString(descriptor.GetOptions().SerializeToString())
        return {each.full_name: value for each, value in options.ListFields()}


def values_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message that are set, by name; repeated ones as lists."""
    return {it.name: list(value) if it.is_repeated else value for it, value in message.ListFields()}


def in_order(files: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return files so that each comes after those that it imports. Raises ValueError."""
    by_name = {each.name: each for each in files}
    for file in by_name.values():
        for name in file.dependency:
            if name not in by_name:
                raise ValueError(
                    f"lacks {name}, which {file.name} imports: write it with protoc "
                    "--include_imports"
                )
    imports = {name: list(file.dependency) for name, file in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(imports).static_order()]
    except CycleError as exception:
        raise ValueError(f"holds files that import each other: {exception.args[1]}") from exception


def _comments_of(file: FileDescriptorProto) -> Iterator[tuple[str, Comment]]:
    """Yield what has a comment, by its full name."""
    located = {tuple(each.path): each for each in file.source_code_info.location}
    waiting: list[tuple[tuple[int, ...], str, str, Any]] = [((), file.package, "file", file)]
    while waiting and located:
        path, name, kind, part = waiting.pop()
        if (place := located.get(path)) and path:
            parts = (place.leading_comments, place.trailing_comments)
            cleaned = (textwrap.dedent(_FOREIGN.sub("", each)).strip() for each in parts)
            yield name, Comment("\n".join(filter(None, cleaned)), place.span[0] + 1)
        for field, number in _PARTS.get(kind, {}).items():
            for index, each in enumerate(getattr(part, field)):
                full_name = f"{name}.{each.name}" if name else each.name
                waiting.append(((*path, number, index), full_name, field, each))
