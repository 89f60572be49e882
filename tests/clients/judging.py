"""The requirements that every client must meet, and the facts of each that are published."""

from __future__ import annotations

import re
from typing import Any

from tests.clients.environments import versions
from tests.clients.programs import Seat
from tests.clients.roster import Client


def judged(client: Client, seat: Seat, answer: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a row of the table, and the unmet requirements in words."""
    requests = seat.server.requests(seat.token)
    refused = seat.server.requests(seat.bad)
    state = seat.server.state(client.name)
    wait, how = _wait(client, answer, state)
    wrong = [
        *_missing(seat.mine["tools"], answer["listed"]),
        *([] if '"total"' in _text(answer["called"]) else ["the call has not answered"]),
        *([] if "order" in _text(answer["wrong"]) else ["a wrong argument is not named"]),
        *wait,
        *([] if any(each["status"] == 401 for each in refused) else ["no bad token was refused"]),
        *([] if answer["bad"].get("error") else ["a bad token is not shown"]),
        *["a bad token was taken" for each in refused if each["status"] == 200],
    ]
    declared = [each["capabilities"] for each in requests if each["capabilities"]]
    row = {
        "title": client.title,
        "page": client.page,
        "version": versions()[client.package],
        "revision": _revision(requests),
        "elicitation": any("elicitation" in each for each in declared),
        "images": "image" in answer["image"].get("kinds", []),
        "progress": any(each["progress"] for each in requests),
        "wrong": _told(answer["wrong"], seat),
        "wait": {
            "how": how,
            "text": _told(answer["wait"], seat),
            "repeated": _told(answer["repeated"], seat) if "repeated" in answer else "",
        },
        "bad": _told(answer["bad"], seat),
    }
    return row, wrong


def _missing(tools: list[str], listed: list[str]) -> list[str]:
    missing = [tool for tool in tools if not any(name.endswith(tool) for name in listed)]
    return [f"does not list {', '.join(missing)}"] if missing else []


def _wait(
    client: Client, answer: dict[str, Any], state: tuple[bool, list[str]]
) -> tuple[list[str], str]:
    """Return whether the call has waited for a person, and how."""
    deleted, queued = state
    if answer["asked"]:
        wrong = [] if deleted else ["the user has agreed, and nothing was deleted"]
        return wrong, "asks its user"
    shown = _text(answer["wait"])
    if deleted and not queued:
        return ["deleted without being asked"], "does not wait"
    if client.declines and not queued and "and declined" in shown:
        return [], "says no by itself"
    if len(queued) != 1:
        return [f"not one call in the queue, but {len(queued)}: {shown[:160]}"], "does not wait"
    if answer.get("follows"):
        is_done = queued == ["done"] and deleted and '"comments"' in shown
        return [] if is_done else [f"as a task, it has not run: {shown[:160]}"], "waits as a task"
    if "requires a person's approval" not in shown:
        return ["waits, and does not say so"], "waits in the queue"
    # An article that had been deleted before could not be found now.
    repeated = _text(answer.get("repeated", {"text": "it was not approved"}))
    if queued != ["done"] or not deleted or '"comments"' not in repeated:
        return [f"approved and repeated, it has not run: {repeated[:160]}"], "waits in the queue"
    return [], "waits in the queue"


def _revision(requests: list[dict[str, Any]]) -> str:
    """Return the revision that a client speaks, by its requests after the first."""
    called = [each["revision"] for each in requests if each["method"] == "tools/call"]
    return str(called[-1]) if called and called[-1] else "2025-03-26, for want of a header"


def _text(step: dict[str, Any]) -> str:
    return str(step["text"]).replace("\\", "")


def _told(step: dict[str, Any], seat: Seat) -> str:
    """Return a step's text without the parts that differ from run to run."""
    text = str(step["text"]).replace(seat.server.url.removesuffix("/mcp"), "https://example.com")
    text = text.replace(seat.token, "TOKEN").replace(str(seat.home), "~")
    text = re.sub(r"pendingcall/\d+", "pendingcall/1", text)
    text = re.sub(r"draft-\w+", "a-draft", re.sub(r"Wall time: \S+ \w+\s*", "", text))
    text = re.sub(r"^\d{4}-\d\d-\d\dT\S+\s*", "", text)
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    raised = f"{step['raised']}: " if "raised" in step else ""
    return raised + text.strip()[:600]
