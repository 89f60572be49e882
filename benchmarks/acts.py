"""
``python -m benchmarks.acts``: what tools of the site's admin cost beside its views.

The tools that find and change an article of the newsroom are run in turns with the views that they
open, called with a request of the same user and not rendered. Then a site with 300 ModelAdmins is
read, with all of their acts as candidates: six a model, and an action of two models in three.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from benchmarks.remote import begin, rounds

BACKEND: Final = "mcp_bridge.sources.admin.AdminSource"
MODELS: Final = 300
CALLS: Final = 400
RESTARTS: Final = 20
OPTIONS: Final = {
    "expose": "all",
    "operations": ["newsroom.article.*"],
    "site": "benchmark_acts.site",
}


def page(user: Any, path: str, data: Any = None) -> Any:
    """Return the response of a view, unrendered."""
    from django.contrib.messages.storage.session import SessionStorage
    from django.contrib.sessions.backends.signed_cookies import SessionStore
    from django.test import RequestFactory
    from django.urls import resolve

    factory: Any = RequestFactory(SERVER_NAME="localhost")
    request = factory.get(path) if data is None else factory.post(path.partition("?")[0], data)
    request.user, request.session = user, SessionStore()
    request._messages, request._dont_enforce_csrf_checks = SessionStorage(request), True
    match = resolve(path.partition("?")[0])
    request.resolver_match = match
    return match.func(request, *match.args, **match.kwargs)


def acts() -> None:
    """Print how long the tools and the views take."""
    from django.contrib.auth import get_user_model

    from mcp_bridge.features import Context, ToolCall
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.sources.admin.forms import Filled, Form
    from testproject.newsroom.models import Article

    user = get_user_model().objects.get(username="admin")
    row: Any = Article.objects.order_by("pk").first()
    tools = registry.discovered.tools

    def called(name: str, **arguments: Any) -> None:
        tool = tools[name].built
        call = ToolCall(tool, tool.check(arguments), Context(user=user), sent=arguments)
        tool.encode(tool.invoke(call))

    address = f"/admin/newsroom/article/{row.pk}/change/"

    def viewed() -> None:
        list(page(user, "/admin/newsroom/article/?q=harbour").context_data["cl"].result_list)

    def posted() -> None:
        data = page(user, address).context_data
        # Rendering reads these, too.
        assert data["adminform"].form
        assert page(user, address, known).status_code == 302

    data = page(user, address).context_data
    known = dict(Filled(Form.of(data["adminform"].model_admin, data), {}).texts)
    changed = {"id": row.pk, "title": row.title}
    pairs = {
        "find": (viewed, lambda: called("newsroom_article_find", search="harbour")),
        "change": (posted, lambda: called("newsroom_article_change", **changed)),
    }
    print("| | views, ms | tool, ms | ratio |\n| :-- | --: | --: | --: |")
    for name, (view, tool) in pairs.items():
        # They alternate call by call, since a machine's speed varies from second to second.
        took = rounds({"view": view, "tool": tool}, 1, CALLS)
        ratio = statistics.median(b / a for a, b in zip(took["view"], took["tool"], strict=True))
        first, second = (statistics.median(each) for each in took.values())
        print(f"| {name} | {first:.2f} | {second:.2f} | {ratio:.2f} |")


def start() -> None:
    """Print how long it takes to read a site with many ModelAdmins."""
    from django.contrib.admin import AdminSite, ModelAdmin
    from django.db import models
    from django.test import override_settings
    from django.urls import path

    from mcp_bridge.registry.discovery import Reading, combine
    from mcp_bridge.sources.admin import AdminSource

    class Publishing(ModelAdmin):
        actions = ("publish",)

        def publish(self, request: Any, queryset: Any) -> None: ...

    site = AdminSite()
    for number in range(MODELS):
        meta = type("Meta", (), {"app_label": "newsroom"})
        members = {"__module__": __name__, "Meta": meta, "name": models.CharField(max_length=9)}
        model = type(f"Thing{number}", (models.Model,), members)
        site.register(model, Publishing if number % 3 else None)
    module: Any = ModuleType("benchmark_acts")
    module.site, module.urlpatterns = site, [path("admin/", site.urls)]
    sys.modules["benchmark_acts"] = module
    with override_settings(ROOT_URLCONF="benchmark_acts"):
        read, combined, count = list[float](), list[float](), 0
        for _ in range(RESTARTS):
            source = AdminSource("admin", OPTIONS)
            began = time.perf_counter()
            tools = source.tools()
            middle = time.perf_counter()
            found = combine({"admin": Reading(source, tools, source.messages, None)})
            combined.append((time.perf_counter() - middle) * 1000)
            read.append((middle - began) * 1000)
            count = len(tools)
            # Freed here, so that the next round does not include it.
            del tools, found
    # The first one has Django read the URLs and the models' relations.
    print(f"\n{count:,} candidates: {statistics.median(read):.1f} ms, first {read[0]:.0f} ms")
    print(f"The registry combines them in {statistics.median(combined):.1f} ms.")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = {"BACKEND": BACKEND, "OPTIONS": {"operations": ["newsroom.*"]}}
        sources = {"rpc": None, "remote": None, "skills": None, "admin": own}
        begin({"SOURCES": sources}, Path(folder) / "db.sqlite3")
        from django.core.management import call_command

        call_command("seed_newsroom", verbosity=0)
        acts()
        start()


if __name__ == "__main__":
    main()
