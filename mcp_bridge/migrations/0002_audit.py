from __future__ import annotations

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ToolCallRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "started_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="time"),
                ),
                ("tool", models.CharField(blank=True, max_length=128, verbose_name="tool")),
                (
                    "user_name",
                    models.CharField(blank=True, max_length=150, verbose_name="user's name"),
                ),
                (
                    "credential",
                    models.CharField(blank=True, max_length=100, verbose_name="credential"),
                ),
                (
                    "client_name",
                    models.CharField(blank=True, max_length=100, verbose_name="client"),
                ),
                (
                    "client_version",
                    models.CharField(blank=True, max_length=100, verbose_name="client's version"),
                ),
                ("revision", models.CharField(blank=True, max_length=10, verbose_name="revision")),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("started", "started"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("refused", "refused"),
                            ("cancelled", "cancelled"),
                            ("unknown", "unknown"),
                        ],
                        max_length=16,
                        verbose_name="outcome",
                    ),
                ),
                (
                    "error_code",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("unknown_tool", "no such tool"),
                            ("forbidden", "not for this user"),
                            ("disabled", "tool is off"),
                            ("withheld", "tool waits for approval"),
                            ("unauthenticated", "not authenticated"),
                            ("throttled", "too many calls"),
                            ("invalid", "invalid request or arguments"),
                            ("unconfirmed", "not confirmed by a person"),
                            ("unrecorded", "no record could be written"),
                            ("unavailable", "database unavailable"),
                            ("tool_error", "the tool said so"),
                            ("fault", "fault in the tool"),
                            ("unsendable", "result that cannot be sent"),
                            ("protocol_error", "protocol error"),
                        ],
                        max_length=32,
                        verbose_name="error code",
                    ),
                ),
                (
                    "reference",
                    models.CharField(blank=True, max_length=32, verbose_name="reference"),
                ),
                ("duration_ms", models.FloatField(null=True, verbose_name="duration (ms)")),
                ("arguments", models.TextField(blank=True, verbose_name="arguments")),
                (
                    "arguments_bytes",
                    models.BigIntegerField(null=True, verbose_name="size of the arguments"),
                ),
                (
                    "result_bytes",
                    models.BigIntegerField(null=True, verbose_name="size of the result"),
                ),
                (
                    "remote_address",
                    models.CharField(blank=True, max_length=64, verbose_name="remote address"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "call",
                "verbose_name_plural": "calls",
                "ordering": ["-started_at", "-pk"],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["started_at"], name="mcp_record_time"),
                    models.Index(fields=["tool", "started_at"], name="mcp_record_tool"),
                    models.Index(
                        condition=models.Q(("outcome", "started")),
                        fields=["started_at"],
                        name="mcp_record_open",
                    ),
                ],
            },
        ),
    ]
