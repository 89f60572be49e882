"""Wagtail, as ``wagtail start`` makes it, with its API."""

from __future__ import annotations

from tests.sites.site import Call, Site

READING = {"pages_list", "page_read", "pages_search", "page_history", "images_list", "story_read"}
WRITING = {"page_create", "page_rename", "page_publish"}

SITE = Site(
    name="wagtail",
    create=(("wagtail", "start", "site_", "."),),
    settings="site_/settings/dev.py",
    own_settings="""
INSTALLED_APPS += ["wagtail.api.v2", "rest_framework", "stories"]
DEBUG = False
""",
    own_urls="""
from wagtail.api.v2.router import WagtailAPIRouter
from wagtail.api.v2.views import PagesAPIViewSet
api_router = WagtailAPIRouter("wagtailapi")
api_router.register_endpoint("pages", PagesAPIViewSet)
urlpatterns.insert(0, path("api/v2/", api_router.urls))
""",
    apps={"stories": "wagtail/models.py"},
    seed="wagtail/seed.py",
    procedures="wagtail/procedures.py",
    pages=(
        "/",
        "/news/",
        "/search/?query=news",
        "/api/v2/pages/",
        "/api/v2/pages/?type=home.HomePage",
    ),
    listed={
        "reader": READING,
        "editor": READING | WRITING,
        "admin": READING | WRITING | {"users_list"},
    },
    calls=(
        Call("reader", "pages_list", {}, "News"),
        Call("reader", "pages_search", {"query": "news"}, "News"),
        Call("reader", "page_read", {"path": "/news/"}, "From the editors"),
        Call("reader", "story_read", {"story": 5}, '"value":{"place":"Oslo"'),
        Call("editor", "page_create", {"parent": "/news/", "title": "Harvest"}, "/news/harvest/"),
        Call("admin", "users_list", {}, "editor"),
    ),
    publish=Call("editor", "page_publish", {"path": "/news/harvest/"}, "is live"),
)
