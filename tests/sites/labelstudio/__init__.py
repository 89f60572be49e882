"""Label Studio, where people label data: its server as it is, with all of its API switched on."""

from __future__ import annotations

from tests.sites.site import OWN, STARTPROJECT, UNMARKED, USERS, Database, Interface, Site, Write

DATABASE = Database("mcp_bridge_label_studio")

SITE = Site(
    name="label-studio",
    requirements="labelstudio/requirements.txt",
    create=(DATABASE.create, *STARTPROJECT),
    own_settings="""
import sys
from importlib.util import find_spec
# Its apps are at the top, as its own manage.py has them.
sys.path.insert(0, find_spec("label_studio").submodule_search_locations[0])
# The module below reads these of django.conf.settings while it is imported.
from core.settings.base import *
SENTRY_DSN = ""
from core.settings.label_studio import *
ROOT_URLCONF = "site_.urls"
"""
    + DATABASE.settings,
    own_urls="from core.urls import urlpatterns\n",
    env={
        **DATABASE.env,
        "DJANGO_DB": "default",
        # It ends sessions that its own form has not begun.
        "INACTIVITY_SESSION_TIMEOUT_ENABLED": "0",
        "BASE_DATA_DIR": "data",
        "COLLECT_ANALYTICS": "0",
        "LATEST_VERSION_CHECK": "0",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
        "SECRET_KEY": "known to everybody, " * 3,
    },
    seed="labelstudio/seed.py",
    bridge={"EXPOSE": "all"},
    names={user: f"{user}@example.com" for user in USERS},
    pages=("/health/", "/version/"),
    # A middleware gives each visitor a session.
    changing_headers=frozenset({"date", "connection", "set-cookie"}),
    interface=Interface(
        sources={
            "drf": {
                **UNMARKED,
                # Their answers have the member task_data_password, so that only a name opens them.
                "OPTIONS": {
                    "prefix": OWN,
                    "views": {
                        "projects.api.ProjectListAPI": {},
                        "projects.api.ProjectAPI": {"actions": ["get", "patch", "delete"]},
                    },
                },
            }
        },
        operations=129,
        warned=frozenset(),
        values={
            **dict.fromkeys(("pk", "project", "task", "entity_id", "export_pk"), [1, 99]),
            **dict.fromkeys(("import_pk", "reimport_pk", "view"), [1]),
            **dict.fromkeys(("page", "page_size"), [1]),
            **dict.fromkeys(("contributed_to_projects", "all", "resolve_uri", "review"), [True]),
            **dict.fromkeys(("organization-only",), [True, False]),
            "ids": [1],
            "filename": ["upload/1/none.txt"],
            "action_id": ["delete_tasks", "none"],
            "entity_name": ["task", "project", "none"],
            "exportType": ["JSON", "CSV"],
            "filter": ["all", "pinned_only"],
            "include": ["id,title"],
            "search": ["Articles"],
            "title": ["Articles"],
            "fields": ["all", "task_only"],
            "ordering": ["-id"],
        },
    ),
)
