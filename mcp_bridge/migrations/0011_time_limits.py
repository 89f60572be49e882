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
                    ("unknown_tool", "unknown name"),
                    ("forbidden", "not for this user"),
                    ("disabled", "disabled here"),
                    ("withheld", "waits for approval"),
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
                    ("tool_error", "reported as an error"),
                    ("internal_error", "unexpected error"),
                    ("unsendable", "result that cannot be sent"),
                    ("protocol_error", "protocol error"),
                ],
                max_length=32,
                verbose_name="error code",
            ),
        ),
    ]
