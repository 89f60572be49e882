"""
A process that serves the tools of a generation, and obeys each line of its input, as JSON.

Started with the settings tests.processes.worker_settings, which name the database.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import django
from django.core.management import call_command
from django.db import connections
from django.test.utils import setup_test_environment

from mcp_bridge.calls.results import encoder
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.features.marks import ToolOptions
from mcp_bridge.schemas import Outputs
from mcp_bridge.sources.base import Source

NAMES = ("first", "second", "third")
generation = 0
killed_in_call = False


class GenerationSource(Source):
    """Tools that name their generation in each of their parts."""

    def tools(self) -> Sequence[Tool]:
        race = replace(
            self._tool("race", 0),
            description="Write a group for each run.",
            invoke=run_once,
            access=AccessRule.of(False, ()),
            options=ToolOptions(confirm=True),
            # Rows that a killed call has written stay, so that its run is counted.
            non_atomic=frozenset({"default"}),
        )
        return [*(self._tool(name, generation) for name in NAMES), race]

    def _tool(self, name: str, number: int) -> Tool:
        return Tool(
            name=name,
            description=f"Generation {number}",
            input_schema={"type": "object"},
            check=lambda arguments: {"checked": number},
            invoke=lambda call: {**call.arguments, "invoked": invoked(name, number)},
            encode=encoder(Outputs(dict[str, int])),
            access=AccessRule.of(True, ()),
        )


def invoked(name: str, number: int) -> int:
    """Return the number, from each of the tools of a generation."""
    return survived(number) if name == "third" else number


def survived(value: int) -> int:
    """Return the value; the process may be killed on the way in a call."""
    if killed_in_call:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def die_in_a_call(**answered: Any) -> None:
    """Call the third tool, or with options the one that needs approval: the process ends in it."""
    global killed_in_call
    killed_in_call = True
    if answered:
        race(**answered)
    client().call_tool("third")


def outcomes(reap: bool = False) -> list[list[str]]:
    """Return the tool and outcome of each record; ``reap`` settles those that are open first."""
    from mcp_bridge.models import ToolCallRecord

    if reap:
        call_command("mcp_audit", "reap", older_than="0s", stdout=sys.stderr)
    rows = ToolCallRecord.objects.order_by("pk")
    return [list(row) for row in rows.values_list("tool", "outcome")]


def run_once(call: Any) -> dict[str, int]:
    """Record this run, even if the process is killed before it can answer."""
    from django.contrib.auth.models import Group

    run = Group.objects.create(name=f"run {time.monotonic_ns()} {id(call)}")
    return {"run": survived(run.pk)}


def race(state: str | None = None, at: float = 0, asks: bool = True) -> str:
    """
    Call the tool that needs approval: return its state if a question is asked, or the outcome.
    """
    from django.contrib.auth import get_user_model

    from mcp_bridge.testing import MCPClient, MCPError

    user, _ = get_user_model().objects.get_or_create(username="racer")
    caller = MCPClient(user=user, capabilities={"elicitation": {}} if asks else {})
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    answered = {"requestState": state, "inputResponses": yes} if state else {}
    time.sleep(max(0, at - time.time()))
    try:
        result = caller.post("tools/call", name="race", arguments={}, **answered)
    except MCPError as error:
        return str(error)
    return str(result.get("requestState") or result["content"][0]["text"])


def fill(numbers: list[int], at: float) -> int:
    """Queue a call of each number, in threads; return how many found the queue full."""
    from django.contrib.auth import get_user_model

    from mcp_bridge.testing import MCPClient

    user, _ = get_user_model().objects.get_or_create(username="racer")
    refused: list[str] = []

    def work(part: list[int]) -> None:
        caller = MCPClient(user=user)
        time.sleep(max(0, at - time.time()))
        for number in part:
            text = caller.call_tool("race", {"number": number})["content"][0]["text"]
            refused.extend([text] if "are already pending" in text else [])
        connections.close_all()

    workers = [threading.Thread(target=work, args=(numbers[each::4],)) for each in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(refused)


def waiting(more: int = 0) -> int:
    """Return how many calls wait; ``more`` like the first of them are added before."""
    from mcp_bridge.models import PendingCall

    if more:
        first = PendingCall.objects.get()
        values = {"tool": first.tool, "fingerprint": first.fingerprint, "user": first.user}
        PendingCall.objects.bulk_create(
            PendingCall(arguments="{}", key=f"{each}", **values) for each in range(more)
        )
    return PendingCall.objects.filter(status="waiting").count()


def approve() -> int:
    """Approve the calls that wait; return how often the tool has run so far."""
    from django.contrib.auth.models import Group
    from django.utils import timezone

    from mcp_bridge.models import PendingCall

    waiting = PendingCall.objects.filter(status="waiting")
    waiting.update(status="approved", decided_at=timezone.now())
    return Group.objects.filter(name__startswith="run ").count()


def clean() -> None:
    """Delete all traces of the runs from a database that other tests use."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    from mcp_bridge.models import PendingCall, ToolSetting, UsedState

    ToolSetting.objects.filter(name="race").delete()
    for rows in (PendingCall.objects, UsedState.objects, Group.objects, get_user_model().objects):
        rows.all().delete()


