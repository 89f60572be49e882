"""The outcomes of calls, as used by records, signals and the admin."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Outcome(TextChoices):
    """The end of a call."""

    STARTED = "started", _("started")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    REFUSED = "refused", _("refused")
    CANCELLED = "cancelled", _("cancelled")
    UNKNOWN = "unknown", _("unknown")


class ErrorCode(TextChoices):
    """The reason why a call was refused or failed."""

    UNKNOWN_TOOL = "unknown_tool", _("unknown name")
    FORBIDDEN = "forbidden", _("not for this user")
    DISABLED = "disabled", _("disabled here")
    WITHHELD = "withheld", _("waits for approval")
    UNAUTHENTICATED = "unauthenticated", _("not authenticated")
    INSUFFICIENT_SCOPE = "insufficient_scope", _("token without the scope")
    THROTTLED = "throttled", _("too many calls")
    INVALID = "invalid", _("invalid request or arguments")
    UNCONFIRMED = "unconfirmed", _("not confirmed by a person")
    REJECTED = "rejected", _("rejected by the site's own code")
    ANSWERED = "answered", _("answered by the site's own code")
    UNRECORDED = "unrecorded", _("no record could be written")
    UNAVAILABLE = "unavailable", _("unavailable for the moment")
    TIMED_OUT = "timed_out", _("time limit reached")
    TOOL_ERROR = "tool_error", _("reported as an error")
    INTERNAL_ERROR = "internal_error", _("unexpected error")
    UNSENDABLE = "unsendable", _("result that cannot be sent")
    PROTOCOL_ERROR = "protocol_error", _("protocol error")
