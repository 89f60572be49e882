from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Generation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("value", models.CharField(max_length=32)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ToolSetting",
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
                        editable=False, max_length=128, unique=True, verbose_name="name"
                    ),
                ),
                (
                    "enabled",
                    models.BooleanField(
                        default=True,
                        help_text="Off: nobody sees the tool or can call it.",
                        verbose_name="enabled",
                    ),
                ),
                (
                    "restricted",
                    models.BooleanField(
                        default=False,
                        help_text=(
                            "On: only members of the groups below see the tool, superusers "
                            "included. They need the tool's permissions as well. Without a group, "
                            "nobody sees it."
                        ),
                        verbose_name="only for groups",
                    ),
                ),
                (
                    "title",
                    models.CharField(
                        blank=True,
                        help_text="Instead of the one in the code.",
                        max_length=200,
                        verbose_name="title",
                    ),
                ),
                (
                    "description",
                    models.TextField(
                        blank=True,
                        help_text="What models read instead of the description in the code.",
                        verbose_name="description",
                    ),
                ),
                (
                    "note",
                    models.TextField(
                        blank=True,
                        help_text="For colleagues: why it is set so. Models never see it.",
                        verbose_name="note",
                    ),
                ),
                ("approved", models.TextField(blank=True, editable=False)),
                ("fingerprint", models.CharField(blank=True, editable=False, max_length=64)),
                ("guarded", models.BooleanField(default=False, editable=False)),
                (
                    "approved_at",
                    models.DateTimeField(editable=False, null=True, verbose_name="approved"),
                ),
                (
                    "approved_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="approved by",
                    ),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True, related_name="mcp_tools", to="auth.group", verbose_name="groups"
                    ),
                ),
            ],
            options={
                "verbose_name": "tool",
                "verbose_name_plural": "tools",
                "ordering": ["name"],
                "default_permissions": ("view", "change", "delete"),
            },
        ),
    ]
