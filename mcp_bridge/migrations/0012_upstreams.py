from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0011_time_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="toolcallrecord",
            name="upstream",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=24,
                verbose_name="remote server",
            ),
        ),
        migrations.AddField(
            model_name="toolcallrecord",
            name="upstream_status",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=5,
                verbose_name="its HTTP status",
            ),
        ),
    ]
