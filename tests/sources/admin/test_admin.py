"""Rows, fields, versions, lists and actions of an admin as tools."""

from __future__ import annotations

import base64
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.db.models.deletion import ProtectedError
from django.http import FileResponse, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from mcp_bridge.testing import MCPError, text_of
from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.world import (
    World,
    complaint,
    definition,
    own_site,
    properties,
    serve,
    serve_site,
    value,
)
from tests.support.serving import messages as reported
from tests.support.serving import names

REFUSED = "/title: is not a field that the user of this call can change here; leave it out"


@pytest.fixture
def world(settings: Any) -> World:
    serve(settings)
    return World.make()


class TestRows:
    @pytest.mark.parametrize(
        "key", ["1/../2", "abc", "", 2**70, -1, 10**6, "a b", "%31", "é", "_5F"]
    )
    @pytest.mark.parametrize("act", ["get", "change", "delete", "history"])
    def test_unknown_rows_are_all_refused_alike(self, world: World, act: str, key: Any) -> None:
        text = complaint(world.client("root"), f"newsroom_article_{act}", id=key)
        known = f"article with ID “{key}” doesn’t exist. Perhaps it was deleted?"
        assert text in (known, "The admin does not have a page for this id.")

    def test_hidden_rows_do_not_exist(self, settings: Any) -> None:
        class Own(admin.ModelAdmin):
            def get_queryset(self, request: Any) -> Any:
                return super().get_queryset(request).filter(slug="match")

        world = own_site(settings, (Article, Own), (Section, admin.ModelAdmin), (Author, None))
        client = world.client("root")
        found = value(client, "newsroom_article_find")
        assert [each["text"] for each in found["rows"]] == ["Match"]
        for act in ("get", "change", "delete", "history"):
            text = complaint(client, f"newsroom_article_{act}", id=world.harbour.pk)
            assert "doesn’t exist" in text


