"""Admins and values that Hypothesis makes: a tool's form receives what a browser's receives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin import widgets
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testproject.newsroom.models import Article, Author, Comment, Section
from tests.sources.admin.browser import Browser, enter
from tests.sources.admin.world import World, call, serve

EXAMPLES = max(25, int(os.environ.get("FUZZ_EXAMPLES", "0")) // 20)
SITE = admin.AdminSite()
# The values that the form of each row received, in order.
RECEIVED: list[dict[str, Any]] = []
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2080, 1, 1)).map(
    lambda value: value.replace(microsecond=0).isoformat() + "Z"
)
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20
)
CHOICES = [("a", "One & only"), ("b", 'Two "2"'), ("", "None")]
# Fields of every kind, each with values of its tool's argument.
FIELDS: dict[str, tuple[Any, Any]] = {
    "words": (lambda: forms.CharField(required=False), TEXT),
    "long": (lambda: forms.CharField(widget=forms.Textarea, initial="\n x"), TEXT),
    "whole": (lambda: forms.IntegerField(min_value=-5, initial=3), st.integers(-9, 9)),
    "part": (lambda: forms.DecimalField(required=False), st.decimals(-9, 9, places=2).map(str)),
    "ratio": (
        lambda: forms.FloatField(required=False),
        st.floats(-9, 9).map(lambda x: round(x, 3)),
    ),
    "box": (lambda: forms.BooleanField(required=False, initial=True), st.booleans()),
    "day": (lambda: forms.DateField(widget=widgets.AdminDateWidget), st.dates().map(str)),
    "parts": (
        lambda: forms.DateField(widget=forms.SelectDateWidget(years=range(1990, 2081))),
        st.dates(date(1990, 1, 1), date(2080, 1, 1)).map(str),
    ),
    "at": (lambda: forms.SplitDateTimeField(widget=widgets.AdminSplitDateTime), TIMES),
    "one": (lambda: forms.ChoiceField(choices=CHOICES, required=False), st.sampled_from("ab")),
    "first": (lambda: forms.ChoiceField(choices=CHOICES[:2]), st.sampled_from("ab")),
    "radio": (
        lambda: forms.ChoiceField(choices=CHOICES[:2], widget=forms.RadioSelect, required=False),
        st.sampled_from("ab"),
    ),
    "some": (
        lambda: forms.MultipleChoiceField(choices=CHOICES[:2], required=False, initial=["b"]),
        st.lists(st.sampled_from("ab"), unique=True),
    ),
    "boxes": (
        lambda: forms.MultipleChoiceField(
            choices=CHOICES[:2], required=False, widget=forms.CheckboxSelectMultiple
        ),
        st.lists(st.sampled_from("ab"), unique=True),
    ),
    "maybe": (lambda: forms.NullBooleanField(required=False), st.sampled_from([None, True, False])),
    "data": (
        lambda: forms.JSONField(required=False, initial={"a": 1}),
        st.dictionaries(TEXT, TEXT),
    ),
    "row": (
        lambda: forms.ModelChoiceField(Section.objects.order_by("pk"), required=False),
        st.sampled_from([1, 2, 77]),
    ),
    "rows": (
        lambda: forms.ModelMultipleChoiceField(Section.objects.all(), required=False),
        st.lists(st.sampled_from([1, 2]), unique=True),
    ),
    "raw": (lambda: forms.CharField(widget=forms.HiddenInput, initial="kept"), None),
    "off": (lambda: forms.CharField(disabled=True, initial="fixed"), None),
    "again": (
        lambda: forms.CharField(show_hidden_initial=True, initial=lambda: "now", required=False),
        TEXT,
    ),
}


class Recording(forms.ModelForm):
    """A form that keeps what it has received."""

    def clean(self) -> Any:
        cleaned = super().clean()
        RECEIVED.append({name: str(value) for name, value in self.cleaned_data.items()})
        return cleaned


class Comments(admin.TabularInline):
    model, form = Comment, Recording


class Kept(admin.ModelAdmin):
    form = Recording

    def save_related(self, request: HttpRequest, form: Any, *others: Any, **kwargs: Any) -> None:
        super().save_related(request, form, *others, **kwargs)
        RECEIVED.append({"changed": ", ".join(form.changed_data)})


@st.composite
def admins(draw: Any) -> Any:
    """Return a ModelAdmin of articles, with the values of a call of its change tool."""
    chosen = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True, min_size=1, max_size=6))
    own = {name: FIELDS[name][0]() for name in chosen}
    read_only = draw(st.lists(st.sampled_from(["title", "summary", "slug"]), unique=True))
    fields = [*draw(st.permutations(["title", "summary", "slug", "body"])), *chosen]
    at = draw(st.integers(0, len(fields)))
    sets = [("One", {"fields": fields[:at]}), (None, {"fields": [tuple(fields[at:]) or "title"]})]
    sets = (
        [each for each in sets if each[1]["fields"]]
        if 0 < at < len(fields)
        else [(None, {"fields": fields})]
    )
    inline = type(
        "Inline",
        (Comments,),
        {
            "extra": draw(st.integers(0, 2)),
            "readonly_fields": draw(st.sampled_from([[], ["hidden"]])),
        },
    )
    form = type(
        "Form", (Recording,), {**own, "Meta": type("Meta", (), {"model": Article, "exclude": []})}
    )
    members = {
        "form": form,
        "fieldsets": sets,
        "readonly_fields": read_only,
        "inlines": draw(st.sampled_from([[], [inline]])),
    }
    values = {
        name: draw(FIELDS[name][1])
        for name in chosen
        if FIELDS[name][1] is not None and draw(st.booleans())
    }
    values |= {
        name: draw(TEXT)
        for name in ("title", "body")
        if name not in read_only and draw(st.booleans())
    }
    return type("Made", (Kept,), members), values


@pytest.fixture
def world(settings: Any) -> Iterator[World]:
    SITE.register([Section, Author], admin.ModelAdmin)
    made = World.make()
    yield made
    for model in (Section, Author, Article):
        if SITE.is_registered(model):
            SITE.unregister(model)


@given(made=admins())
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_form_receives_what_a_browser_sends(world: World, settings: Any, made: Any) -> None:
    kind, values = made
    if SITE.is_registered(Article):
        SITE.unregister(Article)
    SITE.register(Article, kind)
    serve(settings, SITE, site=f"{__name__}.SITE", operations=["newsroom.article.*"])
    row = world.harbour.pk
    path = reverse("admin:newsroom_article_change", args=[row])
    browser = Browser(world.users["root"])

    def submitted() -> bool:
        form = browser.form(path)
        for name, value in values.items():
            enter(form, name, value)
        return bool(browser.send(path, form.pairs).status_code == 302)

    def called() -> bool:
        saved, errors = call(world.client("root"), "newsroom_article_change", id=row, **values)
        assert saved or not any("not on it" in each for each in errors), errors
        return saved

    outcomes = []
    for act in (submitted, called):
        RECEIVED.clear()
        with transaction.atomic():
            outcomes.append((act(), [*RECEIVED]))
            transaction.set_rollback(True)
    (sent, received), (saved, kept) = outcomes
    # The tool's schema refuses some values before the form receives them.
    assert (sent, received if kept else []) == (saved, kept)
