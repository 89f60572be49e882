"""A made-up language that brackets each message, and the texts of a page outside the brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import django
import polib
from django.apps import apps
from django.conf import settings
from django.test import override_settings
from django.utils import translation
from django.utils.translation import trans_real

LANGUAGE = "xx"
# Elements whose content is always data: code, and names of other people.
_DATA = {"bdi", "code", "pre", "script", "style", "textarea"}
_READ = ("alt", "aria-label", "placeholder", "title", "data-copied", "data-mcp-failed")
# These tags end every text that was begun.
_BLOCKS = {"p", "td", "th", "li", "h1", "h2", "h3", "dd", "dt", "div", "option", "label"}


def write_catalogue(folder: Path) -> None:
    """Write a catalogue of all messages of the apps that are installed, each in brackets."""
    homes = [Path(django.__file__).parent / "conf", *(Path(each.path) for each in _configs())]
    made = polib.POFile()
    made.metadata = {
        "Content-Type": "text/plain; charset=UTF-8",
        "Plural-Forms": "nplurals=2; plural=(n != 1);",
    }
    for home in homes:
        # Django's English has all messages, including those not yet translated.
        files = [home / "locale" / name / "LC_MESSAGES" / "django.po" for name in ("en", "de")]
        path = next((each for each in files if each.exists()), None)
        for each in polib.pofile(str(path)) if path else ():
            texts = [f"⟦{text}⟧" for text in (each.msgid, each.msgid_plural or each.msgid)]
            plural = dict(enumerate(texts)) if each.msgid_plural else {}
            made.append(
                polib.POEntry(
                    msgctxt=each.msgctxt,
                    msgid=each.msgid,
                    msgid_plural=each.msgid_plural,
                    msgstr="" if plural else texts[0],
                    msgstr_plural=plural,
                )
            )
    target = folder / LANGUAGE / "LC_MESSAGES"
    target.mkdir(parents=True)
    made.save_as_mofile(str(target / "django.mo"))


def _configs() -> list[Any]:
    return list(apps.get_app_configs())


@contextmanager
def bracketed(folder: Path) -> Iterator[None]:
    """Activate the language of the catalogue in a folder."""
    with speaking(LANGUAGE, folder):
        yield


@contextmanager
def speaking(language: str, folder: Path) -> Iterator[None]:
    """Activate a language, with a catalogue in a folder that precedes those of the apps."""
    languages = [*settings.LANGUAGES, (LANGUAGE, "Bracketed")]
    with override_settings(LOCALE_PATHS=[str(folder)], LANGUAGES=languages):
        trans_real._translations.pop(language, None)
        with translation.override(language):
            yield
        trans_real._translations.pop(language, None)


def in_german(folder: Path, words: dict[str, str]) -> AbstractContextManager[None]:
    """Activate German, with these translations of messages beside the existing ones."""
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    made.extend(polib.POEntry(msgid=text, msgstr=german) for text, german in words.items())
    target = folder / "de" / "LC_MESSAGES"
    target.mkdir(parents=True)
    made.save_as_mofile(str(target / "django.mo"))
    return speaking("de", folder)


class _Reader(HTMLParser):
    """Collector of a page's readable parts: texts, and attributes that are spoken or shown."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _DATA:
            self.within.append(tag)
        if tag in _BLOCKS:
            self.parts.append("\n")
        shown = [given.get(name) for name in _READ]
        if tag == "input" and given.get("type") in ("submit", "button", "reset"):
            shown.append(given.get("value"))
        # Spoken separately, and not within the text around them.
        self.parts += [f"\x00{text}\x00" for text in shown if text and not self.within]

    def handle_endtag(self, tag: str) -> None:
        if self.within and self.within[-1] == tag:
            self.within.pop()
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.within:
            self.parts.append(data)


def unmarked(html: str, data: tuple[str, ...] = ()) -> set[str]:
    """
    Return the texts of a page that have letters outside of brackets.

    ``data`` are names and texts that are not to be translated: whole words.
    """
    reader = _Reader()
    # The menu beside each page contains the names of other apps.
    reader.feed(re.sub(r'(?s)<nav class="sticky" id="nav-sidebar".*?</nav>', "", html))
    text = "".join(reader.parts)
    attributes = re.findall(r"\x00([^\x00]*)\x00", text)
    found = set()
    for each in (re.sub(r"\x00[^\x00]*\x00", " ", text), *attributes):
        for line in _outside(each).split("\n"):
            if line.strip().startswith(('"', "{")):
                # JSON.
                continue
            line = re.sub(r"\(mcp_[\w-]+…\)", " ", line)
            for word in sorted(data, key=len, reverse=True):
                line = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", " ", line)
            if re.search(r"[^\W\d_]", line):
                found.add(" ".join(line.split()))
    return found


def _outside(text: str) -> str:
    """Return the text outside of all brackets, which may be nested."""
    depth, kept = 0, []
    for each in text:
        depth += (each == "⟦") - (each == "⟧")
        assert depth >= 0, text
        if depth == 0 and each != "⟧" or each == "\n":
            kept.append(each)
    assert depth == 0, text
    return "".join(kept)
