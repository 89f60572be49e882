from __future__ import annotations

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0003_throttling"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UsedState",
            fields=[
                ("nonce", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("used_at", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="toolsetting",
            name="confirm",
            field=models.BooleanField(
                default=False,
                help_text=(
                    "On: each call waits until a person has agreed to it. A tool that the code "
                    "marks so asks in any case."
                ),
                verbose_name="ask first",
            ),
        ),
        migrations.CreateModel(
            name="HeldCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ("tool", models.CharField(db_index=True, max_length=128, verbose_name="tool")),
                ("fingerprint", models.CharField(editable=False, max_length=64)),
                ("arguments", models.TextField(verbose_name="arguments")),
                ("client", models.CharField(blank=True, max_length=128, verbose_name="client")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "waits for a decision"),
                            ("approved", "approved, not repeated yet"),
                            ("refused", "refused"),
                            ("done", "has been run"),
                        ],
                        db_index=True,
                        default="waiting",
                        max_length=8,
                        verbose_name="status",
                    ),
                ),
                (
                    "asked_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="asked"),
                ),
                ("decided_at", models.DateTimeField(null=True, verbose_name="decided")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                ("used_at", models.DateTimeField(null=True, verbose_name="run")),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="decided by",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="asked by",
                    ),
                ),
            ],
            options={
                "verbose_name": "held call",
                "verbose_name_plural": "held calls",
                "ordering": ["-asked_at", "-pk"],
                "default_permissions": ("view", "change", "delete"),
            },
        ),
    ]
