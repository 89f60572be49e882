"""Loggers whose handlers may fail."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress
from typing import Any


class RobustLogger(logging.LoggerAdapter[logging.Logger]):
    """
    A logger that never raises, so that a failing handler or filter cannot change a response.

    The standard library's handlers report their errors to stderr (``logging.Handler.handleError``);
    this does the same for all other handlers and for filters.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        # Log records name the caller of this method's caller.
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:
            if logging.raiseExceptions:
                with suppress(Exception):
                    traceback.print_exc(file=sys.stderr)


def get_logger(name: str) -> RobustLogger:
    """Return the logger of that name."""
    return RobustLogger(logging.getLogger(name))
