from __future__ import annotations

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import mcp_bridge.tasks.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("mcp_bridge", "0013_never_task"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="McpTask",
            fields=[
                (
                    "id",
                    mcp_bridge.tasks.models.TaskKey(
                        default=mcp_bridge.tasks.models.new_id,
                        editable=False,
                        max_length=32,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("caller", models.CharField(editable=False, max_length=160)),
                ("tool", models.CharField(max_length=128, verbose_name="tool")),
                ("fingerprint", models.CharField(editable=False, max_length=64)),
                (
                    "arguments",
                    mcp_bridge.tasks.models.JSONText(null=True, verbose_name="arguments"),
                ),
                ("origin", mcp_bridge.tasks.models.JSONText(default=dict, editable=False)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("working", "working"),
                            ("input_required", "input required"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        db_index=True,
                        default="working",
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                ("message", models.CharField(blank=True, max_length=500, verbose_name="message")),
                ("questions", mcp_bridge.tasks.models.JSONText(default=dict, editable=False)),
                ("answers", mcp_bridge.tasks.models.JSONText(default=dict, editable=False)),
                ("tool_state", mcp_bridge.tasks.models.JSONText(editable=False, null=True)),
                ("round", models.PositiveIntegerField(default=1, editable=False)),
                ("confirmed_at", models.DateTimeField(null=True, verbose_name="confirmed")),
                ("result", mcp_bridge.tasks.models.JSONText(null=True, verbose_name="result")),
                ("is_error", models.BooleanField(default=False, editable=False)),
                ("error", mcp_bridge.tasks.models.JSONText(null=True, verbose_name="error")),
                ("record", models.UUIDField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
                ),
                (
                    "updated_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="changed"),
                ),
                ("queued_at", models.DateTimeField(editable=False, null=True)),
                ("started_at", models.DateTimeField(null=True, verbose_name="started")),
                ("seen_at", models.DateTimeField(null=True, verbose_name="last heartbeat")),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires")),
                (
                    "pending_call",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="mcp_bridge.pendingcall",
                        verbose_name="pending call",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "ordering": ["-created_at", "-pk"],
                "default_permissions": ("view", "change"),
                "indexes": [models.Index(fields=["caller", "status"], name="mcp_task_caller")],
            },
        ),
    ]
