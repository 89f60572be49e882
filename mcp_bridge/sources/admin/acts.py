"""An act of an admin, as a function of the Context and of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from django.contrib.admin import ModelAdmin

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.sources.admin.forms import Form
from mcp_bridge.sources.admin.pages import open_page, path_of
from mcp_bridge.sources.admin.parameters import Finders, id_hint, parameter
from mcp_bridge.sources.base import LeftOut
from mcp_bridge.sources.in_process.calls import InProcessRequest

# The primary key of a row, as callers send it.
Key: TypeAlias = int | str


def as_key(value: object) -> Key:
    """Return a primary key as callers receive it."""
    return value if isinstance(value, int) else str(value)


# The context of the pages with a form.
FORM = "adminform"


class Managed(NamedTuple):
    """A ModelAdmin, with its dotted name, the label of its model, and what its acts share."""

    admin: ModelAdmin[Any]
    place: str
    label: str
    # The tools that find rows, by label of their model.
    finders: Finders
    # Whether the model, or that of an inline, holds users, rights, sessions or tokens.
    is_guarded: bool


class Act:
    """
    An act of an admin, which is one operation of the source.

    ``name`` is its name in the option ``operations``: "newsroom.article.change".
    """

    # The hints of the act (MCP, ToolAnnotations).
    hints: Mapping[str, bool] = {"readOnlyHint": True}
    verb = ""
    # The page, as in Django's URL names.
    view = ""
    # Omitted if a result may be a file, which a schema does not describe.
    returns: Any = inspect.Signature.empty

    def __init__(self, managed: Managed) -> None:
        self.managed, self.admin = managed, managed.admin
        self.name = f"{managed.label}.{self.verb}"

    def __str__(self) -> str:
        return f"{self.name} ({self.managed.place})"

    @property
    def one(self) -> str:
        """The name of a row, in the active language."""
        return str(self.admin.opts.verbose_name)

    @property
    def several(self) -> str:
        """The name of rows, in the active language."""
        return str(self.admin.opts.verbose_name_plural)

    @property
    def title(self) -> str:
        """The title of the tool, for people."""
        return self.description.partition(".")[0].partition(",")[0]

    @property
    def description(self) -> str:
        """The description for language models."""
        raise NotImplementedError

    def allows(self, request: Any) -> bool:
        """Return whether the admin lets the user of a request open the page."""
        return self.admin.has_view_or_change_permission(request)

    def lets_in(self, context: Context) -> bool:
        """Return whether the admin admits a caller to this act, as it admits a browser."""
        user = context.user
        if not user.is_active or not user.is_authenticated:
            return False
        request = InProcessRequest(context, "GET", "/")
        return bool(self.admin.admin_site.has_permission(request) and self.allows(request))

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters."""
        hint, text = id_hint(self.admin.model), f"The id of the {self.one}."
        yield parameter("id", hint, text, inspect.Parameter.empty)

    def run(self, context: Context, /, *args: Any, **values: Any) -> Any:
        """Run the act as a user."""
        raise NotImplementedError

    def preview(self, context: Context, /, *args: Any, **values: Any) -> Mapping[str, Any]:
        """Return the arguments as a person reads them who has to confirm the call."""
        return values

    def function(self) -> Callable[..., Any]:
        """
        Return ``run`` with the signature and docstring that describe the tool.

        Raises LeftOut if the admin lacks the page, and the errors of ``parameters``.
        """
        has_row = self.view not in ("changelist", "add")
        try:
            path_of(self.admin, self.view, *["1"] * has_row)
        except ToolError:
            raise LeftOut("its ModelAdmin lacks this page") from None

        # The site's own fields may have any other name.
        def run(mcp_context: Context, **values: Any) -> Any:
            return self.run(mcp_context, **values)

        kind = inspect.Parameter.KEYWORD_ONLY
        own = inspect.Parameter("mcp_context", kind, annotation=Context)
        signature = inspect.Signature([own, *self.parameters()], return_annotation=self.returns)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__doc__ = self.description
        return run

    def form(self, context: Context, *row: Key) -> Form:
        """Return the form of a row's page, or of the add page. Raises ToolError without the row."""
        page = open_page(context, self.admin, "change" if row else "add", *row)
        return Form.of(self.admin, page.data(FORM))
