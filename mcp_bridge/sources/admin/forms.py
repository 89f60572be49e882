"""Read and fill in the form of an admin's page, with its inlines."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from keyword import iskeyword
from typing import Any, Final

from django.contrib.admin.helpers import AdminForm, InlineAdminFormSet
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.forms import FileField
from django.forms.boundfield import BoundField
from django.forms.utils import ErrorDict
from django.utils.crypto import salted_hmac

from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol.text import pointer
from mcp_bridge.sources.admin.controls import is_settable, is_shown, sent
from mcp_bridge.sources.admin.values import column, named, plain, text_of

# Names of arguments that are not fields: a field of the same name gets another.
RESERVED: Final = frozenset({"id", "version", "mcp_context"})
# The names of a row's arguments beside its fields.
_OF_ROWS: Final = frozenset({"id", "DELETE"})
# The bytes of a part's digest, in a whole number of characters of base64.
_DIGEST: Final = 3
_SALT: Final = "mcp_bridge.sources.admin.version"
Place = tuple[str | int, ...]


def argument(name: str, reserved: Iterable[str] = RESERVED) -> str:
    """Return the name of a field's or an inline's argument."""
    return f"field_{name}" if name in reserved or iskeyword(name) else name.replace("-", "_")


@dataclass(frozen=True, eq=False)
class Shown:
    """One row as a page shows it: its fields by name, and the names that are read-only."""

    form: Any
    fields: Mapping[str, BoundField]
    read_only: tuple[Any, ...]

    @classmethod
    def of(cls, form: AdminForm) -> Shown:
        """Return what a form of the admin shows, in the order of its fieldsets."""
        every: list[Any] = [each for fieldset in form for line in fieldset for each in line]
        fields = {each.field.name: each.field for each in every if not each.is_readonly}
        return cls(form.form, fields, tuple(it.field["field"] for it in every if it.is_readonly))

    @property
    def settable(self) -> dict[str, BoundField]:
        """The fields that a caller may see and set."""
        return {name: it for name, it in self.fields.items() if is_settable(name, it.field)}

    def values(self) -> dict[str, Any]:
        """Return the values of the settable fields as JSON."""
        return {name: _value(each) for name, each in self.settable.items()}

    def read_only_values(self, admin: Any) -> dict[str, Any]:
        """Return the values that are shown read-only, as JSON, without secrets."""
        return {
            name: column(each, self.form.instance, admin)
            for name, each in named(self.read_only).items()
            if is_shown(name, self.form.fields.get(name))
        }

    @property
    def parts(self) -> dict[str, object]:
        """The parts that may change, by name: controls, and stored values that are read-only."""
        row = self.form.instance
        stored = {each.name: each for each in (*row._meta.concrete_fields, *row._meta.many_to_many)}
        fixed = {
            it: str(stored[it].value_from_object(row)) for it in self.read_only if it in stored
        }
        return {**{name: _part(each) for name, each in self.fields.items()}, **fixed}

    @property
    def hidden_keys(self) -> Iterator[BoundField]:
        """The controls of an inline's row that name the row and its parent."""
        for bound in self.form.hidden_fields():
            if bound.name not in self.fields:
                yield bound


def _value(bound: BoundField) -> Any:
    """Return the value of a field as JSON: the key of a related row."""
    value = bound.initial
    prepared = bound.field.prepare_value(value)
    keys = hasattr(bound.field, "queryset")
    return plain(prepared if keys else value)