class TestFields:
    def test_read_only_fields_are_refused_by_name(self, settings: Any) -> None:
        class Own(admin.ModelAdmin):
            exclude: ClassVar = ["tags"]

            def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
                return [] if request.user.is_superuser else ["title", "slug"]

        world = own_site(settings, (Article, Own), (Section, None), (Author, None))
        changes = {"id": world.harbour.pk, "title": "New", "summary": "S"}
        text = complaint(world.client("editor"), "newsroom_article_change", **changes)
        assert text == REFUSED
        assert "tags" in complaint(
            world.client("root"), "newsroom_article_change", **changes, tags=[]
        )
        assert Article.objects.get(pk=world.harbour.pk).summary == ""
        value(world.client("root"), "newsroom_article_change", **changes)
        assert Article.objects.get(pk=world.harbour.pk).title == "New"

    def test_all_errors_of_parent_and_inlines_are_told(self, world: World) -> None:
        text = complaint(
            world.client("root"),
            "newsroom_article_change",
            id=world.harbour.pk,
            section=999,
            slug="match",
            comments=[{"id": world.comments[1].pk, "user": 999}, {"user": 998, "text": "x"}],
        )
        assert [line.partition(":")[0] for line in sorted(text.splitlines())] == [
            *("/comments/0/user", "/comments/1/user", "/section", "/slug"),
        ]
        assert Comment.objects.filter(user=world.users["author"]).exists()

    def test_wrong_rows_of_inlines_are_refused(self, world: World) -> None:
        other = Comment.objects.create(article=world.match, user=world.users["root"], text="No")
        first = world.comments[0].pk
        for rows, place in (
            ([{"id": other.pk, "text": "x"}], "/comments/0/id"),
            ([{"id": first}, {"id": first, "text": "x"}], "/comments/1/id"),
            ([{"id": "abc"}], "/comments/0/id"),
            ([{"text": "x", "user": 1, "DELETE": True}], "/comments/0/DELETE"),
            ([{"text": "x", "user": 1}] * 1000, "/comments"),
        ):
            changes = {"id": world.harbour.pk, "title": "New", "comments": rows}
            text = complaint(world.client("root"), "newsroom_article_change", **changes)
            assert text.startswith(place)
        assert Article.objects.get(pk=world.harbour.pk).title == "Harbour"

    def test_inlines_keep_their_bounds_and_permissions(self, settings: Any) -> None:
        class Comments(admin.TabularInline):
            model, max_num, can_delete, extra = Comment, 3, False, 1

        class Own(admin.ModelAdmin):
            inlines: ClassVar = [Comments]

        world = own_site(settings, (Article, Own), (Section, None), (Author, None))
        row, tool = world.harbour.pk, "newsroom_article_change"
        new = {"user": world.users["root"].pk, "text": "Third"}
        text = complaint(world.client("root"), tool, id=row, comments=[new, new])
        assert text.startswith("/comments/1: does not fit: at most 3 rows")
        with pytest.raises(MCPError):
            # Viewers lack this tool.
            complaint(world.client("viewer"), tool, id=row, comments=[new])
        world.users["adder"].user_permissions.add(*_permissions("change_article", "view_article"))
        seen = value(world.client("adder"), "newsroom_article_get", id=row)
        assert len(seen["fields"].get("comments", [])) == 0
        text = complaint(
            world.client("adder"),
            tool,
            id=row,
            comments=[{"id": world.comments[0].pk, "text": "x"}],
        )
        assert text.startswith("/comments/0/id")
        value(world.client("root"), tool, id=row, comments=[new])
        assert Comment.objects.filter(article=row).count() == 3

    def test_one_call_changes_adds_and_deletes_inline_rows(self, world: World) -> None:
        first, second = (each.pk for each in world.comments)
        rows = [
            {"id": second, "text": "Changed", "hidden": True},
            {"id": first, "DELETE": True},
            {"user": world.users["root"].pk, "text": "New"},
        ]
        client, row = world.client("root"), world.harbour.pk
        value(client, "newsroom_article_change", id=row, title="T", comments=rows)
        found = Comment.objects.filter(article=row).order_by("pk").values_list("text", "hidden")
        assert [*found] == [("Changed", True), ("New", False)]
        assert Article.objects.get(pk=row).title == "T"

    def test_fields_may_have_any_name(self, settings: Any) -> None:
        names = ("context", "form", "values", "version", "page", "self_", "action", "index")

        class Own(admin.ModelAdmin):
            form = type(
                "Form",
                (forms.ModelForm,),
                {name: forms.CharField(required=False) for name in names}
                | {"Meta": type("Meta", (), {"model": Section, "fields": "__all__"})},
            )

        world = own_site(settings, (Section, Own))
        values = {"field_version" if name == "version" else name: "x" for name in names}
        known = properties(world, "newsroom_section_change").keys()
        assert {*values, "id", "version"} <= known
        changes = {"id": world.sport.pk, "name": "Games", **values}
        value(world.client("root"), "newsroom_section_change", **changes)
        assert Section.objects.get(pk=world.sport.pk).name == "Games"

    def test_relations_name_the_tool_that_finds_rows(self, world: World) -> None:
        known = properties(world, "newsroom_article_change")
        text = "Section. The id of the section; newsroom_section_find finds it."
        assert known["section"]["description"] == text


def _permissions(*codenames: str) -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.filter(codename__in=codenames)


class TestVersions:
    def test_old_version_is_refused_with_the_last_change(self, world: World) -> None:
        client, row = world.client("root"), world.harbour.pk
        version = value(client, "newsroom_article_get", id=row)["version"]
        assert value(client, "newsroom_article_get", id=row)["version"] == version
        change = {"id": row, "version": version, "title": "First", "comments": []}
        value(world.client("editor"), "newsroom_article_change", **change)
        text = complaint(client, "newsroom_article_change", **{**change, "title": "Second"})
        assert "Harbour" not in text
        assert "has changed since this version, in title" in text
        assert "Last, editor did this at " in text
        assert "Changed Title." in text
        assert Article.objects.get(pk=row).title == "First"

    def test_other_text_is_not_a_version(self, world: World) -> None:
        for version in ("", "x", "ä" * 100):
            change = {"id": world.harbour.pk, "version": version, "title": "No"}
            text = complaint(world.client("root"), "newsroom_article_change", **change)
            assert text == "/version: is not a version of this row; read it"


