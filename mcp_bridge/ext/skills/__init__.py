"""Skills: folders with instructions for models (MCP's extension Skills)."""

from __future__ import annotations
