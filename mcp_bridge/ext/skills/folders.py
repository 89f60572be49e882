"""Skills as folders of files, by the rules of Agent Skills (agentskills.io/specification)."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

MANIFEST: Final = "SKILL.md"
# The most files of a skill, and bytes of them all (MCP Skills, "Limits").
MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024
NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_FRONTMATTER: Final = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
# The texts of the frontmatter, with the most characters of each.
_TEXTS: Final = {"name": 64, "description": 1024, "compatibility": 500, "license": 500}


class _Loader(yaml.SafeLoader):
    """Reads dates as the text that they are, since JSON does not have any."""

    yaml_implicit_resolvers = {
        first: [each for each in pairs if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a skill as it was read; ``digest`` is the SHA-256 of its bytes, in hexadecimal."""

    path: Path
    digest: str
    size: int

    def read(self) -> bytes | None:
        """Return its bytes, or None if they are not the same any more."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == self.digest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A skill: its files by path ("references/style.md"), and the frontmatter of its SKILL.md."""

    files: Mapping[str, File]
    frontmatter: Mapping[str, Any]


def read_folder(folder: Path) -> Folder:
    """Return the skill in a folder. Raises ValueError with the rule that it breaks, and OSError."""
    paths = dict(sorted(files_in(folder)))
    if MANIFEST not in paths:
        raise ValueError(f"it has no {MANIFEST}")
    size = sum(each.stat().st_size for each in paths.values())
    if len(paths) > MOST_FILES or size > MOST_BYTES:
        raise ValueError(
            f"it has {len(paths)} files with {size:,} bytes; a skill may have {MOST_FILES} with "
            f"{MOST_BYTES:,}"
        )
    files, contents = dict[str, File](), b""
    for name, path in paths.items():
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        files[name] = File(path=path, digest=digest, size=len(content))
        contents = content if name == MANIFEST else contents
    return Folder(files=files, frontmatter=read_frontmatter(contents, folder.name))


def files_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """
    Yield the files of a folder by path, without those whose names begin with a dot.

    Raises ValueError for a link that leads out of the folder, or to a folder.
    """
    top = folder.resolve()
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [each for each in folders if not each.startswith((".", "__pycache__"))]
        for name in (*folders, *names):
            path = Path(place, name)
            within = path.relative_to(folder).as_posix()
            if path.is_symlink() and (path.is_dir() or not path.resolve().is_relative_to(top)):
                raise ValueError(f"{within} is a link that leads to a folder, or out of this one")
            if name in folders or name.startswith("."):
                continue
            if not path.is_file():
                raise ValueError(f"{within} is not a file")
            yield within, path


def _raise(error: OSError) -> None:
    raise error


def read_frontmatter(content: bytes, name: str) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md. Raises ValueError with the rule that it breaks."""
    found = _FRONTMATTER.match(content.decode())
    if found is None:
        raise ValueError(f"{MANIFEST} does not begin with frontmatter between two lines of ---")
    try:
        values = yaml.load(found[1], _Loader)
        is_json = json.loads(json.dumps(values, allow_nan=False)) == values
    except (yaml.YAMLError, TypeError, ValueError) as why:
        raise ValueError(f"the frontmatter cannot be read: {' '.join(str(why).split())}") from why
    if not isinstance(values, dict) or not is_json:
        raise ValueError("the frontmatter is not a mapping that JSON can express")
    for key, most in _TEXTS.items():
        value = values.get(key, None if key in ("name", "description") else "")
        if not isinstance(value, str) or len(value) > most:
            raise ValueError(f"its {key} must be a text of at most {most} characters")
    if not values["description"].strip():
        raise ValueError("its description is empty")
    if values["name"] != name or not NAME.fullmatch(name):
        raise ValueError(
            f"its name {values['name']!r} must be that of its folder, {name!r}: lower-case "
            "letters, digits and single hyphens between them, at most 64 characters"
        )
    metadata = values.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(e, str) for e in metadata.values()):
        raise ValueError("its metadata must be a mapping of texts")
    return values


def media_type(name: str, content: bytes) -> tuple[str, str | bytes]:
    """Return the media type of a file, and its contents: text if it is UTF-8, else the bytes."""
    known, _ = mimetypes.guess_type(name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return known or "application/octet-stream", content
    if "\0" in text:
        return known or "application/octet-stream", content
    return "text/markdown" if name.endswith(".md") else known or "text/plain", text
