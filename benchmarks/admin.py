"""
``python -m benchmarks.admin``: how long every page of the admin takes, and how many queries.

On a site with 300 tools, 100,000 records, 20,000 users in 30 groups, 200 held calls and 500
tokens, an administrator opens each page in turn, several times. The database is SQLite, or one of
the PostgreSQL of ``--database``, a URL, which goes at the end. More than 15 queries, or a median of
more than 300 ms, is an error.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

MOST_QUERIES: Final = 15
MOST_MS: Final = 300
TOOLS, GROUPS, WAITING, TOKENS = 300, 30, 200, 500
# The pages that nobody would find by the URLs alone: lists with a filter or a search.
LISTS: Final = {
    "toolsetting": ["?q=tool_1", "?enabled__exact=1", "?o=1"],
    "toolcallrecord": [
        *("?q=tool_12", "?q=cursor", "?q=some+text", "?q=nothing+of+it", "?q=cursor&when=week"),
        *("?outcome__exact=failed", "?error_code__exact=throttled", "?tool=tool_12"),
        *("?user_name=user_77", "?p=1500", "?o=-7"),
    ],
    "pendingcall": ["?status=aside"],
    "token": ["?q=user_7"],
}


def configure(database: dict[str, Any]) -> None:
    """Set up a site with the whole admin."""
    from django.conf import settings

    contrib = "django.contrib"
    settings.configure(
        SECRET_KEY="x" * 50,
        ALLOWED_HOSTS=["testserver"],
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        STATIC_URL="static/",
        DATABASES={"default": database},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        PASSWORD_HASHERS=[f"{contrib}.auth.hashers.MD5PasswordHasher"],
        INSTALLED_APPS=[
            *(f"{contrib}.{app}" for app in ("admin", "auth", "contenttypes", "messages")),
            *(f"{contrib}.{app}" for app in ("sessions", "staticfiles")),
            *("mcp_bridge", "mcp_bridge.tokens"),
        ],
        MIDDLEWARE=[
            f"{contrib}.sessions.middleware.SessionMiddleware",
            f"{contrib}.auth.middleware.AuthenticationMiddleware",
            f"{contrib}.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        f"{contrib}.auth.context_processors.auth",
                        f"{contrib}.messages.context_processors.messages",
                    ]
                },
            }
        ],
        MCP_BRIDGE={"STATE_MAX_AGE": 3600},
    )
    import django

    django.setup()


def serve() -> None:
    """Serve the tools, each with a permission of one of six kinds, beside the admin."""
    from django.conf import settings
    from django.contrib import admin
    from django.urls import path

    from mcp_bridge import mcp_tool
    from mcp_bridge.testing.serving import serve as serve_tools

    kinds = [f"auth.{action}_{model}" for action in ("add", "change", "delete") for model in NAMED]
    functions = []
    for number in range(TOOLS):

        def tool(name: str, count: int = 1, notes: list[str] | None = None) -> dict[str, int]:
            """Count something. The second sentence says more of it, as descriptions do."""
            return {name: count}

        tool.__name__ = f"tool_{number}"
        mark = mcp_tool(
            permissions=kinds[number % len(kinds)],
            read_only=number % 3 == 0,
            destructive=number % 7 == 0 and number % 3 != 0,
        )
        functions.append(mark(tool))
    serve_tools(settings, *functions)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("admin/", admin.site.urls))


NAMED: Final = ("user", "group")


def fill(users: int, records: int) -> Any:
    """Make the rows; returns the administrator."""
    from django.contrib.auth.models import Group, Permission, User
    from django.core.management import call_command
    from django.utils import timezone

    from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
    from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.registry.tool_status import sync_tool_settings
    from mcp_bridge.tokens.models import Token

    chance, now = random.Random(1), timezone.now()
    call_command("migrate", verbosity=0)
    serve()
    sync_tool_settings(registry.discovered)
    administrator = User.objects.create_superuser("administrator")
    groups = Group.objects.bulk_create(Group(name=f"group {number}") for number in range(GROUPS))
    allowed = list(Permission.objects.filter(content_type__model__in=NAMED))
    for group in groups:
        group.permissions.set(chance.sample(allowed, 3))
    people = User.objects.bulk_create(
        User(username=f"user_{number}", is_staff=number % 50 == 0) for number in range(users)
    )
    join = User.groups.through
    join.objects.bulk_create(
        join(user_id=user.pk, group_id=chance.choice(groups).pk) for user in people
    )
    for setting in ToolSetting.objects.all()[: TOOLS // 10]:
        setting.restricted = True
        setting.save()
        setting.groups.set(chance.sample(groups, 2))
    outcomes = ["succeeded"] * 17 + ["failed", "refused", "refused"]

    def record(_: int) -> ToolCallRecord:
        user, outcome = chance.choice(people[:2_000]), chance.choice(outcomes)
        return ToolCallRecord(
            started_at=now - timedelta(seconds=chance.random() * 30 * 86_400),
            tool=f"tool_{chance.randrange(TOOLS)}",
            user=user,
            user_name=user.username,
            client_name=chance.choice(["claude-code", "cursor", "inspector"]),
            revision="2025-11-25",
            outcome=outcome,
            error_code="rejected_arguments" if outcome == "refused" else "",
            duration_ms=None if outcome == "refused" else chance.expovariate(0.02),
            arguments='{"name": "some text", "count": 3}',
            arguments_bytes=33,
        )

    ToolCallRecord.objects.bulk_create(map(record, range(records)), batch_size=5_000)
    # Every fourth can no longer be approved: its tool has changed since.
    ToolSetting.objects.filter(name__endswith="7").update(confirm=True)
    asking = [tool for tool in registry.snapshot if tool.options.confirm]
    held = [chance.choice(asking) for _ in range(WAITING)]
    PendingCall.objects.bulk_create(
        PendingCall(
            key=f"{number}",
            tool=tool.name,
            fingerprint=fingerprint(canonical_definition(tool)) if number % 4 else "another",
            user=chance.choice(people),
            arguments='{\n  "name": "all"\n}',
        )
        for number, tool in enumerate(held)
    )
    for number in range(TOKENS):
        Token.objects.issue(user=people[number], name=f"token {number}")
    return administrator


def pages() -> Iterator[str]:
    """Yield the address of every page of the admin that can be opened, of one row each."""
    from django.contrib import admin
    from django.contrib.admin.utils import quote
    from django.urls import reverse

    yield reverse("admin:index")
    for label in ("mcp_bridge", "mcp_bridge_tokens"):
        yield reverse("admin:app_list", args=[label])
    for model, model_admin in admin.site._registry.items():
        options = model._meta
        if not options.app_label.startswith("mcp_bridge"):
            continue
        begin = reverse(f"admin:{options.app_label}_{options.model_name}_changelist")
        yield from (begin + query for query in ["", *LISTS.get(str(options.model_name), ())])
        row = model._default_manager.first()
        key = "" if row is None else str(quote(row.pk))
        if row is not None:
            yield f"{begin}{key}/change/"
            yield f"{begin}{key}/history/"
        for name, route in getattr(model_admin, "pages", {}).items():
            # Exports are files.
            if name not in ("csv", "json") and (key or "<" not in route):
                yield begin + route.replace("<path:object_id>", key)


def measure(client: Any, page: str, times: int) -> tuple[int, int, float]:
    """Open a page; returns its last status, the most queries, and the median in milliseconds."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    taken, most, status = [], 0, 0
    # The first one loads templates.
    client.get(page)
    for _ in range(times):
        with CaptureQueriesContext(connection) as queries:
            begun = time.perf_counter()
            response = client.get(page)
            taken.append(1_000 * (time.perf_counter() - begun))
        most, status = max(most, len(queries)), response.status_code
    return status, most, statistics.median(taken)


