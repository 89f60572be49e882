"""Open the pages of an admin in this process, as their user, without rendering them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote as percent_decoded
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.db.models import IntegerField, QuerySet
from django.http import Http404
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.safestring import mark_safe
from typing_extensions import TypedDict

from mcp_bridge.concurrency.places import drive
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.text import cut, printable
from mcp_bridge.sources.admin.values import row_at, text_of
from mcp_bridge.sources.in_process.calls import (
    InProcessRequest,
    ViewFailed,
    answer_of,
    body_of,
    resolved,
    unhandled,
)
from mcp_bridge.sources.operations.answers import read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation, OperationRequest
from mcp_bridge.sources.operations.read import Operation
from mcp_bridge.sources.operations.values import multipart

# The names and texts of a form's controls, or the names and values of a query string.
Pairs: TypeAlias = Iterable[tuple[str, str]]
_UNDESCRIBED: Final = MappedOperation(
    operation=Operation(method="post", path="/"), input_schema={}, description=""
)
_FORM: Final = "application/x-www-form-urlencoded"


class Message(TypedDict):
    """A message of a view; ``level`` is "info", "success", "warning" or "error"."""

    level: str
    text: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Page:
    """The response of an admin's view, unrendered, and the request that it answers."""

    admin: ModelAdmin[Any]
    request: InProcessRequest
    response: Any

    @property
    def messages(self) -> list[Message]:
        """The messages of the view (``django.contrib.messages``), as level and text."""
        found = list(self.request._messages)
        return [{"level": each.level_tag, "text": text_of(each.message)} for each in found]

    def data(self, key: str) -> Mapping[str, Any]:
        """Return the template's context. Raises ToolError for another page, without ``key``."""
        self.check()
        if not self.has(key):
            raise ToolError("The admin answered with another page than usual, without data.")
        return cast("Mapping[str, Any]", self.response.context_data)

    def has(self, key: str) -> bool:
        """Return whether ``key`` is in the template's context. Raises ToolError if refused."""
        if self.response.status_code >= 400:
            # Some views refuse with a sentence in place of a page.
            body = self.response.content.decode(errors="replace")
            raise ToolError(cut(text_of(mark_safe(body)), 300) or "The admin refuses this.")
        return key in (getattr(self.response, "context_data", None) or {})

    def check(self) -> None:
        """Raise ToolError if the view redirects, as it does for a row that is not there."""
        if self.is_redirect:
            told = " ".join(each["text"] for each in self.messages)
            raise ToolError(told or "The admin redirects to another page, without data.")

    def check_saved(self) -> None:
        """Raise ToolError if the view redirects since the row is gone, and not after saving."""
        location = self.response.headers.get("Location", "").partition("?")[0]
        is_index = location == _path(self.admin, "index")
        if is_index and {each["level"] for each in self.messages} == {"warning"}:
            self.check()

    def result(self) -> CallToolResult:
        """Return the response itself, such as a file. Raises ToolError for an HTML page."""
        body = drive(body_of(self.response))
        return read_answer(answer_of(self.response, body), _UNDESCRIBED)

    @property
    def is_redirect(self) -> bool:
        """Whether the view redirects, as it does after a form was saved."""
        return "Location" in self.response.headers

    @property
    def added(self) -> Any:
        """The primary key of the added row, to whose change page the view redirects, or None."""
        admin, found = row_at(self.response.headers.get("Location", ""))
        is_own = admin is self.admin and found is not None
        return self.admin.opts.pk.to_python(found) if is_own else None


