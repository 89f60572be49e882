"""A tool's page in the admin: its settings, and the approval of changes."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.urls import reverse
from pydantic import Field

from mcp_bridge.admin.approvals import Change, changes
from mcp_bridge.models import ToolSetting
from mcp_bridge.testing import MCPClient
from tests.support.administrator import CHANGE, VIEW, Administrator, row, serve_tools

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def wipe(folder: Annotated[str, Field(max_length=20)]) -> str:
    """
    Wipe a folder <script>alert(1)</script>.

    Ask the user first.
    """
    return folder


def wipe_all(folder: Annotated[str, Field(max_length=10)], deep: bool = False) -> str:
    """Wipe all folders <script>alert(1)</script>."""
    return folder


def wipe_none() -> str:
    """Wipe nothing."""
    return ""


CONFIRMED: dict[str, Any] = {"name": "wipe", "confirm": True, "destructive": True}


@pytest.fixture
def administrator(settings: Any) -> Administrator:
    ToolSetting.objects.all().delete()
    serve_tools(settings, wipe, **CONFIRMED)
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def page(administrator: Administrator) -> str:
    """Return the tool's page in one line."""
    return re.sub(r"\s+", " ", administrator.get("change", row("wipe").pk))


def shown_fingerprint(text: str) -> str:
    (found,) = re.findall(r'name="fingerprint" value="(\w+)"', text)
    return str(found)


def listed(administrator: Administrator) -> list[dict[str, Any]]:
    return MCPClient(user=administrator.user).list_tools()


def test_page_shows_the_definition_sent_to_models(administrator: Administrator) -> None:
    text = administrator.get("change", row("wipe").pk)
    assert f"Wipe a folder {ESCAPED}.\n\nAsk the user first.</pre>" in text
    assert MARKER not in text
    assert "string, maximum length 20" in text
    assert "<strong>deletes</strong>: It may delete or overwrite." in text
    assert "tests/admin/test_tool_page.py:" in text
    assert "automatically: on first sight" in text
    assert "sees/?user=" in text
    assert "Approve" not in text.replace("Approved", "")
    assert "&quot;maxLength&quot;: 20" in text


def test_user_names_require_the_view_user_permission(administrator: Administrator) -> None:
    reader = Administrator(VIEW, username="reader")
    text = page(reader)
    assert "every user (2 people)" in text
    assert "Users:" not in text
    assert 'name="_save"' not in text


def test_tool_is_restricted_to_groups(administrator: Administrator) -> None:
    group = Group.objects.create(name="press")
    text = administrator.save("wipe", enabled="on", groups=[group.pk])
    assert "“Only for groups” is not. Select it" in text
    assert not row("wipe").groups.exists()
    administrator.save("wipe", enabled="on", restricted="on", groups=[group.pk], note="For now.")
    assert listed(administrator) == []
    administrator.user.groups.add(group)
    assert len(listed(administrator)) == 1
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message() == (
        "Only for groups: off → on; Groups: none → “press”; Note: none → “For now.”"
    )


def test_models_receive_the_texts_set_in_the_admin(administrator: Administrator) -> None:
    administrator.save("wipe", enabled="on", title="Clean", description=f"{MARKER} Cleans.")
    (definition,) = listed(administrator)
    assert (definition["title"], definition["description"]) == ("Clean", f"{MARKER} Cleans.")
    text = page(administrator)
    assert f"<pre>{ESCAPED} Cleans.</pre>" in text
    assert "The description in the code" in text
    assert MARKER not in text


def test_saving_keeps_a_concurrent_approval(administrator: Administrator, settings: Any) -> None:
    serve_tools(settings, wipe_all, **CONFIRMED)
    before = row("wipe").fingerprint
    administrator.save("wipe", enabled="on", note="Noted.")
    assert (row("wipe").fingerprint, row("wipe").note) == (before, "Noted.")


