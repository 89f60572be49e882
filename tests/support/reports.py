"""
The mails on an error from Django to the administrators, with the local variables of each frame.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.core import mail
from django.db import connection
from django.test.utils import override_settings
from django.utils.log import AdminEmailHandler

LOGGERS = ("", "django.request", "mcp_bridge")

# Django 6.0 takes addresses alone, older ones pairs with names.
BOSS = "boss@example.com" if django.VERSION >= (6, 0) else ("Boss", "boss@example.com")
# Required by Django 6.1, and unknown to older ones.
MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


class StatementFailedError(Exception):
    """The exception of the n-th statement to the database."""


@contextmanager
def failing(number: int) -> Iterator[list[str]]:
    """Have the n-th statement fail; yield the statements made, and at the end each mail."""
    statements: list[str] = []

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(sql)
        if len(statements) == number:
            raise StatementFailedError
        return execute(sql, params, many, context)

    handler = AdminEmailHandler(include_html=True)
    handler.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    mail.outbox.clear()
    with override_settings(ADMINS=[BOSS], DEBUG=False, MAILERS=MAILERS):
        for each in loggers:
            each.addHandler(handler)
        try:
            with connection.execute_wrapper(fail):
                yield statements
        finally:
            for each in loggers:
                each.removeHandler(handler)


def mails() -> list[str]:
    """Return each mail as text: its body, and its page with the frames."""
    return [
        "\n".join([each.subject, each.body, *(str(page) for page, _ in each.alternatives)])
        for each in mail.outbox
    ]
