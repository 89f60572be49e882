from __future__ import annotations

from typing import Any

from django.db import migrations, models


def delete_others(apps: Any, schema_editor: Any) -> None:
    """Delete the settings of features that are no tools, of which older code does not know."""
    connection = schema_editor.connection
    rows = apps.get_model("mcp_bridge", "ToolSetting").objects.using(connection.alias)
    rows.exclude(kind="tool").delete()
    # PostgreSQL changes no table whose constraints are still to be checked.
    connection.check_constraints(
        [rows.model._meta.db_table, rows.model.groups.through._meta.db_table]
    )


class Migration(migrations.Migration):
    dependencies = [("mcp_bridge", "0008_record_keys")]

    operations = [
        migrations.AddField(
            model_name="toolcallrecord",
            name="kind",
            field=models.CharField(db_default="tool", default="tool", max_length=16),
        ),
        migrations.AddField(
            model_name="toolsetting",
            name="kind",
            field=models.CharField(
                db_default="tool", default="tool", editable=False, max_length=16
            ),
        ),
        migrations.AddConstraint(
            model_name="toolsetting",
            constraint=models.UniqueConstraint(
                fields=("kind", "name"), name="mcp_setting_of_feature"
            ),
        ),
        migrations.AlterField(
            model_name="toolsetting",
            name="name",
            field=models.CharField(editable=False, max_length=128, verbose_name="name"),
        ),
        # The last one, which is the first one backwards.
        migrations.RunPython(migrations.RunPython.noop, delete_others),
    ]
