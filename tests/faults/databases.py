"""Databases in separate processes, or in files, which tests stop, freeze, fill and lock."""

from __future__ import annotations

import signal
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import MySQLdb
import psycopg

from tests.faults.servers import Server

# Timeouts of a site for its database, in seconds: of a connection, of a statement or a lock.
CONNECT, STATEMENT = 2, 2
MOST_CONNECTIONS = 30


class Database(Server):
    """A database server, and the settings with which a site uses its database."""

    settings: dict[str, Any]
    # The token of the site's user.
    token: str

    @abstractmethod
    def connect(self) -> Any:
        """Connect as the administrator of the database, in autocommit."""

    def ask(self) -> object:
        return self.query("SELECT 1")

    def query(self, *statements: str) -> list[Any]:
        """Execute statements, and return the rows of the last one."""
        rows: Sequence[Any] = ()
        connection = self.connect()
        try:
            for statement in statements:
                cursor = connection.cursor()
                cursor.execute(statement)
                rows = cursor.fetchall() if cursor.description else ()
                cursor.close()
        finally:
            connection.close()
        return list(rows)

    def outcomes(self, tool: str, since: object = None) -> list[str]:
        """Return the recorded outcomes of a tool's calls, or of those that began after a time."""
        later = f"AND started_at > '{since}'" if since else ""
        rows = self.query(
            "SELECT outcome FROM mcp_bridge_toolcallrecord "
            f"WHERE tool = '{tool}' {later} ORDER BY id"
        )
        return [outcome for (outcome,) in rows]

    def last_call(self) -> object:
        """Return the time at which the last recorded call began."""
        return self.query("SELECT max(started_at) FROM mcp_bridge_toolcallrecord")[0][0]

    @contextmanager
    def session(self, *statements: str) -> Iterator[None]:
        """Execute statements in another session, and end it with the block."""
        connection = self.connect()
        try:
            for statement in statements:
                connection.cursor().execute(statement)
            yield
        finally:
            connection.close()

    def kill_connections(self) -> None:
        """End all connections of the site, and wait until they have ended."""
        until = time.monotonic() + 10
        while found := self.connections():
            assert time.monotonic() < until
            for key in found:
                self.kill_connection(key)
            time.sleep(0.02)

    @abstractmethod
    def connections(self) -> list[Any]:
        """Return the keys of the site's connections."""

    @abstractmethod
    def kill_connection(self, key: Any) -> None:
        """End a connection, unless it has ended."""

    @contextmanager
    def killed(self) -> Iterator[None]:
        """End all connections of the site; the server takes new ones."""
        self.kill_connections()
        yield

    @contextmanager
    def hung(self) -> Iterator[None]:
        """End the connections of the site, and do not answer new ones."""
        self.kill_connections()
        with self.frozen():
            yield

    @contextmanager
    def out_of_connections(self) -> Iterator[None]:
        """Hold all connections that the server takes."""
        with ExitStack() as held:
            self.kill_connections()
            # A place is free again only a moment after its connection has ended.
            refused = 0
            while refused < 20:
                try:
                    held.callback(self.connect().close)
                except (psycopg.OperationalError, MySQLdb.OperationalError):
                    refused += 1
                    time.sleep(0.02)
            yield
        time.sleep(0.1)

    @contextmanager
    def without(self, table: str) -> Iterator[None]:
        """Move a table away, as before the migrations."""
        self.query(f"ALTER TABLE {table} RENAME TO moved")
        try:
            yield
        finally:
            self.query(f"ALTER TABLE moved RENAME TO {table}")

    @contextmanager
    def without_column(self, table: str, column: str) -> Iterator[None]:
        """Move a column away, as before a later migration."""
        self.query(f"ALTER TABLE {table} RENAME COLUMN {column} TO moved")
        try:
            yield
        finally:
            self.query(f"ALTER TABLE {table} RENAME COLUMN moved TO {column}")

    @abstractmethod
    def refusing(self, table: str) -> Any:
        """Refuse each new row of a table by a trigger."""

    @abstractmethod
    def locked(self, table: str) -> Any:
        """Lock a table in another session."""

    @abstractmethod
    def read_only(self) -> Any:
        """Refuse all writes, as on a standby."""

    @abstractmethod
    def full(self) -> Any:
        """Fill the disk, or the server's share of it."""


