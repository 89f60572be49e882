"""An organization of three, and a project with two tasks, one of them labelled, by the API."""

from __future__ import annotations

import os

from django.test import Client
from organizations.models import Organization
from users.models import User

users = [
    User.objects.create_user(
        email=f"{name}@example.com",
        password=os.environ["SITE_PASSWORD"],
        is_superuser=name == "admin",
    )
    for name in os.environ["SITE_USERS"].split()
]
organization = Organization.create_organization(created_by=users[-1], title="The newsroom")
for user in users:
    organization.add_user(user)
    user.active_organization = organization
    user.save()
client = Client(SERVER_NAME="127.0.0.1")
client.force_login(users[-1])
CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="kind" toName="text"><Choice value="News"/><Choice value="Opinion"/></Choices>
</View>
"""
RESULT = [
    {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": ["News"]}}
]


def post(path: str, value: object) -> None:
    response = client.post(f"/api/{path}", value, content_type="application/json")
    assert response.status_code == 201, f"{response.status_code} {response.text}"


post("projects/", {"title": "Articles", "label_config": CONFIG})
post("projects/1/import", [{"text": "It has rained."}, {"text": "It rains too often."}])
post("tasks/1/annotations/", {"result": RESULT})
post("predictions/", {"task": 2, "result": RESULT, "score": 0.5, "model_version": "one"})
post("projects/1/exports/", {"title": "All"})
post("dm/views/", {"project": 1, "data": {"title": "Rain"}})
# The first request makes it.
assert client.get("/api/session-policy/").status_code == 200
