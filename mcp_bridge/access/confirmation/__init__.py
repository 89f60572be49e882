"""A person's confirmation of one call, by the client's form or in the approval queue."""

from __future__ import annotations

from mcp_bridge.access.confirmation.approval_queue import approve_own, give_back
from mcp_bridge.access.confirmation.confirm import ask_client, ask_person, resume

__all__ = ["approve_own", "ask_client", "ask_person", "give_back", "resume"]
