"""Secrets, rights, odd models and odd ModelAdmins behind the tools of an admin."""

from __future__ import annotations

import base64
import json
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.forms import ReadOnlyPasswordHashField
from django.contrib.sessions.models import Session
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils.html import format_html
from django.utils.translation import gettext_lazy, override

from mcp_bridge.models import PendingCall
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.admin.source import _is_guarded
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.browser import Browser
from tests.sources.admin.world import (
    World,
    complaint,
    definition,
    own_site,
    properties,
    serve,
    serve_site,
    value,
    version_of,
)
from tests.support.confirming import FORM
from tests.support.serving import messages as reported
from tests.support.serving import names


class PinForm(forms.ModelForm):
    pin = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["pin"] = "4711"

    class Meta:
        model = Section
        fields: ClassVar = ["name", "slug"]


def test_version_does_not_reveal_a_short_secret(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        form = PinForm

    world = own_site(settings, (Section, Own))
    read = value(world.client("root"), "newsroom_section_get", id=world.sport.pk)
    assert "pin" not in read["fields"]
    parts = [read["version"][at : at + 4] for at in range(0, len(read["version"]), 4)]

    def digest(pin: str) -> str:
        part = sha256(repr([("pin", pin)]).encode()).digest()[:3]
        return base64.urlsafe_b64encode(part).decode()

    guessed = [pin for pin in (f"{n:04}" for n in range(10**4)) if digest(pin) in parts]
    assert "4711" not in guessed


def test_stale_version_is_told_without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False
    serve(settings)
    world = World.make()
    client, row = world.client("root"), world.sport.pk
    version = value(client, "newsroom_section_get", id=row)["version"]
    value(client, "newsroom_section_change", id=row, name="One")
    text = complaint(client, "newsroom_section_change", id=row, name="Two", version=version)
    assert text.startswith("Nothing was saved")


def test_log_message_with_bracket_is_signed(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        actions: ClassVar = ["touch"]

        def touch(self, request: Any, queryset: Any) -> None:
            for row in queryset:
                self.log_change(request, row, "[bulk] touched")

    world = own_site(settings, (Section, Own))
    value(world.client("root"), "newsroom_section_touch", ids=[world.sport.pk])


class PriceForm(admin.helpers.ActionForm):
    price = forms.IntegerField()


def test_action_with_form_of_its_own_says_so(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        action_form = PriceForm
        actions: ClassVar = ["reprice"]

        def reprice(self, request: Any, queryset: Any) -> None:
            queryset.update(description="repriced")

    own_site(settings, (Section, Own))
    assert "newsroom_section_reprice" not in names()
    assert "has further fields" in reported("mcp_bridge.W086")[0]


def test_membership_of_groups_is_guarded(table: Any) -> None:
    kind = table(
        "Membership",
        user=models.ForeignKey("auth.User", models.CASCADE, related_name="+"),
        group=models.ForeignKey("auth.Group", models.CASCADE, related_name="+"),
    )
    assert _is_guarded(kind)


def test_rows_with_a_permission_are_guarded(table: Any) -> None:
    kind = table(
        "ObjectRight",
        permission=models.ForeignKey("auth.Permission", models.CASCADE, related_name="+"),
    )
    assert _is_guarded(kind)


def test_proxies_of_sessions_are_guarded(table: Any) -> None:
    assert _is_guarded(table("Visit", Session, meta={"proxy": True}))


def test_proxies_of_log_entries_are_guarded(table: Any) -> None:
    assert _is_guarded(table("Trail", LogEntry, meta={"proxy": True}))


def test_proxies_of_pending_calls_are_guarded(table: Any) -> None:
    assert _is_guarded(table("Question", PendingCall, meta={"proxy": True}))


def test_oauth_applications_and_grants_are_guarded() -> None:
    from oauth2_provider.models import get_application_model, get_grant_model, get_id_token_model

    assert _is_guarded(get_id_token_model())
    assert _is_guarded(get_grant_model())
    assert _is_guarded(get_application_model())


def test_secret_keys_are_not_shown_as_id(settings: Any, table: Any) -> None:
    kind = table("Visit", session_key=models.CharField(max_length=40, primary_key=True))
    world = own_site(settings, (kind, None))
    kind.objects.create(session_key="s3ss10n")
    if "newsroom_visit_find" in names():
        found = world.client("root").call_tool("newsroom_visit_find", {})
        assert "s3ss10n" not in json.dumps(found["structuredContent"]["rows"][0]["id"])


def test_hashes_stay_masked_for_viewers(settings: Any) -> None:
    class Form(forms.ModelForm):
        description = ReadOnlyPasswordHashField()

        class Meta:
            model = Section
            fields: ClassVar = ["name", "description"]

    class Own(admin.ModelAdmin):
        form = Form

    world = own_site(settings, (Section, Own))
    stored = "md5$salt$5f4dcc3b5aa765d61d8327deb882cf99"
    Section.objects.filter(pk=world.sport.pk).update(description=stored)
    read = world.client("viewer").call_tool("newsroom_section_get", {"id": world.sport.pk})
    assert stored not in json.dumps(read)


def test_action_labels_do_not_follow_the_language(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        actions: ClassVar = ["touch"]

        @admin.action(description=gettext_lazy("Delete"))
        def touch(self, request: Any, queryset: Any) -> None:
            pass

    world = own_site(settings, (Section, Own))

    def definition() -> Any:
        registry.forget()
        return next(
            each
            for each in world.client("root").list_tools()
            if each["name"] == "newsroom_section_touch"
        )

    known = definition()
    with override("de"):
        assert definition() == known


def test_candidates_do_not_follow_the_language(settings: Any, table: Any) -> None:
    kind = table("Thing", meta={"verbose_name_plural": gettext_lazy("groups")})
    own_site(settings, (kind, None), operations=[], expose="all")

    def description() -> Any:
        registry.forget()
        return str(registry.discovered.candidates["newsroom_thing_find"].description)

    known = description()
    with override("de"):
        assert description() == known


def test_broken_permission_method_breaks_nothing_else(settings: Any) -> None:
    class Broken(admin.ModelAdmin):
        def has_add_permission(self, request: Any) -> bool:
            raise LookupError("no desk")

    world = own_site(settings, (Section, Broken), (Author, None))
    found = [each["name"] for each in world.client("root").list_tools()]
    assert "newsroom_author_find" in found


def test_action_label_with_percent_breaks_nothing_else(settings: Any) -> None:
    class Broken(admin.ModelAdmin):
        actions: ClassVar = ["touch"]

        @admin.action(description="Give 50% off")
        def touch(self, request: Any, queryset: Any) -> None:
            pass

    world = own_site(settings, (Section, Broken), (Author, None))
    found = [each["name"] for each in world.client("root").list_tools()]
    assert "newsroom_author_find" in found


class DataForm(forms.ModelForm):
    data = forms.JSONField(required=False)

    class Meta:
        model = Section
        fields: ClassVar = ["name"]


class Data(admin.ModelAdmin):
    form = DataForm


@pytest.mark.parametrize("given", [[], [{"a": 1}]])
def test_confirmed_list_may_replace_null(settings: Any, given: Any) -> None:
    world = own_site(settings, (Section, Data), operations={"newsroom.*": {"confirm": True}})
    client = world.client("root")
    client.capabilities = FORM
    row = world.sport.pk
    arguments = {"id": row, "version": version_of(world, Section, row), "data": given}
    asked = client.post("tools/call", name="newsroom_section_change", arguments=arguments)
    assert "inputRequests" in asked, asked


def test_confirmation_shows_the_present_json(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        pass

    world = own_site(
        settings, (Article, Own), (Section, None), operations={"newsroom.*": {"confirm": True}}
    )
    Article.objects.filter(pk=world.harbour.pk).update(tags=[{"id": 1, "rule": "old"}])
    client = world.client("root")
    client.capabilities = FORM
    row = world.harbour.pk
    arguments = {"id": row, "version": version_of(world, Article, row)}
    arguments["tags"] = [{"id": 2, "rule": "new"}]
    asked = client.post("tools/call", name="newsroom_article_change", arguments=arguments)
    assert "old" in asked["inputRequests"]["confirm"]["params"]["message"]


def test_refused_addition_asks_nobody(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
            return [] if request.user.is_superuser else ["description"]

    world = own_site(settings, (Section, Own), operations={"newsroom.*": {"confirm": True}})
    arguments = {"name": "N", "slug": "n", "description": "x"}
    complaint(world.client("adder"), "newsroom_section_add", **arguments)
    assert not PendingCall.objects.exists()


def test_null_is_not_the_first_choice(settings: Any) -> None:
    class Form(forms.ModelForm):
        description = forms.ChoiceField(choices=[("a", "A"), ("b", "B")], required=False)

        class Meta:
            model = Section
            fields: ClassVar = ["name", "description"]

    class Own(admin.ModelAdmin):
        form = Form

    world = own_site(settings, (Section, Own))
    Section.objects.filter(pk=world.sport.pk).update(description="b")
    world.client("root").call_tool(
        "newsroom_section_change", {"id": world.sport.pk, "description": None}
    )
    assert Section.objects.get(pk=world.sport.pk).description != "a"


def test_missing_row_on_post_is_no_success(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        def get_object(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            return (
                None if request.method == "POST" else super().get_object(request, *args, **kwargs)
            )

    world = own_site(settings, (Section, Own))
    for act in ("change", "delete"):
        result = world.client("root").call_tool(f"newsroom_section_{act}", {"id": world.sport.pk})
        assert result.get("isError"), result


def test_site_without_urls_is_reported(settings: Any) -> None:
    site = admin.AdminSite(name="staff")
    site.register(Section)
    serve_site(settings, site)
    route(settings, path("admin/", admin.site.urls))
    assert reported("mcp_bridge.E083")


def test_null_lookup_is_the_page_without_it(settings: Any) -> None:
    class Active(admin.SimpleListFilter):
        title, parameter_name = "state", "state"

        def lookups(self, request: Any, model_admin: Any) -> Any:
            return [(None, "Active"), ("all", "All")]

        def queryset(self, request: Any, queryset: Any) -> Any:
            return queryset.filter(slug="sport") if self.value() is None else queryset

    class Own(admin.ModelAdmin):
        list_filter: ClassVar = [Active]

    world = own_site(settings, (Section, Own))
    assert "None" not in json.dumps(properties(world, "newsroom_section_find")["state"])


def test_own_lookups_may_come_later(settings: Any) -> None:
    class Names(admin.SimpleListFilter):
        title, parameter_name = "name", "name"

        def lookups(self, request: Any, model_admin: Any) -> Any:
            return [(each.slug, each.name) for each in Section.objects.all()]

        def queryset(self, request: Any, queryset: Any) -> Any:
            return queryset.filter(slug=self.value()) if self.value() else queryset

    class Own(admin.ModelAdmin):
        list_filter: ClassVar = [Names]

    world = own_site(settings, (Section, Own))
    client = world.client("root")
    before = client.list_tools()
    assert value(client, "newsroom_section_find", name="sport")["count"] == 1
    Section.objects.create(name="Later", slug="later")
    assert value(client, "newsroom_section_find", name="later")["count"] == 1
    registry.forget()
    assert client.list_tools() == before


def test_html_of_names_is_text(settings: Any, table: Any) -> None:
    kind = table(
        "Thing",
        name=models.CharField(max_length=9),
        __str__=lambda self: format_html("<b>{}</b>", "T"),
    )
    world = own_site(settings, (kind, None))
    row = kind.objects.create(name="x")
    client = world.client("root")
    assert "<b>" not in json.dumps(value(client, "newsroom_thing_find"))
    assert "<b>" not in json.dumps(value(client, "newsroom_thing_get", id=row.pk))


def test_html_of_help_is_text(settings: Any) -> None:
    class Form(forms.ModelForm):
        name = forms.CharField(help_text="See <a href='/x'>the rules</a>.")

        class Meta:
            model = Section
            fields: ClassVar = ["name"]

    class Own(admin.ModelAdmin):
        form = Form

    world = own_site(settings, (Section, Own))
    assert "<a" not in properties(world, "newsroom_section_change")["name"]["description"]


def test_added_key_is_not_percent_encoded(settings: Any, table: Any) -> None:
    kind = table("Thing", code=models.CharField(max_length=9, primary_key=True))
    world = own_site(settings, (kind, None))
    client = world.client("root")
    assert value(client, "newsroom_thing_add", code="é a")["id"] == "é a"
    value(client, "newsroom_thing_get", id="é a")


def test_key_of_relation_is_what_form_takes(settings: Any, table: Any) -> None:
    target = table(
        "Target", number=models.IntegerField(unique=True), __str__=lambda self: str(self.number)
    )
    kind = table("Thing", target=models.ForeignKey(target, models.CASCADE, to_field="number"))
    world = own_site(settings, (kind, None), (target, None))
    first = target.objects.create(pk=1, number=2)
    target.objects.create(pk=2, number=1)
    client = world.client("root")
    told = properties(world, "newsroom_thing_add")["target"]["description"]
    assert "number" in told, told
    added = value(client, "newsroom_thing_add", target=first.number)["id"]
    assert kind.objects.get(pk=added).target == first


def test_huge_ids_of_actions_are_unknown(settings: Any) -> None:
    serve(settings)
    world = World.make()
    for ids in ([2**70], [str(2**70)], ["1\x00"], [True]):
        text = complaint(world.client("root"), "newsroom_article_publish", ids=ids)
        assert "reference" not in text, ids


def test_find_reads_no_texts_that_page_hides(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        list_display: ClassVar = ["text"]
        actions = None

    world = own_site(settings, (Comment, Own))
    browser, client = Browser(world.users["root"]), world.client("root")
    counts = []
    for act in (
        lambda: browser.client.get("/admin/newsroom/comment/"),
        lambda: value(client, "newsroom_comment_find"),
    ):
        act()
        with CaptureQueriesContext(connection) as queries:
            act()
        counts.append([it["sql"] for it in queries if '"newsroom_' in it["sql"]])
    assert len(counts[1]) <= len(counts[0]), counts[1]


def test_order_does_not_name_secrets(settings: Any, table: Any) -> None:
    kind = table("Thing", name=models.CharField(max_length=9), pin=models.CharField(max_length=9))

    class Own(admin.ModelAdmin):
        list_display: ClassVar = ["name", "pin"]

    world = own_site(settings, (kind, Own))
    assert "pin" not in json.dumps(properties(world, "newsroom_thing_find")["order"])


def test_search_does_not_probe_secrets(settings: Any, table: Any) -> None:
    kind = table("Thing", name=models.CharField(max_length=9), pin=models.CharField(max_length=9))

    class Own(admin.ModelAdmin):
        list_display: ClassVar = ["name"]
        search_fields: ClassVar = ["name", "pin__startswith"]

    world = own_site(settings, (kind, Own))
    kind.objects.create(name="x", pin="4711")
    assert "search" not in properties(world, "newsroom_thing_find")


def test_nameless_functions_are_columns_of_their_own(settings: Any, table: Any) -> None:
    kind = table("Thing", name=models.CharField(max_length=9))

    class TokenAdmin(admin.ModelAdmin):
        @admin.display(ordering="name")
        def upper(row: Any) -> str:
            return row.name.upper()

        cut = partial(lambda size, row: row.name[:size], 1)
        cut.short_description = "Initial"  # type: ignore[attr-defined]
        size = (lambda row: f"{row.name}!"), (lambda row: len(row.name))
        list_display: ClassVar = [upper, *size, cut]
        readonly_fields: ClassVar = [upper, *size]

    world = own_site(settings, (kind, TokenAdmin))
    kind.objects.create(name="eve")
    kind.objects.create(name="ada")
    found = value(world.client("root"), "newsroom_thing_find", order=["upper"])["rows"]
    assert [each["columns"]["upper"] for each in found] == ["ADA", "EVE"]
    wanted = {"upper": "ADA", "<lambda>": "ada!", "<lambda>_2": 3, "function": "a"}
    assert found[0]["columns"] == wanted
    read = value(world.client("root"), "newsroom_thing_get", id=found[0]["id"])
    assert read["read_only"] == {"upper": "ADA", "<lambda>": "ada!", "<lambda>_2": 3}
    assert "0x" not in definition(world, "newsroom_thing_find")["description"]