def post(method: str, **params: Any) -> dict[str, Any]:
    """Return the result, or the error, of a request of a client that can follow tasks."""
    from django.contrib.auth import get_user_model

    from mcp_bridge.protocol.tasks import TASKS
    from mcp_bridge.testing import MCPClient, MCPError

    user, _ = get_user_model().objects.get_or_create(username="racer")
    caller = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
    try:
        return caller.post(method, **params)
    except MCPError as error:
        return {"error": error.error}


def groups(name: str) -> int:
    """Return the number of groups whose names begin so."""
    from django.contrib.auth.models import Group

    return Group.objects.filter(name__startswith=name).count()


def silence(key: str) -> None:
    """Make the last sign of life of a task's worker ten minutes older."""
    from django.db.models import F

    from mcp_bridge.tasks.models import McpTask

    rows = McpTask.objects.filter(pk=key)
    rows.update(seen_at=F("seen_at") - timedelta(minutes=10))


def migrate() -> None:
    call_command("migrate", verbosity=0)


@cache
def client() -> Any:
    """Return the one client of this process: a new one would reread the settings."""
    from mcp_bridge.testing import MCPClient

    return MCPClient()


def tools() -> list[str]:
    """Return the names that an anonymous caller sees."""
    return [tool["name"] for tool in client().list_tools()]


def connect(url: str) -> None:
    """Connect a remote server, and enable its tool ``add``."""
    from mcp_bridge.models import ToolSetting
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.registry.tool_status import mark_approved
    from mcp_bridge.remote.models import RemoteServer
    from mcp_bridge.remote.sync import sync

    sync(RemoteServer.objects.create(slug="far", name="Far", url=url))
    row = ToolSetting(name="far_add", chosen=True)
    mark_approved(row, registry.build(registry.discovered.candidates["far_add"]))
    row.save()


def add(a: int, b: int) -> Any:
    """Call the remote tool as a superuser, if it is listed."""
    from django.contrib.auth import get_user_model

    from mcp_bridge.testing import MCPClient

    user, _ = get_user_model().objects.get_or_create(username="ada", is_superuser=True)
    caller = MCPClient(user=user)
    if "far_add" not in [each["name"] for each in caller.list_tools()]:
        return None
    return caller.call_tool("far_add", {"a": a, "b": b})["structuredContent"]


def toggle(name: str, enabled: bool) -> None:
    from mcp_bridge.models import ToolSetting

    ToolSetting.objects.update_or_create(name=name, defaults={"enabled": enabled})


def hammer(threads: int, reloads: int) -> dict[str, int]:
    """List and call in threads while the registry is reloaded; count answers, and wrong ones."""
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.testing import MCPClient

    global generation
    counted = [{"answers": 0, "mixed": 0, "failed": 0} for _ in range(threads)]
    over = threading.Event()

    def work(count: dict[str, int]) -> None:
        mine = MCPClient()
        while not over.is_set():
            count["answers"] += 1
            try:
                listed = mine.list_tools()
                called = mine.call_tool("second")["structuredContent"]
            except Exception as exception:
                print(repr(exception), file=sys.stderr)
                count["failed"] += 1
                continue
            whole = len(listed) == 3 and len({tool["description"] for tool in listed}) == 1
            count["mixed"] += not whole or called["checked"] != called["invoked"]
        connections.close_all()

    workers = [threading.Thread(target=work, args=(each,)) for each in counted]
    for worker in workers:
        worker.start()
    try:
        # Until each thread has had its turn, however soon that many reloads are done.
        while generation < reloads or min(count["answers"] for count in counted) < 3:
            generation += 1
            registry.reload()
            assert len(registry.snapshot) == len(NAMES) + 1
    finally:
        over.set()
        for worker in workers:
            worker.join()
    return {name: sum(count[name] for count in counted) for name in counted[0]}


