"""ARA, which records runs of Ansible: its server unchanged, with all of its API enabled."""

from __future__ import annotations

from tests.sites.site import STARTPROJECT, UNMARKED, Interface, Site, Write

UUID = "5c5f67b9-e63c-6297-80da-000000000005"
TIMES = ("created", "updated", "started", "ended", "host__created", "host__updated")
COUNTS = ("changed", "failed", "ok", "skipped", "unreachable")
OF_PLAY = {"playbook": 2, "play": 2}

SITE = Site(
    name="ara",
    requirements="ara/requirements.txt",
    create=STARTPROJECT,
    own_settings="""
from ara.server.settings import *
ROOT_URLCONF = "site_.urls"
""",
    own_urls="from ara.server.urls import urlpatterns\n",
    env={
        "ARA_BASE_DIR": "ara",
        "ARA_SECRET_KEY": "known to everybody, " * 3,
        "ARA_TIME_ZONE": "UTC",
    },
    seed="ara/seed.py",
    bridge={"EXPOSE": "all"},
    pages=("/robots.txt", "/playbooks/1.html", "/api/v1/playbooks", "/api/v1/results/1"),
    interface=Interface(
        sources={"drf": UNMARKED},
        operations=51,
        # Its default settings name origins for CORS, and its pages for people are REST views too.
        warned=frozenset({"W032", "W078"}),
        values={
            **dict.fromkeys(("pk", "playbook", "play", "task", "host", "delegated_to"), [1, 99]),
            **dict.fromkeys(("limit", "offset"), [1]),
            **dict.fromkeys((f"{name}_after" for name in TIMES), ["2000-01-01T00:00:00Z"]),
            **dict.fromkeys((f"{name}_before" for name in TIMES), ["2000-01-01T00:00:00Z"]),
            **dict.fromkeys((f"{name}__gt" for name in COUNTS), [0]),
            **dict.fromkeys((f"{name}__lt" for name in COUNTS), [1, 9]),
            **dict.fromkeys(("changed", "ignore_errors", "handler"), [True, False]),
            "order": ["-id", "nonsense"],
            "status": ["failed", "nonsense"],
            **dict.fromkeys(("name", "host_name"), ["press", "Print the news"]),
            **dict.fromkeys(("path", "playbook_path"), ["/news.yml"]),
            "playbook_name": ["Print the news"],
            "task_name": ["Ink"],
            "label": ["nightly", "none"],
            "key": ["ink"],
            "uuid": [UUID],
            "action": ["command"],
            "lineno": ["2"],
            "ansible_version": ["2.19"],
            "controller": ["localhost"],
        },
        arguments={"api_latesthost_retrieve": [{"pk": "press"}, {"pk": "none"}]},
        writes=(
            Write("reader", "api_label_create", {"name": "weekly"}, "/api/v1/labels", "weekly"),
            Write(
                "reader",
                "api_playbook_create",
                {
                    "ansible_version": "2.20",
                    "path": "/more.yml",
                    "labels": ["weekly"],
                    "arguments": {"check": True},
                },
                "/api/v1/playbooks/2",
                '"arguments":{"check":true}',
            ),
            Write(
                "editor",
                "api_playbook_partial_update",
                {"pk": 2, "status": "completed"},
                "/api/v1/playbooks/2",
                '"status":"completed"',
            ),
            Write(
                "reader",
                "api_play_create",
                {"playbook": 2, "uuid": UUID, "name": "Folding"},
                "/api/v1/plays/2",
                "Folding",
            ),
            Write(
                "reader",
                "api_file_create",
                {"playbook": 2, "path": "/more.yml", "content": "- hosts: folder"},
                "/api/v1/files/2",
                "hosts: folder",
            ),
            Write(
                "reader",
                "api_host_create",
                {"playbook": 2, "name": "folder", "facts": {"ansible_fqdn": "folder.example"}},
                "/api/v1/latesthosts/folder",
                "folder.example",
            ),
            Write(
                "reader",
                "api_task_create",
                {
                    **OF_PLAY,
                    "file": 2,
                    "action": "fold",
                    "lineno": 4,
                    "handler": False,
                    "tags": ["paper"],
                },
                "/api/v1/tasks/2",
                '"tags":["paper"]',
            ),
            Write(
                "reader",
                "api_result_create",
                {**OF_PLAY, "host": 2, "task": 2, "content": {"msg": "It is torn."}},
                "/api/v1/results/3",
                "It is torn.",
            ),
            Write(
                "reader",
                "api_record_create",
                {"playbook": 2, "key": "sheets", "value": [500, 2], "type": "list"},
                "/api/v1/records/2",
                "[500,2]",
            ),
            Write("admin", "api_result_destroy", {"pk": 3}, "/api/v1/results/3", "404 "),
        ),
    ),
)