@dataclass(frozen=True, eq=False)
class Form:
    """The form of a change or add page, with its inlines by the names of their arguments."""

    admin: Any
    shown: Shown
    inlines: Mapping[str, InlineAdminFormSet]

    @classmethod
    def of(cls, admin: Any, data: Mapping[str, Any]) -> Form:
        """Return the form in the context of a page's template."""
        inlines = {argument(it.formset.prefix): it for it in data["inline_admin_formsets"]}
        return cls(admin, Shown.of(data["adminform"]), inlines)

    def rows(self, name: str) -> list[Shown]:
        """Return what an inline shows: its rows, blank ones, and last a template if it has one."""
        return [Shown.of(each) for each in self.inlines[name]]

    def values(self) -> dict[str, Any]:
        """Return everything that the page shows, and its version."""
        fields = {argument(name): each for name, each in self.shown.values().items()}
        for name, inline in self.inlines.items():
            rows = zip(inline.formset.initial_forms, self.rows(name), strict=False)
            fields[name] = [
                {
                    "id": plain(form.instance.pk),
                    **{argument(it, _OF_ROWS): value for it, value in shown.values().items()},
                    **shown.read_only_values(inline.opts),
                }
                for form, shown in rows
            ]
        read_only = self.shown.read_only_values(self.admin)
        return {"version": self.version, "fields": fields, "read_only": read_only}

    def with_texts(self, name: str, value: Any) -> Any:
        """Return the value of an argument, with the texts of rows that it refers to."""
        for bound in self.shown.settable.values():
            if argument(bound.name) == name and hasattr(bound.field, "queryset") and value:
                # A value that is not a choice stays as it is sent.
                with suppress(ValidationError, OverflowError):
                    rows = bound.field.clean(value)
                    return [*map(plain, rows)] if isinstance(value, list) else plain(rows)
        return value

    @property
    def _parts(self) -> dict[str, object]:
        """The parts of the page that may change, by name; computed values may differ each time."""
        parts = self.shown.parts
        for name, inline in self.inlines.items():
            rows = self.rows(name)[: inline.formset.initial_form_count()]
            parts[name] = [[row.form.instance.pk, *row.parts.values()] for row in rows]
        return parts

    @property
    def version(self) -> str:
        """A digest of what the page shows, part by part."""
        # Keyed, since a hidden field may have a short secret.
        digests = (
            salted_hmac(_SALT, repr(each), algorithm="sha256").digest()
            for each in self._parts.values()
        )
        return base64.urlsafe_b64encode(b"".join(each[:_DIGEST] for each in digests)).decode()

    def changed_since(self, version: str) -> list[str]:
        """Return the names of the parts that differ from a version. Raises InvalidArguments."""
        size, now = _DIGEST * 4 // 3, self.version
        if len(version) != len(now):
            raise InvalidArguments([_error(("version",), "is not a version of this row; read it")])
        pairs = zip(range(0, len(now), size), self._parts, strict=True)
        return [name for at, name in pairs if now[at : at + size] != version[at : at + size]]