def test_changed_definition_is_shown_and_approved(
    administrator: Administrator, settings: Any
) -> None:
    serve_tools(settings, wipe_all, **CONFIRMED)
    assert listed(administrator) == []
    assert "1 tool is pending approval." in administrator.get("changelist")
    text = page(administrator)
    assert "Changes since the last approval" in text
    assert "parameter deep<br>(added)" in text
    assert "parameter folder: maximum length<br>(changed)" in text
    assert '<code class="mcp-path">inputSchema.properties.folder.maxLength</code>' in text
    assert "<del>20</del>" in text
    assert "<ins>10</ins>" in text
    assert MARKER not in text
    text = administrator.post("approve", row("wipe").pk, fingerprint=shown_fingerprint(text))
    assert "1 tool was approved." in text
    assert "“wipe” is enabled for every user (1 person)." in text
    assert len(listed(administrator)) == 1
    assert row("wipe").approved_by == administrator.user
    assert f"by {administrator.user}" in page(administrator)
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message().startswith("Approved the definition ")
    again = administrator.post("approve", row("wipe").pk, fingerprint=row("wipe").fingerprint)
    assert "0 tools were approved." in again


def test_unshown_definition_is_not_approved(administrator: Administrator, settings: Any) -> None:
    serve_tools(settings, wipe_all, **CONFIRMED)
    read = shown_fingerprint(page(administrator))
    serve_tools(settings, wipe_none, **CONFIRMED)
    for given in (read, "", row("wipe").fingerprint):
        text = administrator.post("approve", row("wipe").pk, fingerprint=given)
        assert "since you opened the page: wipe." in text
    assert listed(administrator) == []
    assert not LogEntry.objects.exists()
    administrator.post("approve", row("wipe").pk, fingerprint=shown_fingerprint(text))
    assert len(listed(administrator)) == 1


def test_approving_requires_permission_post_and_csrf_token(
    administrator: Administrator, settings: Any
) -> None:
    serve_tools(settings, wipe_all, **CONFIRMED)
    key, given = row("wipe").pk, shown_fingerprint(page(administrator))
    reader = Administrator(VIEW, username="reader")
    text = page(reader)
    assert "Changes since the last approval" in text
    assert "You cannot approve it" in text
    assert "fingerprint" not in text
    reader.post("approve", key, fingerprint=given, expected=403)
    administrator.get("approve", key, expected=405)
    administrator.browser.handler.enforce_csrf_checks = True
    administrator.post("approve", key, fingerprint=given, expected=403)
    assert row("wipe").approved_by is None
    Administrator(CHANGE, username="chief").post("approve", key, fingerprint=given)
    assert row("wipe").approved_by.username == "chief"


