from __future__ import annotations

import os

from django.contrib.auth.models import Permission, User
from helpdesk.models import FollowUp, KBCategory, KBItem, Queue, Ticket

printing = Queue.objects.create(title="Printing", slug="printing", allow_public_submission=True)
news = KBCategory.objects.create(name="News", title="News", slug="news", description="News.")
KBItem.objects.create(
    category=news, title="Where the press is", question="Where?", answer="In the cellar."
)
for name in os.environ["SITE_USERS"].split():
    user = User.objects.create_user(
        name,
        email=f"{name}@example.com",
        password=os.environ["SITE_PASSWORD"],
        is_staff=name != "reader",
        is_superuser=name == "admin",
    )
    if name == "editor":
        user.user_permissions.add(Permission.objects.get(codename="change_ticket"))
ticket = Ticket.objects.create(
    queue=printing, title="Paper is out", description="All.", submitter_email="reader@example.com"
)
FollowUp.objects.create(ticket=ticket, user=user, comment="More comes today.", public=True)
