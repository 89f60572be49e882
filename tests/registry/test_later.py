"""Tools whose types read the database when they are built, before it has the tables or rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models
from django.test.utils import isolate_apps
from rest_framework import serializers

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving, messages, names, taking

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def animal() -> Iterator[Any]:
    """Return a model without its table."""
    with isolate_apps("testproject.newsroom"):

        class Animal(models.Model):
            name = models.CharField(max_length=9)

            class Meta:
                app_label = "newsroom"

        yield Animal
        if Animal._meta.db_table in connection.introspection.table_names():
            with connection.schema_editor() as editor:
                editor.delete_model(Animal)


def migrate(model: Any) -> None:
    with connection.schema_editor() as editor:
        editor.create_model(model)


def form_of(model: Any) -> Any:
    class Form(forms.Form):
        name = forms.ChoiceField()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            known = list(model.objects.values_list("name", flat=True))
            self.fields["name"].choices = [(each, each) for each in known]

    return Form


def serializer_of(model: Any) -> Any:
    class Serializer(serializers.Serializer[Any]):
        def get_fields(self) -> Any:
            known = list(model.objects.values_list("name", flat=True))
            return {"name": serializers.ChoiceField(known)}

    return Serializer


def first_of(model: Any) -> Any:
    class Form(forms.Form):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["name"] = forms.CharField(help_text=model.objects.get().name)

    return Form


@pytest.fixture(params=[form_of, serializer_of])
def take(request: Any, animal: Any, settings: Any) -> Any:
    """Serve a tool that waits for the table, beside one that does not."""
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0.01}
    take = taking(request.param(animal))
    serve(settings, take, giving(int, 1))
    return take


def test_tool_without_its_tables_is_withheld_with_a_warning(take: Any) -> None:
    assert names() == ["give"]
    (message,) = messages("mcp_bridge.W019")
    assert "take (tests/support/serving.py" in message
    assert "newsroom_animal" in message
    # An error would keep `manage.py migrate` from making the tables.
    assert not [each for each in registry.discovered.messages if each.is_serious()]


def test_running_process_serves_it_once_they_exist(
    take: Any, animal: Any, modern: CheckedClient
) -> None:
    assert [tool["name"] for tool in modern.list_tools()] == ["give"]
    migrate(animal)
    animal.objects.create(name="cat")
    # The sources are read again after twenty times as long as reading them took.
    deadline = time.monotonic() + 120
    while "take" not in [tool["name"] for tool in modern.list_tools()]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert modern.call_tool("take", {"value": {"name": "cat"}})["isError"] is False
    assert messages("mcp_bridge.W019") == []


def test_migration_that_makes_the_tables_records_it(take: Any, animal: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 600}
    assert names() == ["give"]
    migrate(animal)
    call_command("migrate", verbosity=0)
    assert names() == ["give", "take"]
    assert apps.get_model("mcp_bridge.ToolSetting").objects.filter(name="take").exists()


def test_tool_waits_for_a_missing_row_as_well(animal: Any, settings: Any) -> None:
    migrate(animal)
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0}
    serve(settings, taking(first_of(animal)))
    assert "does not exist" in messages("mcp_bridge.W019")[0]
    animal.objects.create(name="cat")
    # The sources are read again after twenty times as long as reading them took.
    deadline = time.monotonic() + 120
    while names() != ["take"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_complete_tools_are_read_once(settings: Any) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0}
    serve(settings, giving(int, 1))
    assert registry.discovered is registry.discovered
