from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcp_bridge", "0010_interceptors"),
    ]

    operations = [
        migrations.AlterField(
            model_name="toolcallrecord",
            name="error_code",
            field=models.CharField(
                blank=True,
                choices=[
                    ("unknown_tool", "no such tool"),
                    ("forbidden", "not for this user"),
                    ("disabled", "tool is off"),
                    ("withheld", "tool waits for approval"),
                    ("unauthenticated", "not authenticated"),
                    ("insufficient_scope", "token without the scope"),
                    ("throttled", "too many calls"),
                    ("invalid", "invalid request or arguments"),
                    ("unconfirmed", "not confirmed by a person"),
                    ("rejected", "rejected by the site's own code"),
                    ("answered", "answered by the site's own code"),
                    ("unrecorded", "no record could be written"),
                    ("unavailable", "unavailable for the moment"),
                    ("timed_out", "time limit reached"),
                    ("tool_error", "the tool said so"),
                    ("internal_error", "error in the tool"),
                    ("unsendable", "result that cannot be sent"),
                    ("protocol_error", "protocol error"),
                ],
                max_length=32,
                verbose_name="error code",
            ),
        ),
    ]
