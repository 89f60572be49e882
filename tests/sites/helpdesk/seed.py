from __future__ import annotations

import os

from django.contrib.auth.models import Permission, User
from helpdesk.models import KBCategory, KBItem, Queue

Queue.objects.create(title="Printing", slug="printing", allow_public_submission=True)
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
