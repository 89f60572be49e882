from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge_tokens", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="scope",
            field=models.TextField(
                blank=True,
                help_text="With none chosen, the token may do all that its user may.",
                null=True,
                verbose_name="scopes",
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="tools",
            field=models.TextField(
                blank=True,
                help_text="With none chosen, the token allows all tools that its user may call.",
                null=True,
                verbose_name="tools",
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="read_only",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="The token allows only tools that change nothing.",
                verbose_name="read-only",
            ),
        ),
    ]
