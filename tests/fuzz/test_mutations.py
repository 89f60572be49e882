"""Changes of good requests, by every way in: each is answered, and none causes an unasked call."""

from __future__ import annotations

import heapq
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import transaction
from django.urls import path

from mcp_bridge.models import PendingCall, ToolCallRecord, UsedState
from mcp_bridge.testing.serving import addresses
from mcp_bridge.tokens.models import Token
from tests.fuzz import ways
from tests.fuzz.judge import judge
from tests.fuzz.mutations import Sent, mutated
from tests.fuzz.requests import Requests, of_admin
from tests.fuzz.site import RUNS, urlconf
from tests.sources.admin.world import World, serve

COUNT = int(os.environ.get("FUZZ_MUTATIONS", "5000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
# In seconds of CPU: no input may take more, however often it is tried. A batch is up to 50 of them.
MOST = 0.05
MOST_IN_BATCH = 0.25
WAYS: dict[str, Callable[[], ways.Way]] = {
    "wsgi": ways.wsgi,
    "asgi": ways.asgi,
    "lane": ways.lane,
}


class Errors(logging.Handler):
    """Records at ERROR, without Django's own about a host that is not the site's."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("django.security."):
            self.records.append(self.format(record))


@pytest.fixture
def errors() -> Iterator[Errors]:
    handler = Errors()
    logging.getLogger().addHandler(handler)
    disabled = logging.root.manager.disable
    # Most are refused, and each refusal is a warning.
    logging.disable(logging.WARNING)
    yield handler
    logging.disable(disabled)
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("way", WAYS)
def test_each_mutation_is_answered(
    way: str, settings: Any, errors: Errors, record_property: Callable[[str, object], None]
) -> None:
    settings.ROOT_URLCONF = urlconf(asynchronous=way != "wsgi")
    user = get_user_model().objects.create_user("ada")
    requests = Requests(Token.objects.issue(user=user, name="fuzz")[1])
    check_mutations(way, WAYS[way](), requests, errors, record_property)


@pytest.mark.parametrize("way", WAYS)
def test_each_mutation_for_the_admin_is_answered(
    way: str, settings: Any, errors: Errors, record_property: Callable[[str, object], None]
) -> None:
    serve(settings)
    own = path("admin/", admin.site.urls)
    settings.ROOT_URLCONF = addresses(own, asynchronous=way != "wsgi")
    world = World.make()
    token = Token.objects.issue(user=world.users["editor"], name="fuzz")[1]
    requests = Requests(token, of_admin(world))
    check_mutations(way, undoing(WAYS[way]()), requests, errors, record_property, in_admin=True)


def undoing(send: ways.Way) -> ways.Way:
    """Return a way in that undoes what a request has changed."""

    def sent_and_undone(sent: Sent) -> ways.Answer:
        with transaction.atomic():
            answer = send(sent)
            transaction.set_rollback(True)
        return answer

    return sent_and_undone


def check_mutations(
    way: str,
    send: ways.Way,
    requests: Requests,
    errors: Errors,
    record_property: Callable[[str, object], None],
    *,
    in_admin: bool = False,
) -> None:
    """Send mutations of good requests, and judge each answer."""
    # A call opens two pages of the admin.
    count, most_of_one, most_in_batch = COUNT, MOST, MOST_IN_BATCH
    if in_admin:
        count, most_of_one, most_in_batch = COUNT // 5, 2 * MOST, 8 * MOST_IN_BATCH
    slowest: list[tuple[float, int, str]] = []
    statuses: Counter[int] = Counter()
    ran: Counter[str] = Counter()
    numbers = range(list(WAYS).index(way), count, len(WAYS))
    for number in numbers:
        random = Random(f"{SEED} {number}")
        sent = mutated(random, requests.good(random))
        RUNS.clear()
        before = process_time()
        answer = send(sent)
        taken = process_time() - before
        runs = [*RUNS]
        try:
            judge(sent, answer, runs)
            assert errors.records == []
            if not {"wipe", "ask"}.isdisjoint(runs):
                # They run only with a state, which can be used once.
                RUNS.clear()
                judge(sent, send(sent), RUNS)
                assert RUNS == [], "a call has run twice"
            most = most_in_batch if answer.body.startswith(b"[") else most_of_one
            taken = least(taken, most, send, sent)
            assert taken <= most, f"{taken:.3f} s"
        except Exception as why:
            why.add_note(f"seed {SEED}, number {number}: {sent}\nanswered: {answer}")
            raise
        heapq.heappush(slowest, (taken, number, f"{sent.changes} {sent.body[:80]!r}"))
        if len(slowest) > 10:
            heapq.heappop(slowest)
        statuses[answer.status] += 1
        ran.update(runs)
        if number % 1000 < len(WAYS):
            for model in (ToolCallRecord, PendingCall, UsedState):
                model._default_manager.all().delete()
    # Otherwise all of it would be refused at once, and the test would show nothing.
    assert {200, 202, 400, 401} <= statuses.keys() or count < 1000
    record_property(f"{way}: {len(numbers)} requests of seed {SEED}", dict(statuses.most_common()))
    record_property(f"{way}: have run", dict(ran.most_common()))
    for taken, number, text in sorted(slowest, reverse=True):
        record_property(f"{way}: {taken * 1000:.1f} ms", f"number {number} {text}")


def least(taken: float, most: float, send: ways.Way, sent: Sent) -> float:
    """
    Return the least CPU time of a request: other load of the machine must not count against it.
    """
    for _ in range(3):
        if taken <= most:
            break
        before = process_time()
        send(sent)
        taken = min(taken, process_time() - before)
    return taken
