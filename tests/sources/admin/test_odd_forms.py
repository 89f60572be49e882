"""Odd forms, widgets and inlines behind the tools of an admin."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.contenttypes.admin import GenericTabularInline
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage
from django.db import models
from django.utils.translation import override

from mcp_bridge.sources.admin.source import _is_guarded
from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.browser import Browser
from tests.sources.admin.world import World, complaint, own_site, serve, value
from tests.support.confirming import FORM
from tests.support.serving import messages as reported
from tests.support.serving import names


class Pair(forms.MultiWidget):
    def __init__(self, attrs: Any = None) -> None:
        super().__init__([forms.TextInput, forms.TextInput], attrs)

    def decompress(self, value: Any) -> Any:
        return [Decimal(each) for each in value.split("|")] if value else [None, None]


class PairField(forms.MultiValueField):
    widget = Pair

    def __init__(self, **kwargs: Any) -> None:
        super().__init__([forms.DecimalField(localize=True) for _ in "ab"], **kwargs)

    def compress(self, data_list: Any) -> str:
        return "|".join(map(str, data_list))


def browser_change(world: World, row: Any, *, id: Any, name: str) -> None:
    address = f"/admin/newsroom/section/{row}/change/"
    Browser(world.users["root"]).submit(address, {"name": name})


class Described(forms.ModelForm):
    class Meta:
        model = Section
        fields: ClassVar = ["name", "description"]


def described(field: Any) -> Any:
    """Return a ModelAdmin of sections with this field as the description."""
    form = type("Form", (Described,), {"description": field})
    return type("Own", (admin.ModelAdmin,), {"form": form})


def test_inlines_of_guarded_models_are_left_out(settings: Any, table: Any) -> None:
    parent = table("Org", title=models.CharField(max_length=9))
    child = table(
        "ApiToken",
        org=models.ForeignKey(parent, models.CASCADE),
        may_all=models.BooleanField(default=False),
    )
    assert _is_guarded(child)

    class Tokens(admin.TabularInline):
        model = child

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Tokens]

    own_site(settings, (parent, Own), operations=["*"])
    assert names() == []


def test_generic_inlines_are_served(settings: Any, table: Any) -> None:
    kind = table(
        "Note",
        content_type=models.ForeignKey(ContentType, models.CASCADE),
        object_id=models.PositiveIntegerField(),
        content_object=GenericForeignKey(),
        text=models.CharField(max_length=9),
    )

    class Notes(GenericTabularInline):
        model = kind

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Notes]

    own_site(settings, (Section, Own))
    assert {"newsroom_section_add", "newsroom_section_change"} <= set(names())


def test_querysets_of_the_user_make_no_error(settings: Any) -> None:
    class Own(admin.ModelAdmin):
        # As in Django's documentation of formfield_for_foreignkey.
        def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
            if db_field.name == "author":
                kwargs["queryset"] = Author.objects.filter(user=request.user)
            return super().formfield_for_foreignkey(db_field, request, **kwargs)

    own_site(settings, (Article, Own), (Section, None), (Author, None))
    assert reported("mcp_bridge.E082") == []
    assert "newsroom_article_change" in names()


def test_null_is_not_the_first_row(settings: Any) -> None:
    rows = Section.objects.order_by("pk")
    field = forms.ModelChoiceField(rows, empty_label=None, required=False, to_field_name="slug")
    world = own_site(settings, (Section, described(field)))
    Section.objects.filter(pk=world.sport.pk).update(description="sport")
    arguments = {"id": world.sport.pk, "description": None}
    world.client("root").call_tool("newsroom_section_change", arguments)
    assert Section.objects.get(pk=world.sport.pk).description != "Politics"


def test_versions_know_files(settings: Any, table: Any) -> None:
    storage = InMemoryStorage()
    kind = table(
        "Thing", title=models.CharField(max_length=9), file=models.FileField(storage=storage)
    )
    world = own_site(settings, (kind, None))
    row = kind.objects.create(title="a", file=ContentFile(b"old", "old.txt"))
    client = world.client("root")
    version = value(client, "newsroom_thing_get", id=row.pk)["version"]
    file = {"name": "new.txt", "data": "aGk="}
    value(client, "newsroom_thing_change", id=row.pk, file=file)
    assert value(client, "newsroom_thing_get", id=row.pk)["version"] != version


def test_parts_of_localized_widgets_stay(settings: Any) -> None:
    settings.USE_THOUSAND_SEPARATOR = True

    class Form(forms.ModelForm):
        description = PairField(localize=True)

        class Meta:
            model = Section
            fields: ClassVar = ["name", "description"]

    class Own(admin.ModelAdmin):
        form = Form

    world = own_site(settings, (Section, Own))
    row = world.sport.pk
    with override("de"):
        for name, act in (
            ("A", lambda **it: browser_change(world, row, **it)),
            ("B", lambda **it: value(world.client("root"), "newsroom_section_change", **it)),
        ):
            Section.objects.filter(pk=row).update(description="1.125|2.250")
            act(id=row, name=name)
            found = Section.objects.get(pk=row)
            assert (found.name, found.description) == (name, "1.125|2.250")


def test_errors_of_blank_rows_are_those_of_form(settings: Any) -> None:
    class Comments(admin.TabularInline):
        model, min_num, extra = Comment, 3, 0

    class Own(admin.ModelAdmin):
        inlines: ClassVar = [Comments]

    world = own_site(settings, (Article, Own), (Section, None), (Author, None))
    text = complaint(
        world.client("root"), "newsroom_article_change", id=world.harbour.pk, title="T"
    )
    assert "This field is required" in text, text


def test_controls_that_page_disables_are_refused(settings: Any) -> None:
    field = forms.CharField(required=False, widget=forms.TextInput(attrs={"disabled": True}))
    world = own_site(settings, (Section, described(field)))
    arguments = {"id": world.sport.pk, "description": "set"}
    assert world.client("root").call_tool("newsroom_section_change", arguments).get("isError")


def test_inputs_of_type_password_are_not_shown(settings: Any) -> None:
    field = forms.CharField(required=False, widget=forms.TextInput(attrs={"type": "password"}))
    world = own_site(settings, (Section, described(field)))
    read = value(world.client("root"), "newsroom_section_get", id=world.sport.pk)
    assert "Games" not in json.dumps(read)


def test_confirmed_addition_shows_only_what_was_sent(settings: Any) -> None:
    serve(settings, operations={"newsroom.*": {"confirm": True}})
    world = World.make()
    client = world.client("root")
    client.capabilities = FORM
    new = {"title": "T", "slug": "t", "section": 1, "author": 1, "body": "b"}
    arguments = {**new, "comments": [{"text": "x", "user": 1}]}
    asked = client.post("tools/call", name="newsroom_article_add", arguments=arguments)
    assert '"hidden"' not in asked["inputRequests"]["confirm"]["params"]["message"]
