from __future__ import annotations

import os
from base64 import b64decode

from django.contrib.auth.models import Group, User
from django.core.files.base import ContentFile
from home.models import HomePage
from stories.models import Place, StoryPage
from wagtail.contrib.redirects.models import Redirect
from wagtail.documents.models import Document
from wagtail.images.models import Image
from wagtail.models import Page, Site

PIXEL = b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)

home = Site.objects.get(is_default_site=True).root_page
news = home.add_child(
    instance=HomePage(title="News", slug="news", search_description="From the editors.")
)
news.save_revision().publish()
story = news.add_child(
    instance=StoryPage(
        title="Abroad",
        slug="abroad",
        body=[("heading", "Far"), ("people", {"place": "Oslo", "names": ["Ada"]})],
    )
)
assert story.pk == 5
for name in os.environ["SITE_USERS"].split():
    user = User.objects.create_user(name, password=os.environ["SITE_PASSWORD"])
    if name == "editor":
        user.groups.add(Group.objects.get(name="Moderators"))
    if name == "admin":
        User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)
Image.objects.create(title="Dot", file=ContentFile(PIXEL, "dot.png"))
Document.objects.create(title="Rules", file=ContentFile(b"Be kind.", "rules.txt"))
Redirect.objects.create(old_path="/old", redirect_page=news)
Place.objects.create(name="Oslo").save_revision().publish()
assert Page.objects.live().count() == 4
