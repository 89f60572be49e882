"""Django signals; those about calls are sent in the call's thread, outside its transaction."""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.signals")


class RobustSignal(Signal):
    """A signal that reaches every receiver; exceptions of receivers are logged."""

    def _log_robust_failure(self, receiver: Any, err: Exception) -> None:
        # Django's method fails for a receiver without __qualname__, such as an object or a partial.
        logger.error("A receiver of a signal failed: %r", receiver, exc_info=err)


# An administrator changed a tool's settings in this process; sent on the change and again on
# commit. Other processes see the change within STATE_MAX_AGE seconds.
tools_changed = RobustSignal()

# A call started. ``call`` is the ToolCall: tool, checked arguments, context.
tool_call_started = RobustSignal()

# A started call ended. ``call``; ``outcome`` and ``error_code`` (mcp_bridge.models.outcomes; the
# code is "" on success); ``duration`` in seconds; ``reference`` of an error, as in the log;
# ``result_bytes``, or None without a result; ``upstream``, the short name of the remote server that
# the call reached, and ``upstream_status``, the class of its HTTP status, or "" for both.
tool_call_finished = RobustSignal()

# A call was refused before the tool ran. ``error_code`` (mcp_bridge.models.outcomes); ``name`` as
# the client sent it; ``tool``, or None if this caller has no such tool; ``context``, or None if
# the caller is unknown; ``request``, the HttpRequest.
tool_call_refused = RobustSignal()

# A call was held for approval. Sent once, not when the call is repeated while it is pending.
# ``call``; ``pending``, its committed PendingCall.
tool_call_held = RobustSignal()

# A person approved or refused a held call. ``pending``, its committed PendingCall.
tool_call_decided = RobustSignal()
