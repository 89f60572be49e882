"""
Docstrings, comments, texts, test names and documentation are in plain English.

``python -m tests.test_prose mcp_bridge/access docs`` lists the findings of some rooms.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import polib
import pytest

from tests.support.processes import ROOT

PACKAGE: Final = ROOT / "mcp_bridge"
# What a sentence may say "where" of.
PLACES: Final = "page place places file point directory line address table column to from say says"
RULES: Final = {
    "a relative clause begins it": re.compile(
        r"(?:^|[.:;!?] )(?:What(?:ever)?|Whoever|Of|Nobody|Somebody|So it is)\b(?![^.]*\?)"
    ),
    "not 'no' but 'not a'": re.compile(
        r"\b(?:is|are|was|were|has|have|had) no "
        r"(?!longer|more|effect|such|one\b|less|other|later|attribute)\w+"
    ),
    "not 'where' but 'if'": re.compile(
        "".join(f"(?<!\\b{each} )" for each in PLACES.split())
        + r"\b[Ww]here (?:it|its|that|this|the|a|an|there|they|their|one|you|your|no|none|nothing|"
        r"some|any|somebody|nobody|each|all|another|he|she|we|I)\b"
    ),
    "a person's word for a program": re.compile(
        r"\b(?:tells?|told|mend(?:s|ed|ing)?|says? (?:no|yes)|asks? first|anew|likewise|"
        r"(?:any|no|some)body|who(?:m|so)?ever|whatever|by itself|of (?:its|their) own|"
        r"in (?:its|their) place|stands?(?! for| alone))\b",
        re.IGNORECASE,
    ),
}
# The findings that are right, by room: all of them are data, such as "There is no article 7."
MOST: Final = {
    "tests": 1,  # The book of the page on django-modern-rpc.
    "tests/ext": 2,  # The customer of the page on OpenAPI, and the text of a protobuf comment.
    "tests/management": 1,  # The reason that a command prints.
    "tests/oauth": 1,  # The name of a client.
    "tests/records": 4,  # An article that is missing, as the text of a recorded error.
    "tests/schemas": 4,  # Help texts of a serializer's fields, which become descriptions.
    "tests/server": 3,  # The description of a parameter.
    "tests/sites": 1,  # The error of the example site.
    "tests/sources": 4,  # Errors of the examples: an article, a team and a table.
}
MOST_WORDS: Final = 9
# First words of a docstring that are not the verb of a command.
NO_VERB: Final = re.compile(
    r"(?:The|An?|Whether|What|Who|Which|How|If|When|Where|It|This|One|As|Each|All|Of|In)$|.*[^s]s$"
)
# Code, addresses and tags in a text.
CODE: Final = re.compile(
    r"```.*?```|``[^`]*``|`[^`]*`|\[[^\]]*\]: \S+|\]\([^)\s]*\)|\{#[\w-]+\}|https?://\S+|<[^>]*>",
    re.DOTALL,
)
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(path: Path) -> str:
    """Return where a file is, such as ``mcp_bridge/access``."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def sentences_of(tree: ast.Module, source: str, is_product: bool) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, comments and, if they are part of the product, texts with a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_docstring = node.value.rstrip(" \n").endswith(".")
            if node.value.count(" ") > 2 and (is_product or is_docstring):
                yield node.lineno, node.value
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    comments = {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}
    lines = sorted(comments)
    begins = [now for before, now in pairwise([-1, *lines]) if now != before + 1]
    for begin, end in pairwise([*begins, sys.maxsize]):
        said = [comments[line].lstrip("# ") for line in lines if begin <= line < end]
        yield begin, " ".join(said)


def names_of(tree: ast.Module, is_product: bool) -> Iterator[tuple[int, str]]:
    """Yield the line of each function that is badly named or described, and why it is."""
    for node in (each for each in ast.walk(tree) if isinstance(each, Function)):
        if node.name.startswith("test_") and node.name.count("_") > MOST_WORDS:
            yield node.lineno, f"{node.name} has more than {MOST_WORDS} words"
        docstring = ast.get_docstring(node) or ""
        is_noun = any("property" in ast.unparse(each) for each in node.decorator_list)
        if is_product and docstring and not is_noun and NO_VERB.match(docstring.split()[0]):
            yield node.lineno, f"the docstring begins with {docstring.split()[0]!r}"


def broken(text: str) -> list[str]:
    """Return the rules that a text breaks, with its words, each as often as it does."""
    plain = " ".join(CODE.sub("X", text).split())
    return [f"{rule}: {it[0]!r}" for rule, words in RULES.items() for it in words.finditer(plain)]


def findings() -> Iterator[tuple[str, str]]:
    """Yield what is not plain English: the room, and where and why."""
    for path in sorted(
        path for folder in ("mcp_bridge", "tests") for path in (ROOT / folder).rglob("*.py")
    ):
        if {"migrations", "node_modules"} & {*path.parts} or path.name == Path(__file__).name:
            continue
        source, is_product = path.read_text(), PACKAGE in path.parents
        tree = ast.parse(source)
        said = sentences_of(tree, source, is_product)
        found = [(line, rule) for line, text in said for rule in broken(text)]
        for line, rule in [*found, *names_of(tree, is_product)]:
            yield room_of(path), f"{path.relative_to(ROOT)}:{line}: {rule}"
    for page in PAGES:
        for rule in broken(page.read_text()):
            yield room_of(page), f"{page.relative_to(ROOT)}: {rule}"
    for entry in polib.pofile(str(PACKAGE / "locale/de/LC_MESSAGES/django.po")):
        for rule in broken(entry.msgid):
            yield "texts", f"{entry.msgid[:60]!r}: {rule}"


@pytest.mark.alone
def test_no_room_has_more_findings_than_before() -> None:
    found = list(findings())
    over = Counter(room for room, _ in found) - Counter(MOST)
    assert [text for room, text in found if room in over] == []


if __name__ == "__main__":
    found = [each for each in findings() if not sys.argv[1:] or each[0] in sys.argv[1:]]
    print(*(text for _, text in found), Counter(room for room, _ in found), sep="\n")
