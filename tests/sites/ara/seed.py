"""Record a run with a task that failed, as ARA's plugin for Ansible does: through its API."""

from __future__ import annotations

import os

from django.contrib.auth.models import User
from django.test import Client

client = Client(SERVER_NAME="127.0.0.1")
UUID = "5c5f67b9-e63c-6297-80da-000000000005"


def post(kind: str, **values: object) -> int:
    response = client.post(f"/api/v1/{kind}", values, content_type="application/json")
    assert response.status_code == 201, response.text
    return response.json()["id"]


for name in os.environ["SITE_USERS"].split():
    User.objects.create_user(
        name, password=os.environ["SITE_PASSWORD"], is_superuser=name == "admin"
    )
run = post(
    "playbooks",
    name="Print the news",
    ansible_version="2.19",
    path="/news.yml",
    status="failed",
    labels=["nightly"],
    arguments={"check": False},
)
play = post("plays", playbook=run, name="Presses", uuid=UUID, status="completed")
file = post("files", playbook=run, path="/news.yml", content="---\n- hosts: press\n")
host = post("hosts", playbook=run, name="press", facts={"ansible_distribution": "Debian"})
post("records", playbook=run, key="ink", value={"litres": 3}, type="dict")
of_play = {"playbook": run, "play": play}
task = post(
    "tasks",
    **of_play,
    file=file,
    name="Ink",
    action="command",
    lineno=2,
    handler=False,
    tags=["ink"],
)
for status in ("ok", "failed"):
    post("results", **of_play, task=task, host=host, status=status, content={"msg": status})