def call_for(seconds: float, threads: int, pause: float) -> dict[str, int]:
    """Make recorded calls in threads, with a pause after each; count them by their outcome."""
    from mcp_bridge.testing import MCPClient

    counted = [{"calls": 0, "errors": 0} for _ in range(threads)]
    until = time.monotonic() + seconds

    def work(count: dict[str, int]) -> None:
        mine = MCPClient()
        while time.monotonic() < until:
            try:
                mine.call_tool("first")
                count["calls"] += 1
            except Exception as exception:
                print(repr(exception), file=sys.stderr)
                count["errors"] += 1
            time.sleep(pause)
        connections.close_all()

    workers = [threading.Thread(target=work, args=(each,)) for each in counted]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {name: sum(count[name] for count in counted) for name in counted[0]}


def administer_for(seconds: float) -> dict[str, list[int]]:
    """Decide by every page of the admin, repeatedly; return the statuses of the answers by page."""
    from django.contrib.auth import get_user_model
    from django.test import Client
    from django.urls import reverse

    from mcp_bridge.models import PendingCall, ToolSetting
    from mcp_bridge.registry.registry import registry
    from mcp_bridge.testing import MCPClient, MCPError

    user, _ = get_user_model().objects.get_or_create(
        username="administrator", is_staff=True, is_superuser=True
    )
    browser = Client(raise_request_exception=False)
    browser.force_login(user)
    tools, calls = "admin:mcp_bridge_toolsetting", "admin:mcp_bridge_pendingcall"
    browser.get(reverse(f"{tools}_changelist"))
    rows = list(ToolSetting.objects.order_by("name"))
    second, race = (next(each for each in rows if each.name == name) for name in ("second", "race"))
    found: dict[str, list[int]] = {}

    def post(name: str, page: str, *args: Any, **data: Any) -> None:
        answer = browser.post(reverse(page, args=args), data)
        found.setdefault(name, []).append(answer.status_code)

    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number += 1
        is_on = bool(number % 2)
        on = {"enabled": "on"} if is_on else {}
        page = browser.get(reverse(f"{tools}_change", args=[second.pk]))
        on |= {"_revision": page.context["adminform"].form.revision}
        post("page", f"{tools}_change", second.pk, _save="Save", note=str(number), **on)
        data: dict[str, Any] = {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows)}
        for place, each in enumerate(rows):
            data |= {f"form-{place}-id": each.pk}
            was = each.pk != second.pk or is_on
            data |= {f"initial-form-{place}-enabled": str(was)}
            data |= {f"form-{place}-enabled": "on"} if each.pk != second.pk or not is_on else {}
        post("list", f"{tools}_changelist", _save="Save", **data)
        for action in ("switch_off", "switch_on"):
            post("action", f"{tools}_changelist", action=action, _selected_action=second.pk)
        ToolSetting.objects.filter(pk=race.pk).update(fingerprint="another")
        shown = browser.get(reverse(f"{tools}_change", args=[race.pk])).context["entry"]
        post("approve", f"{tools}_approve", race.pk, fingerprint=shown.fingerprint)
        registry.reload()
        try:
            MCPClient(user=user).call_tool("race", {"number": number})
        except MCPError:
            # The status shows that the approval has failed.
            continue
        pending = PendingCall.objects.latest("pk")
        decision = {"_refuse": "1", "reason": "No."} if number % 2 else {"_approve": "1"}
        post("decision", f"{calls}_change", pending.pk, **decision)
        post("delete", f"{calls}_delete", pending.pk, post="yes")
    return found


COMMANDS: dict[str, Callable[..., Any]] = {
    "post": post,
    "groups": groups,
    "silence": silence,
    "call_for": call_for,
    "administer_for": administer_for,
    "migrate": migrate,
    "tools": tools,
    "connect": connect,
    "add": add,
    "toggle": toggle,
    "hammer": hammer,
    "die_in_a_call": die_in_a_call,
    "outcomes": outcomes,
    "race": race,
    "approve": approve,
    "fill": fill,
    "waiting": waiting,
    "clean": clean,
}


def main() -> None:
    django.setup()
    setup_test_environment()
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(COMMANDS[order.pop("do")](**order)), flush=True)


if __name__ == "__main__":
    # Under its own name, so that this module and the one that the settings name are one.
    from tests.processes import worker

    worker.main()
