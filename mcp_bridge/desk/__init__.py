"""What the admin shows of a tool: its schemas in words, a form to try it, the result."""

from __future__ import annotations
