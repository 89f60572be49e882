from __future__ import annotations

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
from django.db import migrations, models

import mcp_bridge.remote.models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="RemoteServer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        help_text="The names of its tools begin with it: weather_forecast.",
                        max_length=24,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9-]*\\Z",
                                "Use a-z, 0-9 and hyphens, such as weather.",
                            )
                        ],
                        verbose_name="short name",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        help_text="For people and models, such as Weather.",
                        max_length=100,
                        verbose_name="name",
                    ),
                ),
                (
                    "url",
                    models.CharField(
                        max_length=500,
                        validators=[mcp_bridge.remote.models.validate_url],
                        verbose_name="URL",
                    ),
                ),
                (
                    "enabled",
                    models.BooleanField(
                        default=True,
                        help_text="If disabled, none of its tools is served.",
                        verbose_name="enabled",
                    ),
                ),
                (
                    "auth",
                    models.CharField(
                        choices=[
                            ("none", "no credential"),
                            ("static", "the site's credential"),
                            ("per_user", "a credential of each user (REMOTE_TOKEN_FOR)"),
                            ("passthrough", "the caller's own token, which it then receives"),
                        ],
                        default="none",
                        max_length=12,
                        verbose_name="credential",
                    ),
                ),
                ("credential", models.TextField(blank=True, editable=False)),
                (
                    "permission",
                    models.CharField(
                        blank=True,
                        help_text="Users with this permission reach the whole server, with all its tools, below /mcp/remote/. Empty: it cannot be passed through.",
                        max_length=150,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^\\w+\\.\\w+\\Z", "Enter app_label.codename."
                            )
                        ],
                        verbose_name="permission to pass through",
                    ),
                ),
                (
                    "first_byte_s",
                    models.PositiveIntegerField(
                        default=10,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="time to answer (s)",
                    ),
                ),
                (
                    "whole_call_s",
                    models.PositiveIntegerField(
                        default=60,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="time for a whole answer (s)",
                    ),
                ),
                (
                    "idle_s",
                    models.PositiveIntegerField(
                        default=30,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="longest pause of a stream (s)",
                    ),
                ),
                (
                    "max_body_bytes",
                    models.PositiveIntegerField(
                        default=5242880,
                        validators=[django.core.validators.MinValueValidator(1024)],
                        verbose_name="longest answer (bytes)",
                    ),
                ),
                (
                    "version",
                    models.CharField(
                        blank=True, editable=False, max_length=10, verbose_name="protocol version"
                    ),
                ),
                (
                    "last_sync",
                    models.DateTimeField(editable=False, null=True, verbose_name="tools fetched"),
                ),
                (
                    "last_error",
                    models.CharField(
                        blank=True, editable=False, max_length=500, verbose_name="last error"
                    ),
                ),
            ],
            options={
                "verbose_name": "remote server",
                "verbose_name_plural": "remote servers",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="RemoteHeader",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=100,
                        validators=[
                            django.core.validators.RegexValidator("^[!#$%&'*+.^_`|~0-9A-Za-z-]+\\Z")
                        ],
                        verbose_name="name",
                    ),
                ),
                ("is_secret", models.BooleanField(default=False, verbose_name="secret")),
                ("value", models.TextField(blank=True, verbose_name="value")),
                (
                    "from_header",
                    models.CharField(
                        blank=True,
                        max_length=100,
                        validators=[
                            django.core.validators.RegexValidator("^[!#$%&'*+.^_`|~0-9A-Za-z-]+\\Z")
                        ],
                        verbose_name="the caller's header",
                    ),
                ),
                (
                    "is_required",
                    models.BooleanField(
                        default=True,
                        help_text="Without a value, calls are refused and nothing is sent.",
                        verbose_name="required",
                    ),
                ),
                (
                    "server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="headers",
                        to="mcp_bridge_remote.remoteserver",
                    ),
                ),
            ],
            options={
                "verbose_name": "header",
                "verbose_name_plural": "headers",
                "ordering": ["name"],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        models.F("server"),
                        django.db.models.functions.text.Lower("name"),
                        name="mcp_remote_header_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("value", ""), ("from_header", ""), _connector="XOR"),
                        name="mcp_remote_header_one_source",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RemoteTool",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("remote_name", models.CharField(max_length=300, verbose_name="name there")),
                (
                    "name",
                    models.CharField(max_length=64, null=True, unique=True, verbose_name="name"),
                ),
                ("definition", models.TextField(blank=True)),
                (
                    "reason",
                    models.CharField(blank=True, max_length=500, verbose_name="left out because"),
                ),
                ("seen_at", models.DateTimeField(verbose_name="last seen")),
                ("gone", models.BooleanField(default=False, verbose_name="gone")),
                (
                    "server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tools",
                        to="mcp_bridge_remote.remoteserver",
                    ),
                ),
            ],
            options={
                "verbose_name": "remote tool",
                "verbose_name_plural": "remote tools",
                "ordering": ["remote_name"],
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("server", "remote_name"), name="mcp_remote_tool_once"
                    )
                ],
            },
        ),
    ]
