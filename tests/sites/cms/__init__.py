"""django CMS without local pages, read through djangocms-rest, with versions of pages."""

from __future__ import annotations

from tests.sites.site import STARTPROJECT, Call, Interface, Site, rest_framework

READING = {"pages_list", "page_read", "pages_search", "languages_list", "menu", "page_versions"}
WRITING = {"page_create", "page_rename", "page_publish"}

SITE = Site(
    name="cms",
    create=STARTPROJECT,
    own_settings="""
INSTALLED_APPS += [
    "django.contrib.sites", "cms", "menus", "treebeard", "sekizai", "djangocms_versioning",
    "djangocms_rest", "rest_framework",
]
SITE_ID = 1
CMS_CONFIRM_VERSION4 = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
CMS_TEMPLATES = (("page.html", "Page"),)
CMS_PLACEHOLDERS = (("page", ["content"], "Page"),)
TEMPLATES[0]["DIRS"] = [BASE_DIR]
TEMPLATES[0]["OPTIONS"]["context_processors"] += [
    "cms.context_processors.cms_settings", "sekizai.context_processors.sekizai"
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
X_FRAME_OPTIONS = "SAMEORIGIN"
""",
    own_urls="""
from django.urls import include
urlpatterns += [path("api/", include("djangocms_rest.urls")), path("", include("cms.urls"))]
""",
    files={"page.html": "{% load cms_tags sekizai_tags %}{% placeholder 'content' %}"},
    seed="cms/seed.py",
    compares_admin=True,
    procedures="cms/procedures.py",
    pages=(
        "/api/languages/",
        "/api/en/pages-list/",
        "/api/en/pages/news/",
        "/api/en/pages-tree/",
        "/api/en/menu/",
        "/api/en/breadcrumbs/news/sport/",
        "/api/plugins/",
    ),
    listed={
        "reader": READING,
        "editor": READING | WRITING,
        "admin": READING | WRITING | {"users_list"},
    },
    calls=(
        Call("reader", "pages_list", {}, "News"),
        Call("reader", "page_read", {"slug": "news", "language": "en"}, "News"),
        Call("reader", "languages_list", {}, "Deutsch"),
        Call("editor", "page_create", {"title": "Harvest"}, "harvest"),
        Call("editor", "page_versions", {"slug": "harvest"}, "draft"),
    ),
    publish=Call("editor", "page_publish", {"slug": "harvest"}, "published"),
    interface=Interface(
        sources={"drf": rest_framework()},
        operations=26,
        # Its @extend_schema has no effect if the schemas are those of DRF.
        warned=frozenset({"W074"}),
        values={
            "language": ["en", "de", "fr"],
            "path": ["news", "news/sport", "nothing/here"],
            "limit": [1],
            "offset": [1],
            "preview": [True],
            "content_type_id": [1],
            "object_id": [1],
            "slot": ["content"],
            **dict.fromkeys(("extra_active", "extra_inactive", "from_level", "to_level"), [0, 100]),
            **dict.fromkeys(("levels", "nephews", "root_level", "start_level"), [0, 100]),
            "root_id": ["news"],
        },
    ),
)
