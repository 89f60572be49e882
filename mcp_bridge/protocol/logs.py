"""Loggers whose handlers may fail."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    _Adapter: TypeAlias = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class RobustLogger(_Adapter):
    """
    A logger that changes no answer: what a handler or a filter of the site raises ends here.

    Those of the standard library keep their errors to themselves (``logging.Handler.handleError``);
    this does the same with all others, on the standard error.
    """

    def process(self, msg: object, kwargs: Any) -> tuple[object, Any]:
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        # Records name the caller of this method's caller.
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
