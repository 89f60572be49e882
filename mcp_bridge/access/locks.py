"""Writes that no request waits for: where somebody else holds a lock, they are left for later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction


@contextmanager
def atomic_without_waiting(using: str) -> Iterator[None]:
    """Begin a transaction that waits for no lock (SQLite, PostgreSQL): OperationalError at once."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        # Not by a cursor of Django's, which would log what is no query of the site's.
        session = connection.connection
        (waits,) = session.execute("PRAGMA busy_timeout").fetchone()
        session.execute("PRAGMA busy_timeout = 0")
        try:
            with transaction.atomic(using=using):
                yield
        finally:
            session.execute(f"PRAGMA busy_timeout = {waits:d}")
        return
    # "make services" is what runs it, with PostgreSQL.
    with transaction.atomic(using=using):  # not SQLite
        # Holds for the transaction, which may be somebody else's.
        if connection.vendor == "postgresql" and not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1ms'")
        yield
