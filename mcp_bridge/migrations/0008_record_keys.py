from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from mcp_bridge.models.keys import uuid7

# The microseconds since 1970 of a row's time, and the UUID of version 7 that is made of them and of
# the old key, as ``mcp_bridge.models.keys`` makes it: of the same time, in the order of the keys.
MOMENT = {
    "sqlite": "strftime('%%s', substr(started_at, 1, 19)) * 1000000"
    " + substr(started_at || '.000000', 21, 6)",
    "postgresql": "(extract(epoch from started_at) * 1000000)::bigint",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at)",
}
KEY = {
    "sqlite": "printf('%%012x7%%03x8%%015x', us / 1000, us %% 1000 * 4096 / 1000, id)",
    "postgresql": "(lpad(to_hex(us / 1000), 12, '0') || '7' ||"
    " lpad(to_hex(us %% 1000 * 4096 / 1000), 3, '0') || '8' || lpad(to_hex(id), 15, '0'))::uuid",
    "mysql": "LOWER(CONCAT(LPAD(HEX(us DIV 1000), 12, '0'), '7',"
    " LPAD(HEX(us MOD 1000 * 4096 DIV 1000), 3, '0'), '8', LPAD(HEX(id), 15, '0')))",
}


def rebuild(editor: Any, old: Any, new: Any, *, forwards: bool) -> None:
    """
    Move the rows of a table to a new one with the same name, in the order of their keys.

    The table itself stays as it is until its rows are copied. On a database that cannot undo
    changes of tables (MySQL, MariaDB), drop the copy before you migrate again after an error.
    """
    connection, table, indexes = editor.connection, new._meta.db_table, new._meta.indexes
    # Names of indexes are taken until the table is gone, and rows are copied faster without them.
    copy = f"{table}_copy"
    new._meta.db_table, new._meta.indexes = copy, []
    editor.create_model(new)
    fields = [each.column for each in new._meta.concrete_fields if not each.primary_key]
    columns = ", ".join(map(connection.ops.quote_name, fields))
    if not forwards:
        editor.execute(f"INSERT INTO {copy} ({columns}) SELECT {columns} FROM {table} ORDER BY id")
    elif connection.vendor in KEY:
        moment, key = MOMENT[connection.vendor], KEY[connection.vendor]
        rows = f"(SELECT old.*, {moment} AS us FROM {table} old) timed"
        editor.execute(
            f"INSERT INTO {copy} (id, {columns}) SELECT {key}, {columns} FROM {rows} ORDER BY id",
            (),
        )
    else:
        for row in old.objects.using(connection.alias).order_by("pk").values():
            moment = round(row["started_at"].timestamp() * 1e6)
            new.objects.using(connection.alias).create(**row | {"id": uuid7(moment, row["id"])})
    editor.delete_model(old)
    editor.alter_db_table(new, copy, table)
    new._meta.db_table, new._meta.indexes = table, indexes
    for index in indexes:
        editor.add_index(new, index)


class AlterKey(migrations.AlterField):
    """Give the records of calls keys that have their time in them; or numbers, backwards."""

    reduces_to_sql = False

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        old = from_state.apps.get_model(app_label, self.model_name)
        new = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, new):
            is_uuid = isinstance(new._meta.pk, models.UUIDField)
            rebuild(schema_editor, old, new, forwards=is_uuid)

    database_backwards = database_forwards


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
