"""
Compare every tool that reads with its own address over HTTP, for three users; a plan on stdin.

Run by ``manage.py shell`` inside a site. All calls are undone. Prints its counts; exits with 1 if
an answer differs, or if the site's own views are not as they were before.
"""

from __future__ import annotations

import json
import logging
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from time import process_time
from urllib.parse import quote, urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client, override_settings

from mcp_bridge.access.policy import served_host
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.in_process.calls import ViewCaller
from mcp_bridge.sources.in_process.routes import routes, wrapped
from mcp_bridge.sources.ninja.source import endpoints
from mcp_bridge.testing import MCPClient, MCPError

PLAN = json.load(sys.stdin)
# The endpoint's text for an exception in a tool.
BROKEN = "under the reference"
LISTED_OUT = "not listed"


def state() -> dict[tuple[int, str], object]:
    """Return all attributes of the callbacks in the URLconf, their classes and their operations."""
    found: dict[tuple[int, str], object] = {}
    owners: list[object] = [each.operation for each in endpoints(None)]
    for number, route in enumerate(routes(None)):
        found[number, "callback"] = route.callback
        for each in wrapped(route.callback):
            kind = getattr(each, "cls", getattr(each, "view_class", object))
            owners += [each, *kind.__mro__[:-1]]
    for owner in owners:
        for name, value in getattr(owner, "__dict__", {}).items():
            found[id(owner), name] = value
    return found


def unchanged(before: dict[tuple[int, str], object], when: str) -> None:
    after = state()
    changed = {
        str(key[1])
        for key in before.keys() | after.keys()
        if key not in after or key not in before or before[key] is not after[key]
    }
    if changed:
        sys.exit(f"{when}, attributes of the site's views have changed: {sorted(changed)}")


def plans(tool) -> Iterator[dict[str, object]]:
    """Yield the arguments of the calls of a tool: each value of the site's table at least once."""
    given = [values for pattern, values in PLAN["arguments"] if fnmatchcase(tool.name, pattern)]
    if given:
        yield from chain(*given)
        return
    schema = tool.input_schema
    required = schema.get("required", [])
    values = {
        name: [of_type(kind, each) for each in PLAN["values"][name]]
        for name, kind in schema["properties"].items()
        if name in PLAN["values"]
    }
    if missing := [name for name in required if name not in values]:
        sys.exit(f"{tool.name} needs {missing}, and the site lacks values for that.")
    for number in range(max([len(values[name]) for name in required], default=1)):
        # Shorter lists repeat their last value.
        yield {name: values[name][min(number, len(values[name]) - 1)] for name in required}
    first = {name: values[name][0] for name in required}
    for name in schema["properties"].keys() - set(required) & values.keys():
        for value in values[name]:
            yield {**first, name: value}


def of_type(schema: dict, value: object) -> object:
    types = {each.get("type") for each in schema.get("anyOf", [schema])}
    if types <= {"array", "null"}:
        return [value]
    return str(value) if types <= {"string", "null"} else value


class Undone(Exception):
    """Ends a transaction."""


def undone(function, *arguments):
    try:
        with transaction.atomic():
            answer = function(*arguments)
            raise Undone
    except Undone:
        return answer


def by_tool(client: MCPClient, name: str, arguments: dict[str, object]) -> tuple[str, object]:
    """Return ("ok", JSON or text), ("refused", text), ("broken", text) or ("not listed", "")."""
    try:
        result = client.call_tool(name, arguments)
    except MCPError as error:
        if error.error["code"] == -32602 and "Unknown tool" in str(error):
            return LISTED_OUT, ""
        return "refused", str(error)
    text = written(result["content"][0])
    if result.get("isError"):
        return ("broken" if BROKEN in text else "refused"), text
    return "ok", result.get("structuredContent", text)


def written(block: dict) -> str:
    """Return the text of a content block, or of the file in it."""
    if block["type"] != "resource":
        return block.get("text", "")
    file = block["resource"]
    return file["text"] if "text" in file else b64decode(file["blob"]).decode()


def steady(value: object) -> object:
    """Return a value without the members that say how long ago something was."""
    if isinstance(value, dict):
        left = value.keys() - PLAN["changing"]
        return {name: steady(value[name]) for name in sorted(left)}
    return [steady(each) for each in value] if isinstance(value, list) else value