class PostgreSQL(Database):
    owner = "postgres"

    def create(self) -> None:
        super().create()
        self.data = self.place / "data"
        self.run(
            *("initdb", f"--pgdata={self.data}", "--username=bridge", "--auth=trust"),
            *("--encoding=UTF8", "--no-sync"),
        )
        self.settings = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "site",
            "HOST": str(self.place),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {
                "connect_timeout": CONNECT,
                "options": f"-c statement_timeout={STATEMENT * 1000}",
            },
        }

    @property
    def command(self) -> Sequence[str]:
        return (
            *("postgres", "-D", str(self.data), "-k", str(self.place), "-F"),
            *("-c", "listen_addresses=", "-c", f"max_connections={MOST_CONNECTIONS}"),
            *("-c", "superuser_reserved_connections=0"),
        )

    def stop(self) -> None:
        # Killed, it would leave the processes of its connections.
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)

    def start(self) -> None:
        super().start()
        if not self.query("SELECT 1 FROM pg_roles WHERE rolname = 'site'"):
            self.query("CREATE ROLE site LOGIN", "GRANT ALL ON SCHEMA public TO site")

    def connect(self) -> Any:
        return psycopg.connect(
            host=str(self.place), user="bridge", dbname="postgres", autocommit=True
        )

    def connections(self) -> list[Any]:
        return self.query("SELECT pid FROM pg_stat_activity WHERE usename = 'site'")

    def kill_connection(self, key: Any) -> None:
        self.query(f"SELECT pg_terminate_backend({key[0]})")

    @contextmanager
    def refusing(self, table: str) -> Iterator[None]:
        self.query(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'SECRET-MARKER: no rows'; END$$",
            f"CREATE TRIGGER refuse BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()",
        )
        try:
            yield
        finally:
            self.query(f"DROP TRIGGER refuse ON {table}")

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        with self.session("BEGIN", f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"):
            yield

    @contextmanager
    def read_only(self) -> Iterator[None]:
        setting = "default_transaction_read_only"
        self.query(f"ALTER ROLE site SET {setting} = on")
        self.kill_connections()
        try:
            yield
        finally:
            self.query(f"ALTER ROLE site RESET {setting}")
            self.kill_connections()

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fill the disk that holds the table of groups."""
        with self.disk("small", "1m") as small:
            self.query(
                f"CREATE TABLESPACE small LOCATION '{small}'",
                "ALTER TABLE auth_group SET TABLESPACE small",
            )
            try:
                with self.filled(small):
                    yield
            finally:
                self.query(
                    "ALTER TABLE auth_group SET TABLESPACE pg_default", "DROP TABLESPACE small"
                )


class MariaDB(Database):
    owner = "mysql"

    def create(self) -> None:
        super().create()
        self.data, self.socket = self.place / "data", self.place / "mysql"
        self.disks.enter_context(self.disk("data", "200m"))
        self.run(
            *("mariadb-install-db", "--no-defaults", f"--datadir={self.data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            "--innodb-log-file-size=8M",
        )
        waits = f"max_statement_time = {STATEMENT}, lock_wait_timeout = {STATEMENT}"
        self.settings = {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "site",
            "USER": "site",
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {
                "unix_socket": str(self.socket),
                "connect_timeout": CONNECT,
                # Longer than a statement may take, else the client ends the connection first.
                "read_timeout": STATEMENT + 1,
                "init_command": f"SET {waits}, innodb_lock_wait_timeout = {STATEMENT}",
            },
        }

    @property
    def command(self) -> Sequence[str]:
        return (
            *("mariadbd", "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}"),
            # One more is kept for the administrator.
            *("--skip-networking", f"--max-connections={MOST_CONNECTIONS - 1}"),
            *("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=16M"),
            "--innodb-log-file-size=8M",
        )

    def start(self) -> None:
        super().start()
        self.query(
            "CREATE DATABASE IF NOT EXISTS site CHARACTER SET utf8mb4",
            "CREATE USER IF NOT EXISTS site@localhost",
            "GRANT ALL ON site.* TO site@localhost",
        )

    def connect(self) -> Any:
        # Before the first start the site's database does not exist.
        connection = MySQLdb.connect(unix_socket=str(self.socket), user="root", autocommit=True)
        with suppress(MySQLdb.OperationalError):
            connection.select_db("site")
        return connection

    def connections(self) -> list[Any]:
        return self.query("SELECT id FROM information_schema.processlist WHERE user = 'site'")

    def kill_connection(self, key: Any) -> None:
        with suppress(MySQLdb.OperationalError):
            self.query(f"KILL {key[0]}")

    @property
    def impatient_settings(self) -> dict[str, Any]:
        """Return settings of a site whose client times out before a statement has to end."""
        options = {**self.settings["OPTIONS"], "read_timeout": STATEMENT // 2}
        return {**self.settings, "OPTIONS": options}

    @contextmanager
    def trigger(self, table: str, does: str) -> Iterator[None]:
        """Begin each new row of a table with a statement."""
        # Another session's trigger would hide from the site that its session is busy.
        self.query(
            f"CREATE DEFINER = site@localhost TRIGGER fault BEFORE INSERT ON {table} "
            f"FOR EACH ROW {does}"
        )
        try:
            yield
        finally:
            self.query("DROP TRIGGER fault")

    def slow(self, table: str, seconds: float) -> Any:
        """Delay each new row of a table by so many seconds."""
        return self.trigger(table, f"DO SLEEP({seconds})")

    def refusing(self, table: str) -> Any:
        text = "SECRET-MARKER: no rows"
        return self.trigger(table, f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{text}'")

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        with self.session(f"LOCK TABLES {table} WRITE"):
            yield

    @contextmanager
    def read_only(self) -> Iterator[None]:
        self.query("SET GLOBAL read_only = 1")
        try:
            yield
        finally:
            self.query("SET GLOBAL read_only = 0")

    def full(self) -> Any:
        return self.filled(self.data)


class SQLite(Database):
    """A file, which each process opens itself."""

    # Pages of 4 KiB that the site may use.
    MOST_PAGES = 1500

    def create(self) -> None:
        self.file = self.place / "db.sqlite3"
        self.settings = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(self.file),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": STATEMENT,
                "init_command": f"PRAGMA synchronous=OFF; PRAGMA max_page_count={self.MOST_PAGES}",
            },
        }

    @property
    def command(self) -> Sequence[str]:
        return ()

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def connect(self) -> Any:
        return sqlite3.connect(self.file, isolation_level=None, timeout=30)

    def connections(self) -> list[Any]:
        return []

    def kill_connection(self, key: Any) -> None: ...

    @contextmanager
    def refusing(self, table: str) -> Iterator[None]:
        self.query(
            f"CREATE TRIGGER refuse BEFORE INSERT ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'SECRET-MARKER: no rows'); END"
        )
        try:
            yield
        finally:
            self.query("DROP TRIGGER refuse")

    @contextmanager
    def locked(self, table: str = "") -> Iterator[None]:
        with self.session("BEGIN EXCLUSIVE"):
            yield

    @contextmanager
    def read_only(self) -> Iterator[None]:
        raise NotImplementedError("Of the settings: see read_only_settings")
        yield

    @property
    def read_only_settings(self) -> dict[str, Any]:
        """Return settings of a site that may not write the file."""
        options = {"timeout": STATEMENT, "uri": True}
        return {**self.settings, "NAME": f"file:{self.file}?mode=ro", "OPTIONS": options}

    @contextmanager
    def full(self) -> Iterator[None]:
        self.query("CREATE TABLE filling (content)")
        while True:
            ((pages, free),) = self.query(
                "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
            )
            pages -= free
            if pages >= self.MOST_PAGES - 1:
                break
            size = max(1, (self.MOST_PAGES - pages) // 2) * 4000
            self.query(f"INSERT INTO filling VALUES (zeroblob({size}))")
        try:
            yield
        finally:
            self.query("DROP TABLE filling")


Fault = Callable[[Database], Any]
