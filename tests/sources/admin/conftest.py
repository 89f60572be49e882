from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.db import connection, models


@pytest.fixture
def table() -> Iterator[Callable[..., Any]]:
    """Return a function that makes a model of the newsroom, with its table, until the test ends."""
    made = []

    def make(name: str, /, *bases: Any, **members: Any) -> Any:
        meta = type("Meta", (), {"app_label": "newsroom", **members.pop("meta", {})})
        own = {"Meta": meta, "__module__": "tests.sources.admin", **members}
        kind = type(name, bases or (models.Model,), own)
        made.append(kind)
        if not kind._meta.proxy:
            editor = connection.schema_editor()
            editor.deferred_sql = []
            sql, parameters = editor.table_sql(kind)
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters or None)
                for through in (
                    each.remote_field.through for each in kind._meta.local_many_to_many
                ):
                    if through._meta.auto_created:
                        cursor.execute(*editor.table_sql(through)[:1])
        return kind

    yield make
    LogEntry.objects.all().delete()
    for kind in made:
        apps.all_models["newsroom"].pop(kind._meta.model_name, None)
        for each in kind._meta.local_many_to_many:
            apps.all_models["newsroom"].pop(each.remote_field.through._meta.model_name, None)
    apps.clear_cache()