class TestLists:
    def test_filters_of_the_page_are_arguments(self, world: World) -> None:
        client, tool = world.client("root"), "newsroom_article_find"
        known = properties(world, tool)
        assert known["status"]["enum"] == ["draft", "review", "published"]
        assert {"search", "section", "author", "published_at__gte", "order", "page"} <= known.keys()
        Article.objects.filter(slug="match").update(status="review", section=world.sport)
        for filters in ({"status": "review"}, {"section": world.sport.pk}, {"search": "match"}):
            found = value(client, tool, **filters)
            assert [each["text"] for each in found["rows"]] == ["Match"], filters
        assert value(client, tool, published_at__isnull=False)["count"] == 0
        assert value(client, tool, published_at__gte="2020-01-01T00:00:00Z")["count"] == 0
        titles = [each["text"] for each in value(client, tool, order=["-title"])["rows"]]
        assert titles == ["Match", "Harbour"]
        hidden = value(client, "newsroom_comment_find", hidden=True)
        assert hidden["count"] == 0

    def test_wrong_filters_and_pages_are_refused(self, world: World) -> None:
        client, tool = world.client("root"), "newsroom_article_find"
        for wrong in ({"title": "x"}, {"page": 0}, {"order": ["body"]}, {"status": "lost"}):
            assert complaint(client, tool, **wrong).startswith("/")
        assert complaint(client, tool, section="abc").startswith("/section: ")
        beyond = value(client, tool, page=7)
        assert (beyond["count"], beyond["pages"], beyond["rows"]) == (2, 1, [])

    @pytest.mark.parametrize("year", [2, 9998])
    def test_first_and_last_dates_are_found(self, world: World, year: int) -> None:
        client, tool = world.client("root"), "newsroom_article_find"
        for month, day in ((1, 1), (12, 31)):
            parts = {"published_at__month": month, "published_at__day": day}
            for number in range(3):
                given = dict([*parts.items()][:number])
                assert value(client, tool, published_at__year=year, **given)["count"] == 0
        for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
            text = complaint(client, tool, published_at__gte=moment)
            assert text.startswith("/published_at__gte: is before the year 1 or after the year")
        for wrong in (1, 9999):
            text = complaint(client, tool, published_at__year=wrong)
            assert text.startswith("/published_at__year: ")

    def test_pages_follow_one_another(self, settings: Any) -> None:
        class Own(admin.ModelAdmin):
            list_per_page = 1

        world = own_site(settings, (Section, Own))
        client = world.client("root")
        found = [value(client, "newsroom_section_find", page=number) for number in (1, 2, 3)]
        assert [[each["text"] for each in it["rows"]] for it in found] == [
            ["Politics"],
            ["Sport"],
            [],
        ]
        assert found[2]["pages"] == 2

    def test_own_filters_offer_their_choices(self, settings: Any) -> None:
        class Lengths(admin.SimpleListFilter):
            title, parameter_name = "length", "length"

            def lookups(self, request: Any, model_admin: Any) -> Any:
                return [("short", "Short ones"), ("long", "Long ones")]

            def queryset(self, request: Any, queryset: Any) -> Any:
                return queryset.filter(word_count__lt=3) if self.value() == "short" else queryset

        class Own(admin.ModelAdmin):
            list_filter: ClassVar = [Lengths, ("summary", admin.EmptyFieldListFilter)]

        world = own_site(settings, (Article, Own))
        known = properties(world, "newsroom_article_find")
        assert known["length"]["enum"] == ["short", "long"]
        client = world.client("root")
        assert value(client, "newsroom_article_find", length="short")["count"] == 1
        assert value(client, "newsroom_article_find", summary__isempty=False)["count"] == 0

    def test_columns_are_values_and_never_html(self, world: World) -> None:
        client = world.client("root")
        row = value(client, "newsroom_article_find", search="harbour")["rows"][0]
        columns = row["columns"]
        assert columns["section"] == {"id": world.politics.pk, "text": "Politics"}
        assert columns["word_count"] == 2
        picture = value(client, "newsroom_media_find")["rows"][0]["columns"]["picture"]
        assert picture == "The sea"

    def test_lookups_that_the_admin_refuses_tell_nothing(self, settings: Any) -> None:
        class Own(admin.ModelAdmin):
            list_filter: ClassVar = ["author__user__username"]

            def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
                return False

        world = own_site(settings, (Article, Own))
        for name in ("editor", "stranger"):
            filters = {"author__user__username": name}
            text = complaint(world.client("root"), "newsroom_article_find", **filters)
            assert text == "The admin refuses this request."


