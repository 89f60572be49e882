from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0004_times"),
    ]

    operations = [
        migrations.AddField(
            model_name="toolcallrecord",
            name="error_text",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=500, verbose_name="error"
            ),
        ),
        migrations.AddField(
            model_name="toolcallrecord",
            name="invalid_arguments",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=500,
                verbose_name="invalid arguments",
            ),
        ),
        migrations.AddField(
            model_name="toolcallrecord",
            name="pending_call",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="mcp_bridge.pendingcall",
                verbose_name="pending call",
            ),
        ),
        # Other words for people alone.
        migrations.AlterField(
            model_name="toolcallrecord",
            name="credential",
            field=models.CharField(blank=True, max_length=100, verbose_name="signed in with"),
        ),
        migrations.AlterField(
            model_name="toolcallrecord",
            name="revision",
            field=models.CharField(blank=True, max_length=10, verbose_name="protocol version"),
        ),
        migrations.AlterField(
            model_name="toolcallrecord",
            name="error_code",
            field=models.CharField(
                blank=True,
                choices=[
                    ("unknown_tool", "unknown name"),
                    ("forbidden", "not for this user"),
                    ("disabled", "disabled here"),
                    ("withheld", "waits for approval"),
                    ("unauthenticated", "not authenticated"),
                    ("insufficient_scope", "token without the scope"),
                    ("throttled", "too many calls"),
                    ("invalid", "invalid request or arguments"),
                    ("unconfirmed", "not confirmed by a person"),
                    ("unrecorded", "no record could be written"),
                    ("unavailable", "unavailable for the moment"),
                    ("tool_error", "reported as an error"),
                    ("internal_error", "unexpected error"),
                    ("unsendable", "result that cannot be sent"),
                    ("protocol_error", "protocol error"),
                ],
                max_length=32,
                verbose_name="error code",
            ),
        ),
    ]
