"""The acts that change a row: add, change and delete one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import router, transaction
from django.db.models import QuerySet
from django.utils import timezone
from typing_extensions import TypedDict

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.schemas.django import hints
from mcp_bridge.sources.admin import parameters
from mcp_bridge.sources.admin.acts import FORM, Act, Key, as_key
from mcp_bridge.sources.admin.forms import Filled, Form
from mcp_bridge.sources.admin.pages import Message, log_of, open_page, sign_log
from mcp_bridge.sources.admin.values import text_of


class Done(TypedDict):
    id: Key | None
    messages: list[Message]


class Deleted(TypedDict):
    id: Key
    deleted: dict[str, int]
    messages: list[Message]


class Add(Act):
    """Add a row: the add form."""

    verb, view, returns = "add", "add", Done
    hints = {"readOnlyHint": False, "destructiveHint": False}

    @property
    def description(self) -> str:
        return f"Add one {self.one}."

    def allows(self, request: Any) -> bool:
        return self.admin.has_add_permission(request)

    def parameters(self) -> Iterator[Any]:
        yield from parameters.page_parameters(self.admin, self.managed.finders, None, add=True)

    def run(self, context: Context, /, *args: Any, **values: Any) -> Done:
        return self.post(context, self.form(context), values)

    def preview(self, context: Context, /, *args: Any, **values: Any) -> Mapping[str, Any]:
        form = self.form(context)
        given = hints.sent_values(values)
        Filled(form, given)
        return {name: form.with_texts(name, each) for name, each in given.items()}

    def post(self, context: Context, form: Form, values: Mapping[str, Any], *row: Key) -> Done:
        """Post a form with a caller's values. Raises InvalidArguments if it is not saved."""
        filled, since = Filled(form, hints.sent_values(values)), timezone.now()
        # The page that follows an addition then names the row.
        texts = [*filled.texts, ("_save" if row else "_continue", "1")]
        page = open_page(context, self.admin, self.view, *row, form=texts, files=filled.files)
        if page.has(FORM) or hasattr(page.response, "context_data"):
            raise filled.refusal(page.data(FORM))
        page.check_saved()
        saved = form.shown.form.instance.pk if row else page.added
        if saved is not None:
            sign_log(page, [saved], since)
        return {"id": saved and as_key(saved), "messages": page.messages}


class Change(Add):
    """Change a row: the change form."""

    verb = view = "change"
    hints = {"readOnlyHint": False, "destructiveHint": True}

    @property
    def description(self) -> str:
        return f"Change one {self.one}. Only the fields that are sent change."

    def allows(self, request: Any) -> bool:
        return self.admin.has_change_permission(request)

    def parameters(self) -> Iterator[Any]:
        yield from Act.parameters(self)
        text = "The version that get returned; if the row has changed since, nothing is saved."
        yield parameters.parameter("version", str, text)
        found, finders = parameters.page_parameters, self.managed.finders
        try:
            yield from [*found(self.admin, finders, self.admin.model(), add=False)]
        except ObjectDoesNotExist:
            # The site's code reads a relation, which a blank row lacks.
            yield from found(self.admin, finders, None, add=False)

    def run(self, context: Context, /, id: Key, version: str | None = None, **values: Any) -> Done:
        with nullcontext() if version is None else self._locked(id):
            form = self.form(context, id)
            self._check_version(form, version)
            return self.post(context, form, values, id)

    def preview(
        self, context: Context, /, id: Key, version: str | None = None, **values: Any
    ) -> Mapping[str, Any]:
        form = self.form(context, id)
        # Refused now, and not after a person has decided.
        if version is None:
            raise ToolError(
                "/version: is required for a call that a person confirms; send that of get."
            )
        self._check_version(form, version)
        Filled(form, hints.sent_values(values))
        shown, row = form.values()["fields"], form.shown.form.instance
        differences = {
            name: {
                "from": _named_in(each, shown[name])
                if name in form.inlines
                else form.with_texts(name, shown.get(name)),
                "to": form.with_texts(name, each),
            }
            for name, each in hints.sent_values(values).items()
        }
        return {"id": row.pk, self.one: str(row), **differences}

    @contextmanager
    def _locked(self, row: Key) -> Iterator[None]:
        """Lock a row, so that of two calls with its version one waits, and then sees the other."""
        using = router.db_for_write(self.admin.model)
        # Without the joins of a manager.
        rows: QuerySet[Any] = QuerySet(self.admin.model, using=using).select_for_update()
        # Calls have a transaction in the default database alone, and tasks have none.
        with transaction.atomic(using=using):
            # No row has a key of another type, which the page says.
            with suppress(TypeError, ValueError, ValidationError):
                rows.filter(pk=row).first()
            yield

    def _check_version(self, form: Form, version: str | None) -> None:
        """Raise ToolError if the page has changed since a version."""
        if version is None or not (changed := form.changed_since(version)):
            return
        row = form.shown.form.instance
        told = f"Nothing was saved: {row} has changed since this version, in {', '.join(changed)}."
        if last := log_of(self.admin, row.pk).last():
            at = last.action_time
            at = timezone.localtime(at) if timezone.is_aware(at) else at
            time = at.isoformat(timespec="seconds")
            told += f" Last, {last.user} did this at {time}: {last.get_change_message()}"
        raise ToolError(f"{told} Call get again, and send its version.")


class Delete(Act):
    """Delete a row: the delete page."""

    verb, view, returns = "delete", "delete", Deleted
    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}

    @property
    def description(self) -> str:
        return f"Delete one {self.one}, and everything that is deleted with it."

    def allows(self, request: Any) -> bool:
        return self.admin.has_delete_permission(request)

    def run(self, context: Context, /, id: Key) -> Deleted:
        data, since = self._page(context, id), timezone.now()
        row = data["object"].pk
        page = open_page(context, self.admin, "delete", id, form=[("post", "yes")])
        if not page.is_redirect:
            raise ToolError("Not deleted; the admin gave no reason.")
        page.check_saved()
        sign_log(page, [row], since)
        return {"id": as_key(row), "deleted": _counts(data), "messages": page.messages}

    def preview(self, context: Context, /, id: Key) -> Mapping[str, Any]:
        data = self._page(context, id)
        return {"id": id, self.one: str(data["object"]), "deletes": _counts(data)}

    def _page(self, context: Context, row: Key) -> Mapping[str, Any]:
        """Return the context of the page that asks. Raises ToolError if it may not be deleted."""
        data = open_page(context, self.admin, "delete", row).data("protected")
        if data["protected"]:
            named = "; ".join(map(text_of, data["protected"]))
            raise ToolError(f"It cannot be deleted, because these refer to it: {named}.")
        if data["perms_lacking"]:
            named = ", ".join(sorted(map(str, data["perms_lacking"])))
            raise ToolError(f"This would also delete rows that the user may not delete: {named}.")
        return data


def _counts(data: Mapping[str, Any]) -> dict[str, int]:
    """Return how many rows of which models a delete page names."""
    return {text_of(name): count for name, count in data["model_count"]}


def _named_in(given: list[Any] | None, present: list[Any]) -> list[Any]:
    """Return the present rows of an inline that are given by their ids."""
    keys = {str(each.get("id")) for each in given or ()}
    return [each for each in present if str(each["id"]) in keys]
