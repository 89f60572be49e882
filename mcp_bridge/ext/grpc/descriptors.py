"""Read protobuf descriptor sets (``protoc --descriptor_set_out``) into separate pools."""

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

# protobuf's runtimes do not share types for descriptors and messages.
Descriptor: TypeAlias = Any
Message: TypeAlias = Any

# Directives of other tools in comments.
_FOREIGN: Final = re.compile(r"\(--.*?--\)|^ *buf:lint:.*$", re.DOTALL | re.MULTILINE)
# Field numbers in google/protobuf/descriptor.proto, which identify the places of comments.
_PARTS: Final[Mapping[str, Mapping[str, int]]] = {
    "file": {"message_type": 4, "enum_type": 5, "service": 6},
    "message_type": {"field": 2, "nested_type": 3, "enum_type": 4},
    "nested_type": {"field": 2, "nested_type": 3, "enum_type": 4},
    "enum_type": {"value": 2},
    "service": {"method": 2},
}


class Comment(NamedTuple):
    """The leading and trailing comments of an element in a .proto file, and its line."""

    text: str
    line: int


class Descriptors:
    """
    The files of a descriptor set, separate from all other messages in the process.

    Raises ValueError, with a sentence that continues from the set's name, for bytes that are not a
    descriptor set, and for a set that lacks an imported file.
    """

    def __init__(self, data: bytes) -> None:
        try:
            files = FileDescriptorSet.FromString(data).file
        except Exception:
            files = []
        # Arbitrary bytes may parse as a set by chance, but with unnamed files.
        if not files or not all(each.name for each in files):
            raise ValueError(
                "is not a descriptor set: write it with protoc --include_imports "
                "--include_source_info --descriptor_set_out=FILE"
            )
        self.pool = DescriptorPool()
        self._names = []
        self._comments: dict[str, Comment] = {}
        for file in in_order(files):
            try:
                self.pool.AddSerializedFile(file.SerializeToString())
            except Exception as exception:
                # The reason is on the following lines of the text.
                why = " ".join(str(exception).split())
                raise ValueError(f"contains {file.name}, which is invalid: {why}") from exception
            self._names.append(file.name)
            if file.package != "google.protobuf":
                # Their comments are long and written for compiler authors.
                self._comments.update(_comments_of(file))
        # The classes of options that the set declares; they show extensions only if all of these
        # are in the pool.
        self._options: dict[str, Any] = {}
        for kind in ("Method", "Field"):
            with suppress(KeyError):
                found = self.pool.FindMessageTypeByName(f"google.protobuf.{kind}Options")
                self._options[kind] = GetMessageClass(found)

    @property
    def has_comments(self) -> bool:
        """Return whether the set includes comments (``--include_source_info``)."""
        return bool(self._comments)

    def methods(self) -> Iterator[Descriptor]:
        """Yield the methods of all services, in order."""
        for name in self._names:
            for service in self.pool.FindFileByName(name).services_by_name.values():
                yield from service.methods

    def comment(self, name: str) -> Comment:
        """Return the comment of the element with this full name; its text may be empty."""
        return self._comments.get(name, Comment("", 0))

    def has_option(self, name: str) -> bool:
        """Return whether the set declares an option of that full name."""
        with suppress(KeyError):
            return self.pool.FindExtensionByName(name) is not None
        return False

    def options(self, descriptor: Descriptor, kind: str) -> dict[str, Any]:
        """Return the options of a "Method" or "Field" that are set, by their full names."""
        if kind not in self._options:
            return {}
        # protobuf reads options with classes of its default pool, which lacks these extensions.
        options = self._options[kind].FromString(descriptor.GetOptions().SerializeToString())
        return {each.full_name: value for each, value in options.ListFields()}


def values_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message that are set, by name; repeated ones as lists."""
    return {it.name: list(value) if it.is_repeated else value for it, value in message.ListFields()}


def in_order(files: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return files sorted so that imports come first. Raises ValueError."""
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
        raise ValueError(f"has files that import each other: {exception.args[1]}") from exception


def _comments_of(file: FileDescriptorProto) -> Iterator[tuple[str, Comment]]:
    """Yield the elements with a comment, by full name."""
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
