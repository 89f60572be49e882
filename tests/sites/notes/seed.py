from __future__ import annotations

import os

from django.contrib.auth.models import Permission, User

for name in os.environ["SITE_USERS"].split():
    user = User.objects.create_user(name, password=os.environ["SITE_PASSWORD"])
    if name == "editor":
        user.user_permissions.add(Permission.objects.get(codename="change_note"))
    if name == "admin":
        User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)
