"""Choices from rows or a function: read at each call, and not part of the approved definition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from django.db import connection, models
from django.test.utils import CaptureQueriesContext, isolate_apps
from rest_framework import serializers

from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.fingerprints import canonical_definition
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Section
from tests.calls.test_arguments import errors_of
from tests.support.serving import giving, served, taking
from tests.transports.test_async_view import async_caller

KINDS = [("n", "News"), ("s", "Story")]


def sections() -> list[tuple[str, str]]:
    return list(Section.objects.order_by("pk").values_list("slug", "name"))


class SetInInit(forms.Form):
    """Where it goes."""

    section = forms.ChoiceField(help_text="where it goes")
    kind = forms.ChoiceField(choices=KINDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["section"].choices = sections()


class OfFunction(forms.Form):
    """Where it goes."""

    section = forms.ChoiceField(choices=sections, help_text="where it goes")
    kind = forms.ChoiceField(choices=KINDS)


class AddedInInit(forms.Form):
    """Where it goes."""

    kind = forms.ChoiceField(choices=KINDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["section"] = forms.TypedChoiceField(
            choices=[("Places", sections())], help_text="where it goes"
        )


class SetInFields(serializers.Serializer[Any]):
    """Where it goes."""

    section = serializers.ChoiceField([], help_text="where it goes")
    kind = serializers.ChoiceField(KINDS)

    def get_fields(self) -> Any:
        fields = super().get_fields()
        fields["section"].choices = sections()
        return fields


class AddedInFields(serializers.Serializer[Any]):
    """Where it goes."""

    kind = serializers.ChoiceField(KINDS)

    def get_fields(self) -> Any:
        field = serializers.ChoiceField(sections(), help_text="where it goes")
        return {**super().get_fields(), "section": field}


EACH = pytest.mark.parametrize(
    "kind", [SetInInit, OfFunction, AddedInInit, SetInFields, AddedInFields]
)
STATIC = "where it goes. One of the choices at the time of the call; an error lists them."


@pytest.fixture(autouse=True)
def sport(db: None) -> Section:
    return Section.objects.create(name="Sport", slug="sport")


def listed(client: CheckedClient, tool: str = "take") -> Any:
    (found,) = [each for each in client.list_tools() if each["name"] == tool]
    return found["inputSchema"]["properties"]["value"]["properties"]


def send(client: CheckedClient, section: str) -> dict[str, Any]:
    return client.call_tool("take", {"value": {"section": section, "kind": "n"}})


@EACH
def test_schema_omits_dynamic_choices(kind: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(kind))
    assert listed(modern)["section"] == {"type": "string", "description": STATIC}
    assert listed(modern)["kind"]["enum"] == ["n", "s"]


@EACH
def test_new_row_is_accepted_and_deleted_row_refused(
    kind: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(kind))
    assert errors_of(send(modern, "arts")) == [("/value/section", "invalid_choice")]
    Section.objects.create(name="Arts", slug="arts")
    assert send(modern, "arts")["isError"] is False
    Section.objects.filter(slug="sport").delete()
    assert errors_of(send(modern, "sport")) == [("/value/section", "invalid_choice")]


@EACH
def test_dynamic_choices_do_not_change_the_approved_definition(
    kind: Any, modern: CheckedClient, settings: Any
) -> None:
    for rows in range(3):
        Section.objects.create(name=f"New {rows}", slug=f"new{rows}")
        # As in another process that starts after more rows exist.
        serve(settings, taking(kind), confirm=True)
        assert len(modern.list_tools()) == 1
        definition = canonical_definition(served("take"))
        assert ToolSetting.objects.get(name="take").approved == definition
        schema = json.loads(definition)["inputSchema"]["properties"]["value"]
        assert schema["properties"]["section"]["description"] == STATIC


@EACH
def test_error_lists_the_current_choices(kind: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(kind))
    assert text_of(send(modern, "arts")).endswith(" One of: sport: Sport.")
    Section.objects.create(name="Travel", slug="travel")
    assert text_of(send(modern, "arts")).endswith(" One of: sport: Sport; travel: Travel.")
    Section.objects.all().delete()
    assert text_of(send(modern, "arts")).endswith(" There are currently no choices.")


def test_nested_serializer_errors_list_the_choices(modern: CheckedClient, settings: Any) -> None:
    class Nested(serializers.Serializer[Any]):
        one = SetInFields()
        many = AddedInFields(many=True)

    serve(settings, taking(Nested))
    sent = {"section": "arts", "kind": "n"}
    result = modern.call_tool("take", {"value": {"one": sent, "many": [sent]}})
    assert text_of(result).count(" One of: sport: Sport.") == 2
    paths = [path for path, _ in errors_of(result)]
    assert paths == ["/value/many/0/section", "/value/one/section"]


def test_lists_of_dynamic_choices_are_open(modern: CheckedClient, settings: Any) -> None:
    class Several(forms.Form):
        sections = forms.MultipleChoiceField(choices=sections, required=False)

    serve(settings, taking(Several))
    found = listed(modern)["sections"]
    assert "enum" not in json.dumps(found)
    result = modern.call_tool("take", {"value": {"sections": ["sport"]}})
    assert result["isError"] is False
    wrong = modern.call_tool("take", {"value": {"sections": ["x"]}})
    assert errors_of(wrong) == [("/value/sections", "invalid_choice")]
    assert text_of(wrong).endswith(" One of: sport: Sport.")


def test_only_the_first_choices_are_listed(modern: CheckedClient, settings: Any) -> None:
    for number in range(60):
        Section.objects.create(name=f"N{number}", slug=f"n{number}")
    serve(settings, taking(OfFunction))
    assert text_of(send(modern, "arts")).endswith("n48: N48; and 11 more.")


def test_numeric_choices_are_sent_as_strings(modern: CheckedClient, settings: Any) -> None:
    class Numbered(forms.Form):
        section = forms.TypedChoiceField(
            choices=lambda: list(Section.objects.values_list("pk", "name")), coerce=int
        )

    serve(settings, taking(Numbered))
    assert listed(modern)["section"]["type"] == "string"
    key = str(Section.objects.get().pk)
    result = modern.call_tool("take", {"value": {"section": key}})
    assert result["isError"] is False


@pytest.mark.django_db(transaction=True)
def test_dynamic_choices_are_read_under_asgi(settings: Any) -> None:
    serve(settings, taking(SetInInit), asynchronous=True)
    client = async_caller(LATEST.version)
    Section.objects.create(name="Arts", slug="arts")
    assert text_of(send(client, "x")).endswith(" One of: sport: Sport; arts: Arts.")
    assert send(client, "arts")["isError"] is False


def test_tools_are_listed_without_a_query(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(SectionKindForm))
    modern.list_tools()
    with CaptureQueriesContext(connection) as queries:
        modern.list_tools()
    assert not [each for each in queries if "newsroom_section" in each["sql"]]


class SectionKindForm(forms.Form):
    kind = forms.ChoiceField(choices=KINDS)
    section = forms.ModelChoiceField(Section.objects.none())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["section"].queryset = Section.objects.exclude(slug="closed")


def test_queryset_rows_are_looked_up_at_each_call(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(SectionKindForm), confirm=False)
    before = canonical_definition(served("take"))
    new = Section.objects.create(name="Arts", slug="arts")
    sent = {"value": {"kind": "n", "section": new.pk}}
    assert modern.call_tool("take", sent)["isError"] is False
    Section.objects.filter(pk=new.pk).update(slug="closed")
    refused = errors_of(modern.call_tool("take", sent))
    assert refused == [("/value/section", "invalid_choice")]
    serve(settings, taking(SectionKindForm))
    assert canonical_definition(served("take")) == before
    # They may be numerous and not meant for every caller.
    assert "Sport" not in json.dumps(modern.list_tools())


@isolate_apps("testproject.newsroom")
def test_list_choices_of_a_model_are_fixed(settings: Any) -> None:
    class Note(models.Model):
        kind = models.CharField(max_length=1, choices=KINDS)
        section = models.CharField(max_length=9, choices=sections)

        class Meta:
            app_label = "newsroom"

    class NoteForm(forms.ModelForm):
        class Meta:
            model = Note
            fields = ["kind", "section"]

    class NoteSerializer(serializers.ModelSerializer[Note]):
        class Meta:
            model = Note
            fields = ["kind", "section"]

    for kind in (NoteForm, NoteSerializer):
        serve(settings, taking(kind))
        properties = served("take").input_schema["properties"]["value"]["properties"]
        assert (properties["kind"]["enum"], "enum" in properties["section"]) == (["n", "s"], False)


def test_result_can_have_a_new_choice(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(SetInFields, {"section": "arts", "kind": "n"}))
    given = json.loads(text_of(modern.call_tool("give")))
    assert given == {"section": "arts", "kind": "n"}


def test_list_items_follow_their_declared_field(settings: Any) -> None:
    class Listed(serializers.Serializer[Any]):
        kinds = serializers.ListField(child=serializers.ChoiceField(KINDS))

    serve(settings, taking(Listed))
    properties = served("take").input_schema["properties"]["value"]["properties"]
    assert properties["kinds"]["items"]["enum"] == ["n", "s"]
