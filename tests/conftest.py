from __future__ import annotations

import os
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from _pytest import runner
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import override_settings

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from tests.support.revisions import SPOKEN

# Slow proofs, with targets of their own: "make browser" and "make stress" (or "make services").
SLOW = {"browser": "BROWSER", "processes": "STRESS"}
collect_ignore = [folder for folder, wanted in SLOW.items() if wanted not in os.environ]

TESTS = Path(__file__).parent
WITHOUT_DATABASE = {"protocol", "schemas"}
# Folders inside those, whose tests call by the front door.
WITH_DATABASE = {"django", "validation"}


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    """Serve the site for a whole module: reading it anew for each test takes too long."""
    with override_settings(ROOT_URLCONF="tests.support.site"):
        yield


def uses_database(path: Path) -> bool:
    """Whether the tests of a file, by its folder, may use the database without a mark."""
    folders = set(path.relative_to(TESTS).parts)
    return not folders & WITHOUT_DATABASE or bool(folders & WITH_DATABASE)


def pytest_configure() -> None:
    """Tests clear their cache: in a shared Redis each worker of xdist has a database of its own."""
    if "MCP_BRIDGE_TEST_CACHE_URL" in os.environ:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        settings.CACHES["default"]["OPTIONS"]["db"] = 1 + int(worker.removeprefix("gw"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is served depends on the owner's settings, so that every request reads the database."""
    for item in items:
        is_marked = item.get_closest_marker("django_db") is not None
        if not is_marked and uses_database(item.path):
            # A fixture that is asked for when the test runs would come too late: pytest-django
            # makes only the databases of marked tests.
            item.add_marker(pytest.mark.django_db)


@pytest.fixture(autouse=True, scope="module")
def no_records_left(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """Each file leaves the database as it was: a call from another thread would leave a record."""
    yield
    if uses_database(request.node.path):
        with django_db_blocker.unblock():
            if not connection.in_atomic_block:
                assert not ToolCallRecord.objects.exists()


@pytest.fixture(autouse=True, scope="session")
def no_sessions_left(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """End what threads of asynchronous views keep open: PostgreSQL drops no database in use."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """
    Run each test, with its fixtures, in a context of its own.

    Each of Django's URL resolvers leaves a context variable for good, and asgiref copies all there
    are each time it goes from one thread to another: after some thousand tests that is slow.
    """
    # CPU time of the whole suite on two busy cores: 195 to 220 s with this, 244 s without.
    return copy_context().run(runner.pytest_runtest_protocol, item, nextitem)


@pytest.fixture(scope="session")
def live_server(django_db_setup: None, live_server: Any) -> Any:
    """pytest-django's, begun after the database, whose connection its threads then share."""
    return live_server


@pytest.fixture
def user(db: None) -> Any:
    return get_user_model().objects.create_user("ada")


@pytest.fixture(params=SPOKEN)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def client(revision: str, user: Any) -> CheckedClient:
    """A client of an ordinary user, once for every revision."""
    return CheckedClient(user=user, revision=revision)


@pytest.fixture
def modern(user: Any) -> CheckedClient:
    return CheckedClient(user=user)


@pytest.fixture
def legacy(user: Any) -> CheckedClient:
    return CheckedClient(user=user, revision="2025-11-25")
