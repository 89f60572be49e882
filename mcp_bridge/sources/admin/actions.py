"""Run an action of a list on rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib.admin.utils import model_format_dict
from django.core.exceptions import ValidationError
from django.template.response import SimpleTemplateResponse
from django.utils import timezone

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.schemas.django import hints
from mcp_bridge.sources.admin.acts import Act, Key, Managed
from mcp_bridge.sources.admin.pages import open_page, sign_log
from mcp_bridge.sources.admin.parameters import MOST_ROWS, id_hint, parameter
from mcp_bridge.sources.admin.values import plain
from mcp_bridge.sources.base import LeftOut


class Action(Act):
    """Run an action of the list on rows."""

    view = "changelist"
    hints = {"readOnlyHint": False, "destructiveHint": True}

    def __init__(self, action: tuple[str, str, Any, str], managed: Managed) -> None:
        # An action may be called as an act is. The verb comes first, since the name contains it.
        self.verb, self._name, self._function, self._label = action
        super().__init__(managed)

    @property
    def title(self) -> str:
        return (self._label % model_format_dict(self.admin.opts)).rstrip(".")

    @property
    def description(self) -> str:
        about = inspect.getdoc(self._function) or ""
        return f"{self.title}. Runs this action of the admin on {self.several}. {about}".rstrip()

    def allows(self, request: Any) -> bool:
        is_open = self.admin.has_view_or_change_permission(request)
        return is_open and self._name in self.admin.get_actions(request)

    def parameters(self) -> Iterator[Any]:
        if self.admin.action_form.base_fields.keys() - {"action", "select_across"}:
            raise LeftOut("the form of the list's actions has further fields")
        function: Any = inspect.unwrap(self._function)
        if (code := getattr(function, "__code__", None)) is not None:
            # Not the names of methods, such as that of a template.
            used = {*code.co_names} & {*function.__globals__} | {*code.co_varnames}
            if {"render", "TemplateResponse"} & used:
                raise LeftOut("it shows an intermediate page")
        hint = hints.list_of(id_hint(self.admin.model), least=1, most=MOST_ROWS)
        text = f"The ids of the {self.several}."
        yield parameter("ids", hint, text, inspect.Parameter.empty)

    def run(self, context: Context, /, ids: Sequence[Key]) -> Any:
        rows, since = [row.pk for row in self._rows(context, ids)], timezone.now()
        texts = [("action", self._name), ("index", "0"), ("select_across", "0")]
        texts += [("_selected_action", str(each)) for each in rows]
        page = open_page(context, self.admin, "changelist", query=[("p", "1")], form=texts)
        if isinstance(page.response, SimpleTemplateResponse):
            raise ToolError("The action shows an intermediate page; run it in the admin.")
        sign_log(page, rows, since)
        if page.is_redirect:
            return {"ids": rows, "messages": page.messages}
        return page.result()

    def preview(self, context: Context, /, ids: Sequence[Key]) -> Mapping[str, Any]:
        return {"ids": [plain(each) for each in self._rows(context, ids)]}

    def _rows(self, context: Context, ids: Sequence[Key]) -> list[Any]:
        """Return the rows that the list has. Raises ToolError for others, which it would skip."""
        # Lists without a query may redirect to one with a default filter.
        opened = open_page(context, self.admin, "changelist", query=[("p", "1")])
        wanted: dict[str, Any] = {}
        for each in ids:
            try:
                key = self.admin.opts.pk.to_python(each)
            except ValidationError:
                key = None
            # Databases refuse longer integers.
            wanted[str(each)] = None if isinstance(key, int) and key.bit_length() > 63 else key
        keys = [each for each in wanted.values() if each is not None]
        rows = [*opened.data("cl")["cl"].get_queryset(opened.request).filter(pk__in=keys)]
        # A list may repeat a row that it joins with several others.
        known = {row.pk: row for row in rows}
        if lost := [text for text, each in wanted.items() if each not in known]:
            raise ToolError(
                f"/ids: not on the list of {self.several}: {', '.join(lost)}. Send ids that it has."
            )
        return [*known.values()]
