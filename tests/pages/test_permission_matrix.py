"""The permission matrix: each page and action for each kind of person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from mcp_bridge.admin.pending_calls import proof_of
from mcp_bridge.models import ToolSetting
from mcp_bridge.tokens.models import Token
from tests.support.admin_world import (
    CANDIDATE,
    PEOPLE,
    World,
    changed,
    fingerprint_of,
    make_world,
    page_names,
    state,
)
from tests.support.administrator import shown_by
from tests.support.links import leading

pytestmark = pytest.mark.django_db
TOOL, CALL, RECORD, SCOPE, SERVER, TASK, TOKEN, CLIENT, CONNECTED = (
    *(f"mcp_bridge_{name}" for name in ("toolsetting", "pendingcall", "toolcallrecord", "scope")),
    "mcp_bridge_remote_remoteserver",
    "mcp_bridge_tasks_mcptask",
    "mcp_bridge_tokens_token",
    "oauth2_provider_application",
    "mcp_bridge_oauth_clientuse",
)
OWN = "mcp-tokens"
STAFF = "root chief viewer issuer clerk"
DECIDE, VIEW, LOOK = "root chief", "root chief viewer", "root viewer"
ISSUE = f"{DECIDE} issuer"


@pytest.fixture
def world(settings: Any) -> World:
    return make_world(settings)


@dataclass(frozen=True)
class Opens:
    """A page: its row, the people it opens for, and the answers to them and to others."""

    row: str = ""
    to: str = VIEW
    status: int = 200
    # The answer to other staff; everyone else is asked to sign in.
    refused: int = 403


PAGES: Mapping[str, Opens] = {
    "app_list mcp_bridge": Opens(refused=404),
    "app_list mcp_bridge_tokens": Opens(to=f"{VIEW} issuer", refused=404),
    "app_list mcp_bridge_oauth": Opens(refused=404),
    "app_list mcp_bridge_remote": Opens(refused=404),
    "app_list mcp_bridge_tasks": Opens(refused=404),
    f"{TOOL}_changelist": Opens(),
    f"{TOOL}_add": Opens(to=""),
    f"{TOOL}_change": Opens("look"),
    f"{TOOL}_history": Opens("look"),
    f"{TOOL}_delete": Opens("gone", to=DECIDE),
    f"{TOOL}_switch": Opens("look", to="", refused=405),
    f"{TOOL}_approve": Opens("fresh", to="", refused=405),
    f"{TOOL}_waiting": Opens(),
    f"{TOOL}_try": Opens("look"),
    # This also requires the permission to view users.
    f"{TOOL}_sees": Opens(to=LOOK),
    f"{TOOL}_candidates": Opens(),
    f"{TOOL}_switch_on": Opens(to=DECIDE, status=405),
    f"{CALL}_changelist": Opens(),
    f"{CALL}_add": Opens(to=""),
    f"{CALL}_change": Opens("pending"),
    f"{CALL}_history": Opens("pending"),
    f"{CALL}_delete": Opens("pending", to=DECIDE),
    f"{CALL}_decide": Opens(),
    f"{RECORD}_changelist": Opens(),
    f"{RECORD}_add": Opens(to=""),
    f"{RECORD}_change": Opens("record"),
    f"{RECORD}_history": Opens("record"),
    f"{RECORD}_delete": Opens("record", to=""),
    f"{RECORD}_csv": Opens(),
    f"{RECORD}_json": Opens(),
    f"{SCOPE}_changelist": Opens(),
    f"{SCOPE}_add": Opens(to=DECIDE),
    f"{SCOPE}_change": Opens("scope"),
    f"{SCOPE}_history": Opens("scope"),
    f"{SCOPE}_delete": Opens("scope", to=DECIDE),
    f"{SERVER}_changelist": Opens(),
    f"{SERVER}_add": Opens(to=DECIDE),
    f"{SERVER}_change": Opens("server"),
    f"{SERVER}_history": Opens("server"),
    f"{SERVER}_delete": Opens("server", to=DECIDE),
    f"{SERVER}_verify": Opens("server", to="", refused=405),
    f"{SERVER}_fetch": Opens("server", to="", refused=405),
    f"{TASK}_changelist": Opens(),
    f"{TASK}_add": Opens(to=""),
    f"{TASK}_change": Opens("task"),
    f"{TASK}_history": Opens("task"),
    f"{TASK}_delete": Opens("task", to=""),
    f"{TASK}_cancel": Opens("task", to="", refused=405),
    # With only the permission to add tokens, it lists a user's own tokens.
    f"{TOKEN}_changelist": Opens(to=f"{VIEW} issuer"),
    f"{TOKEN}_add": Opens(to=ISSUE),
    f"{TOKEN}_change": Opens("token of member"),
    f"{TOKEN}_history": Opens("token of member"),
    f"{TOKEN}_delete": Opens("token of member", to="root"),
    f"{TOKEN}_connect": Opens("token of member"),
    f"{TOKEN}_revoke": Opens("token of member", to=DECIDE),
    f"{CLIENT}_changelist": Opens(to=LOOK),
    f"{CLIENT}_add": Opens(to="root"),
    f"{CLIENT}_change": Opens("client", to=LOOK),
    f"{CLIENT}_history": Opens("client", to=LOOK),
    f"{CLIENT}_delete": Opens("client", to="root"),
    f"{CONNECTED}_changelist": Opens(),
    f"{CONNECTED}_delete": Opens("connected", to=DECIDE),
    OWN: Opens(to=f"{STAFF} member"),
}
Data = Callable[[World, Any], dict[str, Any]]


@dataclass(frozen=True)
class Action:
    """
    An action by POST: the people who may do it, and the tables that it changes.

    ``data`` returns the posted data for the world and the person. ``refused`` is the answer to
    those who may open the page but not do it.
    """

    page: str
    data: Data
    row: str = ""
    may: str = DECIDE
    changes: str = ""
    status: int = 302
    refused: int = 403


def fixed(**data: Any) -> Data:
    return lambda world, person: data


def saved(page: str, row: str, **data: Any) -> Data:
    """Return the form of a page, with the revision shown to a user who may save it."""
    return lambda world, person: {
        "_revision": shown_by(world.browsers["root"], world.address(page, row)),
        **data,
    }


def listed(action: str, *rows: str, **more: Any) -> Data:
    """Return the action of a list, on rows by their names."""
    return lambda world, person: {
        "action": action,
        "_selected_action": [world.rows[row].pk for row in rows],
        **more,
    }


def switched(world: World, person: Any) -> dict[str, Any]:
    """Return the form of the whole list, in which no tool is enabled any more."""
    keys = ToolSetting.objects.order_by("name").values_list("pk", flat=True)
    data = {"form-TOTAL_FORMS": len(keys), "form-INITIAL_FORMS": len(keys), "_save": "Save"}
    data |= {f"initial-form-{number}-enabled": "True" for number in range(len(keys))}
    return data | {f"form-{number}-id": key for number, key in enumerate(keys)}


def shown(*rows: str, **button: str) -> Data:
    """Return a decision on calls, with the proof that they were shown to the very person."""
    return lambda world, person: {
        "call": [proof_of(world.rows[row], person) for row in rows],
        **button,
    }


def defined(*names: str, **more: str) -> Data:
    """Return the form of tools or candidates, with the fingerprints on the page."""
    return lambda world, person: {
        "tool": [f"{fingerprint_of(name)} {name}" for name in names],
        **more,
    }


def served_at(slug: str) -> Data:
    """Return the form of a disabled remote server."""
    limits = {"first_byte_s": 9, "whole_call_s": 9, "idle_s": 9, "max_body_bytes": 2048}
    headers = {"headers-TOTAL_FORMS": 0, "headers-INITIAL_FORMS": 0}
    url = "https://127.0.0.1:9/mcp" if slug == "weather" else "https://1.1.1.1/mcp"
    return fixed(name=slug, slug=slug, url=url, auth="none", **limits, **headers)


NO = {"_refuse": "1", "reason": "No."}
NEW_TOKEN = {"name": "Desk", "expires_at_0": "2099-01-02", "expires_at_1": "03:04:05"}
CHANGED_TOOL = "toolsetting logentry"
DECIDED = "pendingcall logentry"
ISSUED = "token logentry"
ACTIONS: Mapping[str, Action] = {
    "switch": Action(f"{TOOL}_switch", fixed(), "look", changes=CHANGED_TOOL, status=200),
    "save the list": Action(f"{TOOL}_changelist", switched, changes=CHANGED_TOOL),
    "switch off": Action(
        f"{TOOL}_changelist", listed("switch_off", "look"), changes=CHANGED_TOOL, refused=302
    ),
    "switch off all": Action(
        f"{TOOL}_changelist",
        listed("switch_off", "look", select_across="1"),
        changes=CHANGED_TOOL,
        refused=302,
    ),
    "delete tools": Action(
        f"{TOOL}_changelist",
        listed("delete_selected", "gone", "look", post="yes"),
        may="",
        refused=302,
    ),
    "change a tool": Action(
        f"{TOOL}_change",
        saved(f"{TOOL}_change", "look", _save="Save", note="x"),
        "look",
        changes=CHANGED_TOOL,
    ),
    "delete a tool": Action(f"{TOOL}_delete", fixed(post="yes"), "look", may=""),
    "delete a tool that is gone": Action(
        f"{TOOL}_delete", fixed(post="yes"), "gone", changes=CHANGED_TOOL
    ),
    "add a tool": Action(f"{TOOL}_add", fixed(name="x", enabled="on"), may=""),
    "approve": Action(
        f"{TOOL}_approve",
        lambda world, person: {"fingerprint": fingerprint_of("fresh")},
        "fresh",
        changes=CHANGED_TOOL,
    ),
    "approve many": Action(f"{TOOL}_waiting", defined("fresh"), changes=CHANGED_TOOL),
    "choose candidates": Action(f"{TOOL}_switch_on", fixed(name=CANDIDATE), status=200),
    "switch on candidates": Action(
        f"{TOOL}_switch_on", defined(CANDIDATE, _confirmed="1"), changes=CHANGED_TOOL
    ),
    "try": Action(
        f"{TOOL}_try",
        fixed(**{"arguments-word": "a"}),
        "look",
        may=VIEW,
        changes="toolcallrecord",
        status=200,
    ),
    "try what asks first": Action(
        f"{TOOL}_try", fixed(**{"arguments-word": "a"}), "shout", may=VIEW, status=200
    ),
    "try and agree": Action(
        f"{TOOL}_try",
        fixed(**{"arguments-word": "a", "_confirmed": "1"}),
        "shout",
        may=VIEW,
        changes="pendingcall toolcallrecord",
        status=200,
    ),
    "approve a call": Action(f"{CALL}_change", fixed(_approve="1"), "pending", changes=DECIDED),
    "refuse a call": Action(f"{CALL}_change", fixed(**NO), "pending", changes=DECIDED),
    "approve calls": Action(
        f"{CALL}_decide", shown("pending", "second", _approve="1"), changes=DECIDED
    ),
    "refuse calls": Action(f"{CALL}_decide", shown("pending", **NO), changes=DECIDED),
    "read calls": Action(f"{CALL}_changelist", listed("decide_on", "pending"), refused=302),
    "delete calls": Action(
        f"{CALL}_changelist",
        listed("delete_selected", "pending", post="yes", select_across="1"),
        changes=f"{DECIDED} mcptask",
        refused=302,
    ),
    "delete a call": Action(f"{CALL}_delete", fixed(post="yes"), "pending", changes=DECIDED),
    "add a call": Action(f"{CALL}_add", fixed(tool="look", arguments="{}"), may=""),
    "change a record": Action(f"{RECORD}_change", fixed(tool="x"), "record", may=""),
    "delete a record": Action(f"{RECORD}_delete", fixed(post="yes"), "record", may=""),
    "add a record": Action(f"{RECORD}_add", fixed(tool="x", outcome="failed"), may=""),
    "delete records": Action(
        f"{RECORD}_changelist",
        listed("delete_selected", "record", post="yes"),
        may="",
        refused=200,
    ),
    "export by a POST": Action(f"{RECORD}_csv", fixed(), may="", refused=405),
    "add words": Action(
        f"{SCOPE}_add", fixed(name="write", description="Write"), changes="scope logentry"
    ),
    "change words": Action(
        f"{SCOPE}_change", fixed(description="Read"), "scope", changes="scope logentry"
    ),
    "delete words": Action(f"{SCOPE}_delete", fixed(post="yes"), "scope", changes="scope logentry"),
    "delete all words": Action(
        f"{SCOPE}_changelist",
        listed("delete_selected", "scope", post="yes"),
        may="",
        refused=200,
    ),
    "add a server": Action(f"{SERVER}_add", served_at("news"), changes="remoteserver logentry"),
    "change a server": Action(
        f"{SERVER}_change",
        lambda world, person: (
            served_at("weather")(world, person) | saved(f"{SERVER}_change", "server")(world, person)
        ),
        "server",
        changes="remoteserver logentry",
    ),
    # It cannot be reached, which is written down.
    "fetch tools": Action(f"{SERVER}_fetch", fixed(), "server", changes="remoteserver"),
    "verify a server": Action(f"{SERVER}_verify", fixed(), "server"),
    "delete a server": Action(
        f"{SERVER}_delete", fixed(post="yes"), "server", changes="remoteserver logentry"
    ),
    "delete servers": Action(
        f"{SERVER}_changelist",
        listed("delete_selected", "server", post="yes"),
        changes="remoteserver logentry",
        refused=302,
    ),
    "cancel a task": Action(f"{TASK}_cancel", fixed(), "task", changes="mcptask logentry"),
    "cancel tasks": Action(
        f"{TASK}_changelist",
        listed("cancel", "task"),
        changes="mcptask logentry",
        refused=302,
    ),
    "change a task": Action(f"{TASK}_change", fixed(message="x"), "task", may=""),
    "delete a task": Action(f"{TASK}_delete", fixed(post="yes"), "task", may=""),
    "issue a token": Action(
        f"{TOKEN}_add",
        lambda world, person: {**NEW_TOKEN, "user": person.pk or ""},
        may=ISSUE,
        changes=ISSUED,
        status=200,
    ),
    # Without the permission to issue for others, the posted user is ignored: see the owners.
    "issue a token for others": Action(
        f"{TOKEN}_add",
        lambda world, person: {**NEW_TOKEN, "user": world.people["member"].pk},
        may=ISSUE,
        changes=ISSUED,
        status=200,
    ),
    "prolong one's own token": Action(
        f"{TOKEN}_change",
        saved(f"{TOKEN}_change", "token of chief", **NEW_TOKEN),
        "token of chief",
        changes=ISSUED,
    ),
    "prolong a token of others": Action(
        f"{TOKEN}_change",
        saved(f"{TOKEN}_change", "token of member", **NEW_TOKEN),
        "token of member",
        may="root",
        changes=ISSUED,
    ),
    "prolong a token of a superuser": Action(
        f"{TOKEN}_change",
        saved(f"{TOKEN}_change", "token of root", **NEW_TOKEN),
        "token of root",
        may="root",
        changes=ISSUED,
    ),
    "prolong a token of whoever may add tokens alone": Action(
        f"{TOKEN}_change",
        saved(f"{TOKEN}_change", "token of issuer", **NEW_TOKEN),
        "token of issuer",
        may="root",
        changes=ISSUED,
    ),
    "revoke a token of one's own": Action(
        f"{TOKEN}_revoke", fixed(), "token of issuer", may=ISSUE, changes=ISSUED
    ),
    "revoke tokens of one's own": Action(
        f"{TOKEN}_changelist",
        listed("revoke", "token of issuer"),
        may=ISSUE,
        changes=ISSUED,
        refused=302,
    ),
    "revoke a token": Action(f"{TOKEN}_revoke", fixed(), "token of root", changes=ISSUED),
    "revoke tokens": Action(
        f"{TOKEN}_changelist",
        listed("revoke", "token of root", "token of member"),
        changes=ISSUED,
        refused=302,
    ),
    "delete a token": Action(
        f"{TOKEN}_delete", fixed(post="yes"), "token of chief", may="root", changes=ISSUED
    ),
    "delete tokens": Action(
        f"{TOKEN}_changelist",
        listed("delete_selected", "token of chief", post="yes"),
        may="root",
        changes=ISSUED,
        refused=302,
    ),
    "issue one's own": Action(
        OWN, fixed(name="Desk", days="7"), may=f"{STAFF} member", changes="token", status=200
    ),
    "revoke one's own": Action(
        OWN,
        lambda world, person: {"revoke": world.rows[f"token of {person.username or 'root'}"].pk},
        may=f"{STAFF} member",
        changes="token",
    ),
    "add a client": Action(
        f"{CLIENT}_add",
        fixed(
            name="Other",
            client_id="other",
            client_secret="x" * 40,
            client_type="confidential",
            authorization_grant_type="client-credentials",
            algorithm="",
        ),
        may="root",
        changes="application logentry",
    ),
    "revoke the tokens of a client": Action(
        f"{CLIENT}_changelist",
        listed("revoke", "client"),
        may="root",
        changes="accesstoken logentry",
        refused=302,
    ),
    "disconnect an application": Action(
        f"{CONNECTED}_delete",
        fixed(),
        "connected",
        changes="accesstoken logentry",
    ),
    "delete a client": Action(
        f"{CLIENT}_delete",
        fixed(post="yes"),
        "idle client",
        may="root",
        changes="application logentry",
    ),
}


def post(world: World, action: Action, name: str, data: dict[str, Any], **options: Any) -> Any:
    browser = world.browsers[name]
    return browser.post(world.address(action.page, action.row), data, **options)


def data_for(world: World, action: Action, name: str) -> dict[str, Any]:
    return action.data(world, world.people.get(name) or AnonymousUser())


def is_asked_to_sign_in(response: Any) -> bool:
    return response.status_code == 302 and "/login/?next=" in response.headers["Location"]


def test_each_page_has_a_row() -> None:
    assert set(page_names()) == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_pages_open_only_if_permitted_and_change_nothing(page: str, world: World) -> None:
    opens, before = PAGES[page], state()
    address = world.address(page, opens.row)
    for name in PEOPLE:
        for method in ("get", "head"):
            response = getattr(world.browsers[name], method)(address)
            if name in opens.to.split():
                # An export accepts only GET.
                expected = {opens.status, 405} if method == "head" else {opens.status}
                assert response.status_code in expected, (name, method)
            elif name in STAFF.split():
                assert response.status_code in (403, opens.refused), (name, method)
            else:
                assert is_asked_to_sign_in(response), (name, method)
            if response.streaming:
                b"".join(response.streaming_content)
    assert not changed(before)


@pytest.mark.parametrize("title", ACTIONS)
def test_actions_are_done_only_if_permitted(title: str, world: World) -> None:
    action, before = ACTIONS[title], state()
    for name in PEOPLE:
        person = world.people.get(name)
        data = data_for(world, action, name)
        with transaction.atomic():
            response = post(world, action, name, data)
            found = changed(before)
            owners = {token.user for token in Token.objects.exclude(name="Laptop")}
            transaction.set_rollback(True)
        if name in action.may.split():
            assert (response.status_code, found) == (action.status, set(action.changes.split()))
            assert name == "root" or owners <= {person}
            continue
        assert not found, name
        if name in ("member", "nobody"):
            assert is_asked_to_sign_in(response), name
        else:
            # A list is shown to those without any action on it.
            expected = {action.refused, 200} if action.refused == 302 else {action.refused}
            is_open = name in PAGES[action.page].to.split()
            assert response.status_code in (expected if is_open else {403, 405}), name


@pytest.mark.parametrize("title", ACTIONS)
def test_actions_require_post_and_a_csrf_token(title: str, world: World) -> None:
    action, before = ACTIONS[title], state()
    address = world.address(action.page, action.row)
    for name in ("root", "member"):
        data, browser = data_for(world, action, name), world.browsers[name]
        for method in ("get", "head", "options"):
            getattr(browser, method)(address, data)
        browser.handler.enforce_csrf_checks = True
        assert post(world, action, name, data).status_code == 403
        assert browser.put(address, data).status_code == 403
    assert not changed(before)


@pytest.mark.parametrize("model", sorted({page.rpartition("_")[0] for page in PAGES}))
def test_viewer_cannot_do_actions_on_other_pages(model: str, world: World) -> None:
    before, viewer = state(), world.browsers["viewer"]
    refused = [each for each in ACTIONS.values() if "viewer" not in each.may.split()]
    sent = [action.data(world, world.people["viewer"]) for action in refused]
    everything = {name: value for data in sent for name, value in data.items()}
    bare = {name: value for name, value in everything.items() if name != "action"}
    for page in (each for each in PAGES if each.rpartition("_")[0] == model):
        address = world.address(page, PAGES[page].row)
        own = [each for each in ACTIONS.values() if each.page == page and each not in refused]
        with transaction.atomic():
            for data in (*(each for each in sent if "action" in each), everything, bare):
                viewer.post(address, data)
            found = changed(before)
            owners = {token.user.username for token in Token.objects.exclude(name="Laptop")}
            transaction.set_rollback(True)
        assert found <= {name for each in own for name in each.changes.split()}, page
        assert owners <= {"viewer"}, page


# The clerk may not open any page that has a link.
@pytest.mark.parametrize("name", f"{VIEW} issuer".split())
def test_pages_link_only_to_permitted_pages(name: str, world: World) -> None:
    browser, found = world.browsers[name], {}
    for page, opens in PAGES.items():
        rows = [opens.row] if opens.row else [""]
        rows += [f"token of {name}"] * page.startswith(TOKEN) * bool(opens.row)
        for row in rows:
            address = world.address(page, row)
            response = browser.get(address)
            if response.status_code == 200 and "html" in response.headers["Content-Type"]:
                for link in leading(address, response.content.decode(), "a"):
                    # Only one of the links that differ just in the values of their parameters.
                    path, _, query = link.partition("?")
                    found[path, tuple(parse_qs(query, keep_blank_values=True))] = (link, address)
    # django-oauth-toolkit's own "view on site", whose URLs are not of this site.
    links = [each for each in found.values() if not each[0].startswith("/admin/r/")]
    assert links
    assert not [each for each in links if browser.get(each[0]).status_code == 403]
