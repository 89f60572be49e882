from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from _pytest import runner
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.servers.basehttp import ServerHandler
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created
from django.test import TransactionTestCase
from django.test.utils import override_settings
from hypothesis import settings as hypothesis_settings

from mcp_bridge.conf import Audit
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.records.repeats import refusals
from mcp_bridge.records.rows import flush
from mcp_bridge.testing.checked import CheckedClient
from tests.support.revisions import SPOKEN

# Calls a function in so many threads at once, and returns their results.
Race = Callable[[Callable[[], Any], int], list[Any]]

# Slow tests with separate targets: "make browser", "make faults", "make fuzz", "make pages", and
# "make stress" (the last two are part of "make services").
SLOW = {
    "browser": "BROWSER",
    "faults": "FAULTS",
    "fuzz": "FUZZ",
    "pages": "PAGES",
    "processes": "STRESS",
}
collect_ignore = [folder for folder, wanted in SLOW.items() if wanted not in os.environ]

# The same values in each run, so that a failure is due to the tested change: "make fuzz" draws
# others, by its seed. No deadline, because the machine may be busy.
hypothesis_settings.register_profile("bridge", derandomize="FUZZ" not in os.environ, deadline=None)
hypothesis_settings.load_profile("bridge")

TESTS = Path(__file__).parent
WITHOUT_DATABASE = {"protocol", "schemas"}
# Folders inside those whose tests call the endpoint.
WITH_DATABASE = {"django", "validation"}

# The requests that the live server has not finished answering.
answering: set[ServerHandler] = set()


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    """Serve the site for a whole module, because building it for each test takes too long."""
    # Its procedures are public at /rpc.
    silenced = ["mcp_bridge.W033", "mcp_bridge.W035"]
    with override_settings(ROOT_URLCONF="tests.support.site", SILENCED_SYSTEM_CHECKS=silenced):
        yield


def uses_database(path: Path) -> bool:
    """Return whether the tests of a file, by its folder, may use the database without a mark."""
    folders = set(path.relative_to(TESTS).parts)
    return not folders & WITHOUT_DATABASE or bool(folders & WITH_DATABASE)


def pytest_configure() -> None:
    """
    Make the tables of django-oauth-toolkit at once: its 22 migrations take each worker 2 seconds.

    On SQLite only: other databases need the tables of users first, to which those refer.
    MCP_BRIDGE_TEST_WRITE sets another default of AUDIT["WRITE"], with which all tests pass too.
    WAY="asgi", "lane", "stdio" or "rest" sends the test clients to the asynchronous view, the
    direct lane, the handler of mcp_stdio or the addresses of REST; "tasks" runs calls as tasks.
    Passwords and client secrets are hashed with MD5, because Django's hasher is deliberately slow.
    The sources and skills of the settings are the newsroom's: all other tests start with the
    default ones.
    gRPC's library logs only errors, and not that a server has ended.
    Tests clear their cache, so each xdist worker has a separate database in a shared Redis.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    options = dict(settings.MCP_BRIDGE)
    for name in ("SOURCES", "SKILLS"):
        options.pop(name, None)
    if "mcp_bridge.ext.skills" in settings.INSTALLED_APPS:
        from mcp_bridge.ext.skills.apps import SkillsConfig

        SkillsConfig.mcp_sources = {}
    settings.MCP_BRIDGE = options
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    Audit.WRITE = os.environ.get("MCP_BRIDGE_TEST_WRITE", Audit.WRITE)  # type: ignore[assignment]
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        settings.MIGRATION_MODULES = {"oauth2_provider": None}
    # Both need the apps, which are not ready when this file is imported.
    if os.environ.get("WAY") == "lane":
        from tests.ext.lane.installed import install

        install()
    if os.environ.get("WAY") == "stdio":
        from tests.support.stdio import install as install_stdio

        install_stdio()
    if os.environ.get("WAY") == "rest":
        from tests.support.rest import install as install_rest

        install_rest()
    if os.environ.get("WAY") == "tasks":
        from tests.support.as_tasks import install as install_tasks

        install_tasks()
    if os.environ.get("WAY") == "asgi":
        from mcp_bridge.testing import serving

        serving.addresses.__kwdefaults__["asynchronous"] = True  # type: ignore[index]
        serving.route.__kwdefaults__["asynchronous"] = True  # type: ignore[index]
        serving.serve.__kwdefaults__["asynchronous"] = True  # type: ignore[index]
    if "MCP_BRIDGE_TEST_CACHE_URL" in os.environ:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        settings.CACHES["default"]["OPTIONS"]["db"] = 1 + int(worker.removeprefix("gw"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests for the database: the tools served depend on rows, so every request reads them."""
    for item in items:
        if os.environ.get("WAY") == "lane" and item.get_closest_marker("off_lane"):
            item.add_marker(pytest.mark.skip("It is about what the direct lane does not have."))
        if os.environ.get("WAY") == "stdio" and item.get_closest_marker("off_stdio"):
            item.add_marker(pytest.mark.skip("It is about addresses or headers of HTTP."))
        if os.environ.get("WAY") == "rest" and item.get_closest_marker("off_rest"):
            item.add_marker(pytest.mark.skip("It is about JSON-RPC, or REST says it differently."))
        if os.environ.get("WAY") == "tasks" and item.get_closest_marker("off_tasks"):
            item.add_marker(pytest.mark.skip("It is about what differs for tasks: tests/tasks."))
        is_marked = item.get_closest_marker("django_db") is not None
        if not is_marked and uses_database(item.path):
            # A fixture requested at run time would be too late: pytest-django creates only the
            # databases of marked tests.
            item.add_marker(pytest.mark.django_db)


