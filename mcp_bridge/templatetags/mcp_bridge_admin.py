"""What templates of the admin ask for: the front page, what waits, and names of permissions."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template import RequestContext

from mcp_bridge.admin.audience import permission_title
from mcp_bridge.admin.front_page import counts_in, front_page
from mcp_bridge.admin.records import one_line

register = template.Library()
register.simple_tag(permission_title, name="mcp_permission")
register.filter("mcp_line", one_line)


@register.simple_tag(takes_context=True)
def mcp_front_page(context: RequestContext) -> dict[str, Any]:
    """Return what the front page shows to the user, in the admin site of the page."""
    request: HttpRequest = context["request"]
    return front_page(_site(request), request, context["available_apps"])


@register.simple_tag(takes_context=True)
def mcp_waiting(context: RequestContext) -> dict[str, int]:
    """Return how many calls and tools wait for the user, in the admin site of the page."""
    request: HttpRequest = context["request"]
    return counts_in(_site(request), request)


def _site(request: HttpRequest) -> AdminSite:
    """Return the admin site whose page is asked for, which its view alone names for certain."""
    view = request.resolver_match.func if request.resolver_match else None
    model_admin = getattr(view, "model_admin", None)
    site: AdminSite = getattr(
        view if model_admin is None else model_admin, "admin_site", admin.site
    )
    return site
