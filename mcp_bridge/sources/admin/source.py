"""The source of tools from the ModelAdmin classes of a site's admin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.urls import NoReverseMatch, get_script_prefix, resolve, reverse
from django.utils.module_loading import import_string
from django.utils.translation import override
from pydantic_core import to_jsonable_python

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Tool, ToolCall, ToolOptions, dotted_name
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.admin import changing, reading
from mcp_bridge.sources.admin.actions import Action
from mcp_bridge.sources.admin.acts import Act, Managed
from mcp_bridge.sources.admin.pages import superuser_request
from mcp_bridge.sources.base import NO_OPTIONS, LeftOut, OperationSource, first_line
from mcp_bridge.sources.marked import MarkedFunction
from mcp_bridge.sources.operations.read import tool_name

# Apps of which a model can give rights or a session away: never candidates.
_GUARDED: Final = frozenset(
    {"auth", "sessions", "contenttypes", "admin", "oauth2_provider", "socialaccount"}
)
_ACTS: Final[tuple[type[Act], ...]] = (
    *(reading.Find, reading.Get, changing.Add, changing.Change, changing.Delete),
    reading.HistoryOf,
)
_VERBS: Final = frozenset(each.verb for each in _ACTS)
# Its page asks once more; the tool of the act deletes one row.
_OF_DJANGO: Final = "delete_selected"
_LEFT_OUT: Final = "W086"


class AdminSource(OperationSource[Act]):
    """
    Tools from the pages of a site's admin, which are opened in this process as their user.

    OPTIONS["operations"] names acts such as "newsroom.article.change", in which ``*`` matches any
    text, with options of ``mcp_tool``. OPTIONS["site"] is the dotted path of an AdminSite.
    """

    known_options = {
        "expose": (str, '"marked" or "all"'),
        "operations": (list | tuple | Mapping, "a list of names, or a mapping of them to options"),
        "prefix": (str, "a string"),
        "site": (str, "the dotted path of an AdminSite"),
    }
    lines_in = "operations"
    not_served = "E082", _LEFT_OUT, "Change the ModelAdmin, or remove it from the operations."
    unused = (
        "W087",
        "Names are in lower case, such as newsroom.article.find, and * matches any text. The model "
        "must be registered in the admin, and its app in INSTALLED_APPS.",
    )
    kept_out = (
        "W088",
        "* never matches users, rights, sessions and tokens. To serve one, name its model: "
        '"users.user.*".',
    )

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        super().__init__(alias, options)
        if not apps.is_installed("django.contrib.admin"):
            raise TypeError("django.contrib.admin is not in INSTALLED_APPS")
        path = options.get("site")
        site = admin.site if path is None else import_string(path)
        if not isinstance(site, admin.AdminSite):
            raise TypeError(f"its option 'site' is not the dotted path of an AdminSite: {path!r}")
        self._site = site
        self._finders: dict[str, str] = {}

    def no_tools(self) -> tuple[str, str] | None:
        return "no operation is named", "Name some in OPTIONS['operations']: newsroom.article.*"

    def found(self) -> Iterable[Act]:
        try:
            path = reverse("admin:index", current_app=self._site.name)
            view = resolve("/" + path.removeprefix(get_script_prefix())).func
            # The default site is lazy, and equal to the real one.
            if self._site != getattr(view, "admin_site", None):
                raise NoReverseMatch
        except NoReverseMatch:
            text = f"{self.place}: the admin {self._site.name!r} is not in the URLconf."
            self.report("E083", text, "Add its URLs: path('admin/', admin.site.urls).")
            return []
        models = [each for each in apps.get_models() if self._site.is_registered(each)]
        admins = [self._site.get_model_admin(each) for each in models]
        request = superuser_request()
        found = [each for one in admins for each in self._acts_of(one, request)]
        for each in found if self.lines else ():
            options = each.verb == "find" and self._chosen(each)
            if options:
                self._finders[each.managed.label] = self.name_of(each, options)
        return found

    def _chosen(self, operation: Act) -> ToolOptions | None:
        name, of = operation.name, operation.managed
        names = [name, f"{of.label}.*"] if of.is_guarded else [name]
        return self.chosen_by(None, names, guarded=of.is_guarded)

    def _acts_of(self, model_admin: admin.ModelAdmin[Any], request: Any) -> Iterator[Act]:
        models = [model_admin.model, *(each.model for each in model_admin.inlines)]
        is_guarded, place = any(map(_is_guarded, models)), dotted_name(type(model_admin))
        label = model_admin.opts.label_lower
        managed = Managed(model_admin, place, label, self._finders, is_guarded)
        yield from (kind(managed) for kind in _ACTS)
        try:
            actions: Mapping[str, Any] = model_admin.get_actions(request)
        except Exception as exception:
            # The site's code runs here and may raise any exception.
            text = f"{place}: its actions are not tools: {first_line(exception)}."
            self.report(_LEFT_OUT, text, "Fix get_actions(), which a superuser's request calls.")
            return
        for name, each in actions.items():
            # Django 6.1 and later have objects in place of tuples.
            is_tuple = isinstance(each, tuple)
            function, label = each[::2] if is_tuple else (each.func, each.plural_description)
            if name != _OF_DJANGO:
                verb = f"action_{name}" if name in _VERBS else name
                action = verb, name, function, str(label)
                yield Action(action, managed)

    def options_of(self, operation: Act) -> ToolOptions | None:
        options = self._chosen(operation)
        if options is None and operation.managed.is_guarded:
            raise LeftOut("its model can give rights away")
        if options is not None and operation.managed.is_guarded:
            self._warn(operation, options)
        return options

    def _warn(self, operation: Act, options: ToolOptions) -> None:
        """Report an operation on rights. Raises ValueError if it changes users unconfirmed."""
        changes = not operation.hints.get("readOnlyHint", False)
        if changes and not options.confirm and _holds_rights(operation.admin.model):
            raise ValueError(
                "it can change what users may do, without confirmation by a person: set "
                '{"confirm": True} in its line'
            )
        self.report(
            "W089",
            f"{operation} is a tool, though its model holds users, rights, sessions or tokens.",
            "Remove it from the option 'operations' unless models must have it.",
        )

    def name_of(self, operation: Act, options: ToolOptions) -> str:
        own = options.name or tool_name(operation.name)
        return str(self.options.get("prefix", "")) + own

    def function_of(self, operation: Act) -> Any:
        return type(operation.admin)

    def build(self, operation: Act, options: ToolOptions, name: str) -> Tool:
        try:
            # Descriptions may be translated but must be the same in each process.
            with override(settings.LANGUAGE_CODE):
                function, title = operation.function(), operation.title
                tool = MarkedFunction(name, function, options, operation.lets_in).build()
        except LeftOut as why:
            text = f"{operation} is not a tool: {why}."
            self.report(_LEFT_OUT, text, "Leave it to the admin's own pages.")
            raise

        def preview(call: ToolCall) -> Any:
            return to_jsonable_python(
                operation.preview(call.context, **call.arguments), fallback=str
            )

        hints = {} if options.read_only else operation.hints
        return replace(
            tool,
            title=tool.title or title,
            annotations={**hints, **options.annotations},
            preview=preview if not operation.hints.get("readOnlyHint") else None,
            # Its code is this package's.
            code=None,
            may_elicit=False,
            **self._known(operation),
        )

    def unmarked(self, operation: Act) -> Tool:
        name = self.name_of(operation, NO_OPTIONS)
        return Tool(
            name=name,
            is_marked=False,
            source_alias=self.alias,
            build=partial(self.build, operation, NO_OPTIONS, name),
            description=f"{operation.verb}: {operation.managed.label}",
            annotations=operation.hints,
            access=AccessRule(predicate=operation.lets_in),
            **self._known(operation),
        )

    def _known(self, operation: Act) -> dict[str, Any]:
        return {
            "conditions": ("staff", f"the admin's permission: {operation.name}"),
            "source": operation.managed.place,
            "function": operation.managed.place,
            "target": f"{operation.name} of the admin {operation.admin.admin_site.name!r}",
        }


def _holds_rights(model: type[Model]) -> bool:
    """Return whether rows of a model are users or rights, or refer to rights."""
    if issubclass(model, get_user_model()) or model._meta.app_label == "auth":
        return True
    return any(
        each.related_model._meta.label_lower in _RIGHTS
        for each in model._meta.get_fields()
        if each.is_relation and not each.auto_created and each.related_model
    )


_RIGHTS: Final = frozenset({"auth.permission", "auth.group"})


def _is_guarded(model: type[Model]) -> bool:
    """Return whether language models are never offered a model: rights, sessions, tokens."""
    concrete = model._meta.concrete_model or model
    meta, sensitive = concrete._meta, conf.sensitive_names
    is_own = concrete.__module__.startswith("mcp_bridge.")
    # A key is shown with each row.
    names = {model._meta.object_name or "", meta.object_name or "", meta.pk.name}
    is_secret = any(deals_with_secrets(name, sensitive) for name in names)
    return is_own or is_secret or meta.app_label in _GUARDED or _holds_rights(model)
