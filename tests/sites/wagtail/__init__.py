"""Wagtail, as ``wagtail start`` makes it, with its API."""

from __future__ import annotations

from tests.sites.site import REST_FRAMEWORK, Call, Interface, Site

READING = {"pages_list", "page_read", "pages_search", "page_history", "images_list", "story_read"}
WRITING = {"page_create", "page_rename", "page_publish"}

SITE = Site(
    name="wagtail",
    create=(("wagtail", "start", "site_", "."),),
    settings="site_/settings/dev.py",
    own_settings="""
INSTALLED_APPS += ["wagtail.api.v2", "wagtail.api.v3", "rest_framework", "stories"]
DEBUG = False
""",
    own_urls="""
from wagtail.api.v2.router import WagtailAPIRouter
from wagtail.api.v2.views import PagesAPIViewSet
api_router = WagtailAPIRouter("wagtailapi")
api_router.register_endpoint("pages", PagesAPIViewSet)
from wagtail.api.v3.urls import api
urlpatterns[:0] = [path("api/v2/", api_router.urls), path("api/v3/", api.urls)]
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
    interface=Interface(
        sources={
            "drf": REST_FRAMEWORK,
            "v3": {
                "BACKEND": "mcp_bridge.sources.ninja.NinjaSource",
                "OPTIONS": {
                    "operations": {"*": {}, "pages_actions_publish": {"confirm": True}},
                    "auth": "mcp_bridge.sources.ninja.caller",
                    "prefix": "api_v3_",
                },
            },
        },
        values={
            **dict.fromkeys(("pk", "id", "page_id", "site_id", "redirect_id"), [2, 3, 5, 99]),
            **dict.fromkeys(("revision_id", "document_id", "image_id"), [1, 99]),
            "type": ["home.HomePage", "no.Model"],
            "type_name": ["home.HomePage", "no.Model"],
            "limit": [1],
            "offset": [1],
            "search": ["news"],
            "order": ["-id", "title"],
            "version": ["draft"],
            "html_path": ["/news/"],
            "child_of": [3, "root"],
            "rich_text_format": ["html"],
        },
        credential="""
from wagtail.models import APIToken
def credential(user):
    token = APIToken.generate_token()
    APIToken.objects.create(user=user, name="gate", key_hash=APIToken.hash_token(token))
    return {"HTTP_AUTHORIZATION": f"Bearer {token}"}
""",
    ),
)