def pytest_collection_finish() -> None:
    """Exclude all objects imported so far from garbage collection, which runs often in tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_refusals_known() -> None:
    """Forget earlier refusals, because a repeated one would not be recorded again."""
    refusals.clear()


@pytest.fixture(autouse=True)
def no_connections_of_threads_left() -> Iterator[None]:
    """Close connections of request threads, because Django never closes an in-memory database."""
    opened: list[tuple[Any, Any]] = []

    def note(connection: Any, **kwargs: Any) -> None:
        # As the threads of the direct lane are called, and those of asgiref.
        name = threading.current_thread().name
        if name.startswith(("mcp_bridge_", "ThreadPoolExecutor-")):
            opened.append((connection, connection.connection))

    if connection.vendor == "sqlite":
        connection_created.connect(note)
    yield
    connection_created.disconnect(note)
    for each, session in opened:
        session.close()
        if each.connection is session:
            each.connection = None


@pytest.fixture(scope="session")
def live_server(django_db_setup: None, live_server: Any) -> Iterator[Any]:
    """
    Return pytest-django's live server, started after the database, whose connection it shares.
    """

    def noted(handler: ServerHandler, application: Any) -> None:
        answering.add(handler)
        try:
            run(handler, application)
        finally:
            answering.discard(handler)

    run = ServerHandler.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerHandler, "run", noted)
        yield live_server


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """
    Have all done that a test has begun, records written too, before its tables are emptied.

    A client that has what it wants goes, while its last request is still answered: PostgreSQL would
    find the two in each other's way, and end one of them. A stream without a reader ends later.
    """
    latest = time.monotonic() + 5
    while answering and time.monotonic() < latest:
        time.sleep(0.001)
    flush()


@pytest.fixture(autouse=True, scope="module")
def no_records_left(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """Restore the database after each file, because a call in another thread leaves a record."""
    yield
    if uses_database(request.node.path):
        with django_db_blocker.unblock():
            if not connection.in_atomic_block:
                flush()
                assert not ToolCallRecord.objects.exists()


@pytest.fixture(autouse=True, scope="session")
def first_rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """
    Restore the rows of the migrations after tests with separate transactions.

    Django empties all tables after such a test and recreates each permission: 25 times the work,
    which SQLite is spared. Elsewhere it also writes rows of the tools, which are those of the test.
    """
    is_sqlite = connection.vendor == "sqlite"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        if not is_sqlite:
            names = [ToolSetting._meta.db_table]
        first = {}
        for name in names:
            cursor.execute(f'SELECT * FROM "{name}"')
            first[name] = cursor.fetchall()

    def restore(test: TransactionTestCase) -> None:
        databases = test._databases_names(include_mirrors=False)
        if not is_sqlite or databases != ["default"]:
            flush_all(test)
        if "default" not in databases or is_sqlite and databases != ["default"]:
            return
        with transaction.atomic(), connection.cursor() as cursor:
            for name, rows in first.items():
                cursor.execute(f'SELECT * FROM "{name}"')
                if cursor.fetchall() != rows:
                    cursor.execute(f'DELETE FROM "{name}"')
                    for row in rows:
                        marks = ", ".join(["%s"] * len(row))
                        cursor.execute(f'INSERT INTO "{name}" VALUES ({marks})', row)
        ContentType.objects.clear_cache()

    flush_all = TransactionTestCase._fixture_teardown
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", restore)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_sessions_left(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """End connections of asynchronous views, because PostgreSQL does not drop a database in use."""
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
    Run each test, with its fixtures, in a separate context.

    Each of Django's URL resolvers leaves a context variable behind, and asgiref copies all of them
    at each change of thread, which is slow after some thousand tests.
    """
    # CPU time of the whole suite on two busy cores: 195 to 220 s with this, 244 s without.
    return copy_context().run(runner.pytest_runtest_protocol, item, nextitem)


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


@pytest.fixture(params=["DEFERRED", "IMMEDIATE"])
def race(
    request: pytest.FixtureRequest,
    transactional_db: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Race]:
    """
    Call a function in several threads at once.

    SQLite's in-memory database does not lock, so threads share a copy of it in a file.
    """
    file = tmp_path / "race.sqlite3"
    if connection.vendor == "sqlite":
        # Long enough for a slow machine.
        options = {"transaction_mode": request.param, "timeout": 60}
        changed = {**connection.settings_dict, "NAME": str(file), "OPTIONS": options}
        monkeypatch.setitem(connections.settings, "default", changed)

    def run(do: Callable[[], Any], number: int) -> list[Any]:
        if connection.vendor == "sqlite" and not file.exists():
            with connection.cursor() as cursor:
                cursor.execute("VACUUM INTO %s", [str(file)])
        together = threading.Barrier(number)

        def one(_: int) -> Any:
            try:
                together.wait(60)
                return do()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(one, range(number)))

    yield run
    ToolCallRecord.objects.all().delete()
