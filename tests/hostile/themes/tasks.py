"""Tasks: unknown ids, odd answers, and clients that have not declared the extension."""

from __future__ import annotations

from typing import Any

from tests.hostile.cases import Theme
from tests.hostile.drafts import CAPABILITIES, LEGACY, MODERN, Change, Draft, method
from tests.hostile.themes.methods import NOT_FOUND
from tests.hostile.wanted import PARAMS, Refused

# Only the newsroom has tools that run as tasks.
SITES = ("newsroom",)
NAMES = ("tasks/get", "tasks/update", "tasks/cancel")
EXTENSION = "io.modelcontextprotocol/tasks"
UNDECLARED = Refused(-32021, status=400, data=("requiredCapabilities",))
_ODD = ("", " ", "x", "\0", "\u202ex", "' OR 1=1 --", "../x", "%", "_", "1", "{taskId}", "<script>")
IDS = (*_ODD, *("x" * size for size in (32, 33, 10_000, 500_000)))


def declared(value: Any) -> Change:
    """Declare extensions."""

    def change(draft: Draft) -> None:
        if draft.is_modern:
            draft.message["params"]["_meta"][CAPABILITIES] = {"extensions": value}

    return change


THEME = Theme("tasks")
THEME.add(
    {MODERN: PARAMS, LEGACY: NOT_FOUND[LEGACY]},
    {
        **{
            f"{name} of {str(key)[:20]!r}, {len(str(key))}": (
                method(name, taskId=key, inputResponses={}),
                declared({EXTENSION: {}}),
            )
            for name in NAMES
            for key in (*IDS, 1, None, True, [], {}, 2**70, ["x"])
        },
        **{
            f"answers {str(given)[:30]}": (
                method("tasks/update", taskId="x", inputResponses=given),
                declared({EXTENSION: {}}),
            )
            for given in (None, 1, "x", [], [{}], {"a": 1}, {"a": {"action": "maybe"}}, {"": {}})
        },
        "no task": (method("tasks/get"), declared({EXTENSION: {}})),
    },
    sites=SITES,
)
THEME.add(
    {MODERN: UNDECLARED, LEGACY: NOT_FOUND[LEGACY]},
    {
        f"{name} with the extensions {str(value)[:40]}": (
            method(name, taskId="x"),
            declared(value),
        )
        for name in NAMES
        for value in ({}, None, [], [EXTENSION], EXTENSION, 1, True, {EXTENSION.upper(): {}})
    },
    sites=SITES,
)
THEME.add(
    NOT_FOUND,
    {
        f"the method {name}": (method(name, taskId="x"), declared({EXTENSION: {}}))
        for name in ("tasks/list", "tasks/result", "tasks", "tasks/", "tasks/Get", "tasks/delete")
    },
)
