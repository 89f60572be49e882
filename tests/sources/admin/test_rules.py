"""Access, secrets, checks, confirmation and candidates of the tools of an admin."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils.translation import override

from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import text_of
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.browser import Browser
from tests.sources.admin.world import (
    BACKEND,
    World,
    complaint,
    definition,
    own_site,
    properties,
    serve,
    value,
    version_of,
)
from tests.support.confirming import FORM
from tests.support.serving import messages as reported
from tests.support.serving import names, set_tool


@pytest.fixture
def world(settings: Any) -> World:
    serve(settings)
    return World.make()


class TestSecrets:
    def test_secrets_and_hidden_fields_are_not_shown_or_set(self, settings: Any) -> None:
        class Form(forms.ModelForm):
            api_key = forms.CharField(required=False)
            code = forms.CharField(widget=forms.PasswordInput, required=False)

            class Meta:
                model = Section
                fields: ClassVar = ["name", "slug", "description"]
                widgets: ClassVar = {"description": forms.HiddenInput}

        class Own(admin.ModelAdmin):
            form = Form
            list_display: ClassVar = ["name", "secret_token"]

            def secret_token(self, row: Any) -> str:
                return "t0ken"

        world = own_site(settings, (Section, Own))
        assert set(properties(world, "newsroom_section_change")) == {
            "id",
            "version",
            "name",
            "slug",
        }
        client = world.client("root")
        read = value(client, "newsroom_section_get", id=world.sport.pk)
        assert set(read["fields"]) == {"name", "slug"}
        found = client.call_tool("newsroom_section_find", {})
        assert "t0ken" not in text_of(found)
        value(client, "newsroom_section_change", id=world.sport.pk, name="Games")
        assert Section.objects.get(pk=world.sport.pk).description == "Games & more."

    def test_rights_are_never_candidates(self, settings: Any) -> None:
        serve(settings, operations=["*"], expose="all")
        found = [*names(), *registry.discovered.candidates]
        guarded = ("auth_", "sessions_", "admin_", "mcp_bridge_", "oauth2_provider_accesstoken")
        assert not [each for each in found if each.startswith(guarded)]
        assert "skips" in reported("mcp_bridge.W088")[0]

    def test_users_are_tools_only_with_confirmation(self, settings: Any) -> None:
        serve(settings, operations={"auth.user.*": {}})
        assert set(names()) == {"auth_user_find", "auth_user_get", "auth_user_history"}
        assert "without confirmation by a person" in reported("mcp_bridge.W086")[0]
        serve(settings, operations={"auth.user.change": {"confirm": True}, "auth.user.get": {}})
        assert names() == ["auth_user_change", "auth_user_get"]
        assert "auth.user.get" in reported("mcp_bridge.W089")[0]
        world = World.make()
        known = properties(world, "auth_user_change")
        assert "password" not in known
        assert {"username", "is_staff", "groups"} <= known.keys()
        read = value(world.client("root"), "auth_user_get", id=world.users["editor"].pk)
        assert "password" not in {**read["fields"], **read["read_only"]}

    def test_add_that_needs_a_secret_is_left_out(self, settings: Any) -> None:
        class Form(forms.ModelForm):
            api_key = forms.CharField()

        class Own(admin.ModelAdmin):
            form = Form

        own_site(settings, (Section, Own))
        assert "newsroom_section_add" not in names()
        assert "newsroom_section_change" in names()
        assert "its required field 'api_key' is a secret" in reported("mcp_bridge.W086")[0]


class TestChecks:
    def test_unknown_operations_and_sites_are_reported(self, settings: Any) -> None:
        serve(settings, operations=["newsroom.articles.*"])
        assert names() == []
        assert "nothing matches the name 'newsroom.articles.*'" in reported("mcp_bridge.W087")[0]
        serve(settings)
        route(settings)
        assert names() == []
        assert reported("mcp_bridge.E083")
        settings.MCP_BRIDGE = {
            "SOURCES": {"admin": {"BACKEND": BACKEND, "OPTIONS": {"site": "django.conf.settings"}}}
        }
        assert names() == []
        assert "is not the dotted path of an AdminSite" in reported("mcp_bridge.E003")[0]

    def test_unknown_widgets_leave_the_form_out(self, settings: Any) -> None:
        class Map(forms.Widget):
            pass

        class Own(admin.ModelAdmin):
            formfield_overrides: ClassVar = {}

            def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
                if db_field.name == "description":
                    kwargs["widget"] = Map
                return super().formfield_for_dbfield(db_field, request, **kwargs)

        class Broken(admin.ModelAdmin):
            def get_form(self, *args: Any, **kwargs: Any) -> Any:
                raise LookupError("not without a desk")

        own_site(settings, (Section, Own), (Comment, Broken))
        told = " ".join(reported("mcp_bridge.E082") + reported("mcp_bridge.W086"))
        assert "its widget TestChecks" in told
        assert "not without a desk" in told
        assert "newsroom_section_find" in names()
        assert "newsroom_section_change" not in names()
        assert "newsroom_comment_change" not in names()

    def test_patterns_choose_acts_by_their_own_names(self, settings: Any) -> None:
        serve(settings, operations=["newsroom.article.[!d]*", "newsroom.section.[*]"])
        served = {each.rpartition("_")[2] for each in registry.discovered.tools}
        assert "delete" not in served
        assert {"find", "change", "publish"} <= served
        assert not any("section" in each for each in registry.discovered.tools)

    def test_operations_take_options_of_tools(self, settings: Any) -> None:
        serve(
            settings,
            operations={"*": {}, "newsroom.section.delete": {"confirm": True, "title": "Close"}},
            prefix="cms_",
        )
        world = World.make()
        tool = definition(world, "cms_newsroom_section_delete")
        assert tool["title"] == "Close"


class TestConfirmation:
    @pytest.fixture
    def world(self, settings: Any) -> World:
        serve(settings, operations={"newsroom.*": {"confirm": True}})
        return World.make()

    def test_person_sees_old_and_new_values(self, world: World) -> None:
        client = world.client("editor")
        client.capabilities = FORM
        version = version_of(world, Article, world.harbour.pk)
        arguments = {"id": world.harbour.pk, "title": "New", "section": world.sport.pk}
        text = complaint(client, "newsroom_article_change", **arguments)
        assert text.startswith("Nothing was run: /version: is required")
        arguments["version"] = version
        asked = client.post("tools/call", name="newsroom_article_change", arguments=arguments)
        text = asked["inputRequests"]["confirm"]["params"]["message"]
        for part in ('"article": "Harbour"', '"from": "Harbour"', '"to": "New"', '"Sport"'):
            assert part in text
        answers = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        done = client.post(
            "tools/call",
            name="newsroom_article_change",
            arguments=arguments,
            inputResponses=answers,
            requestState=asked["requestState"],
        )
        assert not done["isError"]
        assert Article.objects.get(pk=world.harbour.pk).title == "New"

    def test_queue_shows_what_is_deleted_along(self, world: World) -> None:
        client = world.client("editor")
        text = complaint(client, "newsroom_article_delete", id=world.harbour.pk)
        assert "requires a person's approval" in text
        pending = PendingCall.objects.get()
        assert '"comments": 2' in pending.arguments
        assert '"article": "Harbour"' in pending.arguments

    def test_nothing_is_queued_that_would_fail(self, world: World) -> None:
        client = world.client("editor")
        for tool, arguments in (
            ("newsroom_article_change", {"id": 999, "title": "x"}),
            ("newsroom_article_delete", {"id": "abc"}),
            ("newsroom_article_publish", {"ids": [77]}),
            ("newsroom_article_change", {"id": world.harbour.pk, "version": "old"}),
            (
                "newsroom_article_change",
                {
                    "id": world.harbour.pk,
                    "version": version_of(world, Article, world.harbour.pk),
                    "comments": [{"id": 99}],
                },
            ),
        ):
            assert complaint(client, tool, **arguments).startswith("Nothing was run: ")
        assert not PendingCall.objects.exists()


def test_calls_are_on_record(world: World) -> None:
    value(world.client("editor"), "newsroom_article_find", search="sea")
    complaint(world.client("editor"), "newsroom_article_get", id=999)
    records = ToolCallRecord.objects.order_by("pk").values_list("tool", "outcome")
    assert [tool for tool, _ in records] == ["newsroom_article_find", "newsroom_article_get"]


def test_candidates_build_no_form(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        def get_form(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("a form was built")

    own_site(settings, (Section, Own), operations=[], expose="all")
    found = registry.discovered.candidates
    assert {"newsroom_section_find", "newsroom_section_change"} <= set(found)
    assert names() == []
    assert reported("mcp_bridge.E082") == []


def test_enabled_candidate_is_a_tool(settings: Any) -> None:
    serve(settings, operations=[], expose="all")
    world = World.make()
    assert world.client("root").list_tools() == []
    set_tool("newsroom_section_find", chosen=True)
    assert [each["name"] for each in world.client("root").list_tools()] == ["newsroom_section_find"]
    assert value(world.client("root"), "newsroom_section_find")["count"] == 2


def test_command_lists_the_acts(settings: Any, capsys: Any) -> None:
    serve(settings)
    call_command("mcp_tools")
    assert "newsroom_article_publish" in capsys.readouterr().out


def test_models_of_users_and_groups_are_guarded() -> None:
    from mcp_bridge.sources.admin.source import _is_guarded

    assert all(map(_is_guarded, (User, Group, LogEntry, PendingCall)))
    assert not any(map(_is_guarded, (Article, Author, Comment, Section)))


def test_queries_are_at_most_the_pages(world: World) -> None:
    browser, client = Browser(world.users["root"]), world.client("root")
    row = world.harbour.pk
    for tool, arguments, address in (
        ("find", {}, "/admin/newsroom/article/"),
        ("get", {"id": row}, f"/admin/newsroom/article/{row}/change/"),
        ("history", {"id": row}, f"/admin/newsroom/article/{row}/history/"),
    ):
        asked = []
        for act in (
            partial(browser.client.get, address),
            partial(value, client, f"newsroom_article_{tool}", **arguments),
        ):
            act()
            with CaptureQueriesContext(connection) as queries:
                act()
            found = [each["sql"] for each in queries if 'FROM "newsroom_' in each["sql"]]
            asked.append(found)
        assert len(asked[1]) <= len(asked[0]), (tool, asked[1])


def test_answers_have_no_html(world: World) -> None:
    client, row = world.client("root"), world.harbour.pk
    answers = [
        client.call_tool(f"newsroom_{model}_{act}", {"id": row, **changes})
        for model in ("article", "section", "comment", "media", "author")
        for act, changes in (
            ("get", {}),
            ("history", {}),
            ("change", {}),
            ("change", {"title": "", "slug": "", "name": ""}),
            ("delete", {}),
        )
    ]
    answers += [client.call_tool(f"newsroom_{it}_find", {}) for it in ("article", "media")]
    text = json.dumps(answers)
    for part in ("<a", "<p", "<ul", "<img", "csrf", "errorlist", "&amp;", "&lt;"):
        assert part not in text, part


@pytest.mark.parametrize("asynchronous", [False, True])
def test_views_of_both_kinds_serve_the_acts(settings: Any, asynchronous: bool) -> None:
    serve(settings)
    route(settings, path("admin/", admin.site.urls), asynchronous=asynchronous)
    world = World.make()
    client, row = world.client("editor"), world.harbour.pk
    value(client, "newsroom_article_change", id=row, summary="Changed")
    assert value(client, "newsroom_article_get", id=row)["fields"]["summary"] == "Changed"


def test_definitions_do_not_follow_the_language(settings: Any) -> None:
    serve(settings)
    world = World.make()
    known = definition(world, "newsroom_article_change")
    registry.forget()
    with override("de"):
        assert definition(world, "newsroom_article_change") == known
