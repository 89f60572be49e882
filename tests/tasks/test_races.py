"""Answers to the questions of one task at the same time, and a task that the queue has lost."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from mcp_bridge import Context
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.tasks.models import DEAD, McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.conftest import Race
from tests.tasks.world import begun, follower, run_queue, run_waiting, state

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
MANY = 8


def gather(context: Context, questions: int) -> str:
    """Ask so many questions at once, and return all answers."""
    keys = [f"q{number}" for number in range(questions)]
    missing = [key for key in keys if key not in context.input_responses]
    if missing:
        raise InputRequired({key: FormElicitRequest("Name?", FORM) for key in missing})
    return " ".join(context.input_responses[key]["content"]["name"] for key in keys)


def asked(client: MCPClient, questions: int) -> str:
    """Return the id of a task that waits for so many answers, with an empty queue."""
    key = begun(client, "gather", questions=questions)
    run_waiting()
    assert len(state(client, key)["inputRequests"]) == questions
    DBTaskResult.objects.all().delete()
    return key


def outcome(client: MCPClient, key: str) -> tuple[int, str]:
    """Return how often the task was queued, and its result."""
    queued = DBTaskResult.objects.count()
    run_waiting()
    found = state(client, key)
    assert found["status"] == "completed", found
    return queued, found["result"]["structuredContent"]["result"]


@pytest.mark.alone
@pytest.mark.parametrize("race", ["IMMEDIATE"], indirect=True)
@pytest.mark.parametrize("questions", [1, MANY])
def test_answers_at_once_queue_the_task_once(
    questions: int, race: Race, settings: Any, user: Any
) -> None:
    serve(settings, gather, task=True)
    key = race(lambda: asked(follower(user), questions), 1)[0]
    numbers = count()

    def answer() -> None:
        number = next(numbers)
        content = {"action": "accept", "content": {"name": f"answer{number}"}}
        given = {f"q{number % questions}.1": content}
        follower(user).post("tasks/update", taskId=key, inputResponses=given)

    race(answer, MANY)
    [(queued, text)] = race(lambda: outcome(follower(user), key), 1)
    assert queued == 1
    names = text.split()
    assert len(names) == questions
    # Each answer was the first to its question, so all were kept.
    assert questions == 1 or names == [f"answer{number}" for number in range(MANY)]


@pytest.mark.django_db(transaction=True)
def test_lost_task_is_queued_again_and_runs_once(settings: Any, user: Any) -> None:
    runs: list[int] = []

    def note() -> None:
        """Note a run."""
        runs.append(1)

    serve(settings, note, task=True)
    client = follower(user)
    key = begun(client, "note")
    # As after a process that ended between the two, or a worker that died with it.
    DBTaskResult.objects.all().delete()
    assert state(client, key)["status"] == "working"
    assert not DBTaskResult.objects.exists()
    long_ago = timezone.now() - timedelta(seconds=DEAD + 1)
    for _ in range(2):
        McpTask.objects.update(updated_at=long_ago, queued_at=long_ago)
        state(client, key)
        state(client, key)
    assert DBTaskResult.objects.count() == 2
    run_queue()
    assert state(client, key)["status"] == "completed"
    assert runs == [1]
