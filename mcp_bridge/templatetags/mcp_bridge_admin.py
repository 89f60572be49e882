"""Template tags for the admin pages: the front page, pending items, names of permissions."""

from __future__ import annotations

from django import template

from mcp_bridge.admin.audience import permission_title
from mcp_bridge.admin.front_page import front_page, waiting
from mcp_bridge.admin.pending_calls import name_of
from mcp_bridge.admin.records import one_line

register = template.Library()
register.simple_tag(front_page, takes_context=True, name="mcp_front_page")
register.simple_tag(waiting, takes_context=True, name="mcp_waiting")
register.simple_tag(permission_title, name="mcp_permission")
register.filter("mcp_line", one_line)
register.filter("mcp_call", name_of)
