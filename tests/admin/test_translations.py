"""The translation catalogues: every marked text is there, translated and compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import polib
import pytest
from django.utils.translation.template import templatize

import mcp_bridge

PACKAGE = Path(mcp_bridge.__file__).parent
LANGUAGES = ["de", "es", "fr"]
# By the name of a function of django.utils.translation: the positions of the context and of the
# message.
MARKS = {
    "gettext": (None, 0),
    "gettext_noop": (None, 0),
    "ngettext": (None, 0, 1),
    "pgettext": (0, 1),
    "npgettext": (0, 1, 2),
}
# A message is identified by its context, text and plural, as in a catalogue.
Message = tuple[str | None, str, str]


def message_of(name: str, call: ast.Call) -> Message | None:
    """Return the message that a call of the named function marks, or None."""
    if name not in MARKS:
        return None
    context, *places = MARKS[name]
    texts = [ast.literal_eval(call.args[at]) for at in places]
    return (
        None if context is None else ast.literal_eval(call.args[context]),
        texts[0],
        texts[1] if len(texts) > 1 else "",
    )


def in_python(file: Path) -> Iterator[Message]:
    tree = ast.parse(file.read_text())
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation":
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name.removesuffix("_lazy")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            message = message_of(names.get(node.func.id, ""), node)
            if message is not None:
                yield message


def in_template(file: Path) -> Iterator[Message]:
    # Like makemessages, read a template as Python calls between text to skip.
    text = templatize(file.read_text(), origin=str(file))
    for found in re.finditer(r"(?<!\w)(_|n?p?gettext)\(", text):
        for end in (each.end() for each in re.finditer(r"\)", text) if each.start() > found.end()):
            try:
                (statement,) = ast.parse(text[found.start() : end].strip()).body
            except (SyntaxError, ValueError):
                continue
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)
            name = "gettext" if found[1] == "_" else found[1]
            message = message_of(name, statement.value)
            assert message is not None
            yield message
            break


@cache
def marked() -> dict[Message, Path]:
    """Return all messages that the package marks, each with a file that has it."""
    found: dict[Message, Path] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        found |= dict.fromkeys(in_python(file), file)
    for file in sorted(PACKAGE.rglob("*.html")):
        found |= dict.fromkeys(in_template(file), file)
    return found


def catalogue(language: str) -> polib.POFile:
    return polib.pofile(str(PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po"))


def messages_in(entries: polib.POFile) -> set[Message]:
    return {(each.msgctxt, each.msgid, each.msgid_plural) for each in entries}


def placeholders(text: str) -> list[str]:
    """Return the placeholders of a text, sorted: translations may reorder them."""
    return sorted(re.findall(r"%\(\w+\)[sd]|%[sd]|\{\w*\}", text))


def test_imported_translation_functions_are_known_marks() -> None:
    names = {
        alias.name.removesuffix("_lazy")
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
    }
    assert names <= MARKS.keys() | {"get_language", "get_supported_language_variant", "override"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_catalogue_has_exactly_the_marked_messages(language: str) -> None:
    expected = marked()
    assert len(expected) > 300
    found = messages_in(catalogue(language))
    missing = {message: file for message, file in expected.items() if message not in found}
    assert not missing, "make messages"
    assert not found - expected.keys(), "make messages"


@pytest.mark.parametrize("language", LANGUAGES)
def test_catalogue_is_complete(language: str) -> None:
    entries = catalogue(language)
    assert entries.metadata["Language"] == language
    assert not entries.obsolete_entries()
    assert not entries.fuzzy_entries()
    empty = [
        each.msgid
        for each in entries
        if not (all(each.msgstr_plural.values()) if each.msgid_plural else each.msgstr)
    ]
    assert not empty


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_placeholders_of_their_messages(language: str) -> None:
    for each in catalogue(language):
        # The singular may be written as "one", without a number.
        allowed = [placeholders(each.msgid), placeholders(each.msgid_plural or each.msgid)]
        for text in filter(None, [each.msgstr, *each.msgstr_plural.values()]):
            assert placeholders(text) in allowed, each.msgid


@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_catalogue_matches_its_source(language: str) -> None:
    entries = catalogue(language)
    with (PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    expected: dict[object, str] = {}
    for each in entries:
        key = each.msgid if each.msgctxt is None else f"{each.msgctxt}\x04{each.msgid}"
        if each.msgid_plural:
            texts = {(key, int(number)): text for number, text in each.msgstr_plural.items()}
            expected |= texts if all(texts.values()) else {}
        elif each.msgstr:
            expected[key] = each.msgstr
    compiled.pop("", None)
    assert compiled == expected, "make messages"
