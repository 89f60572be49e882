"""Good requests of every revision, to be changed."""

from __future__ import annotations

from random import Random
from typing import Any

from mcp_bridge.protocol import pagination
from mcp_bridge.testing import MCPClient
from tests.fuzz.mutations import Sent
from tests.sources.admin.world import World
from tests.support.revisions import EVERY_REVISION

NODE = {"value": 1, "children": [{"value": 2, "children": []}]}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1, "b": 2}),
    ("echo", {"text": "hi"}),
    ("later", {"value": [1, "a", None, {"b": True}]}),
    ("tree", {"root": NODE}),
    ("book", {"order": {"number": "AB-1", "lines": [1, 2]}, "day": "2026-07-28"}),
    (
        "book",
        {
            **{"order": 5, "day": "2026-07-28", "at": "2026-07-28T10:00:00Z", "price": "1.50"},
            **{"key": "5d8a9a0e-6a3c-4a8e-9d2c-0a1b2c3d4e5f", "kinds": ["a"], "data": "aGk="},
            "named": {"x": 1.5},
        },
    ),
    ("routed", {"region": "eu", "zone": 7}),
    ("by_hand", {"code": "aaa", "tags": ["x", {"y": 1}], "either": 3}),
    ("wipe", {"name": "all"}),
    ("ask", {"train": "IC 1"}),
    ("hidden", {}),
]
RESPONSES = {
    "confirm": {"action": "accept", "content": {"confirm": True}},
    "elicit-1": {"action": "accept", "content": {"name": "Ada"}},
}
# For these, a client that can be asked gets a state.
ASKING = ("wipe", "ask")


class Requests:
    """Maker of requests with the token of a user, as a client of each revision sends them."""

    def __init__(self, token: str, calls: list[tuple[str, dict[str, Any]]] = CALLS) -> None:
        self.calls = calls
        self.clients = [
            MCPClient(token=token, revision=each, capabilities={"elicitation": {"form": {}}})
            for each in EVERY_REVISION
        ]
        # The result of a question, by the client and the call that got it.
        self.questions: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def good(self, random: Random) -> Sent:
        client = random.choice([*self.clients, self.clients[0]])
        method, params = random.choice(["tools/call"] * 7 + ["other"] * 3), {}
        if method == "tools/call":
            name, arguments = random.choice(self.calls)
            params = {"name": name, "arguments": arguments}
            if random.random() < 0.1:
                del params["arguments"]
            if client.revision.modern and name in ASKING and random.random() < 0.8:
                params = self._answer(client, name, arguments)
        else:
            method, params = random.choice(_others(client))
        message = client.message(method, **params)
        message["id"] = random.choice([1, 0, -5, "a", "", "é", 2**63 - 1])
        if method.startswith("notifications/"):
            del message["id"]
        return self.sent(client, message)

    def sent(self, client: MCPClient, message: dict[str, Any]) -> Sent:
        headers = {
            "host": "testserver",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **client.headers,
            **client.mirrored(message),
        }
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return Sent(message=message, headers=pairs)

    def _answer(self, client: MCPClient, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the params of a call that answers the question which it has got."""
        asked = client.call_tool(name, arguments)
        responses = {
            key: RESPONSES.get(key, RESPONSES["elicit-1"]) for key in asked["inputRequests"]
        }
        return {
            **{"name": name, "arguments": arguments, "requestState": asked["requestState"]},
            "inputResponses": responses,
        }


def _others(client: MCPClient) -> list[tuple[str, dict[str, Any]]]:
    review = {"type": "ref/prompt", "name": "review"}
    note = {"type": "ref/resource", "uri": "notes://{name}/{+path}"}
    listed: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("tools/list", {"cursor": pagination.after("echo")}),
        ("resources/list", {}),
        ("resources/templates/list", {"cursor": pagination.after("a")}),
        ("prompts/list", {}),
        ("resources/read", {"uri": "notes://a%20b/c/d"}),
        ("resources/read", {"uri": "days://2026-07-28"}),
        ("prompts/get", {"name": "review", "arguments": {"day": "2026-07-28", "count": "5"}}),
        ("completion/complete", {"ref": review, "argument": {"name": "day", "value": "2026"}}),
        ("completion/complete", {"ref": note, "argument": {"name": "path", "value": ""}}),
    ]
    if client.revision.modern:
        return [*listed, ("server/discover", {}), ("notifications/cancelled", {"requestId": 1})]
    version = {"protocolVersion": client.revision.version, "capabilities": {}}
    return [
        *listed,
        ("initialize", {**version, "clientInfo": {"name": "fuzz", "version": "1"}}),
        ("notifications/initialized", {}),
        ("ping", {}),
    ]


def of_admin(world: World) -> list[tuple[str, dict[str, Any]]]:
    """Return calls to the admin of a newsroom."""
    row, comment = world.harbour.pk, world.comments[0].pk
    section, user = world.sport.pk, world.users["root"].pk
    article = {"title": "New", "slug": "new", "section": section, "body": "Text"}
    new = {"user": user, "text": "New", "hidden": True}
    return [
        ("newsroom_article_find", {"search": "sea", "status": "draft", "order": ["-title"]}),
        ("newsroom_article_find", {"published_at__year": 2026, "section": section, "page": 2}),
        ("newsroom_article_get", {"id": row}),
        ("newsroom_article_add", {**article, "author": world.harbour.author_id, "tags": ["a"]}),
        (
            "newsroom_article_change",
            {
                **{"id": row, **article, "tags": ["a", 1, {"b": None}]},
                "comments": [{"id": comment, "text": "Other"}, new],
            },
        ),
        ("newsroom_article_change", {"id": row, "comments": [{"id": comment, "DELETE": True}]}),
        ("newsroom_media_change", {"id": 1, "title": "Dawn", "article": row}),
        ("newsroom_article_delete", {"id": world.match.pk}),
        ("newsroom_article_publish", {"ids": [row, world.match.pk]}),
        ("newsroom_article_history", {"id": row, "page": 1}),
    ]
