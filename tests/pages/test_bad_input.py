"""Forged, oversized, repeated or hostile input is answered clearly and causes no harm."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone
from oauth2_provider.models import get_application_model

from mcp_bridge.admin.pending_calls import proof_of
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.requests import CLIENT_INFO
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.tokens.models import Token
from tests.oauth.clients import register
from tests.oauth.conftest import MCP_BRIDGE, OAUTH2_PROVIDER
from tests.pages.test_permission_matrix import ACTIONS, OWN, PAGES
from tests.support.admin_world import World, changed, make_world, state

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
# It reverses the following text, starts terminal colours in two ways, and rings the bell.
HOSTILE = f"{MARKER}\u202e\u2066\x1b[31m\x9b31m\x07"
UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
KEYS = ["0", "-1", "x", "9" * 30, "1.5", "_00", "_5F", "%", "1/delete", "' OR 1=1", MARKER]
VALUES = [*KEYS, "", "\0", "a\0b", HOSTILE, "9" * 10_000]


@pytest.fixture
def world(settings: Any) -> World:
    return make_world(settings)


@pytest.mark.parametrize("page", [page for page, opens in PAGES.items() if opens.row])
def test_forged_key_matches_no_row(page: str, world: World) -> None:
    before = state()
    for key in KEYS:
        # As it is, and as Django quotes a key in an address.
        for forged in {key, key.replace("/", "_2F")}:
            address = reverse(f"admin:{page}", args=[forged])
            for method in ("get", "post"):
                response = getattr(world.browsers["root"], method)(address, follow=True)
                assert response.status_code in (200, 403, 404, 405), (key, method)
                # Django redirects to its index, with a message that the row does not exist.
                is_index = response.status_code != 200 or response.redirect_chain
                assert is_index, (key, method)
    assert not changed(before)


@pytest.mark.parametrize("title", [title for title, each in ACTIONS.items() if each.may])
def test_forged_value_is_refused(title: str, world: World) -> None:
    action, before = ACTIONS[title], state()
    root = world.browsers["root"]
    address = world.address(action.page, action.row)
    data = action.data(world, world.people["root"])
    keys = {"_selected_action", "call", "tool", "user", "fingerprint", "revoke", "days"}
    keys |= {"scopes", "client_type", "form-0-id", "form-TOTAL_FORMS"}
    # "All rows of the list" selects other rows than the named ones.
    keys -= {"_selected_action"} if "select_across" in data else set()
    for name in keys & data.keys():
        for value in VALUES:
            response = root.post(address, {**data, name: value})
            assert response.status_code in (200, 302, 400, 403), (name, value[:20])
            assert not changed(before), (name, value[:20])


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith("_changelist")])
def test_invalid_filters_and_long_searches_are_answered(page: str, world: World) -> None:
    root, address = world.browsers["root"], world.address(page)
    model_admin = next(
        each
        for each in admin.site._registry.values()
        if page == f"{each.opts.app_label}_{each.opts.model_name}_changelist"
    )
    names = ["q", "p", "o", "all", "e", "_to_field", "_popup", "no_such"]
    for each in model_admin.list_filter:
        name = getattr(each, "parameter_name", each)
        names += [name, f"{name}__exact", f"{name}__gte", f"{name}__isnull"]
    for name in names:
        values: list[Any] = ["9" * 30, "2026-02-30", "x" * 10_000, HOSTILE]
        if "__" not in name:
            # If a parameter has several values, the last one counts.
            values += ["", "-1", [HOSTILE, "1"]]
        for value in values:
            response = root.get(address, {name: value}, follow=True)
            assert response.status_code in (200, 400), (name, value[:20])
            assert MARKER not in response.content.decode()
            assert "Database error" not in response.content.decode(), (name, value[:20])


@pytest.mark.parametrize("page", ["candidates", "waiting", "sees"])
def test_custom_pages_accept_any_query(page: str, world: World) -> None:
    root, address = world.browsers["root"], world.address(f"mcp_bridge_toolsetting_{page}")
    for name in ("q", "p", "source", "app", "hint", "user", "group", "nobody"):
        for value in ("x", "", "-1", "9" * 30, HOSTILE, "x" * 10_000):
            response = root.get(address, {name: [value, value]})
            assert response.status_code == 200
            assert MARKER not in response.content.decode()


Decide = Callable[[World, str], Any]


def by_page(world: World, name: str) -> Any:
    address = world.address("mcp_bridge_pendingcall_change", "pending")
    data = {"_approve": "1"} if name == "root" else {"_refuse": "1", "reason": "No."}
    return world.browsers[name].post(address, data, follow=True)


def by_queue(world: World, name: str) -> Any:
    data: dict[str, Any] = (
        {"_approve": "1"} if name == "root" else {"_refuse": "1", "reason": "No."}
    )
    data["call"] = proof_of(world.rows["pending"], world.people[name])
    return world.browsers[name].post(
        world.address("mcp_bridge_pendingcall_decide"), data, follow=True
    )


def assert_decided_once(world: World, first: str) -> None:
    pending = PendingCall.objects.get(pk=world.rows["pending"].pk)
    status = "approved" if first == "root" else "refused"
    assert (pending.status, pending.decided_by) == (status, world.people[first])
    found = state()["logentry"]
    assert len(found) == 1


@pytest.mark.parametrize("first", ["root", "chief"])
@pytest.mark.parametrize("second_decides", [by_page, by_queue])
@pytest.mark.parametrize("first_decides", [by_page, by_queue])
def test_first_of_two_overlapping_decisions_is_kept(
    first_decides: Decide, second_decides: Decide, first: str, world: World
) -> None:
    second = {"root": "chief", "chief": "root"}[first]
    done: list[Any] = []

    def first_comes_in_between(execute: Any, sql: str, *args: Any) -> Any:
        # The other request has read the call and starts to write.
        if not done and sql.startswith("UPDATE") and "generation" in sql:
            done.append(None)
            done.append(first_decides(world, first))
        return execute(sql, *args)

    with connection.execute_wrapper(first_comes_in_between):
        response = second_decides(world, second)
    assert done[1].status_code == response.status_code == 200
    assert f"Nothing was changed: {first} has already decided" in response.content.decode()
    assert_decided_once(world, first)


@pytest.mark.django_db(transaction=True)
def test_only_one_of_two_concurrent_decisions_is_made(settings: Any) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("A database in memory does not let threads wait for one another.")
    world = make_world(settings)
    together, answers = threading.Barrier(2), {}

    def decide(name: str) -> None:
        together.wait()
        answers[name] = by_page(world, name).content.decode()
        connection.close()

    threads = [threading.Thread(target=decide, args=[name]) for name in ("root", "chief")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    late = [name for name, text in answers.items() if "has already decided" in text]
    assert len(late) == 1
    assert_decided_once(world, "root" if late == ["chief"] else "chief")


@pytest.fixture
def hostile(world: World) -> World:
    """The same site after hostile input in every place where a client can send some."""
    member = world.people["member"]
    get_user_model().objects.filter(pk=member.pk).update(username=f"member{HOSTILE}")
    member.refresh_from_db()
    PendingCall.objects.all().delete()
    info = {"name": HOSTILE, "version": HOSTILE}
    for revision in ("2025-06-18", LATEST.version):
        caller = MCPClient(user=member, revision=revision)
        caller.http.defaults["HTTP_USER_AGENT"] = HOSTILE
        for tool in ("shout", "fail", HOSTILE):
            for arguments in ({"word": f"{HOSTILE}\n{revision}"}, {"word": 1, HOSTILE: 2}):
                with suppress(MCPError):
                    caller.post(
                        "tools/call", name=tool, arguments=arguments, _meta={CLIENT_INFO: info}
                    )
    # Usernames are chosen by the site.
    get_user_model().objects.filter(pk=member.pk).update(username=f"member{MARKER}")
    flush()
    ToolCallRecord.objects.filter(outcome="refused", tool="fail").update(error_code="throttled")
    failed = ToolCallRecord.objects.filter(tool="fail", outcome="failed")
    world.rows["record"] = failed.latest("pk")
    world.rows["pending"], world.rows["second"] = PendingCall.objects.order_by("pk")
    page = world.browsers["member"].post(world.address(OWN), {"name": HOSTILE, "days": "7"})
    assert MARKER not in page.content.decode()
    world.rows["token of member"] = Token.objects.get(name__contains="script")
    with override_settings(
        ROOT_URLCONF="tests.oauth.site", MCP_BRIDGE=MCP_BRIDGE, OAUTH2_PROVIDER=OAUTH2_PROVIDER
    ):
        answer = register(client_name=HOSTILE, redirect_uris=["https://claude.ai/callback"])
    world.rows["client"] = get_application_model().objects.get(client_id=answer.json()["client_id"])
    return world


def seen(response: Any) -> str:
    text = str(response.content.decode())
    assert response.status_code == 200
    assert MARKER not in text
    assert not UNSEEN.findall(text), [
        text[each.start() - 90 : each.end()] for each in UNSEEN.finditer(text)
    ]
    return text


@pytest.mark.parametrize("page", [page for page, opens in PAGES.items() if "root" in opens.to])
def test_hostile_client_values_are_escaped(page: str, hostile: World) -> None:
    person = hostile.browsers["member" if page == OWN else "root"]
    queries = [{}, {"status": "all"}, {"q": "script"}] if page.endswith("changelist") else [{}]
    for query in queries:
        response = person.get(hostile.address(page, PAGES[page].row), query)
        if response.status_code == 200 and not response.streaming:
            seen(response)


def test_hostile_records_are_escaped(hostile: World) -> None:
    root = hostile.browsers["root"]
    for record in ToolCallRecord.objects.all():
        address = reverse("admin:mcp_bridge_toolcallrecord_change", args=[record.pk])
        text = seen(root.get(address))
        # Its links contain the values as they were sent.
        for link in set(re.findall(r'href="([^"]*toolcallrecord/\?[^"]+)"', text)):
            found = root.get(html.unescape(link)).context["cl"].queryset
            assert record in found
    for name in ("shout", "fail"):
        key = ToolSetting.objects.get(name=name).pk
        seen(root.get(reverse("admin:mcp_bridge_toolsetting_change", args=[key])))


@pytest.mark.parametrize("title", ["try what asks first", "try", "revoke a token", "revoke tokens"])
def test_hostile_values_in_action_responses_are_escaped(title: str, hostile: World) -> None:
    action = ACTIONS[title]
    data = action.data(hostile, hostile.people["root"])
    address = hostile.address(
        action.page, "token of member" if action.row.startswith("token") else action.row
    )
    if "arguments-word" in data:
        data["arguments-word"] = HOSTILE
    response = hostile.browsers["root"].post(address, data, follow=True)
    # The person's own input is kept in the fields.
    response.content = re.sub(
        r' value="[^"]*"|<textarea.*?</textarea>', "", response.content.decode(), flags=re.S
    ).encode()
    seen(response)


def test_hostile_values_in_exports_are_escaped(hostile: World) -> None:
    root = hostile.browsers["root"]
    sent = list(ToolCallRecord.objects.values_list("pk", "tool", "client_name"))
    for kind in ("csv", "json"):
        response = root.get(reverse(f"admin:mcp_bridge_toolcallrecord_{kind}"))
        text = b"".join(response.streaming_content).decode("utf-8-sig")
        assert not UNSEEN.search(text)
        rows = json.loads(text) if kind == "json" else list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == len(sent)
    # JSON has escapes for all of it.
    by_key = {row["id"]: (row["tool"], row["client_name"]) for row in json.loads(text)}
    assert by_key == {str(pk): (tool, client) for pk, tool, client in sent}


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith("_add")])
def test_add_pages_accept_any_query(page: str, world: World) -> None:
    root, address = world.browsers["root"], world.address(page)
    if "root" not in PAGES[page].to.split():
        assert root.get(address, {"name": "x"}).status_code == 403
        return
    form = root.get(address).context["adminform"].form
    columns = {field.name for field in form._meta.model._meta.get_fields()}
    for name in {*form.fields, *columns, "no_such", "expires_at_0", "_popup"}:
        for value in ("x", "", "2026-01-01", "-1", "9" * 30, HOSTILE, "x" * 10_000, ["x", "1"]):
            response = root.get(address, {name: value})
            assert response.status_code == 200, (name, value[:20])
            assert MARKER not in response.content.decode()


def test_query_does_not_change_the_default_expiry(world: World) -> None:
    address = world.address("mcp_bridge_tokens_token_add")
    for value in ("x", "", "2026-01-01", "2026-01-01 10:00", "9" * 30):
        response = world.browsers["root"].get(address, {"expires_at": value})
        proposed = response.context["adminform"].form.initial["expires_at"] - timezone.now()
        assert timedelta(days=89) < proposed < timedelta(days=91), value
