from __future__ import annotations

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from oauth2_provider.settings import oauth2_settings


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        # Not the setting itself, which a site without a model of its own does not have.
        migrations.swappable_dependency(oauth2_settings.APPLICATION_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ClientUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "first_used_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, verbose_name="first used"
                    ),
                ),
                ("last_used_at", models.DateTimeField(verbose_name="last used")),
                (
                    "application",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_uses",
                        to=oauth2_settings.APPLICATION_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "connected application",
                "verbose_name_plural": "connected applications",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "application"),
                        name="mcp_bridge_oauth_one_use_of_a_client",
                    )
                ],
            },
        ),
    ]
