from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from mcp_bridge.models.keys import uuid7

# The rows of one statement.
BATCH = 2000


def key_of(row: Any) -> object:
    """Return the key of the time of a row: of the same time, in the order of the old keys."""
    return uuid7(round(row.started_at.timestamp() * 1e6), row.pk)


def no_key(row: Any) -> object:
    """Have the database number the rows."""
    return None


def rebuild(
    editor: BaseDatabaseSchemaEditor, old: Any, new: Any, key: Callable[[Any], object]
) -> None:
    """
    Move the rows of a table to a new one with the same name, in the order of their keys.

    The table itself stays as it is until its rows are copied. On a database that cannot undo
    changes of tables (MySQL, MariaDB), drop the copy before you migrate again after an error.
    """
    alias, table, indexes = editor.connection.alias, new._meta.db_table, new._meta.indexes
    names = [each.attname for each in new._meta.concrete_fields if not each.primary_key]
    # Names of indexes are taken until the table is gone, and rows are copied faster without them.
    new._meta.db_table, new._meta.indexes = f"{table}_copy", []
    editor.create_model(new)
    page, rows = list(old.objects.using(alias).order_by("pk")[:BATCH]), new.objects.using(alias)
    while page:
        rows.bulk_create(
            new(pk=key(row), **{name: getattr(row, name) for name in names}) for row in page
        )
        page = list(old.objects.using(alias).order_by("pk").filter(pk__gt=page[-1].pk)[:BATCH])
    editor.delete_model(old)
    editor.alter_db_table(new, new._meta.db_table, table)
    new._meta.db_table, new._meta.indexes = table, indexes
    for index in indexes:
        editor.add_index(new, index)


class AlterKey(migrations.AlterField):
    """Give the records of calls keys that have their time in them; or numbers, backwards."""

    reduces_to_sql = False

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        self._rebuild(app_label, schema_editor, from_state, to_state, key_of)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        self._rebuild(app_label, schema_editor, from_state, to_state, no_key)

    def _rebuild(
        self, app_label: str, editor: Any, from_state: Any, to_state: Any, key: Any
    ) -> None:
        old = from_state.apps.get_model(app_label, self.model_name)
        new = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(editor.connection.alias, new):
            rebuild(editor, old, new, key)


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0007_issuers"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # MySQL and MariaDB have it without its condition, twice the same index.
        migrations.RemoveIndex(model_name="toolcallrecord", name="mcp_record_open"),
        migrations.AlterField(
            model_name="toolcallrecord",
            name="user",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        AlterKey(
            model_name="toolcallrecord",
            name="id",
            field=models.UUIDField(
                default=uuid7, editable=False, primary_key=True, serialize=False
            ),
        ),
    ]