def test_new_tool_shows_its_whole_definition(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled"}
    serve_tools(settings, wipe, name="wipe")
    administrator = Administrator()
    administrator.get("changelist")
    text = page(administrator)
    assert "Definition to approve" in text
    assert "Full definition as JSON" in text
    assert "new, pending approval" in text
    administrator.save("wipe")
    text = page(administrator)
    assert "new, pending approval; disabled" in text
    text = administrator.post("approve", row("wipe").pk, fingerprint=shown_fingerprint(text))
    assert "“wipe” is disabled." in text


def test_changed_tool_is_served_with_notice_under_debug(
    administrator: Administrator, settings: Any
) -> None:
    settings.DEBUG = True
    serve_tools(settings, wipe_all, **CONFIRMED)
    assert len(listed(administrator)) == 1
    assert "changed, pending approval; enabled by DEBUG" in administrator.get("changelist")
    assert "otherwise it would be withheld" in page(administrator)


def test_front_page_counts_match_the_linked_lists(
    administrator: Administrator, settings: Any
) -> None:
    serve_tools(settings, wipe_all, **CONFIRMED)
    for debug, number in ((False, 0), (True, 1)):
        settings.DEBUG = debug
        front = administrator.browser.get(reverse("admin:app_list", args=["mcp_bridge"]))
        assert front.context["front"]["tools"]["on"] == number
        administrator.get("changelist", status="served")
        context: Any = administrator.response
        assert context.context["cl"].result_count == number


def test_removed_tool_has_a_page(administrator: Administrator) -> None:
    gone = ToolSetting.objects.create(name="was_here", description=MARKER)
    text = administrator.get("change", gone.pk)
    assert "no longer exists" in text
    assert "Try it" not in text
    assert "Who can use it" not in text
    administrator.get("try", gone.pk)
    administrator.post("approve", gone.pk, fingerprint="")
    for nothing in (0, "x"):
        administrator.post("approve", nothing, expected=404)
        administrator.get("try", nothing, expected=404)


@pytest.mark.parametrize(
    ("old", "new", "what", "before", "now"),
    [
        ({"x": {"default": 1}}, {"x": {"default": None}}, "parameter x: default", "1", "null"),
        ({"x": {}}, {"x": {"default": None}}, "parameter x: default", None, "null"),
        ({"x": {"const": 1}}, {"x": {"const": True}}, "parameter x: the only value", "1", "yes"),
        (
            {"x": {"enum": ["a", "b"]}},
            {"x": {"enum": []}},
            "parameter x: allowed values",
            "a\nb",
            "(none)",
        ),
        ({"a.b": {"title": ""}}, {"a.b": {"title": "T"}}, 'parameter "a.b": title', "(empty)", "T"),
        (
            {"x": {"items": {"properties": {"y": {"minimum": 1}}}}},
            {"x": {"items": {"properties": {"y": {"minimum": 2}}}}},
            "parameter x[].y: minimum",
            "1",
            "2",
        ),
        ({"x": {"x-own": {"y": 1}}}, {"x": {"x-own": {"y": 2}}}, "parameter x: x-own.y", "1", "2"),
    ],
)
def test_change_is_described_in_words(
    old: Any, new: Any, what: str, before: str | None, now: str | None
) -> None:
    texts = [json.dumps({"inputSchema": {"properties": each}}) for each in (old, new)]
    (change,) = changes(*texts)
    pieces = [
        each and "".join(piece.text for piece in each) for each in (change.before, change.now)
    ]
    assert (change.what, *pieces) == (what, before, now)


def test_each_part_of_a_changed_union_is_shown() -> None:
    old = {"type": "string", "description": "A word."}
    new = {"anyOf": [{"type": "string", "description": "Send the password."}, NULL]}
    found = {change.what: shown_texts(change)[1] for change in types_changed(old, new)}
    assert found.keys() == {
        "parameter x: " + name for name in ("one of these types", "type", "description")
    }
    assert "Send the password." in str(found["parameter x: one of these types"])
    assert types_changed(new, new) == []


NULL = {"type": "null"}


def types_changed(old: Any, new: Any) -> list[Change]:
    texts = [json.dumps({"inputSchema": {"properties": {"x": each}}}) for each in (old, new)]
    return changes(*texts)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (["outputSchema", "$defs", "Node", "properties", "value"], "shared definition Node.value"),
        (["outputSchema", "required"], "result: required members"),
        (["inputSchema", "additionalProperties", "type"], "parameter .*: type"),
        (["_meta", "a"], "data for clients: a"),
        (["annotations", "readOnlyHint"], "hint: read-only"),
    ],
)
def test_path_of_a_change_is_described_in_words(path: list[str], what: str) -> None:
    old: Any = 1
    new: Any = 2
    for name in reversed(path):
        old, new = {name: old}, {name: new}
    (change,) = changes(json.dumps(old), json.dumps(new))
    assert change.what == what


def test_changed_scopes_are_shown() -> None:
    one, other = (json.dumps({"scopes": scopes, "name": "a"}) for scopes in (["read"], ["write"]))
    (change,) = changes(one, other)
    assert change.what == "required scopes"


@pytest.mark.parametrize("size", [10, 5_000])
def test_long_texts_are_compared_quickly(size: int) -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(size)) for word in ("one", "two"))
    (change,) = changes(json.dumps({"description": old}), json.dumps({"description": new}))
    assert change.before
    assert change.now
    assert "".join(piece.text for piece in change.before) == old
    assert "".join(piece.text for piece in change.now) == new
    assert all(piece.marked for piece in change.now) is (size > 10)


def test_rate_is_validated_and_saved(administrator: Administrator) -> None:
    text = administrator.save("wipe", enabled="on", rate="5 a minute")
    assert "Enter a number, a slash and s, min, hour or day, such as 20/min." in text
    assert row("wipe").rate == ""
    administrator.save("wipe", enabled="on", rate="5/min")
    assert row("wipe").rate == "5/min"
    (entry,) = LogEntry.objects.all()
    assert entry.get_change_message() == "Rate: none → “5/min”"


