from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0005_errors"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="toolcallrecord",
            index=models.Index(fields=["user_name", "started_at"], name="mcp_record_user"),
        ),
    ]
