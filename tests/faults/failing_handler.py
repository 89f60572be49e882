"""A handler of logs that fails."""

from __future__ import annotations

import logging


class RaisingHandler(logging.Handler):
    """A handler that raises its errors in the code that logs."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("SECRET-MARKER: the log cannot be written")