def database_of(url: str, folder: str) -> dict[str, Any]:
    """Return Django's settings of a database by its URL, or of a new one of SQLite."""
    if not url:
        place = str(Path(folder, "db.sqlite3"))
        options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": place, "OPTIONS": options}
    import dj_database_url

    return {**dj_database_url.parse(url), "TEST": {"NAME": "mcp_bridge_benchmark_admin"}}


def main() -> int:
    """Fill a site, open its pages and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=7, help="how often a page is opened")
    parser.add_argument("--database", default="", help="a URL of PostgreSQL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        configure(database_of(options.database, folder))
        from django.db import connection
        from django.test import Client

        if options.database:
            connection.creation.create_test_db(verbosity=0, autoclobber=True)
        try:
            client = Client()
            client.force_login(fill(options.users, options.records))
            over = 0
            print("| page | status | queries | ms |\n|---|---|---|---|")
            for page in pages():
                status, queries, median = measure(client, page, options.times)
                # A page for POST alone cannot be opened.
                if status == 405:
                    continue
                is_over = status != 200 or queries > MOST_QUERIES or median > MOST_MS
                over += is_over
                print(
                    f"| {page} | {status} | {queries} | {median:.0f}{' !' * is_over} |", flush=True
                )
        finally:
            if options.database:
                connection.creation.destroy_test_db(options.database, verbosity=0)
            connection.close()
    print(f"\n{over} pages over {MOST_QUERIES} queries or {MOST_MS} ms")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
