"""Label Studio, where people label data: its server unchanged, with all of its API enabled."""

from __future__ import annotations

from tests.sites.site import OWN, STARTPROJECT, UNMARKED, USERS, Database, Interface, Site, Write

CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="kind" toName="text"><Choice value="Praise"/><Choice value="Blame"/></Choices>
</View>
"""
LABEL = {
    "from_name": "kind",
    "to_name": "text",
    "type": "choices",
    "value": {"choices": ["Praise"]},
}
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
    pages=("/health/", "/admin/jsi18n/"),
    # A middleware gives each visitor a session, and the parts of the policy are in no order.
    changing_headers=frozenset(
        {"date", "connection", "set-cookie", "content-security-policy-report-only"}
    ),
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
        operations=133,
        warned=frozenset(),
        changing=frozenset({"created_ago"}),
        values={
            **dict.fromkeys(("pk", "project", "task", "entity_id", "export_pk"), [1, 99]),
            **dict.fromkeys(("import_pk", "reimport_pk", "view"), [1]),
            **dict.fromkeys(("page", "page_size"), [1]),
            **dict.fromkeys(("contributed_to_projects", "all", "resolve_uri", "review"), [True]),
            **dict.fromkeys(("organization-only",), [True, False]),
            "ids": ["1"],
            "user_pk": [1, 99],
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
        writes=(
            Write(
                "editor",
                "api_projects_api_project_list_post",
                {"title": "Letters", "label_config": CONFIG},
                "/api/projects/2/",
                '"title":"Letters"',
            ),
            Write(
                "admin",
                "api_projects_api_project_detail_patch",
                {"pk": 2, "expert_instruction": "Read each letter twice."},
                "/api/projects/2/",
                "Read each letter twice.",
            ),
            Write(
                "reader",
                "api_data_import_api_projects_project_import",
                {
                    "pk": 2,
                    "body": [{"data": {"text": "Dear editor"}}, {"data": {"text": "Dear madam"}}],
                },
                "/api/projects/2/tasks/",
                "Dear madam",
            ),
            Write(
                "reader",
                "api_tasks_api_task_list_post",
                {"project": 2, "data": {"text": "To whom it may concern"}},
                "/api/projects/2/tasks/",
                "To whom it may concern",
            ),
            Write(
                "reader",
                "api_tasks_api_task_detail_patch",
                {"pk": "3", "data": {"text": "Dear editors"}},
                "/api/tasks/3/",
                "Dear editors",
            ),
            Write(
                "reader",
                "api_tasks_api_task_annotations_post",
                {"pk": 3, "result": [LABEL], "ground_truth": True},
                "/api/tasks/3/annotations/",
                '"choices":["Praise"]',
            ),
            Write(
                "admin",
                "api_tasks_api_annotations_annotation_detail_patch",
                {"pk": 2, "was_cancelled": True},
                "/api/annotations/2/",
                '"was_cancelled":true',
            ),
            Write(
                "reader",
                "api_tasks_api_predictions_prediction_create",
                {"task": 4, "result": [LABEL], "score": 0.25, "model_version": "two"},
                "/api/predictions/?task=4",
                '"score":0.25',
            ),
            Write(
                "reader",
                "api_data_manager_api_view_create",
                {"project": 2, "data": {"title": "Praise alone"}},
                "/api/dm/views/?project=2",
                "Praise alone",
            ),
            Write(
                "admin", "api_tasks_api_task_detail_delete", {"pk": "5"}, "/api/tasks/5/", "404 "
            ),
        ),
    ),
)
