"""Wagtail, as ``wagtail start`` makes it, with its API."""

from __future__ import annotations

from tests.sites.site import Call, Interface, Site, rest_framework

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
from wagtail.documents.api.v2.views import DocumentsAPIViewSet
from wagtail.images.api.v2.views import ImagesAPIViewSet
api_router = WagtailAPIRouter("wagtailapi")
api_router.register_endpoint("pages", PagesAPIViewSet)
api_router.register_endpoint("images", ImagesAPIViewSet)
api_router.register_endpoint("documents", DocumentsAPIViewSet)
from wagtail.api.v3.urls import api
urlpatterns[:0] = [path("api/v2/", api_router.urls), path("api/v3/", api.urls)]
""",
    apps={"stories": "wagtail/models.py"},
    seed="wagtail/seed.py",
    compares_admin=True,
    procedures="wagtail/procedures.py",
    pages=(
        "/",
        "/news/",
        "/search/?query=news",
        "/api/v2/pages/",
        "/api/v2/pages/?type=home.HomePage",
        "/api/v2/pages/5/",
        "/api/v2/images/1/",
        "/api/v2/documents/",
        "/api/v3/openapi.json",
        "/api/v3/pages/",
        "/api/v3/images/1/",
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
            "drf": rest_framework(),
            "v3": {
                "BACKEND": "mcp_bridge.sources.ninja.NinjaSource",
                "OPTIONS": {
                    "operations": {"*": {}, "pages_actions_publish": {"confirm": True}},
                    "auth": "mcp_bridge.sources.ninja.caller",
                    "prefix": "api_v3_",
                },
            },
        },
        operations=72,
        pages=("/api/v3/whoami/",),
        values={
            **dict.fromkeys(("pk", "page_id"), [1, 2, 3, 4, 5, 99]),
            **dict.fromkeys(("document_id", "image_id", "redirect_id", "site_id"), [1, 2]),
            "id": [4, 99],
            "revision_id": [1, 2, 99],
            "type": ["stories.Place", "home.HomePage"],
            "type_name": ["home.HomePage", "stories.Place", "no.Model"],
            "limit": [1],
            "offset": [1],
            "search": ["news", ""],
            "search_operator": ["or"],
            "order": [["-id"], ["title", "id"]],
            "version": ["draft"],
            "html_path": ["/news/", "/old", "/nothing/"],
            "child_of": [3, "root"],
            "descendant_of": [3],
            "locale": ["en", "de"],
            "rich_text_format": ["html", "markdown"],
        },
        arguments={
            "api_v3_pages_revisions_list": [{"page_id": 4}, {"page_id": 5}, {"page_id": 99}],
            "api_v3_pages_revisions_detail": [
                {"page_id": 4, "revision_id": 1},
                {"page_id": 5, "revision_id": 1},
            ],
            "api_v3_snippets_list": [{"type": "stories.Place"}, {"type": "home.HomePage"}],
            "api_v3_snippets_detail": [
                {"type": "stories.Place", "pk": "1"},
                {"type": "stories.Place", "pk": "1", "version": "draft"},
                {"type": "stories.Place", "pk": "99"},
            ],
            "api_v3_snippets_revisions_list": [{"type": "stories.Place", "pk": "1"}],
            "api_v3_snippets_revisions_detail": [
                {"type": "stories.Place", "pk": "1", "revision_id": 2},
                {"type": "stories.Place", "pk": "1", "revision_id": 1},
            ],
        },
        calls=(
            Call(
                "editor",
                "api_v3_pages_create",
                {"body": {"meta": {"type": "stories.StoryPage", "parent_id": 4}, "title": "Rain"}},
                '"slug": "rain"',
            ),
            Call("editor", "api_v3_pages_detail", {"page_id": 7, "version": "draft"}, "Rain"),
        ),
        confirmed=(Call("editor", "api_v3_pages_actions_publish", {"page_id": 7}, "Rain"),),
        refused=(
            Call("reader", "api_v3_pages_detail", {"page_id": 7}, "No Page matches"),
            Call("reader", "api_v3_pages_actions_publish", {"page_id": 7}, "Permission denied"),
            Call("reader", "api_wagtailadmin_api_pages_listing", {}, "permission"),
        ),
        credential="""
from wagtail.models import APIToken
def credential(user):
    token = APIToken.generate_token()
    APIToken.objects.create(user=user, name="gate", key_hash=APIToken.hash_token(token))
    return {"HTTP_AUTHORIZATION": f"Bearer {token}"}
""",
    ),
)