def open_page(
    context: Context,
    admin: ModelAdmin[Any],
    view: str,
    *row: object,
    query: Pairs = (),
    form: Pairs | None = None,
    files: Sequence[tuple[str, UploadedFile[Any]]] = (),
) -> Page:
    """
    Return a page of a model: ``view`` is "changelist", "add", "change", "delete" or "history".

    ``row`` is the primary key for views of one row. With ``form``, that form is posted. Raises
    ToolError if the admin refuses the caller or the request, and ViewFailed if the view fails.
    """
    path = "/" + percent_decoded(path_of(admin, view, *row).removeprefix(get_script_prefix()))
    text = urlencode(list(query))
    method, sent = "GET", OperationRequest(query=text)
    if form is not None:
        body, kind = multipart(form, files) if files else (urlencode(list(form)).encode(), _FORM)
        method, sent = "POST", OperationRequest(query=text, body=body, content_type=kind)
    request = InProcessRequest(context, method, path, sent)
    try:
        match = resolved(request)
        if getattr(match.func, "model_admin", None) is not admin:
            raise Http404
        with unhandled(request):
            response = match.func(request, *match.args, **match.kwargs)
        if response.status_code >= 500:
            raise ViewFailed(f"The view answered with status {response.status_code}.")
    except PermissionDenied:
        raise ToolError("The admin does not permit this to the user of this call.") from None
    except SuspiciousOperation:
        # Its text may reveal what the caller must not learn.
        raise ToolError("The admin refuses this request.") from None
    finally:
        request.close()
    location = response.headers.get("Location", "")
    if location and location.startswith(_path(admin, "login")):
        raise ToolError("The admin does not admit the user of this call.")
    return Page(admin=admin, request=request, response=response)


def path_of(admin: ModelAdmin[Any], view: str, *row: object) -> str:
    """Return the path of a page of a model. Raises ToolError if there is none."""
    return _path(admin, f"{admin.opts.app_label}_{admin.opts.model_name}_{view}", *row)


def superuser_request(*, is_superuser: bool = True) -> InProcessRequest:
    """Return a request of a superuser, or of staff without permissions, who is not in the table."""
    user = get_user_model()(is_active=True, is_staff=True, is_superuser=is_superuser)
    # For querysets of the user's own rows, of which there are none.
    is_number = isinstance(user._meta.pk, IntegerField)
    user.pk = -1 if is_number else user._meta.pk.to_python(str(UUID(int=0)))
    if not is_superuser:
        # Backends would look for the permissions of a row.
        names = ("has_perm", "has_perms", "has_module_perms")
        vars(user).update(dict.fromkeys(names, lambda *_, **__: False))
    return InProcessRequest(Context(user=user), "GET", "/")


def _path(admin: ModelAdmin[Any], name: str, *row: object) -> str:
    args = [quote(str(each)) for each in row]
    try:
        return reverse(f"admin:{name}", args=args, current_app=admin.admin_site.name)
    except NoReverseMatch:
        # A row without a path, such as "".
        raise ToolError("The admin does not have a page for this id.") from None


def log_of(admin: ModelAdmin[Any], *rows: object) -> QuerySet[LogEntry]:
    """Return the log entries of rows, by their primary keys, oldest first."""
    kind = ContentType.objects.get_for_model(admin.model, for_concrete_model=False)
    keys = [str(admin.opts.pk.to_python(each)) for each in rows]
    entries = LogEntry.objects.filter(content_type=kind, object_id__in=keys)
    return entries.select_related("user").order_by("action_time")


def sign_log(page: Page, rows: Sequence[object], since: datetime) -> None:
    """Add the client to the admin's log entries of rows that this call has written."""
    context: Context = page.request.mcp_context
    client = context.client.info.get("name") or context.user_agent
    if not isinstance(client, str) or not client:
        return
    name = cut(printable(client), 80)
    entries = log_of(page.admin, *rows)
    for entry in entries.filter(user_id=context.user.pk, action_time__gte=since):
        entry.change_message = _signed(entry.change_message, name)
        entry.save(update_fields=["change_message"])


def _signed(message: str, client: str) -> str:
    """Return the message of a log entry (Django, ``LogEntry.change_message``) with the client."""
    try:
        parts = json.loads(message)
    except ValueError:
        return f"{message} (by {client})".lstrip()
    if parts:
        # Django's page shows these as "Added by “…”." and "Changed by ….".
        is_new = parts[0].get("added") == {}
        by = {"name": "by", "object": client} if is_new else {"fields": [f"by {client}"]}
        parts.append({"added" if is_new else "changed": by})
    return json.dumps(parts)
