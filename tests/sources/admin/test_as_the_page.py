"""Odd models and ModelAdmins whose tools have to do what their pages do."""

from __future__ import annotations

import datetime
import math
from functools import partial
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib import admin
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.core.validators import RegexValidator
from django.db import models
from django.http import HttpResponse, HttpResponseRedirect
from django.template import Context, Template
from django.template.response import TemplateResponse
from django.utils.translation import override

from mcp_bridge.models import PendingCall
from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.world import World, complaint, own_site, properties, serve, value
from tests.support.confirming import FORM
from tests.support.serving import names

TEXT = partial(models.CharField, max_length=9)


def test_null_unselects_all(settings: Any, table: Any) -> None:
    tag = table("Tag", text=TEXT())
    kind = table("Thing", tags=models.ManyToManyField(tag, blank=True))
    client = own_site(settings, (kind, None), (tag, None)).client("root")
    row = kind.objects.create()
    row.tags.add(tag.objects.create(text="a"))
    value(client, "newsroom_thing_change", id=row.pk, tags=None)
    assert not row.tags.exists()


@pytest.mark.parametrize("language", ["en", "zh-hans", "ro"])
def test_times_are_saved_exactly(settings: Any, table: Any, language: str) -> None:
    kind = table("Thing", at=models.TimeField(), since=models.DateTimeField())
    client = own_site(settings, (kind, None)).client("root")
    with override(language):
        sent = {"at": "10:11:12.000345", "since": "2026-01-02T10:11:12.5Z"}
        value(client, "newsroom_thing_add", **sent)
    row = kind.objects.get()
    assert row.at == datetime.time(10, 11, 12, 345)
    assert row.since == datetime.datetime(2026, 1, 2, 10, 11, 12, 500_000, datetime.UTC)


