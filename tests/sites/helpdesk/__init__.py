"""django-helpdesk, as its installation page says, with a customer, an agent and the owner."""

from __future__ import annotations

from tests.sites.site import STARTPROJECT, Call, Interface, Site, rest_framework

READING = {"queues_list", "articles_list", "ticket_open", "my_tickets", "ticket_status"}
WORKING = {"tickets_list", "ticket_read", "ticket_answer", "ticket_resolve"}

SITE = Site(
    name="helpdesk",
    create=STARTPROJECT,
    own_settings="""
INSTALLED_APPS += [
    "django.contrib.sites", "django.contrib.humanize", "rest_framework", "helpdesk"
]
SITE_ID = 1
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
HELPDESK_VIEW_A_TICKET_PUBLIC = True
HELPDESK_TEAMS_MODE_ENABLED = False
""",
    own_urls="""
from django.urls import include
urlpatterns.append(path("helpdesk/", include("helpdesk.urls")))
""",
    seed="helpdesk/seed.py",
    compares_admin=True,
    procedures="helpdesk/procedures.py",
    pages=("/helpdesk/kb/", "/helpdesk/kb/news/", "/helpdesk/help/context/", "/admin/jsi18n/"),
    listed={
        "reader": READING,
        "editor": READING | WORKING,
        "admin": READING | WORKING | {"queue_close"},
    },
    calls=(
        Call("reader", "queues_list", {}, "Printing"),
        Call("reader", "articles_list", {}, "Where the press is"),
        Call("reader", "ticket_open", {"queue": "printing", "title": "Ink is out"}, "Ink is out"),
        Call("editor", "tickets_list", {"queue": "printing"}, "Ink is out"),
        Call("editor", "ticket_answer", {"ticket": 2, "text": "On its way."}, "answered"),
    ),
    publish=Call("editor", "ticket_resolve", {"ticket": 2, "text": "There is ink."}, "Resolved"),
    interface=Interface(
        sources={"drf": rest_framework()},
        operations=23,
        pages=("/helpdesk/api/tickets/", "/helpdesk/api/followups/1/"),
        values={"pk": [1, 99], "page": [1, 2], "page_size": [1], "query": ["e30=", "nonsense"]},
    ),
)
