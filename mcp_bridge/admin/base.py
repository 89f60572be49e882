"""Shared parts of the admin pages: transactions, URLs and templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, update_wrapper
from operator import itemgetter
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_permission_codename, get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models, router, transaction
from django.forms.utils import ErrorDict
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.models import Generation

Context = dict[str, Any]
# The choices of a filter: values and (perhaps lazy) texts.
Choices = list[tuple[str, Any]]
View = Callable[..., HttpResponseBase]


class RevisedForm(forms.ModelForm):
    """
    The form of a row, submitted with a revision of the values that it showed.

    If the row has changed since, nothing is saved and the current values are shown.
    """

    is_stale = False

    @cached_property
    def revision(self) -> str:
        """A digest of the editable values; "" when a row is added."""
        if self.instance._state.adding:
            return ""
        text = f"{self.instance._meta.label} {self.instance.pk}"
        for name, field in self.fields.items():
            if not field.disabled:
                value = self.get_initial_for_field(field, name)
                # Related rows, in any order.
                shown = sorted(map(str, value)) if isinstance(value, list) else repr(value)
                text += f" {name}={shown}"
        # Keyed, since one of the values may be a secret.
        return salted_hmac("mcp_bridge.revision", text, algorithm="sha256").hexdigest()

    def full_clean(self) -> None:
        given = self.data.get("_revision", "")
        self.is_stale = self.is_bound and bool(self.revision) and given != self.revision
        if not self.is_stale:
            super().full_clean()
            return
        self._errors, self.cleaned_data = ErrorDict(), {}
        text = gettext(
            "Not saved: this was changed after you opened the page. These are the current values."
        )
        self.add_error(None, text)


def cell(name: str, context: Context) -> SafeString:
    """Return a one-line cell of a list, from a template in ``mcp_bridge/admin/cells/``."""
    text = render_to_string(f"mcp_bridge/admin/cells/{name}.html", context)
    return mark_safe(text.replace("\n", ""))


def column(name: str, description: Any, ordering: Any = None) -> Callable[..., SafeString]:
    """Return a list column whose cells are rendered by the template of that name."""

    @admin.display(description=description, ordering=ordering)
    def shown(model_admin: admin.ModelAdmin, row: models.Model) -> SafeString:
        return cell(name, {"row": row})

    return shown


class PagesAdmin(admin.ModelAdmin):
    """
    The admin of a model with additional pages.

    All pages reject input that a database cannot query: a NUL, or forged keys of rows (400). The
    additional pages require permission to view the model.
    """

    # The URL parts of the pages by name: "try" is served by try_view().
    pages: Mapping[str, str] = {}
    empty_value_display = "—"
    user_text = column("user_text", _("user"))

    def __init__(self, model: type[models.Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        # One that the project has set on the site itself stays.
        if "get_app_list" not in vars(admin_site):
            admin_site.get_app_list = partial(one_section, admin_site)  # type: ignore[method-assign]

    def get_urls(self) -> list[URLPattern]:
        patterns = super().get_urls()
        for name, route in self.pages.items():
            view = getattr(self, f"{name}_view")
            view = self.admin_site.admin_view(update_wrapper(partial(self._viewed, view), view))
            name = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
            patterns.insert(0, path(route, view, name=name))
        for pattern in patterns:
            view = pattern.callback
            pattern.callback = update_wrapper(partial(self._checked, view), view)
            # Like Django does for its own.
            vars(pattern.callback)["model_admin"] = self
        return patterns

    def _checked(
        self, view: View, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        # Filters would pass it on, and PostgreSQL raises an error for it.
        if any("\0" in text for name, each in request.GET.lists() for text in (name, *each)):
            return HttpResponseBadRequest(gettext("The address contains a NUL character."))
        if request.method == "POST":
            # The rows of a list action, and those of a list with editable cells.
            posted = re.compile(rf"_selected_action|form-\d+-{self.opts.pk.name}")
            sent = [keys for name, keys in request.POST.lists() if posted.fullmatch(name)]
            if not all(is_key(key, self.model) for keys in sent for key in keys):
                return HttpResponseBadRequest(gettext("The form contains an invalid row."))
        try:
            return view(request, *args, **kwargs)
        except PermissionDenied as refused:
            return self._denied(request, refused)

    def _denied(self, request: HttpRequest, refused: PermissionDenied) -> HttpResponse:
        """Return the page that names the missing permission, for this or the exception's model."""
        named: list[Any] = [each for each in refused.args if isinstance(each, type)]
        meta = named[0]._meta if named else self.opts
        action = str(getattr(request.resolver_match, "url_name", "")).rpartition("_")[2]
        if named or action != "add" and not self.has_view_or_change_permission(request):
            action = "view"
        elif action not in ("add", "delete"):
            action = "change" if request.method == "POST" else "view"
        name = f"{meta.app_label}.{get_permission_codename(action, meta)}"
        context = {"denied": meta, "action": action, "is_missing": not request.user.has_perm(name)}
        response = self.page(request, "denied", context)
        response.status_code = 403
        return response

    def _viewed(self, view: View, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return view(request, **kwargs)

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        if getattr(form, "is_stale", False):
            # Keeps the form's errors, but its fields show the row.
            form.is_bound = False
        return super().render_change_form(request, context, *args, **kwargs)

    def get_object(self, request: HttpRequest, object_id: str, *args: Any) -> Any:
        using = router.db_for_write(self.model)
        is_saving = request.method == "POST" and is_key(object_id, self.model)
        if is_saving and transaction.get_connection(using).in_atomic_block:
            # The second of two concurrent submissions is compared with the row saved by the first.
            row = self.model._base_manager.using(using).select_for_update().filter(pk=object_id)
            row.values_list("pk").first()
        return super().get_object(request, object_id, *args)

    def viewed(self, request: HttpRequest, object_id: str) -> Any:
        """Return the row with a quoted key. Raises PermissionDenied, or Http404 if missing."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        if row is None:
            raise Http404
        return row

    def address(self, page: str, *args: object, query: Mapping[str, Any] | None = None) -> str:
        """Return the URL of a page of this model in this admin site."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, query=query, current_app=self.admin_site.name)

    def back_to(self, row: models.Model) -> HttpResponse:
        """Return a redirect to the page of a row."""
        return redirect(self.address("change", quote(row.pk)))

    def can_link(self, request: HttpRequest, model: type[models.Model]) -> bool:
        """Return whether this admin site has pages of a model that the user may view."""
        return may(self.admin_site, request, model)

    def linked(
        self, request: HttpRequest, model: type[models.Model], **values: object
    ) -> list[Any]:
        """Return the rows with these values, at most two, if the user may view them."""
        if not self.can_link(request, model):
            return []
        other = self.admin_site.get_model_admin(model)
        found = list(other.get_queryset(request).filter(**values)[:2])
        may_view = other.has_view_or_change_permission
        return found if all(may_view(request, row) for row in found) else []

    def user_field(self, request: HttpRequest) -> str:
        """Return the field that shows a row's user, as a link for those who may follow it."""
        # Django would link it to the user's page for everyone.
        return "user" if self.can_link(request, get_user_model()) else "user_text"

    def page(self, request: HttpRequest, template: str, context: Context) -> TemplateResponse:
        """Return a page from a template in ``mcp_bridge/admin/``, in the layout of the site."""
        request.current_app = self.admin_site.name
        shared = {"opts": self.opts, "media": self.media, **self.admin_site.each_context(request)}
        return TemplateResponse(request, f"mcp_bridge/admin/{template}.html", shared | context)


def one_section(site: admin.AdminSite, *args: Any, **kwargs: Any) -> list[Any]:
    """Return the menu of an admin site with the models of all MCP apps in one section."""
    # The method of the class as it is now: projects may replace it at any time.
    sections = site.__class__.get_app_list(site, *args, **kwargs)
    ours = [each for each in sections if each["app_label"].startswith("mcp_bridge")]
    # The section of the core app, unless the user cannot see it.
    front: Any = min(ours, key=lambda section: section["app_label"] != "mcp_bridge", default=None)
    rows = sorted((row for section in ours for row in section["models"]), key=itemgetter("name"))
    return [
        {**each, "models": rows} if each is front else each
        for each in sections
        if each is front or each not in ours
    ]


def may(
    site: admin.AdminSite,
    request: HttpRequest,
    model: type[models.Model],
    action: str = "view_or_change",
) -> bool:
    """Return whether an admin site has a model's pages and the user has the permission."""
    if not site.is_registered(model):
        return False
    return bool(getattr(site.get_model_admin(model), f"has_{action}_permission")(request))


def may_view_users(request: HttpRequest) -> bool:
    """Return whether the user of a request may view the site's users."""
    meta = get_user_model()._meta
    names = [get_permission_codename(action, meta) for action in ("view", "change")]
    return any(request.user.has_perm(f"{meta.app_label}.{name}") for name in names)


def is_key(text: str, model: type[models.Model]) -> bool:
    """Return whether a text can be a primary key of a model."""
    try:
        model._meta.pk.clean(text, None)
    except ValidationError:
        return False
    return True


def with_key(rows: models.QuerySet[Any], key: str | None) -> Any:
    """Return the row with the primary key from a URL, or None."""
    return rows.filter(pk=key).first() if key and is_key(key, rows.model) else None


class BridgeAdmin(PagesAdmin):
    """
    The admin of a model whose rows come from code or calls, so that none can be added.

    Its pages link only to pages of the admin site in which it is registered. The transaction of a
    POST begins with a write (see Generation.lock).
    """

    class Media:
        css = {
            "all": ["mcp_bridge/theme.css", "mcp_bridge/admin.css", "mcp_bridge/model-admin.css"]
        }

    def get_urls(self) -> list[URLPattern]:
        patterns = super().get_urls()
        # With ATOMIC_REQUESTS the session would be read in the transaction before the first write;
        # these pages open their own transactions.
        without = transaction.non_atomic_requests(router.db_for_write(self.model))
        for pattern in patterns:
            without(pattern.callback)
        return patterns

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def list_context(self, request: HttpRequest) -> Context:
        """Return the context of the list's template in addition to Django's."""
        return {}

    @contextmanager
    def decision(self, request: HttpRequest) -> Iterator[None]:
        """Begin the transaction of a POST with a write."""
        if request.method != "POST":
            yield
            return
        using = router.db_for_write(self.model)
        with transaction.atomic(using):
            Generation.lock(using)
            yield

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context: Context = {"title": capfirst(self.opts.verbose_name_plural)}
        if self.has_view_permission(request):
            context |= self.list_context(request)
        with self.decision(request):
            return super().changelist_view(request, context | (extra_context or {}))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with self.decision(request):
            return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with self.decision(request):
            return super().delete_view(request, *args, **kwargs)
