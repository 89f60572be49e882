"""An exception in one of the site's log handlers ends in the logger, and is printed on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from mcp_bridge.protocol.logs import get_logger

NAME = "mcp_bridge.tests.logs"


class Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ConnectionError(f"no logs of {record.funcName}")


@pytest.fixture(autouse=True)
def raising() -> Iterator[None]:
    handler = Raising()
    logging.getLogger(NAME).addHandler(handler)
    yield
    logging.getLogger(NAME).removeHandler(handler)


def test_an_error_of_a_handler_is_only_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    get_logger(NAME).warning("text of %s", "mine")
    # The record names the logging function.
    assert "ConnectionError: no logs of test_an_error_of" in capsys.readouterr().err


def test_handler_errors_are_not_printed_if_disabled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    get_logger(NAME).warning("text")
    assert capsys.readouterr().err == ""


def test_closed_stderr_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    get_logger(NAME).warning("text")
