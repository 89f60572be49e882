"""The acts that change nothing: find rows, get one, and read its history."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.core.paginator import Paginator
from pydantic import Field as Described
from typing_extensions import TypedDict

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.sources.admin import lists, parameters
from mcp_bridge.sources.admin.acts import Act, Key, as_key
from mcp_bridge.sources.admin.pages import log_of, open_page, superuser_request
from mcp_bridge.sources.admin.values import column, text_of
from mcp_bridge.sources.in_process.calls import InProcessRequest
from mcp_bridge.sources.secrets import secret_among

# As on the page.
_ENTRIES: Final = 100
_WORDS: Final = {ADDITION: "added", CHANGE: "changed", DELETION: "deleted"}


class Row(TypedDict):
    id: Key
    text: str
    columns: dict[str, Any]


class Found(TypedDict):
    count: int
    page: int
    pages: int
    rows: list[Row]


class Read(TypedDict):
    id: Key
    text: str
    version: str
    fields: dict[str, Any]
    read_only: dict[str, Any]


class Entry(TypedDict):
    time: datetime.datetime
    user: str
    act: str
    message: str


class History(TypedDict):
    pages: int
    entries: list[Entry]


class Find(Act):
    """Find rows: the change list."""

    verb, view, returns = "find", "changelist", Found

    _filters: Mapping[str, lists.Filter] = {}

    @property
    def description(self) -> str:
        request = superuser_request()
        names = ", ".join(lists.columns(self.admin, request)) or "their texts"
        return f"Find {self.several}. The columns are {names}."

    def parameters(self) -> Iterator[Any]:
        admin = self.admin
        request = superuser_request()
        self._filters = lists.list_filters(admin, self.managed.finders)
        found = [str(each) for each in admin.get_search_fields(request)]
        # A search could be used to guess a secret.
        if found and not secret_among(found):
            text = admin.search_help_text or f"Words to find in {', '.join(found)}."
            yield parameters.parameter("search", str, str(text))
        for name, each in self._filters.items():
            yield parameters.parameter(name, each.hint, each.text)
        if names := lists.sortable(admin, request):
            text = "The columns to order by, each with - before it for descending order."
            every = tuple(each for name in names for each in (name, f"-{name}"))
            hint = list[Literal[every]]  # type: ignore[valid-type]
            yield parameters.parameter("order", hint, text)
        text = f"The number of the page, of {admin.list_per_page} rows."
        yield parameters.parameter("page", Annotated[int, Described(ge=1)], text, 1)

    def run(
        self,
        context: Context,
        /,
        page: int = 1,
        search: str | None = None,
        order: Sequence[str] = (),
        **values: Any,
    ) -> Found:
        admin = self.admin
        sent = {name: each for name, each in values.items() if each is not None}
        filters = [(self._filters[name], each) for name, each in sent.items()]
        query = [(each.parameter, each.sent(value)) for each, value in filters]
        if search:
            query.append(("q", search))
        if order:
            numbers = lists.sortable(admin, InProcessRequest(context, "GET", "/"))
            try:
                texts = [f"{'-' * (it[0] == '-')}{numbers[it.removeprefix('-')]}" for it in order]
            except KeyError as why:
                raise ToolError(f"/order: this list cannot be ordered by {why}.") from None
            query.append(("o", ".".join(texts)))
        opened = open_page(context, admin, "changelist", query=[*query, ("p", str(page))])
        if page > 1 and opened.is_redirect:
            # A page beyond the last one; a short list ignores the number.
            opened = open_page(context, admin, "changelist", query=query)
        if opened.is_redirect:
            raise ToolError("The list does not accept these filters.")
        found = opened.data("cl")["cl"]
        named = lists.columns(admin, opened.request)
        # Else the page does not read the texts of rows, which may query.
        has_text = bool({"action_checkbox", "__str__"} & {*map(str, found.list_display)})
        rows = found.result_list if page <= found.paginator.num_pages else []
        return {
            "count": found.result_count,
            "page": page,
            "pages": found.paginator.num_pages,
            "rows": [
                {
                    "id": as_key(row.pk),
                    "text": text_of(str(row)) if has_text else "",
                    "columns": {name: column(it, row, admin) for name, it in named.items()},
                }
                for row in rows
            ],
        }


class Get(Act):
    """Read a row: the change form."""

    verb, view, returns = "get", "change", Read

    @property
    def description(self) -> str:
        return f"Get one {self.one}, with everything that its page shows."

    def run(self, context: Context, /, id: Key) -> dict[str, Any]:
        form = self.form(context, id)
        row = form.shown.form.instance
        return {"id": as_key(row.pk), "text": text_of(str(row)), **form.values()}


class HistoryOf(Act):
    """Read what was done to a row in the admin: the history page."""

    verb, view, returns = "history", "history", History

    @property
    def description(self) -> str:
        return f"Read who has added or changed one {self.one} in the admin, when, and how."

    def parameters(self) -> Iterator[Any]:
        yield from super().parameters()
        text = "The number of the page."
        yield parameters.parameter("page", Annotated[int, Described(ge=1)], text, 1)

    def run(self, context: Context, /, id: Key, page: int = 1) -> History:
        # The page decides who may read them; some packages replace it.
        open_page(context, self.admin, "history", id).check()
        found = Paginator(log_of(self.admin, id), _ENTRIES)
        shown = found.page(page) if page <= found.num_pages else ()
        entries: list[Entry] = [
            {
                "time": each.action_time,
                "user": str(each.user),
                "act": _WORDS.get(each.action_flag, ""),
                "message": each.get_change_message(),
            }
            for each in shown
        ]
        return {"pages": found.num_pages, "entries": entries}
