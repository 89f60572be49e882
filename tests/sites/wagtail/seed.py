from __future__ import annotations

import os

from django.contrib.auth.models import Group, User
from home.models import HomePage
from stories.models import StoryPage
from wagtail.models import Page, Site

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
assert Page.objects.live().count() == 4
