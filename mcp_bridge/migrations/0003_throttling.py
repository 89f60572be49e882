from __future__ import annotations

from django.db import migrations, models

import mcp_bridge.models.tool_settings


class Migration(migrations.Migration):
    dependencies = [("mcp_bridge", "0002_audit")]

    operations = [
        migrations.AddField(
            model_name="toolsetting",
            name="rate",
            field=models.CharField(
                blank=True,
                help_text=(
                    "How often each caller may call the tool, such as 20/min, 100/hour or 5/day."
                ),
                max_length=32,
                validators=[mcp_bridge.models.tool_settings.validate_rate],
                verbose_name="rate",
            ),
        ),
    ]
