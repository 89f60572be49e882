"""The admin of the newsroom, whose menus have one section for the models of all apps of MCP."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class NewsroomAdminConfig(AdminConfig):
    """Gives Django's admin the class of site that joins the sections."""

    default_site = "mcp_bridge.ext.admin_site.OneSection"
