from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge_tokens", "0002_limits"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="issued_by",
            field=models.ForeignKey(
                db_constraint=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="issued by",
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="outgrown",
            field=models.BooleanField(
                db_default=False, default=False, editable=False, verbose_name="outgrown"
            ),
        ),
    ]