def test_field_with_its_own_time_format_is_set(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        class form(forms.ModelForm):
            slug = forms.TimeField(
                input_formats=["%I.%M %p"], widget=forms.TimeInput(format="%I.%M %p")
            )

            class Meta:
                model = Section
                fields: ClassVar = ["name", "slug"]

            def clean_slug(self) -> str:
                return f"{self.cleaned_data['slug']:%H-%M}"

    world = own_site(settings, (Section, Own))
    value(world.client("root"), "newsroom_section_add", name="Late", slug="22:15:00")
    assert Section.objects.get(name="Late").slug == "22-15"


@pytest.mark.parametrize("act", ["add", "change"])
def test_view_that_does_not_redirect_has_saved(settings: Any, act: str) -> None:
    class Own(admin.ModelAdmin):
        def response_add(self, request: Any, obj: Any, post_url_continue: Any = None) -> Any:
            return HttpResponse("saved")

        def response_change(self, request: Any, obj: Any) -> Any:
            return HttpResponse("saved")

    world = own_site(settings, (Section, Own))
    row = {"id": world.sport.pk} if act == "change" else {"slug": "new"}
    value(world.client("root"), f"newsroom_section_{act}", name="New", **row)
    assert Section.objects.filter(name="New").exists()


def test_page_in_place_of_the_form_is_an_error(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        def change_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            if request.method == "POST":
                return TemplateResponse(request, "admin/base_site.html", {"sure": False})
            return super().change_view(request, *args, **kwargs)

    world = own_site(settings, (Section, Own))
    text = complaint(world.client("root"), "newsroom_section_change", id=world.sport.pk, name="New")
    assert "another page than usual" in text


def test_queue_shows_all_selected_rows(settings: Any, table: Any) -> None:
    tag = table("Tag", text=TEXT())
    kind = table("Thing", tags=models.ManyToManyField(tag))
    operations = {"newsroom.*": {}, "newsroom.thing.add": {"confirm": True}}
    client = own_site(settings, (kind, None), (tag, None), operations=operations).client("root")
    rows = tag.objects.bulk_create(tag(text=f"t{number}") for number in range(101))
    sent = {"tags": [each.pk for each in rows]}
    complaint(client, "newsroom_thing_add", **sent)
    assert PendingCall.objects.get().arguments.count('"text"') == 101


def test_order_has_what_the_page_can_sort_by(settings: Any, table: Any) -> None:
    kind = table(
        "Note",
        content_type=models.ForeignKey(ContentType, models.CASCADE),
        object_id=models.PositiveIntegerField(),
        target=GenericForeignKey(),
        author=models.ForeignKey(Author, models.CASCADE, null=True, related_name="+"),
    )

    class Own(admin.ModelAdmin):
        list_display: ClassVar = ["author__byline", "target"]

    world = own_site(settings, (kind, Own))
    order = properties(world, "newsroom_note_find")["order"]["items"]["enum"]
    assert order == ["author__byline", "-author__byline"]
    assert value(world.client("root"), "newsroom_note_find", order=order[:1])["count"] == 0


def test_numbers_that_json_lacks_are_texts(settings: Any, table: Any) -> None:
    kind = table("Thing", size=models.FloatField())

    class Own(admin.ModelAdmin):
        list_display: ClassVar = ["size", lambda row: math.nan]

    client = own_site(settings, (kind, Own)).client("root")
    row = kind.objects.create(size=math.inf)
    assert value(client, "newsroom_thing_get", id=row.pk)["fields"]["size"] == "inf"
    [found] = value(client, "newsroom_thing_find")["rows"]
    assert found["columns"] == {"size": "inf", "<lambda>": "nan"}


def test_action_takes_keys_that_were_valid_once(settings: Any, table: Any) -> None:
    key = TEXT(primary_key=True, validators=[RegexValidator("^[A-Z]+$")])
    kind = table("Thing", code=key, done=models.BooleanField(default=False))

    class Own(admin.ModelAdmin):
        actions: ClassVar = ["finish"]

        def finish(self, request: Any, queryset: Any) -> None:
            queryset.update(done=True)

        def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
            if not request.GET:
                return HttpResponseRedirect("?done__exact=0")
            return super().changelist_view(request, extra_context)

    client = own_site(settings, (kind, Own)).client("root")
    row = kind.objects.create(code="old-1")
    assert value(client, "newsroom_thing_finish", ids=["old-1"])["ids"] == ["old-1"]
    row.refresh_from_db()
    assert row.done


def test_action_that_renders_a_template_is_a_tool(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        actions: ClassVar = ["mail"]

        def mail(self, request: Any, queryset: Any) -> None:
            self.message_user(request, Template("Hi").render(Context()))

    world = own_site(settings, (Section, Own))
    done = value(world.client("root"), "newsroom_section_mail", ids=[world.sport.pk])
    assert done["messages"] == [{"level": "info", "text": "Hi"}]


def test_change_with_a_version_locks_without_joins(settings: Any, table: Any) -> None:
    class Joined(models.Manager):
        def get_queryset(self) -> Any:
            return super().get_queryset().select_related("section")

    section = models.ForeignKey(Section, models.CASCADE, null=True, blank=True, related_name="+")
    meta = {"base_manager_name": "objects"}
    kind = table("Thing", name=TEXT(), section=section, objects=Joined(), meta=meta)
    client = own_site(settings, (kind, None)).client("root")
    row = kind.objects.create(name="a")
    version = value(client, "newsroom_thing_get", id=row.pk)["version"]
    value(client, "newsroom_thing_change", id=row.pk, name="b", version=version)
    row.refresh_from_db()
    assert row.name == "b"


def test_huge_key_is_refused_before_a_person_is_asked(settings: Any) -> None:
    serve(settings, operations={"newsroom.*": {"confirm": True}})
    client = World.make().client("root")
    client.capabilities = FORM
    sent = {"title": "T", "slug": "t", "section": 2**70, "author": 1, "body": "b"}
    asked = client.post("tools/call", name="newsroom_article_add", arguments=sent)
    assert str(2**70) in asked["inputRequests"]["confirm"]["params"]["message"]


def test_version_covers_what_is_read_only(settings: Any, table: Any) -> None:
    tag = table("Tag", text=TEXT())
    kind = table("Thing", tags=models.ManyToManyField(tag))

    class Own(admin.ModelAdmin):
        readonly_fields: ClassVar = ["tags"]

    class Comments(admin.TabularInline):
        model, fields, readonly_fields = Comment, ["text", "hidden"], ["hidden"]

    class Articles(admin.ModelAdmin):
        inlines: ClassVar = [Comments]

    world = own_site(settings, (kind, Own), (Article, Articles), (Section, None), (Author, None))
    client, row = world.client("root"), kind.objects.create()
    read = partial(value, client, "newsroom_thing_get", id=row.pk)
    read_article = partial(value, client, "newsroom_article_get", id=world.harbour.pk)
    versions = read()["version"], read_article()["version"]
    row.tags.add(tag.objects.create(text="a"))
    Comment.objects.update(hidden=True)
    assert read()["version"] != versions[0]
    assert read_article()["version"] != versions[1]


def test_inline_without_a_related_name_is_changed(settings: Any, table: Any) -> None:
    parent = table("Org", name=TEXT())
    key = models.ForeignKey(parent, models.CASCADE, related_name="+")
    child = table("Desk", org=key, name=TEXT())

    class Desks(admin.TabularInline):
        model = child

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Desks]

    client = own_site(settings, (parent, Own)).client("root")
    row = parent.objects.create(name="a")
    [name] = value(client, "newsroom_org_get", id=row.pk)["fields"].keys() - {"name"}
    value(client, "newsroom_org_change", id=row.pk, **{name: [{"name": "b"}]})
    assert child.objects.get().name == "b"


def test_fields_that_depend_on_a_relation_are_described(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
            return ["slug"] if obj and obj.section.name == "Sport" else []

    world = own_site(settings, (Article, Own), (Section, None), (Author, None))
    client = world.client("root")
    Article.objects.filter(pk=world.match.pk).update(section=world.sport)
    value(client, "newsroom_article_change", id=world.harbour.pk, slug="new")
    result = client.call_tool("newsroom_article_change", {"id": world.match.pk, "slug": "no"})
    assert result["isError"]


def test_filters_have_the_links_of_the_page(settings: Any, table: Any) -> None:
    tag = table("Tag", text=TEXT())
    kind = table(
        "Thing",
        tags=models.ManyToManyField(tag),
        flag=models.BooleanField(null=True),
        state=TEXT(blank=True, choices=[("", "None"), ("a", "A")]),
    )

    class Own(admin.ModelAdmin):
        list_filter: ClassVar = ["tags", "flag", "state"]

    client = own_site(settings, (kind, Own), (tag, None)).client("root")
    kind.objects.create()
    kind.objects.create(flag=True, state="a").tags.add(tag.objects.create(text="a"))
    for sent in ({"tags__isnull": True}, {"flag__isnull": True}, {"state": ""}):
        assert value(client, "newsroom_thing_find", **sent)["count"] == 1


def test_more_rows_than_may_be_added_are_changed(settings: Any) -> None:
    class Comments(admin.TabularInline):
        model, max_num, fields = Comment, 1, ["text"]

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Comments]

    world = own_site(settings, (Article, Own), (Section, None), (Author, None))
    rows = [{"id": each.pk, "text": "new"} for each in world.comments]
    assert len(rows) > 1
    value(world.client("root"), "newsroom_article_change", id=world.harbour.pk, comments=rows)
    assert {*Comment.objects.values_list("text", flat=True)} == {"new"}


def test_array_is_a_list(settings: Any) -> None:
    # It needs psycopg, which the tests on PostgreSQL install.
    arrays = pytest.importorskip("django.contrib.postgres.forms", exc_type=ImportError)

    class Form(forms.ModelForm):
        description = arrays.SimpleArrayField(forms.CharField(), max_length=3)

        class Meta:
            model = Section
            fields: ClassVar = ["name", "description"]

        def clean_description(self) -> str:
            return " and ".join(self.cleaned_data["description"])

    class Own(admin.ModelAdmin):
        form = Form

    world = own_site(settings, (Section, Own))
    parts = ["rugby", "chess"]
    client = world.client("root")
    value(client, "newsroom_section_change", id=world.sport.pk, description=parts)
    world.sport.refresh_from_db()
    assert world.sport.description == "rugby and chess"
    assert properties(world, "newsroom_section_change")["description"]["type"] == "array"


def test_keys_of_an_unknown_type_are_texts(settings: Any, table: Any) -> None:
    class UlidField(models.Field):
        def db_type(self, connection: Any) -> str:
            return "char(26)"

        def to_python(self, value: Any) -> Any:
            return value

    target = table("Target", key=UlidField(primary_key=True))
    kind = table("Thing", target=models.ForeignKey(target, models.CASCADE))
    client = own_site(settings, (kind, None), (target, None)).client("root")
    target.objects.create(key="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    value(client, "newsroom_thing_add", target="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert kind.objects.exists()


def test_odd_names_are_arguments(settings: Any, table: Any) -> None:
    class Origin(admin.SimpleListFilter):
        title = parameter_name = "from"

        def lookups(self, request: Any, model_admin: Any) -> Any:
            return [("a", "A")]

        def queryset(self, request: Any, queryset: Any) -> Any:
            return queryset.none() if self.value() else queryset

    class Own(admin.ModelAdmin):
        list_filter: ClassVar = [Origin]

    kind = table("Thing", mcp_context=TEXT())
    client = own_site(settings, (kind, Own)).client("root")
    value(client, "newsroom_thing_add", field_mcp_context="a")
    assert value(client, "newsroom_thing_find", field_from="a")["count"] == 0
    assert value(client, "newsroom_thing_find")["count"] == 1


def test_inline_whose_formset_passes_arguments_is_a_tool(settings: Any) -> None:
    class Form(forms.ModelForm):
        def __init__(self, *args: Any, limit: int, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    class Forms(forms.BaseInlineFormSet):
        def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
            return {**super().get_form_kwargs(index), "limit": 3}

    class Comments(admin.TabularInline):
        model, form, formset, fields = Comment, Form, Forms, ["text"]

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Comments]

    own_site(settings, (Article, Own), (Section, None), (Author, None))
    assert {"newsroom_article_add", "newsroom_article_change"} <= {*names()}
