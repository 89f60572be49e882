"""What a handler of the site raises ends in the logger, and is told on the standard error."""

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


def test_an_error_of_a_handler_is_told_and_not_raised(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger(NAME).warning("text of %s", "mine")
    # The record names who has logged.
    assert "ConnectionError: no logs of test_an_error_of" in capsys.readouterr().err


def test_where_the_site_wants_no_such_errors_none_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    get_logger(NAME).warning("text")
    assert capsys.readouterr().err == ""


def test_a_standard_error_that_is_closed_raises_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    get_logger(NAME).warning("text")