class TestActs:
    def test_protected_row_names_what_refers_to_it(self, world: World) -> None:
        text = complaint(world.client("root"), "newsroom_section_delete", id=world.politics.pk)
        assert f"Article: Harbour (newsroom.article {world.harbour.pk})" in text
        world.users["adder"].user_permissions.add(*_permissions("delete_article", "view_article"))
        text = complaint(world.client("adder"), "newsroom_article_delete", id=world.harbour.pk)
        assert text == "This would also delete rows that the user may not delete: comment."

    def test_unknown_rows_of_actions_are_refused(self, world: World) -> None:
        ids = [world.harbour.pk, "abc", 77, 2**70]
        text = complaint(world.client("root"), "newsroom_article_publish", ids=ids)
        named = f"abc, 77, {2**70}"
        assert text == f"/ids: not on the list of articles: {named}. Send ids that it has."
        assert complaint(world.client("root"), "newsroom_article_publish", ids=[]).startswith(
            "/ids"
        )

    def test_own_answers_of_actions_and_views(self, settings: Any) -> None:
        class Own(admin.ModelAdmin):
            actions: ClassVar = ["export", "ask", "stream", "page", "fail"]

            @admin.action(description="Export %(verbose_name_plural)s")
            def export(self, request: Any, queryset: Any) -> Any:
                """One line for each."""
                return HttpResponse("a,b\r\n", content_type="text/csv")

            def ask(self, request: Any, queryset: Any) -> Any:
                return TemplateResponse(request, "admin/index.html", {})

            def stream(self, request: Any, queryset: Any) -> Any:
                return FileResponse([b"PK", b"zip"], content_type="application/zip")

            def page(self, request: Any, queryset: Any) -> Any:
                queryset.update(description="changed")
                return HttpResponse("<p>Sure?</p>")

            def fail(self, request: Any, queryset: Any) -> Any:
                raise ProtectedError("no", set())

            def response_add(self, request: Any, obj: Any, post_url_continue: Any = None) -> Any:
                self.message_user(request, "Filed <b>elsewhere</b>", messages.WARNING)
                return HttpResponseRedirect("/elsewhere")

        world = own_site(settings, (Section, Own))
        client, ids = world.client("root"), [world.sport.pk]
        assert "newsroom_section_ask" not in names()
        assert "it shows an intermediate page" in reported("mcp_bridge.W086")[0]
        assert definition(world, "newsroom_section_export")["description"].startswith(
            "Export sections. Runs this action of the admin on sections. One line for each."
        )
        assert text_of(client.call_tool("newsroom_section_export", {"ids": ids})) == "a,b\r\n"
        file = client.call_tool("newsroom_section_stream", {"ids": ids})["content"][0]["resource"]
        assert base64.b64decode(file["blob"]) == b"PKzip"
        assert "HTML page" in complaint(client, "newsroom_section_page", ids=ids)
        assert Section.objects.get(pk=world.sport.pk).description == "Games & more."
        assert "reference" in complaint(client, "newsroom_section_fail", ids=ids)
        added = value(client, "newsroom_section_add", name="New", slug="new")
        text = "Filed <b>elsewhere</b>"
        assert added == {"id": None, "messages": [{"level": "warning", "text": text}]}

    def test_log_entries_name_the_client(self, world: World) -> None:
        client = world.client("root")
        row = world.match.pk
        value(client, "newsroom_article_change", id=row, title="New")
        entry = LogEntry.objects.latest("pk")
        assert entry.get_change_message() == "Changed Title. Changed by mcp_bridge.testing."
        history = value(client, "newsroom_article_history", id=row)
        told = history["entries"][-1]
        assert (told["user"], told["act"]) == ("root", "changed")
        assert told["message"] == entry.get_change_message()
        assert (
            value(client, "newsroom_article_history", id=world.harbour.pk, page=2)["entries"] == []
        )


class TestWhoMay:
    def test_tools_are_those_of_the_user(self, world: World) -> None:
        def acts(name: str) -> set[str]:
            found = [each["name"] for each in world.client(name).list_tools()]
            return {each.removeprefix("newsroom_section_") for each in found if "section" in each}

        assert acts("reader") == acts("author") == set()
        assert acts("viewer") == {"find", "get", "history"}
        assert acts("adder") == {"add"}
        assert acts("root") == {"find", "get", "add", "change", "delete", "history"}

    @pytest.mark.parametrize("field", ["is_staff", "is_active"])
    def test_former_staff_has_no_tools(self, world: World, field: str) -> None:
        user = world.users["root"]
        client = world.client("root")
        value(client, "newsroom_section_find")
        setattr(user, field, False)
        user.save()
        with pytest.raises((MCPError, AssertionError)):
            value(client, "newsroom_section_find")

    def test_admin_site_decides_who_is_admitted(self, settings: Any) -> None:
        class Strict(admin.AdminSite):
            def has_permission(self, request: Any) -> bool:
                return super().has_permission(request) and request.user.username == "root"

        site = Strict()
        site.register(Section)
        serve_site(settings, site)
        world = World.make()
        assert world.client("admin").list_tools() == []
        assert len(world.client("root").list_tools()) == 6
