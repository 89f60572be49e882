"""The public names of docs/reference/upgrading.md exist, and the list is complete."""

from __future__ import annotations

import re
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.core.management import get_commands
from django.urls import include, path, reverse

from mcp_bridge.admin.base import PagesAdmin
from mcp_bridge.testing.serving import route
from tests.test_docs_code import PAGES, run
from tests.test_house import PUBLIC

PAGE = PAGES["docs/reference/upgrading.md"]


def test_documented_public_names_can_be_imported() -> None:
    imported = {
        key: value for key, value in run("reference/upgrading", "elicit").items() if key[0] != "_"
    }
    assert {"mcp_tool", "Token", "acall", "CheckedClient"} <= imported.keys()
    # Models of the app's own, and URLconfs.
    own = {"Generation", "UsedState", "urlpatterns"}
    assert {name for names in PUBLIC.values() for name in names} - own <= imported.keys()
    assert sorted(name for name in PUBLIC if name not in PAGE) == []


def test_urls_have_the_documented_names(settings: Any) -> None:
    own = path("mcp/tokens/", include("mcp_bridge.tokens.urls"))
    route(settings, path("admin/", admin.site.urls), own)
    rows = dict(re.findall(r"^\| `([\w:-]+)` \| (.*?) \|$", PAGE, re.MULTILINE))
    own_pages = {
        f"admin:{each.opts.app_label}_{each.opts.model_name}_{name}"
        for each in admin.site._registry.values()
        if isinstance(each, PagesAdmin)
        for name in each.pages
    }
    assert sorted(own_pages - rows.keys()) == []
    for name, page in rows.items():
        of_one = (
            "_try",
            "_approve",
            "_connect",
            "_delete",
            "_revoke",
            "_switch",
            "_verify",
            "_fetch",
            "_cancel",
        )
        is_of_one = name.endswith(of_one)
        address = reverse(name, args=["1"] if is_of_one else [])
        assert address.startswith("/admin/") or f"`{address}`" in page


def test_documented_commands_permissions_and_tables_exist() -> None:
    commands = {name for name, app in get_commands().items() if app.startswith("mcp_bridge")}
    assert sorted(name for name in commands if f"`{name}`" not in PAGE) == []
    named = re.findall(r"`(mcp_bridge\w*)\.((?:add|change|view|issue)_\w+)`", PAGE)
    assert len(named) == 12
    for label, codename in named:
        assert Permission.objects.filter(content_type__app_label=label, codename=codename).exists()
    models = [
        model
        for label in ("mcp_bridge", "mcp_bridge_tokens", "mcp_bridge_oauth")
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
    ]
    tables = {model._meta.db_table for model in models}
    assert sorted(table for table in tables if f"`{table}`" not in PAGE) == []
