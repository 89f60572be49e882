"""Which failures of a tool a model may read, and in what words."""

from __future__ import annotations

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404
from rest_framework.exceptions import APIException

from mcp_bridge.exceptions import ToolError
from mcp_bridge.protocol import UnavailableError


def explain(exception: Exception) -> str | None:
    """
    What an exception tells the model, or None where its text is not meant for callers.

    These are the exceptions that Django and DRF themselves show to whoever made a request, and
    those that a tool raises to be read.
    """
    match exception:
        case ToolError() | ObjectDoesNotExist():
            return str(exception) or "The tool could not do that."
        case ValidationError():
            return _invalid(exception)
        case PermissionDenied():
            return str(exception) or "You do not have permission to do that."
        case Http404():
            return str(exception) or "There is no such thing."
        case NotImplementedError():
            return str(exception) or "This tool is not implemented yet."
        case APIException():
            return _detail(exception.detail)
    return None


def unavailable() -> UnavailableError:
    """What a client is told where the site's database cannot be asked."""
    return UnavailableError("The server cannot reach its database just now: try again later.")


def uncounted() -> UnavailableError:
    """What a client is told where requests have a rate and cannot be counted."""
    return UnavailableError("The server cannot count requests just now: try again later.")


def _invalid(exception: ValidationError) -> str:
    if hasattr(exception, "error_dict"):
        return "\n".join(
            f"{field}: {message}"
            for field, messages in exception.message_dict.items()
            for message in messages
        )
    return "\n".join(exception.messages)


def _detail(detail: object) -> str:
    """DRF's detail, which may be a text, a list, or errors by field, nested to any depth."""
    if isinstance(detail, dict):
        return "\n".join(f"{field}: {_detail(each)}" for field, each in detail.items())
    if isinstance(detail, list):
        return "\n".join(_detail(each) for each in detail)
    return str(detail)
