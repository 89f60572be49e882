"""An administrator decides while clients call, on SQLite with either mode of transactions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tests.processes.conftest import Worker

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 8
PAGES = {"page", "list", "action", "approve", "decision", "delete"}


# DEFERRED is Django's default; other databases have no such modes, and wait in any case.
@pytest.mark.parametrize("mode", ["DEFERRED", "IMMEDIATE"])
def test_no_decision_fails_while_clients_call(start: Callable[..., Worker], mode: str) -> None:
    variables = {"WORKER_TRANSACTION_MODE": mode} if connection.vendor == "sqlite" else {}
    clients, administrator = start(**variables), start(**variables)
    clients("migrate")
    with ThreadPoolExecutor(2) as pool:
        calling = pool.submit(clients, "call_for", seconds=SECONDS, threads=3, pause=0.06)
        deciding = pool.submit(administrator, "administer_for", seconds=SECONDS)
        called, decided = calling.result(), deciding.result()
    # About 25 a second on an idle machine.
    assert called["calls"] > 5 * SECONDS
    assert called["errors"] == 0
    assert decided.keys() == PAGES
    assert {name: set(statuses) for name, statuses in decided.items()} == dict.fromkeys(
        PAGES, {302}
    )
    assert min(len(statuses) for statuses in decided.values()) >= 3
    clients("clean")
