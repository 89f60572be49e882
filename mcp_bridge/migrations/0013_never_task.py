from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0012_upstreams"),
    ]

    operations = [
        migrations.AddField(
            model_name="toolsetting",
            name="never_task",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Each call runs inside its request, unless it waits for a person's "
                "approval.",
                verbose_name="never as a task",
            ),
        ),
    ]
