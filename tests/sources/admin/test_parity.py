"""The tools of an admin do what its pages do for a browser, for each user, model and act."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.urls import reverse

from mcp_bridge.testing import MCPError
from testproject.newsroom.models import Article, Author, Comment, Media, Section
from tests.sources.admin.browser import Browser, enter
from tests.sources.admin.world import Outcome, World, call, observe, serve, value

USERS = ("author", "viewer", "adder", "editor", "admin", "root")
# For each model: valid changes, and invalid ones.
CHANGES: dict[Any, tuple[dict[str, Any], ...]] = {
    Section: (
        {"name": "World", "slug": "world", "description": "<i>All</i> & more"},
        {"name": "Sport"},
        {"slug": "not a slug"},
        {"description": None},
    ),
    Author: ({"byline": "Zoë Ångström", "bio": "Two\nlines"}, {"byline": ""}, {"user": 999}),
    Article: (
        {"title": "Ebb & flow", "tags": {"a": [1, None]}, "summary": "S"},
        {"body": "  spaces  \n\n kept? ", "section": 2},
        {"section": 999, "slug": "Ümlaut!"},
        {"tags": [], "summary": None},
    ),
    Media: ({"title": "Dawn", "article": None}, {"article": 999}),
    Comment: ({"text": "Better", "hidden": True}, {"hidden": False}, {"article": 999}),
}
VALID_NEW: dict[Any, dict[str, Any]] = {
    Section: {"name": "Culture", "slug": "culture"},
    Author: {"user": 1, "byline": "New Byline"},
    Article: {"title": "A", "slug": "a", "section": 1, "author": 1, "body": "B"},
    Comment: {"article": 1, "user": 1, "text": "Hi", "hidden": True},
}


@pytest.fixture
def world(settings: Any) -> World:
    serve(settings)
    return World.make()


def page(model: Any, view: str, *row: Any) -> str:
    return reverse(f"admin:newsroom_{model._meta.model_name}_{view}", args=row)


def tool(model: Any, act: str) -> str:
    return f"newsroom_{model._meta.model_name}_{act}"


def row_of(model: Any) -> Any:
    return model.objects.order_by("pk").first().pk


def in_browser(world: World, name: str, path: str, values: dict[str, Any]) -> Outcome:
    """Return what a browser comes to that submits values, or that is refused the page."""
    browser = Browser(world.users[name])

    def act() -> tuple[bool, list[str]]:
        if browser.client.get(path).status_code != 200:
            return False, []
        form = browser.form(path)
        if not values.keys() <= {re.sub("_[01]$", "", each) for each in form.kinds}:
            # The page shows them read-only.
            return False, []
        response = browser.submit(path, values)
        return response.status_code == 302, errors_of(response)

    return observe(act)


def errors_of(response: Any) -> list[str]:
    """Return the errors that a page shows."""
    if response.status_code != 200:
        return []
    data = response.context_data
    forms = [data["adminform"].form]
    forms += [form for inline in data["inline_admin_formsets"] for form in inline.formset.forms]
    found = [str(text) for form in forms for texts in form.errors.values() for text in texts]
    return found + [
        str(text)
        for inline in data["inline_admin_formsets"]
        for text in inline.formset.non_form_errors()
    ]


def by_tool(world: World, user: str, tool: str, /, **arguments: Any) -> Outcome:
    def act() -> tuple[bool, list[str]]:
        try:
            return call(world.client(user), tool, **arguments)
        except MCPError:
            return False, []

    return observe(act)


def assert_same(tool: Outcome, browser: Outcome) -> None:
    assert (tool.saved, tool.rows, tool.log, tool.signals) == (
        *(browser.saved, browser.rows, browser.log, browser.signals),
    )
    # The tool's schema refuses some values before the form does.
    for text in browser.errors if tool.of_form else ():
        assert any(text in line for line in tool.errors), (text, tool.errors)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("model", CHANGES)
def test_change_equals_the_page(world: World, name: str, model: Any) -> None:
    row = row_of(model)
    for values in CHANGES[model]:
        path = page(model, "change", row)
        expected = in_browser(world, name, path, values)
        assert_same(by_tool(world, name, tool(model, "change"), id=row, **values), expected)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("model", VALID_NEW)
def test_add_equals_the_page(world: World, name: str, model: Any) -> None:
    valid = VALID_NEW[model]
    for values in (valid, {**valid, **CHANGES[model][-1]}):
        expected = in_browser(world, name, page(model, "add"), values)
        assert_same(by_tool(world, name, tool(model, "add"), **values), expected)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("model", CHANGES)
def test_delete_equals_the_page(world: World, name: str, model: Any) -> None:
    for row in model.objects.values_list("pk", flat=True):
        path, browser = page(model, "delete", row), Browser(world.users[name])

        def act(browser: Browser = browser, path: str = path) -> tuple[bool, list[str]]:
            if browser.client.get(path).status_code != 200:
                return False, []
            return browser.send(path, [("post", "yes")]).status_code == 302, []

        expected = observe(act)
        assert_same(by_tool(world, name, tool(model, "delete"), id=row), expected)


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize(
    ("model", "action"),
    [(Article, "submit"), (Article, "publish"), (Article, "unpublish"), (Comment, "hide")],
)
def test_action_equals_the_page(world: World, name: str, model: Any, action: str) -> None:
    rows = [*model.objects.values_list("pk", flat=True)]
    path, browser = page(model, "changelist"), Browser(world.users[name])
    pairs = [("action", action), ("index", "0"), ("select_across", "0")]
    pairs += [("_selected_action", str(row)) for row in rows]

    def act() -> tuple[bool, list[str]]:
        loaded = browser.client.get(path)
        if loaded.status_code != 200 or f'value="{action}"' not in loaded.content.decode():
            return False, []
        return browser.send(path, pairs).status_code == 302, []

    assert_same(by_tool(world, name, tool(model, action), ids=rows), observe(act))


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("model", CHANGES)
def test_find_equals_the_page(world: World, name: str, model: Any) -> None:
    browser = Browser(world.users[name])
    for values, query in (({}, ""), ({"search": "har"}, "?q=har"), ({"page": 1}, "?p=1")):
        response = browser.client.get(page(model, "changelist") + query)
        try:
            found = value(world.client(name), tool(model, "find"), **values)
        except MCPError:
            assert response.status_code in (302, 403)
            continue
        shown = response.context_data["cl"]
        assert [each["id"] for each in found["rows"]] == [row.pk for row in shown.result_list]
        assert found["count"] == shown.result_count


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("model", CHANGES)
def test_get_equals_the_page(world: World, name: str, model: Any) -> None:
    row, browser = row_of(model), Browser(world.users[name])
    response = browser.client.get(page(model, "change", row))
    try:
        found = value(world.client(name), tool(model, "get"), id=row)
    except MCPError:
        assert response.status_code in (302, 403)
        return
    # All that was read can be sent back, and changes nothing.
    form = browser.form(page(model, "change", row))
    before = sorted(form.pairs)
    for name, each in found["fields"].items():
        if name not in ("comments", "csrfmiddlewaretoken"):
            enter(form, name, each if name != "tags" else json.dumps(each))
    assert sorted(form.pairs) == before