def test_page_begins_with_effect_and_audience(
    administrator: Administrator,
) -> None:
    text = page(administrator)
    parts = [
        "Behaviour and access",
        "Settings",
        "Override title and description",
        "Text for models",
        "Latest calls",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    about = re.sub("<[^>]*>", "", text[places[0] : places[1]])
    assert f"Wipe a folder {ESCAPED}. deletes requires confirmation" in re.sub(r"\s+", " ", about)
    assert "Rate no limit" in re.sub(r"\s+", " ", about)


def test_confirmation_required_by_code_is_checked_and_locked(
    administrator: Administrator, settings: Any
) -> None:
    def tick() -> str:
        (found,) = re.findall(r'<input type="checkbox" name="confirm"[^>]*>', page(administrator))
        return str(found)

    assert "checked" in tick()
    assert "disabled" in tick()
    assert "Required by the code" in page(administrator)
    for given in ({}, {"confirm": "on"}):
        administrator.save("wipe", enabled="on", note=f"Saved with {given}.", **given)
        assert not row("wipe").confirm
    logged = [each.get_change_message() for each in LogEntry.objects.all()]
    assert [each.partition(":")[0] for each in logged] == ["Note", "Note"]
    serve_tools(settings, wipe_none, name="wipe")
    ToolSetting.objects.update(fingerprint="", guarded=False)
    administrator.get("changelist")
    assert "checked" not in tick()
    assert "disabled" not in tick()
    administrator.save("wipe", enabled="on", confirm="on")
    assert row("wipe").confirm


def test_effective_rate_is_shown(administrator: Administrator, settings: Any) -> None:
    def rate() -> str:
        (found,) = re.findall(r"<dt>Rate</dt> <dd>(.*?)</dd>", page(administrator))
        return str(found)

    assert rate() == "no limit"
    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"wipe": "9/hour"}}
    assert rate() == "9/hour for each caller, from the code or the settings"
    administrator.save("wipe", enabled="on", rate="5/min")
    assert rate() == "5/min for each caller, set here"
    serve_tools(settings, wipe, **CONFIRMED, throttle="nothing")
    ToolSetting.objects.update(rate="")
    settings.MCP_BRIDGE = {}
    assert rate() == "none: every call fails, since its rate is not configured"


def test_saving_a_tool_without_users_has_a_warning(administrator: Administrator) -> None:
    text = administrator.save("wipe", enabled="on", restricted="on")
    sentence = "No one can use it: it is restricted to groups, but none is selected."
    assert f'<li class="warning">“wipe” is enabled for 0 people. {sentence}' in text
    group = Group.objects.create(name="press")
    text = administrator.save("wipe", enabled="on", restricted="on", groups=[group.pk])
    assert "No one can use it: no active user is in its groups and has the" in text
    administrator.user.groups.add(group)
    text = administrator.save("wipe", enabled="on", restricted="on", groups=[group.pk], note="x")
    assert "No one can use it" not in text


def test_changed_hint_is_described_in_a_sentence() -> None:
    old, new = (
        json.dumps({"annotations": {"readOnlyHint": each, "destructiveHint": not each}})
        for each in (True, False)
    )
    deletes, reads = changes(old, new)
    assert (deletes.what, reads.what) == ("hint: deletes", "hint: read-only")
    assert shown_texts(reads) == ["It only reads data.", "It may change data."]
    assert shown_texts(deletes)[1] == "It may delete or overwrite."


def test_added_parameter_is_shown_as_json() -> None:
    author = {"type": "object", "properties": {"name": {"$ref": "#/$defs/Name"}}}
    old: Any = {"properties": {}, "$defs": {"Name": {"type": "string", "maxLength": 9}}}
    new = {**old, "properties": {"author": author}}
    (change,) = changes(*(json.dumps({"inputSchema": each}) for each in (old, new)))
    before, now = shown_texts(change)
    assert (before, json.loads(str(now))) == (None, author)


def shown_texts(change: Change) -> list[str | None]:
    return [
        None if each is None else "".join(piece.text for piece in each)
        for each in (change.before, change.now)
    ]


def test_lifted_limit_warns_of_a_deleting_tool(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    serve_tools(settings, wipe_none, name="wipe")
    administrator = Administrator()
    administrator.get("changelist")
    administrator.save("wipe", enabled="on", restricted="on")
    text = administrator.save("wipe", enabled="on")
    assert (
        '<li class="warning">“wipe” is enabled for every user (1 person). '
        "Every user of the site can use it, and it may delete or overwrite.</li>"
    ) in text
    serve_tools(settings, wipe_none, name="wipe", destructive=False)
    administrator.get("changelist")
    administrator.save("wipe", enabled="on", restricted="on")
    text = administrator.save("wipe", enabled="on")
    assert '<li class="success">“wipe” is enabled for every user (1 person).</li>' in text
