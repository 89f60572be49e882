"""The desk's own pages beside those of the admin: approve, try, and see as somebody."""

from __future__ import annotations

import json
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import router, transaction
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext

from mcp_bridge.access.policy import visible
from mcp_bridge.admin.audience import may_view_users
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.try_tool.call import call
from mcp_bridge.admin.try_tool.forms import ArgumentsForm
from mcp_bridge.admin.try_tool.results import shown
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.fingerprints import fingerprint
from mcp_bridge.registry.tool_status import APPROVAL, mark_approved

# How many users a search names.
FOUND: Final = 20


def address(model_admin: Any, page: str, *args: Any) -> str:
    """The address of a page of the tools, in the admin site that shows them."""
    name = f"admin:mcp_bridge_toolsetting_{page}"
    return reverse(name, args=args, current_app=model_admin.admin_site.name)


def approve(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Approve the definition that was read, if it is still the one in the code."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    shown = _row(model_admin, request, object_id)
    using = router.db_for_write(ToolSetting)
    with transaction.atomic(using=using):
        setting = ToolSetting.objects.using(using).select_for_update().get(pk=shown.pk)
        if not model_admin.has_change_permission(request, setting):
            raise PermissionDenied
        level, text = _approved(model_admin, request, setting)
    values = {"name": setting, "status": Entry.of(setting).label}
    model_admin.message_user(request, text % values, level)
    return HttpResponseRedirect(address(model_admin, "change", quote(setting.pk)))


def _approved(model_admin: Any, request: HttpRequest, setting: ToolSetting) -> tuple[int, str]:
    """Approve what the form says was read, or nothing: the level and text of the message."""
    entry, given = Entry.of(setting), request.POST.get("fingerprint", "")
    if entry.tool is None or not entry.waits:
        text = gettext("Nothing was approved: %(name)s does not wait for approval.")
        return messages.WARNING, text
    if given != fingerprint(entry.canonical_definition):
        text = gettext(
            "Not approved: %(name)s has changed again since the page was opened. Read what it is "
            "now, and approve that if it is right."
        )
        return messages.ERROR, text
    mark_approved(setting, entry.tool, by=request.user)
    setting.save(update_fields=APPROVAL)
    model_admin.log_change(request, setting, f"Approved the definition {given[:12]}.")
    return messages.SUCCESS, gettext("Approved: %(name)s. Its status: %(status)s.")


def try_tool(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """A form of the tool's parameters; a POST of it calls the tool as the one who is signed in."""
    setting = _row(model_admin, request, object_id)
    entry = Entry.of(setting)
    context: dict[str, Any] = {"title": gettext("Try a tool"), "subtitle": setting}
    context |= {"original": setting, "entry": entry}
    if entry.shown is None or not entry.is_served:
        return _page(model_admin, request, "try", context)
    form = ArgumentsForm(entry.shown.input_schema, request.POST or None)
    context |= {"form": form, "media": model_admin.media + form.media}
    if request.method != "POST" or "_edit" in request.POST or not form.is_valid():
        return _page(model_admin, request, "try", context)
    arguments = form.arguments()
    if entry.asks_first and "_confirmed" not in request.POST:
        context["arguments"] = json.dumps(arguments, indent=2, ensure_ascii=False)
        context["sent"] = _sent(request, f"{form.prefix}-")
        return _page(model_admin, request, "confirm", context)
    outcome = call(setting.name, arguments, request, confirmed=entry.asks_first)
    if outcome.result is not None:
        context["shown"] = shown(outcome.result)
        form.add_tool_errors(context["shown"].errors)
    return _page(model_admin, request, "try", {**context, "refusal": outcome.refusal})


def sees(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The tools that a chosen user sees, for those who may look at users."""
    if not model_admin.has_view_permission(request) or not may_view_users(request.user):
        raise PermissionDenied
    term = request.GET.get("q", "").strip()
    chosen = _chosen(request.GET.get("user", ""))
    model = get_user_model()
    users: list[Any] = []
    if term and chosen is None:
        matching = model._default_manager.filter(**{f"{model.USERNAME_FIELD}__icontains": term})
        users = list(matching.order_by(model.USERNAME_FIELD)[: FOUND + 1])
        chosen = users[0] if len(users) == 1 else None
    context: dict[str, Any] = {"title": gettext("What a user sees"), "term": term}
    context |= {"users": users[:FOUND], "more": len(users) > FOUND, "chosen": chosen}
    if chosen is not None:
        tools = visible(chosen)
        rows = ToolSetting.objects.filter(name__in=[tool.name for tool in tools])
        keys = dict(rows.values_list("name", "pk"))
        context["tools"] = [(tool, keys.get(tool.name)) for tool in tools]
    return _page(model_admin, request, "sees", context)


def _row(model_admin: Any, request: HttpRequest, object_id: str) -> ToolSetting:
    """The tool's row. Raises PermissionDenied where it may not be seen, Http404 for no tool."""
    setting: ToolSetting | None = model_admin.get_object(request, unquote(object_id))
    if not model_admin.has_view_permission(request, setting):
        raise PermissionDenied
    if setting is None:
        raise Http404
    return setting


def _chosen(key: str) -> Any:
    model = get_user_model()
    try:
        return model._default_manager.filter(pk=key).first() if key else None
    except (ValueError, ValidationError):
        return None


def _sent(request: HttpRequest, prefix: str) -> list[tuple[str, str]]:
    """What was typed into the form, to be sent once more."""
    fields = [each for each in request.POST.lists() if each[0].startswith(prefix)]
    return [(name, str(value)) for name, values in fields for value in values]


def _page(
    model_admin: Any, request: HttpRequest, name: str, context: dict[str, Any]
) -> TemplateResponse:
    request.current_app = model_admin.admin_site.name
    shared = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
    }
    return TemplateResponse(request, f"mcp_bridge/admin/{name}.html", {**shared, **context})
