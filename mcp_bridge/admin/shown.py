"""Forms that are sent with what they have shown, so that nobody undoes what they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import display_for_value
from django.core import signing
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext

from mcp_bridge.admin.effects import changed
from mcp_bridge.protocol.text import printable

# The name under which a form is sent with what it has shown (see mcp_bridge/admin/shown.html).
SHOWN: Final = "_shown"
# The latest changes of the history that are told.
_TOLD: Final = 3


class ShownForm(forms.ModelForm):
    """
    The form of a row, sent with the values that it has shown, which the server has signed.

    Where the row has others when it is saved, or the form does not say what it has shown, nothing
    is saved. The answer has the values as they are now, and says what has changed meanwhile.
    """

    # The fields of longer texts: what somebody wrote there stays, where nobody else wrote in it.
    texts: Sequence[str] = ()
    is_stale = False

    @cached_property
    def present(self) -> dict[str, Any]:
        """The row's values by field, as JSON has them; of those alone that can be changed."""
        return {
            name: _plain(self.get_initial_for_field(field, name))
            for name, field in self.fields.items()
            if not field.disabled
        }

    @property
    def shown(self) -> str:
        """The same as signed text; empty where the form adds a row, or can change nothing."""
        if self.instance._state.adding or not self.present:
            return ""
        proof = {"at": timezone.now().isoformat(), "values": self.present}
        return signing.dumps(proof, salt=self._salt, compress=True)

    @property
    def _salt(self) -> str:
        # What was shown of another row proves nothing.
        return f"mcp_bridge.shown.{self.instance._meta.label_lower}.{self.instance.pk}"

    def clean(self) -> None:
        super().clean()
        if self.instance._state.adding or not (errors := self._stale()):
            return
        self.is_stale = True
        # What else is wrong with what was posted is no longer to be read: other values are shown.
        self.errors.clear()
        self.cleaned_data = {}
        self.add_error(None, errors)

    def show_present(self) -> None:
        """Show the row as it is now, if what was posted was refused as stale."""
        if self.is_stale:
            self.is_bound = False
            self.initial.update(self._written)

    def _stale(self) -> list[Any]:
        """Return what has changed since the form was shown; nothing where nothing has."""
        self._written: dict[str, Any] = {}
        try:
            proof = signing.loads(self.data.get(SHOWN, ""), salt=self._salt)
        except signing.BadSignature:
            text = gettext(
                "Nothing was saved: the form did not say which values it had shown. Decide again, "
                "on the values as they are now."
            )
            return [text]
        shown = proof["values"]
        # A field that was locked then was not decided on.
        names = [name for name, now in self.present.items() if shown.get(name, ...) != now]
        if not names:
            return []
        changes = "; ".join(self._change(name, shown.get(name)) for name in names)
        text = gettext(
            "Nothing was saved, since this has changed after the page was opened: %(changes)s. "
            "Decide again, on the values as they are now."
        )
        errors = [text % {"changes": changes}, *self._history(datetime.fromisoformat(proof["at"]))]
        for name in self.texts:
            if name in self.present and name not in names:
                value = self[name].data
                if self.fields[name].has_changed(shown[name], value):
                    self._written[name] = value
        if self._written:
            labels = ", ".join(str(self.fields[name].label) for name in self._written)
            text = gettext("What you have written still stands here, and is not saved: %(names)s.")
            errors.append(text % {"names": labels})
        return errors

    def _change(self, name: str, before: Any) -> str:
        field = self.fields[name]
        values = [before, self.present[name]]
        if isinstance(field, forms.DateTimeField | forms.SplitDateTimeField):
            values = [
                each and display_for_value(datetime.fromisoformat(each), "") for each in values
            ]
        return changed(str(field.label), *values)

    def _history(self, since: datetime) -> list[str]:
        """Return the latest changes of the row from a time on: who, when and what."""
        entries = LogEntry.objects.filter(
            content_type=get_content_type_for_model(self.instance),
            object_id=str(self.instance.pk),
            action_time__gte=since,
        )
        entries = entries.select_related("user").order_by("-action_time", "-pk")[:_TOLD]
        text = gettext("%(user)s, %(time)s: %(change)s")
        return [
            text
            % {
                "user": printable(str(entry.user)),
                "time": display_for_value(entry.action_time, ""),
                "change": entry.get_change_message(),
            }
            for entry in entries
        ]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: of rows their names, which are sorted."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    return sorted(map(str, value)) if isinstance(value, Iterable) else str(value)
