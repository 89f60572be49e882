"""Trying a tool in the admin, and previewing the tools as another user."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from django.contrib.auth import get_user_model
from pydantic import BeforeValidator

from mcp_bridge import Context, ToolError
from mcp_bridge.models import ToolCallRecord, ToolSetting
from tests.support.administrator import VIEW, Administrator, row, serve_tools
from tests.support.page import Page

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
CALLS: list[Any] = []


def shout(context: Context, word: str, times: int = 1) -> str:
    """Shout a word."""
    CALLS.append((context.user.get_username(), word, times))
    if times > 3:
        raise ToolError(f"Too loud: {word}")
    return f"{word}!" * times


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    ToolSetting.objects.all().delete()


def opened(settings: Any, **options: Any) -> Administrator:
    serve_tools(settings, shout, **options)
    administrator = Administrator()
    administrator.get("changelist")
    return administrator


def attempt(administrator: Administrator, **data: Any) -> str:
    sent = {f"arguments-{name}" if name[0] != "_" else name: data[name] for name in data}
    return administrator.post("try", row("shout").pk, **sent)


def test_trial_calls_the_tool_as_the_current_user(settings: Any) -> None:
    administrator = opened(settings)
    text = administrator.get("try", row("shout").pk)
    assert "The call runs as you, administrator" in text
    administrator.get("try", row("shout").pk, **{"arguments-word": "a", "_confirmed": "1"})
    assert CALLS == []
    text = attempt(administrator, word=MARKER, times="2")
    assert CALLS == [("administrator", MARKER, 2)]
    assert f"{ESCAPED}!{ESCAPED}!" in text
    assert MARKER not in text


def test_view_permission_is_enough_for_a_trial(settings: Any) -> None:
    opened(settings)
    attempt(Administrator(VIEW, username="reader"), word="a")
    assert CALLS == [("reader", "a", 1)]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"word": MARKER, "times": "9"}, f"Too loud: {ESCAPED}"),
        ({"word": "a", "times": "9.5"}, "integer"),
        ({"word": "a", "times": MARKER}, "This is not a number."),
    ],
)
def test_failure_is_explained(settings: Any, data: dict[str, str], answer: str) -> None:
    text = attempt(opened(settings), **data)
    assert answer in text
    assert MARKER not in text


@pytest.mark.parametrize("options", [{}, {"destructive": True}])
@pytest.mark.parametrize(
    ("data", "field", "error"),
    [
        ({"word": ""}, "word", "is required and was not sent"),
        ({"word": "", "times": "x"}, "times", "This is not a number."),
        ({"word": "a", "times": "2.5"}, "times", "integer"),
    ],
)
def test_invalid_value_is_an_error_at_its_field(
    settings: Any, options: dict[str, Any], data: dict[str, str], field: str, error: str
) -> None:
    text = attempt(opened(settings, **options), **data)
    page = Page(text)
    (invalid,) = [each for each in page.all("input", "textarea") if "aria-invalid" in each]
    assert invalid["name"] == f"arguments-{field}"
    assert "autofocus" in invalid
    described = invalid["aria-describedby"].split()
    assert f"id_arguments-{field}_error" in described
    (list_of_errors,) = re.findall(rf'id="id_arguments-{field}_error">(.*?)</ul>', text, re.DOTALL)
    assert error in list_of_errors
    assert "<title>Error: " in text
    assert "with these arguments?" not in text
    assert 'id="mcp-result"' not in text
    assert (CALLS, ToolCallRecord.objects.count()) == ([], 0)


def fail(value: object) -> int:
    raise LookupError("No such table.")


def count(number: Annotated[int, BeforeValidator(fail)]) -> int:
    """Count."""
    return number


def test_exception_of_a_check_is_reported_by_the_call(settings: Any) -> None:
    serve_tools(settings, count)
    administrator = Administrator()
    administrator.get("changelist")
    text = administrator.post("try", row("count").pk, **{"arguments-number": "1"})
    assert "The call returned an error." in text
    assert ToolCallRecord.objects.count() == 1


def find_people(name: str) -> list[dict[str, Any]]:
    """Find people."""
    return [{"name": name, "age": 5 + number, "is <b>": None} for number in range(2)]


def test_list_of_flat_objects_is_a_table(settings: Any) -> None:
    serve_tools(settings, find_people)
    administrator = Administrator()
    administrator.get("changelist")
    data = {"arguments-name": MARKER}
    text = administrator.post("try", row("find_people").pk, **data)
    table = text.partition('id="mcp-result"')[2]
    columns = re.findall(r'<th scope="col">(.*?)</th>', table.partition("</thead>")[0])
    assert columns == ["name", "age", "is &lt;b&gt;"]
    assert re.findall("<td>(.*?)</td>", table.partition("</tbody>")[0]) == [
        ESCAPED,
        "5",
        "",
        ESCAPED,
        "6",
        "",
    ]
    # The JSON is folded below the table, and not repeated as text.
    after = table.partition("</table>")[2]
    assert after.index("<details>") < after.index("Result as JSON") < after.index("<pre>")
    assert text.count("&quot;age&quot;: 5") == 1


@pytest.mark.parametrize(
    ("options", "is_red"),
    [({"destructive": True}, True), ({"destructive": False, "confirm": True}, False)],
)
def test_button_is_red_for_what_destroys(
    settings: Any, options: dict[str, Any], is_red: bool
) -> None:
    administrator = opened(settings, **options)
    for page in (administrator.get("try", row("shout").pk), attempt(administrator, word="a")):
        assert ("mcp-danger" in page) is is_red


@pytest.mark.parametrize("options", [{"destructive": True}, {"confirm": True}])
def test_destructive_tool_requires_confirmation(settings: Any, options: dict[str, Any]) -> None:
    administrator = opened(settings, **options)
    text = attempt(administrator, word=f'{MARKER}"\n', times="")
    assert "Run shout with these arguments?" in text
    assert f"&quot;word&quot;: &quot;{ESCAPED}\\&quot;\\n&quot;" in text
    assert f'name="arguments-word" value="{ESCAPED}&quot;\n"' in text
    assert "times&quot;" not in text
    assert CALLS == []
    text = attempt(administrator, word=MARKER, _edit="1")
    assert f"{ESCAPED}</textarea>" in text
    assert CALLS == []
    assert "Result" in attempt(administrator, word="a", _confirmed="1")
    assert CALLS == [("administrator", "a", 1)]


def test_disabled_tool_cannot_be_tried(settings: Any) -> None:
    administrator = opened(settings)
    ToolSetting.objects.update(enabled=False)
    text = administrator.get("try", row("shout").pk)
    assert "It cannot be tried" in text
    assert "<form method" not in text.partition("content-main")[2]
    assert "It cannot be tried" in attempt(administrator, word="a")
    assert CALLS == []


def test_forbidden_tool_is_refused(settings: Any) -> None:
    opened(settings, permissions="auth.add_user")
    text = attempt(Administrator(VIEW, username="reader"), word="a")
    assert "Unknown tool: shout. It may be disabled" in text
    assert CALLS == []


def test_trial_requires_a_csrf_token(settings: Any) -> None:
    administrator = opened(settings)
    administrator.browser.handler.enforce_csrf_checks = True
    administrator.post("try", row("shout").pk, **{"arguments-word": "a"}, expected=403)
    assert CALLS == []


def test_tools_are_previewed_as_another_user(settings: Any) -> None:
    administrator = opened(settings, permissions="auth.add_user", title=MARKER)
    users = get_user_model().objects
    ada, adam = users.create_user("ada"), users.create_user("adam", is_active=False)
    text = administrator.get("sees", q="ADA")
    assert f'href="?user={ada.pk}"' in text
    assert f'href="?user={adam.pk}"' in text
    assert "ada sees 0 tools" in administrator.get("sees", user=ada.pk)
    assert "This user is not active." in administrator.get("sees", q="adam")
    text = administrator.get("sees", user=administrator.user.pk)
    assert "administrator sees 1 tool" in text
    assert f"toolsetting/{row('shout').pk}/change/" in text
    assert ESCAPED in text
    assert MARKER not in text
    assert "No matching users or groups." in administrator.get("sees", q="nobody")
    for key in ("0", "x", MARKER):
        assert " sees " not in administrator.get("sees", user=key).partition("content-main")[2]


def test_preview_requires_the_permission_to_view_users(settings: Any) -> None:
    opened(settings)
    ada = get_user_model().objects.create_user("ada")
    for name, codenames, status in (
        ("a", [VIEW], 403),
        ("b", ["view_user"], 403),
        ("c", [VIEW, "view_user"], 200),
        ("d", [VIEW, "change_user"], 200),
    ):
        Administrator(*codenames, username=name).get("sees", expected=status, user=ada.pk)


def test_long_lists_of_users_are_truncated(settings: Any) -> None:
    administrator = opened(settings)
    users = get_user_model().objects
    users.bulk_create(users.model(username=f"user{number:02}") for number in range(25))
    assert "More matches exist" in administrator.get("sees", q="user")
    text = administrator.get("change", row("shout").pk)
    assert "every user (26 people)" in text
    assert text.count("sees/?user=") == 20
    assert "and more" in text