@dataclass(eq=False)
class Filled:
    """
    A form with a caller's values in it: what a browser would send. Raises InvalidArguments.

    Fields that are not in ``values`` are sent as the page shows them.
    """

    form: Form
    values: Mapping[str, Any]
    texts: list[tuple[str, str]] = field(default_factory=list)
    files: list[tuple[str, UploadedFile[Any]]] = field(default_factory=list)
    # The places of the rows in the arguments, by the prefixes of their forms.
    _places: dict[str, Place] = field(default_factory=dict)
    _errors: list[ArgumentError] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = {name: self.values[name] or [] for name in self.form.inlines if name in self.values}
        own = {name: each for name, each in self.values.items() if name not in rows}
        self._fill(self.form.shown, own, ())
        for name, inline in self.form.inlines.items():
            self._fill_rows(name, inline, rows.get(name, []))
        if self._errors:
            raise InvalidArguments(self._errors)

    def _refuse(self, place: Place, text: str) -> None:
        self._errors.append(ArgumentError(path=pointer(place), type="value", message=text))

    def _fill(self, shown: Shown, values: Mapping[str, Any], place: Place) -> None:
        """Add the fields of a row, with a caller's values."""
        reserved = _OF_ROWS if place else RESERVED
        settable = {argument(name, reserved): each for name, each in shown.settable.items()}
        for name in values.keys() - settable.keys():
            text = "is not a field that the user of this call can change here; leave it out"
            self._refuse((*place, name), text)
        given = {settable[name].name: each for name, each in values.items() if name in settable}
        for name, bound in shown.fields.items():
            if name not in given:
                self.texts += sent(bound)
            elif isinstance(given[name], UploadedFile):
                self.files.append((bound.html_name, given[name]))
            else:
                self.texts += sent(bound, given[name])

    def _fill_rows(self, name: str, inline: InlineAdminFormSet, given: list[Any]) -> None:
        """Add the rows of an inline, with changed, deleted and new ones."""
        formset, shown = inline.formset, self.form.rows(name)
        count = formset.initial_form_count()
        known = {str(each.form.instance.pk): each for each in shown[:count]}
        by_row: dict[str, tuple[Place, Mapping[str, Any]]] = {}
        new: list[tuple[Place, Mapping[str, Any]]] = []
        absent: tuple[Place, Mapping[str, Any]] = ((name,), {})
        for number, row in enumerate(given):
            key, place = row.get("id"), (name, number)
            if key is None:
                new.append((place, row))
            elif str(key) not in known or str(key) in by_row:
                why = "is sent twice" if str(key) in by_row else "is not a row of this page"
                self._refuse((*place, "id"), f"{why}; send ids that get returns, each once")
            else:
                by_row[str(key)] = place, row
        for key, each in known.items():
            self._fill_row(each, *by_row.get(key, absent))
        blank = shown[count : formset.total_form_count()]
        template = shown[-1] if inline.has_add_permission else None
        room = max(formset.max_num - count, 0)
        for excess, _values in new if template is None else new[room:]:
            why = f"does not fit: at most {formset.max_num} rows" if template else "cannot be added"
            self._refuse(excess, f"{why} on this page for the user of this call")
        new = [] if template is None else new[:room]
        pairs: Any = zip_longest(blank, new[: len(blank)], fillvalue=absent)
        for each, placed in pairs:
            self._fill_row(each, *placed)
        rest = new[len(blank) :]
        for index, placed in enumerate(rest, count + len(blank)):
            texts, files = len(self.texts), len(self.files)
            self._fill_row(template, *placed, index)
            self.texts[texts:] = [(_numbered(it, index), each) for it, each in self.texts[texts:]]
            self.files[files:] = [(_numbered(it, index), each) for it, each in self.files[files:]]
        management = formset.management_form
        self.texts += [
            pair for bound in management if bound.name != "TOTAL_FORMS" for pair in sent(bound)
        ]
        total = str(count + len(blank) + len(rest))
        self.texts.append((management["TOTAL_FORMS"].html_name, total))

    def _fill_row(self, shown: Any, place: Place, values: Any, index: int | None = None) -> None:
        """Add one row of an inline; a blank row has the place of the inline in the arguments."""
        prefix = shown.form.prefix
        self._places[prefix if index is None else _numbered(prefix, index)] = place
        own = {it: value for it, value in values.items() if it not in _OF_ROWS}
        self._fill(shown, own, place)
        for bound in shown.hidden_keys:
            self.texts += sent(bound)
        if values.get("DELETE"):
            if values.get("id") is None:
                self._refuse((*place, "DELETE"), "needs the id of a row")
            elif "DELETE" not in shown.form.fields:
                self._refuse((*place, "DELETE"), "is not permitted to the user of this call")
            self.texts.append((shown.form.add_prefix("DELETE"), "on"))

    def refusal(self, answered: Mapping[str, Any]) -> InvalidArguments:
        """Return the errors of a page that was shown again, each with the place of its value."""
        errors = [*self._told(answered["adminform"].form.errors, (), self.form.shown)]
        for inline in answered["inline_admin_formsets"]:
            name, formset = argument(inline.formset.prefix), inline.formset
            for text in formset.non_form_errors():
                errors.append(_error((name,), text_of(text)))
            rows = self.form.rows(name)
            for form in formset.forms:
                place = self._places.get(form.prefix, (name,))
                about = f"{form.instance}: " if len(place) == 1 and form.instance.pk else ""
                errors += self._told(form.errors, place, rows[-1] if rows else None, about)
        return InvalidArguments(errors or [_error((), "was not accepted, without a reason")])

    def _told(
        self, errors: ErrorDict, place: Place, shown: Shown | None, about: str = ""
    ) -> Iterator[ArgumentError]:
        """Yield the errors of a form; those of fields that callers do not see name the field."""
        settable = {} if shown is None else shown.settable
        for name, found in errors.as_data().items():
            is_argument = name in settable and len(place) != 1
            own = argument(name, _OF_ROWS if place else RESERVED)
            beside = "" if is_argument or name == "__all__" else f"{name}: "
            for each in (text for error in found for text in error.messages):
                where = (*place, own) if is_argument else place
                yield _error(where, f"{about}{beside}{text_of(each)}")


def _part(bound: BoundField) -> list[object]:
    """Return what a page shows of a field: what a browser sends for it, or the name of a file."""
    is_file = isinstance(bound.field, FileField)
    return [str(bound.initial)] if is_file else [*sent(bound)]


def _numbered(name: str, index: int) -> str:
    """Return the name of a control in a new row, from that in the template of rows."""
    return name.replace("__prefix__", str(index), 1)


def _error(place: Place, text: str) -> ArgumentError:
    return ArgumentError(path=pointer(place), type="form", message=text)
