"""Which calls are the same one, to which a person has agreed, or which a person has refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from mcp_bridge.features import ToolCall
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint


def bound(call: ToolCall) -> ToolCall:
    """
    Return the call with its binding: SHA-256 of the user, the tool, its definition and arguments.

    The arguments count as they were sent, but for the order of members: another spelling of them is
    another call, about which a person is asked again.
    """
    if call.binding:
        return call
    user, tool = call.context.user, call.tool
    key = str(user.pk) if user is not None and user.is_authenticated else None
    parts = [key, tool.name, fingerprint(canonical_definition(tool)), call.sent]
    text = json.dumps(parts, sort_keys=True)
    return replace(call, binding=hashlib.sha256(text.encode()).hexdigest())
