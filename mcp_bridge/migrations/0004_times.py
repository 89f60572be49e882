from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0003_candidates"),
    ]

    operations = [
        migrations.AddField(
            model_name="toolcallrecord",
            name="times",
            field=models.PositiveIntegerField(db_default=1, default=1, verbose_name="times"),
        ),
    ]
