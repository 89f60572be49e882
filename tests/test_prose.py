"""Plain English: in docstrings, comments, texts, test names and documentation alike."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polib

from tests.support.processes import ROOT

PACKAGE: Final = ROOT / "mcp_bridge"
RULES: Final = {
    "begins with a relative clause": re.compile(
        r"(?:^|[.:;!?]\s+)(?:What(?:ever)?|Whoever|Of|Nobody|Somebody|So it is)\b(?![^.]*\?)"
    ),
    "'no' for 'not a'": re.compile(
        r"\b(?:is|are|was|were|has|have|had) no (?!longer|more|effect|such|one\b|less|other|later)\w+"
    ),
    "'where' for 'if'": re.compile(
        r"(?<!page )(?<!place )(?<!places )(?<!file )(?<!point )(?<!directory )(?<!line )"
        r"(?<!to )(?<!from )(?<!say )(?<!says )(?<!know )(?<!show )(?<!shows )(?<!address )"
        r"\b[Ww]here (?:it|its|that|this|the|a|an|there|they|their|one|you|your|no|none|nothing|"
        r"some|any|somebody|nobody|each|all|its|another|he|she|we|I)\b"
    ),
    "a person for a program": re.compile(
        r"\b(?:tells?|told|mend(?:s|ed|ing)?|says? (?:no|yes)|asks? first|anew|likewise|"
        r"(?:any|no|some)body|who(?:m|so)?ever|whatever|by itself|of (?:its|their) own|"
        r"in (?:its|their) place|stands?(?! for| alone))\b",
        re.IGNORECASE,
    ),
}
MOST_WORDS: Final = 9
# First words of docstrings that are not verbs, and verbs that are not imperative.
NO_VERB: Final = re.compile(
    r"(?:The|A|An|Whether|What|Who|Which|How|If|When|Where|It|This|One|As|Its|Each|All|Of|In)$|.*[^s]s$"
)
CODE: Final = re.compile(
    r"```.*?```|``[^`]*``|`[^`]*`|\[[^\]]*\]: \S+|https?://\S+|<[^>]*>", re.DOTALL
)


def room_of(path: Path) -> str:
    """Return the first two parts of a path in this repository, such as ``mcp_bridge/access``."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, comments and texts of a Python file, each with its line."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.count(" ") > 2 and (PACKAGE in path.parents or "\n" in node.value):
                yield node.lineno, node.value
    comment: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield last, " ".join(comment)
                comment = []
            comment.append(token.string.lstrip("# "))
            last = token.start[0]
    if comment:
        yield last, " ".join(comment)


def broken_rules(text: str) -> list[str]:
    """Return the rules that a text breaks, each as often as it does, with the words."""
    plain = " ".join(CODE.sub("X", text).split())
    return [
        f"{rule}: {found[0]!r}" for rule, words in RULES.items() for found in words.finditer(plain)
    ]


def findings() -> Iterator[tuple[str, str]]:
    """Yield the room and a message for each sentence and name that is not plain English."""
    for path in sorted(
        [
            *PACKAGE.rglob("*.py"),
            *(ROOT / "tests").rglob("*.py"),
            *(ROOT / "benchmarks").rglob("*.py"),
            *(ROOT / "testproject").rglob("*.py"),
        ]
    ):
        if (
            "migrations" in path.parts
            or path.name == "test_prose.py"
            or path.name.endswith("_pb2.py")
        ):
            continue
        for line, text in prose_of(path):
            for rule in broken_rules(text):
                yield room_of(path), f"{path.relative_to(ROOT)}:{line}: {rule}"
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_") and node.name.count("_") > MOST_WORDS:
                yield (
                    room_of(path),
                    f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has more than {MOST_WORDS} words",
                )
            docstring = ast.get_docstring(node)
            is_property = any(
                "property" in ast.unparse(each) or "fixture" in ast.unparse(each)
                for each in node.decorator_list
            )
            if (
                docstring
                and not is_property
                and not node.name.startswith("test_")
                and PACKAGE in path.parents
                and NO_VERB.match(docstring.split()[0])
            ):
                yield (
                    room_of(path),
                    f"{path.relative_to(ROOT)}:{node.lineno}: begins with {docstring.split()[0]!r}",
                )
    for path in [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        for rule in broken_rules(path.read_text()):
            yield room_of(path), f"{path.relative_to(ROOT)}: {rule}"
    for entry in polib.pofile(str(PACKAGE / "locale/de/LC_MESSAGES/django.po")):
        for rule in broken_rules(entry.msgid):
            yield "texts", f"{entry.msgid[:60]!r}: {rule}"


if __name__ == "__main__":
    import sys

    found = list(findings())
    chosen = sys.argv[1:]
    for room, text in found:
        if not chosen or room in chosen:
            print(text)
    print(Counter(room for room, _ in found if not chosen or room in chosen))
