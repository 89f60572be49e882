"""
Approve the pending call of a user as the newsroom's administrator; exit with 1 if there is none.
"""

from __future__ import annotations

import sys

import django
from django.core.management import call_command


def main(caller: str) -> int:
    django.setup()
    from mcp_bridge.models import PendingCall

    waiting = PendingCall.objects.filter(user__username=caller, status="waiting")
    numbers = list(waiting.values_list("pk", flat=True))
    for number in numbers:
        call_command("mcp_pending", "approve", number, user="admin")
    return 0 if numbers else 1


sys.exit(main(sys.argv[1]))
