"""An admin site that groups the models of all MCP apps in one section "MCP"."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest


class OneSection(AdminSite):
    """
    An admin site, or a base class of one, whose menus have all MCP models in one section.

    It must not import model admins, since Django creates the site first.
    """

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        from mcp_bridge.admin.front_page import own_rows

        menu = super().get_app_list(request, app_label)
        rows = own_rows(self, menu)
        if app_label is not None or not rows:
            return menu
        labels = {row["model"]._meta.app_label for row in rows}
        ours = [section for section in menu if section["app_label"] in labels]
        # The section of the core app, unless the user cannot see it.
        front = min(ours, key=lambda section: section["app_label"] != "mcp_bridge")
        others = [
            {**section, "models": [row for row in section["models"] if row not in rows]}
            for section in menu
        ]
        joined = [{**front, "name": "MCP", "models": rows}, *filter(lambda s: s["models"], others)]
        return sorted(joined, key=lambda section: str(section["name"]).lower())