def by_http(client: Client, address: str) -> tuple[str, object]:
    response = client.get(address, headers={"Accept": "application/json, */*;q=0.1"})
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    if response.status_code >= 500:
        return "broken", response.status_code
    if 300 <= response.status_code < 400:
        return "moved", response.headers["Location"]
    if response.status_code >= 400:
        data = response.json() if kind.endswith("json") else {}
        why = data.get("detail", data.get("message")) if type(data) is dict else None
        return ("forbidden" if response.status_code in (401, 403) else "refused"), why
    if response.status_code == 204:
        return "ok", "Done (204 No Content)."
    # The same for a file, which has neither ``text`` nor ``content``.
    body = response.getvalue()
    if not kind.endswith("json"):
        return "ok", body.decode()
    value = json.loads(body)
    return "ok", value if type(value) is dict else {"result": value}


def same(tool: tuple[str, object], http: tuple[str, object]) -> str:
    """Return in which way two answers are the same, or "" if they are not."""
    (told, value), (answered, expected) = tool, http
    if answered == "moved":
        if told == "ok" and value == {"location": expected}:
            return "moved"
        return "refused" if told in ("refused", LISTED_OUT) else ""
    if answered == "forbidden":
        if told == LISTED_OUT:
            return "refused"
        answered = "refused"
    if told != answered or (told == "ok" and steady(value) != steady(expected)):
        return ""
    if told == "refused" and type(expected) is str and expected not in str(value):
        # Its lines on arguments may replace a sentence on the whole.
        return told if str(value).startswith("/") else ""
    return told


def main() -> None:
    before = state()
    started = process_time()
    tools = [tool for tool in registry.discovered if isinstance(caller_of(tool), ViewCaller)]
    seconds = process_time() - started
    unchanged(before, "When the tools were made")
    site: dict = {}
    exec(PLAN["credential"], site)
    users = {
        name: get_user_model()._default_manager.get_by_natural_key(name) for name in PLAN["users"]
    }
    reading = [tool for tool in tools if tool.annotations.get("readOnlyHint")]
    calls = [(tool, arguments) for tool in reading for arguments in plans(tool)]
    # Answers show whether a user is logged in, so that it comes before all of them.
    logged_in = {
        name: Client(SERVER_NAME=served_host(), raise_request_exception=False) for name in users
    }
    for name, user in users.items():
        logged_in[name].force_login(user)
    told = {}
    for name, user in users.items():
        client = MCPClient(user=user)
        for number, (tool, arguments) in enumerate(calls):
            told[name, number] = undone(by_tool, client, tool.name, arguments)
    unchanged(before, "After the calls")
    counts: Counter[str] = Counter()
    wrong = []
    excused, answering = set(), set()
    for name, user in users.items():
        client = logged_in[name]
        client.defaults.update(site["credential"](user))
        for number, (tool, arguments) in enumerate(calls):
            address = address_of(tool, arguments)
            http = undone(by_http, client, address)
            way = same(told[name, number], http)
            reason = next((each for each in PLAN["differs"] if fnmatchcase(tool.name, each)), None)
            if not way and reason is not None:
                excused.add(reason)
                way = "otherwise, as said"
            elif not way:
                seen = str(told[name, number])[:600]
                wrong.append(f"{tool.name} as {name}: GET {address} {str(http)[:600]}\n    {seen}")
            counts[way] += 1
            if way == "ok":
                answering.add(tool.name)
    if unused := PLAN["differs"].keys() - excused:
        wrong.append(f"These no longer differ: {sorted(unused)}")
    size = sum(len(json.dumps(tool.input_schema)) for tool in tools)
    print(
        f"{len(tools)} operations in {seconds:.1f} s ({size // 1024} KB of schemas); "
        f"{len(reading)} only read, {len(answering)} of which had an answer; "
        f"{len(users)} x {len(calls)} calls alike: "
        + ", ".join(f"{counts[way]} {way}" for way in sorted(counts) if way)
    )
    if len(tools) != PLAN["operations"]:
        wrong.append(
            f"There are not {PLAN['operations']} operations: {[each.name for each in tools]}"
        )
    if wrong:
        sys.exit("\n".join(wrong))


def caller_of(tool) -> object:
    """Return the function that calls the view of a tool: its method, or a function around it."""
    cells = getattr(tool.invoke, "__closure__", None) or ()
    around = next((cell.cell_contents for cell in cells), None)
    return getattr(tool.invoke, "__self__", around)


def address_of(tool, arguments: dict[str, object]) -> str:
    """Return the address of a call, made without the code that makes the request of the tool."""
    route = caller_of(tool).route
    path, query = route.template, {}
    for name, value in arguments.items():
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(str(value)))
        else:
            query[name] = str(value).lower() if isinstance(value, bool) else value
    return f"{path}?{urlencode(query, doseq=True)}"


# Errors that the calls cause on purpose.
logging.disable(logging.CRITICAL)
with override_settings(MCP_BRIDGE={**settings.MCP_BRIDGE, "AUDIT": None}):
    main()
