"""Django signals: those of calls are sent in their thread, outside of the tool's transaction."""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.signals")


class RobustSignal(Signal):
    """A signal that reaches every receiver; what one raises is logged."""

    def _log_robust_failure(self, receiver: Any, err: Exception) -> None:
        # Django's own raises where the receiver has no __qualname__, as an object or a partial.
        logger.error("A receiver of a signal failed: %r", receiver, exc_info=err)


# An administrator has changed the settings of a tool in this process: sent when the change is
# made, and again when it is committed. Other processes learn of it within STATE_MAX_AGE.
tools_changed = RobustSignal()

# A call begins. ``call`` is the ToolCall: tool, checked arguments, context.
tool_call_started = RobustSignal()

# A call that began has ended. ``call``; ``outcome`` and ``error_code`` (mcp_bridge.models.outcomes,
# the code empty for a success); ``duration`` in seconds; ``reference`` of an error, as in the log;
# ``result_bytes``, or None where there is no result.
tool_call_finished = RobustSignal()

# A call was refused before the tool ran. ``error_code`` (mcp_bridge.models.outcomes); ``name`` as
# the client gave it; ``tool``, or None where none was found for this caller; ``context``, or None
# where it is not known who calls; ``request``, the HttpRequest.
tool_call_refused = RobustSignal()

# A call has begun to wait for a person's decision, once: a call that is repeated while it waits
# sends nothing. ``call``; ``pending``, its row (PendingCall), which is committed.
tool_call_held = RobustSignal()
