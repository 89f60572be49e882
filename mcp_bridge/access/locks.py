"""Transactions that fail at once instead of waiting for a lock, for writes that can be retried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction


@contextmanager
def atomic_without_waiting(using: str) -> Iterator[None]:
    """Begin a transaction that never waits for locks; raises OperationalError if one is held."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        # Not through a Django cursor, which would log it among the site's queries.
        session = connection.connection
        (waits,) = session.execute("PRAGMA busy_timeout").fetchone()
        session.execute("PRAGMA busy_timeout = 0")
        try:
            with transaction.atomic(using=using):
                yield
        finally:
            session.execute(f"PRAGMA busy_timeout = {waits:d}")
        return
    # Covered by "make services", which has PostgreSQL.
    with transaction.atomic(using=using):  # not SQLite
        # Lasts for the transaction, which may be an outer one.
        if connection.vendor == "postgresql" and not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1ms'")
        yield
