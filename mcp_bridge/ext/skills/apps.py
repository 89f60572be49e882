from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig

from mcp_bridge.protocol import JSONObject


class SkillsConfig(AppConfig):
    """The app that serves the skills of all apps, and provides the command ``mcp_skill``."""

    name = "mcp_bridge.ext.skills"
    label = "mcp_bridge_skills"
    verbose_name = "MCP: skills"
    # Added to the default sources (mcp_bridge.conf).
    mcp_sources: ClassVar[JSONObject] = {
        "skills": {"BACKEND": "mcp_bridge.ext.skills.source.SkillSource"}
    }
