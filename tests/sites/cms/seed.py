from __future__ import annotations

import os

from cms.api import create_page
from django.contrib.auth.models import Permission, User
from django.db import transaction
from djangocms_versioning.models import Version

users = {}
for name in os.environ["SITE_USERS"].split():
    users[name] = user = User.objects.create_user(
        name,
        password=os.environ["SITE_PASSWORD"],
        is_staff=name != "reader",
        is_superuser=name == "admin",
    )
    if name == "editor":
        names = ["add_page", "change_page", "publish_page", "change_pagecontent"]
        user.user_permissions.set(Permission.objects.filter(codename__in=names))


def publish(title, **options):
    page = create_page(
        title, "page.html", "en", created_by=users["admin"], in_navigation=True, **options
    )
    content = page.pagecontent_set(manager="admin_manager").get()
    Version.objects.get_for_content(content).publish(users["admin"])
    return page


with transaction.atomic():
    publish("Home").set_as_homepage()
publish("Sport", parent=publish("News"))
