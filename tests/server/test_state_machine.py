"""Administrators and callers in any order, over the endpoint and the admin, against a model."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.cache import cache
from django.db import transaction
from django.test import override_settings
from django.urls import path, reverse
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.access.throttling import ToolRateThrottle
from mcp_bridge.models import PendingCall
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.serving import addresses
from mcp_bridge.tokens.models import Token
from tests.support.administrator import Administrator, row
from tests.support.model import USERS, Model, Served, State

pytestmark = pytest.mark.alone

FUZZED = int(os.environ.get("FUZZ_EXAMPLES", "0"))
EXAMPLES, STEPS = (min(FUZZED // 5, 500), 40) if FUZZED else (10, 20)
OPTIONS: dict[str, dict[str, Any]] = {
    "open": {"public": True},
    "plain": {},
    "guarded": {"permissions": "auth.add_group"},
    "wipe": {"confirm": True},
}
RATE = "2/day"
RUNS: list[str] = []
OUTCOMES: set[str] = set()


class Still(ToolRateThrottle):
    """A day that does not end while a test runs."""

    timer = staticmethod(lambda: 1_000_000_000.0)


def function(name: str, version: int) -> Any:
    def run() -> str:
        RUNS.append(f"{name} {version}")
        return RUNS[-1]

    run.__name__, run.__doc__ = name, f"Do it in version {version}."
    return mcp_tool(**OPTIONS[name])(run)


names, users = st.sampled_from([*OPTIONS]), st.sampled_from(USERS)
members = st.sampled_from(USERS[1:])
asking = st.sampled_from(["wipe", "wipe", "plain"])
answers = st.sampled_from(["accept", "accept", "decline", "cancel"])


class Site(RuleBasedStateMachine):
    """The endpoint and the admin, each step of which the model takes as well."""

    served: override_settings | None = None

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        cache.clear()
        RUNS.clear()
        self.model = Model()
        self.states: list[State] = []
        self.keys: list[tuple[Any, ...]] = []
        self.editors = Group.objects.create(name="editors")
        self.users = {
            "reader": get_user_model().objects.create_user("reader"),
            "editor": get_user_model().objects.create_user("editor"),
            "chief": get_user_model().objects.create_superuser("chief"),
        }
        self.users["editor"].groups.add(self.editors)
        self.tokens: dict[str, Token] = {}
        self.clients = {name: self._clients() for name in USERS}
        for user in self.users:
            self.issue(user)
        self._serve()
        self.administrator = Administrator()
        self.permit(True)
        registry.write_rows(using="default")

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)
        if self.served:
            self.served.disable()
        registry.settings_changed()

    @staticmethod
    def _clients() -> dict[bool, MCPClient]:
        """Return a client with a form, and one without."""
        form = {"elicitation": {"form": {}}}
        return {
            True: MCPClient(path="/mcp", capabilities=form),
            False: MCPClient(path="/mcp", revision="2025-11-25"),
        }

    def _serve(self) -> None:
        server = RpcServer(register_system_procedures=False)
        for name, tool in self.model.tools.items():
            if tool.version is not None:
                server.register_procedure(function(name, tool.version))
        urls = addresses(path("admin/", admin.site.urls), path("rpc", server.view))
        if self.served:
            self.served.disable()
        self.served = override_settings(
            ROOT_URLCONF=urls, MCP_BRIDGE={"THROTTLE_CLASSES": [f"{__name__}.Still"]}
        )
        self.served.enable()

    def _post(self, page: str, **data: Any) -> None:
        """Send a form, without reading the page to which it redirects: that takes the longest."""
        response = self.administrator.browser.post(page, data)
        assert response.status_code == 302, response.content.decode()

    def tool(self, name: str) -> Served:
        return self.model.tools[name]

    # Steps of the code and the administrators.

    @rule(name=names, version=st.sampled_from([1, 2, 2, None]))
    def change_the_code(self, name: str, version: int | None) -> None:
        self.tool(name).version = version
        self._serve()

    @rule(
        name=names,
        enabled=st.sampled_from([False, True, True]),
        audience=st.sampled_from(["all", "all", "editors", "none"]),
        asks=st.booleans(),
        is_limited=st.booleans(),
    )
    def save_the_page(
        self, name: str, enabled: bool, audience: str, asks: bool, is_limited: bool
    ) -> None:
        tool = self.tool(name)
        tool.enabled, tool.audience = enabled, audience
        tool.asks, tool.is_limited = asks, is_limited
        ticked = {"enabled": enabled, "confirm": asks, "restricted": audience != "all"}
        values: dict[str, Any] = {field: "on" for field, is_on in ticked.items() if is_on}
        groups = [self.editors.pk] if audience == "editors" else []
        rate = RATE if is_limited else ""
        page = reverse("admin:mcp_bridge_toolsetting_change", args=[row(name).pk])
        shown = self.administrator.shown("change", row(name).pk)
        self._post(page, **values, groups=groups, rate=rate, _save="Save", _revision=shown)

    @rule(name=names, on=st.sampled_from([False, True, True]))
    def switch(self, name: str, on: bool) -> None:
        page = reverse("admin:mcp_bridge_toolsetting_changelist")
        action = "switch_on" if on else "switch_off"
        self._post(page, action=action, _selected_action=[row(name).pk])
        self.tool(name).enabled = on

    @precondition(lambda self: self.tool("wipe").version not in (None, self.tool("wipe").approved))
    @rule()
    def approve_the_definition(self) -> None:
        tool = self.tool("wipe")
        page = self.administrator.get("change", row("wipe").pk)
        [shown] = re.findall(r'name="fingerprint" value="(\w+)"', page)
        approve = reverse("admin:mcp_bridge_toolsetting_approve", args=[row("wipe").pk])
        self._post(approve, fingerprint=shown)
        assert tool.version is not None
        tool.approved = tool.version

    @rule(may=st.booleans())
    def permit(self, may: bool) -> None:
        wanted = [Permission.objects.get(codename="add_group").pk] if may else []
        page = reverse("admin:auth_group_change", args=[self.editors.pk])
        self._post(page, name="editors", permissions=wanted)
        self.model.editors_may = may

    @rule(user=members)
    def revoke(self, user: str) -> None:
        page = reverse("admin:mcp_bridge_tokens_token_changelist")
        self._post(page, action="revoke", _selected_action=[self.tokens[user].pk])
        self.model.revoked.add(user)

    @rule(user=members)
    def issue(self, user: str) -> None:
        self.tokens[user], secret = Token.objects.issue(user=self.users[user], name="t")
        for client in self.clients[user].values():
            client.headers["Authorization"] = f"Bearer {secret}"
        self.model.revoked.discard(user)

    @rule(
        user=members,
        name=asking,
        data=st.data(),
        decision=st.sampled_from(["approved", "refused"]),
    )
    def decide_on_a_call(self, user: str, name: str, data: st.DataObject, decision: str) -> None:
        self._call(user, name, False)
        waiting = [key for key, status in self.model.queue.items() if status == "waiting"]
        if not waiting:
            return
        user, name, definition = key = data.draw(st.sampled_from(waiting))
        rows = PendingCall.objects.filter(status=PendingCall.Status.WAITING)
        found = rows.filter(user__username=user, tool=name).order_by("pk")
        # Those of one user and tool are distinguished by their order.
        same = [each for each in waiting if each[:2] == (user, name)]
        assert found.count() == len(same)
        page = reverse("admin:mcp_bridge_pendingcall_change", args=[found[same.index(key)].pk])
        self._post(page, reason="No.", **{"_approve" if decision == "approved" else "_refuse": "1"})
        self.model.decide((user, name, definition), decision)
        for _ in range(2):
            self._call(user, name, False)

    # Steps of the callers.

    @rule(calls=st.lists(st.tuples(users, names, st.booleans()), min_size=2, max_size=6))
    def call(self, calls: list[tuple[str, str, bool]]) -> None:
        for user, name, has_form in calls:
            self._call(user, name, has_form)

    @rule(user=members, name=asking, answers=st.lists(answers, min_size=1, max_size=3))
    def call_and_answer(self, user: str, name: str, answers: list[str]) -> None:
        known = len(self.states)
        self._call(user, name, True)
        for how in answers:
            for state in self.states[known:]:
                self._answer(state, how)

    @precondition(lambda self: self.states)
    @rule(data=st.data(), how=answers)
    def answer(self, data: st.DataObject, how: str) -> None:
        self._answer(data.draw(st.sampled_from(self.states)), how)

    def _call(self, user: str, name: str, has_form: bool) -> None:
        before, definition = [*RUNS], self.tool(name).definition
        expected = self.model.call(user, name, has_form)
        came, result = self._called(self.clients[user][has_form], name)
        self._check(expected, came, before, name)
        if came == "asks":
            self.states.append(State(user, name, definition, str(result["requestState"])))

    def _answer(self, state: State, how: str) -> None:
        before = [*RUNS]
        expected = self.model.answer(state, how)
        content = {"content": {"confirm": True}} if how == "accept" else {}
        came, _ = self._called(
            self.clients[state.user][True],
            state.tool,
            requestState=state.text,
            inputResponses={"confirm": {"action": how, **content}},
        )
        self._check(expected, came, before, state.tool)

    def _called(self, client: MCPClient, name: str, **params: Any) -> tuple[str, dict[str, Any]]:
        try:
            result = client.post("tools/call", name=name, arguments={}, **params)
        except MCPError as refused:
            if client.response.status_code == 401:
                return "unauthenticated", {}
            kinds = {f"Unknown tool: {name}": "unknown", "Invalid requestState": "invalid"}
            message = refused.error["message"].partition(": it ")[0]
            return kinds[message], {}
        if result.get("resultType") == "input_required":
            return "asks", result
        if not result["isError"]:
            return "ran", result
        if "mcp-bridge/retryAfter" in result.get("_meta", {}):
            return "throttled", result
        texts = {
            "requires a person's approval": "waits",
            "a person refused": "refused",
            "and declined": "declined",
        }
        [found] = {outcome for text, outcome in texts.items() if text in text_of(result)}
        return found, result

    def _check(self, expected: str, came: str, before: list[str], name: str) -> None:
        OUTCOMES.add(came)
        assert came == expected
        ran = [f"{name} {self.tool(name).version}"] if came == "ran" else []
        assert [*before, *ran] == RUNS

    @invariant()
    def each_user_sees_what_is_theirs(self) -> None:
        for user in USERS:
            client = self.clients[user][True]
            try:
                seen: list[str] | None = [tool["name"] for tool in client.list_tools()]
            except MCPError:
                assert client.response.status_code == 401
                seen = None
            assert seen == self.model.listed(user), user


@pytest.mark.django_db
def test_server_agrees_with_the_model_after_any_steps() -> None:
    run_state_machine_as_test(
        Site,
        settings=hypothesis_settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    cache.clear()
    # Otherwise hardly anything was tried.
    assert {"ran", "unknown", "asks", "waits", "invalid"} <= OUTCOMES
