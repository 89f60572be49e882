"""Template tags for the pages of a site."""

from __future__ import annotations

from functools import partial

from django import template
from django.contrib.auth.models import AnonymousUser
from django.template.context import RequestContext
from django.utils.timesince import timesince, timeuntil

from mcp_bridge.access.policy import visible
from mcp_bridge.access.scopes import resource_of
from mcp_bridge.conf import conf
from mcp_bridge.server.connecting import TOKEN, Connection

register = template.Library()
# Django's filters, in the largest unit alone: "3 days".
register.filter("mcp_since", partial(timesince, depth=1))
register.filter("mcp_until", partial(timeuntil, depth=1))


@register.simple_tag(takes_context=True)
def mcp_endpoint(context: RequestContext) -> str:
    """
    Add ``connection``, ``site_name``, ``user_name`` and ``tools`` of the endpoint's page.

    The name is "", and the tools are none, for anonymous users.
    """
    request = context["request"]
    user = getattr(request, "user", None) or AnonymousUser()
    url = resource_of(request) or request.build_absolute_uri(request.path.rstrip("/"))
    context["connection"] = Connection(url, TOKEN)
    context["site_name"], context["user_name"] = conf.server_title, user.get_username()
    context["tools"] = visible(user) if user.is_authenticated else []
    return ""


@register.inclusion_tag("mcp_bridge/menu.html", takes_context=True)
def mcp_menu(context: RequestContext) -> dict[str, object]:
    """Link a signed-in user to those pages of MCP for users that the site has."""
    return {"request": context["request"]}
