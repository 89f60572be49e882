"""Skills as folders of files, by the rules of Agent Skills (agentskills.io/specification)."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

MANIFEST: Final = "SKILL.md"
# The most files of a skill, and bytes of them all (MCP Skills, "Limits").
MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024
# The most characters of a file that are shown for approval.
MOST_SHOWN: Final = 20_000
NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_FRONTMATTER: Final = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
# The most characters of texts in the frontmatter.
_TEXTS: Final = {"name": 64, "description": 1024, "compatibility": 500}
# Opening neither follows a link nor waits for a pipe; Windows has neither flag.
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class _Loader(yaml.SafeLoader):
    """Reads the core schema of YAML 1.2, without aliases, by which a few lines become gigabytes."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        found = super().construct_mapping(node, deep=True)
        if len(found) < len(node.value):
            raise yaml.YAMLError("it has a duplicate key")
        return found


_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9]{1,30}", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(f"({_pattern})$"), _first
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """
    A file of a skill as it was read.

    ``digest`` is the SHA-256 of its bytes, in hexadecimal, and ``shown`` what an administrator
    approves: its text if that is not too long, else the digest.
    """

    digest: str
    size: int
    media_type: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A skill: its files by path ("references/style.md"), and the frontmatter of its SKILL.md."""

    place: Path
    files: Mapping[str, File]
    frontmatter: Mapping[str, Any]

    def read(self, name: str) -> str | bytes | None:
        """Return the contents of a file, or None if it is another one than it was, or unknown."""
        file = self.files.get(name)
        if file is None:
            return None
        try:
            content = read_within(self.place, name, file.size)
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != file.digest:
            return None
        text = _text_of(content)
        return content if text is None else text


def read_folder(folder: Path) -> Folder:
    """Return the skill in a folder. Raises ValueError with the rule that it breaks, and OSError."""
    names = sorted(name for name, _ in files_in(folder))
    if MANIFEST not in names:
        raise ValueError(f"it has no {MANIFEST}")
    if len(names) > MOST_FILES:
        raise ValueError(f"it has {len(names)} files; a skill may have {MOST_FILES}")
    files, left, manifest = dict[str, File](), MOST_BYTES, b""
    for name in names:
        content = read_within(folder, name, left)
        left -= len(content)
        if left < 0:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        digest, text = hashlib.sha256(content).hexdigest(), _text_of(content)
        shown = digest if text is None or len(text) > MOST_SHOWN else text
        kind = _media_type(name, is_text=text is not None)
        files[name] = File(digest=digest, size=len(content), media_type=kind, shown=shown)
        manifest = content if name == MANIFEST else manifest
    return Folder(place=folder, files=files, frontmatter=read_frontmatter(manifest, folder.name))


def files_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """
    Yield the files of a folder by path, without those whose names begin with a dot.

    Raises ValueError for a link and anything else that is not a file or folder.
    """
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [each for each in folders if not each.startswith((".", "__pycache__"))]
        for name in (*folders, *(each for each in names if not each.startswith("."))):
            path = Path(place, name)
            within, found = path.relative_to(folder).as_posix(), path.lstat()
            if stat.S_ISREG(found.st_mode):
                yield within, found
            elif not stat.S_ISDIR(found.st_mode):
                kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a file"
                raise ValueError(f"{within} is {kind}")


def read_within(folder: Path, name: str, most: int) -> bytes:
    """
    Return a file of a folder, at most one byte more than ``most``.

    Raises OSError for anything but a file, and for a link in its path, which may have replaced it
    since the folder was listed.
    """
    with ExitStack() as opened:
        parent: int | None = None
        *parts, last = (os.fspath(folder), *name.split("/"))
        if os.open not in os.supports_dir_fd:
            parts, last = [], os.path.join(*parts, last)
        for number, part in enumerate(parts):
            flags = os.O_RDONLY | os.O_DIRECTORY | (_SAFELY if number else 0)
            parent = os.open(part, flags, dir_fd=parent)
            opened.callback(os.close, parent)
        file = os.open(last, os.O_RDONLY | _SAFELY | getattr(os, "O_BINARY", 0), dir_fd=parent)
        with open(file, "rb") as reading:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(f"{name} is not a file")
            return reading.read(most + 1)


def _raise(error: OSError) -> None:
    raise error


def read_frontmatter(content: bytes, name: str) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md. Raises ValueError with the rule that it breaks."""
    found = _FRONTMATTER.match(content.decode())
    if found is None:
        raise ValueError(f"{MANIFEST} does not begin with frontmatter between two lines of ---")
    try:
        values = yaml.load(found[1], _Loader)
        written = json.dumps(values, allow_nan=False, ensure_ascii=False).encode()
        is_json = json.loads(written) == values
    except Exception as why:
        # The parser raises many kinds, also RecursionError.
        text = " ".join(str(why).split()) or type(why).__name__
        raise ValueError(f"the frontmatter cannot be read: {text}") from why
    if not isinstance(values, dict) or not is_json:
        raise ValueError("the frontmatter is not a mapping that JSON can express")
    for key, most in _TEXTS.items():
        value = values.get(key)
        is_left_out = value is None and key not in ("name", "description")
        if not is_left_out and not (isinstance(value, str) and len(value) <= most):
            raise ValueError(f"its {key} must be a text of at most {most} characters")
    if not values["description"].strip():
        raise ValueError("its description is empty")
    if values["name"] != name or not NAME.fullmatch(name):
        raise ValueError(
            f"its name {values['name']!r} must be that of its folder, {name!r}: lower-case "
            "letters, digits and single hyphens between them, at most 64 characters"
        )
    metadata = values.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(e, str) for e in metadata.values()):
        raise ValueError("its metadata must be a mapping of texts")
    return values


def _text_of(content: bytes) -> str | None:
    """Return bytes as text, if they are text in UTF-8."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _media_type(name: str, *, is_text: bool) -> str:
    if is_text and name.endswith(".md"):
        return "text/markdown"
    known, _ = mimetypes.guess_type(name)
    return known or ("text/plain" if is_text else "application/octet-stream")
