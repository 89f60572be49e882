"""
Compare the tools of every ModelAdmin of a site with its pages, for five users and every act.

Run by ``manage.py shell`` inside a site, beside a copy of tests/sources/admin/browser.py. All calls
are undone. Prints its counts; exits with 1 if a tool and a page differ.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from datetime import datetime, timedelta

from browser import Browser, enter
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core import serializers
from django.db import transaction
from django.db.models import signals
from django.test import override_settings
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError

SOURCE = {"BACKEND": "mcp_bridge.sources.admin.AdminSource", "OPTIONS": {"operations": ["*"]}}
BRIDGE = {"SOURCES": {"admin": SOURCE}, "PAGE_SIZE": 10_000, "AUDIT": {"MODE": "off"}}
ACTS = ("find", "get", "add", "change", "delete", "history")
# The name of the client in the log, which no page writes.
SIGNED = re.compile(
    r', \{"(changed|added)": \{("name": "by", "object": |"fields": \["by )[^}]*\}\}'
)
TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The random keys of the rows that were there before.
KNOWN = set()
# The last error of a tool, for messages.
SAID = []
OWN_PAGE = "another page than usual"
VALUES = {"date": "2026-02-03", "date-time": "2026-02-03T04:05:06Z", "time": "04:05:06"}
VALUES |= {"email": "someone@example.org", "uri": "https://example.org/"}
SIGNALS = (signals.pre_save, signals.post_save, signals.pre_delete, signals.post_delete)


def observed(act):
    """Return whether an act succeeded, the rows after it, its log entries and its signals."""
    sent = []

    def hear(sender, signal, **others):
        if sender is not LogEntry and not sender.__module__.startswith("mcp_bridge"):
            sent.append((SIGNALS.index(signal), sender._meta.label))

    with transaction.atomic():
        before = LogEntry.objects.count()
        for each in SIGNALS:
            each.connect(hear)
        try:
            succeeded = act()
        finally:
            for each in SIGNALS:
                each.disconnect(hear)
        log = [
            (it.user_id, it.object_repr, it.action_flag, unsigned(it.change_message))
            for it in LogEntry.objects.order_by("pk")[before:]
        ]
        found = succeeded, rows(), log, sent
        transaction.set_rollback(True)
    return found


def unsigned(message):
    return re.sub(r" ?\(by mcp_bridge.testing\)", "", SIGNED.sub("", message))


def rows():
    """Return all rows of the site, without primary keys and times."""
    found = []
    for model in apps.get_models():
        kept = model._meta.managed and not model._meta.proxy
        if kept and model is not LogEntry and not model.__module__.startswith("mcp_bridge"):
            if model._meta.app_label in ("sessions", "contenttypes"):
                continue
            data = serializers.serialize("python", model._base_manager.order_by("pk"))
            found += [f"{model._meta.label} {steady(each['fields'])}" for each in data]
    return sorted(found)


def steady(fields):
    """Return the fields of a row as text, in which the times of this run are all the same."""
    now = timezone.now()
    times = [name for name, each in fields.items() if isinstance(each, datetime)]
    recent = [name for name in times if abs(fields[name] - now) < timedelta(days=1)]
    text = TIME.sub("T", str(fields | dict.fromkeys(recent, "now")))
    return UUID.sub(lambda match: match[0] if match[0] in KNOWN else "new", text)


def value_for(schema):
    """Return a value for an argument, or None if none is tried."""
    for branch in schema.get("anyOf", [schema]):
        if "enum" in branch:
            return branch["enum"][-1]
        kind = branch.get("type")
        if kind == "object":
            # Any JSON, which a person types otherwise.
            return None
        if kind == "string" and branch.get("format") in VALUES:
            return VALUES[branch["format"]]
        if kind == "string" and not branch.keys() & {"format", "pattern"}:
            return "Changed text"[: branch.get("maxLength", 99)]
        if kind in ("integer", "number"):
            return 1
        if kind == "boolean":
            return True
    return None


def called(client, tool, arguments):
    """Return whether a call succeeded, or "broken"; a tool that the user lacks refuses."""
    try:
        result = client.call_tool(tool, arguments)
    except MCPError:
        return False
    if result.get("isError") and "under the reference" in result["content"][0]["text"]:
        return "broken"
    if result.get("isError"):
        SAID[:] = [result["content"][0]["text"]]
    return not result.get("isError")


def outcome(response):
    return "broken" if response.status_code == 500 else response.status_code == 302


class Comparison:
    """One ModelAdmin, by its pages and by its tools, for one user."""

    def __init__(self, model_admin, user, tools, counts):
        self.admin, self.user, self.tools, self.counts = model_admin, user, tools, counts
        meta = model_admin.opts
        self.stem = f"{meta.app_label}_{meta.model_name}"
        self.browser, self.client = Browser(user), MCPClient(user=user)
        self.browser.client.raise_request_exception = False
        self.row = model_admin.model._default_manager.order_by("pk").first()

    def path(self, view, *row):
        try:
            return reverse(f"admin:{self.stem}_{view}", args=[quote(str(each)) for each in row])
        except NoReverseMatch:
            # It is not a tool either.
            return ""

    def compare(self, act, by_page, arguments, about=""):
        tool = f"{self.stem}_{act}"
        if tool not in self.tools:
            self.counts["left out"] += 1
            return
        SAID.clear()
        page, call = observed(by_page), observed(lambda: called(self.client, tool, arguments))
        if page != call and OWN_PAGE in " ".join(SAID):
            # Such as the tree of pages of django CMS.
            self.counts["on pages of its own"] += 1
            return
        if page != call:
            parts = zip(("outcome", "rows", "log", "signals"), page, call, strict=False)
            told = [f"{name}:\n  page {a}\n  tool {b}" for name, a, b in parts if a != b]
            told = [each if len(each) < 1500 else differing(page[1], call[1]) for each in told]
            where = f"{tool} {arguments} {about} as {self.user} (last error: {SAID})"
            sys.exit(f"{where} differs in " + "\n".join(told))
        self.counts[act if act in ACTS else "action"] += 1

    def all(self):
        self.compare("find", lambda: self.opens("changelist"), {})
        self.compare("add", self.adding({}), {})
        if self.row is None:
            return
        key = {"id": str(self.row.pk)}
        self.compare("get", lambda: self.opens("change"), key)
        self.compare("history", lambda: self.opens("history"), key)
        self.compare("change", self.saving({}), key)
        properties = self.tools.get(f"{self.stem}_change", {}).get("properties", {})
        for name, schema in properties.items():
            if name not in ("id", "version") and (given := value_for(schema)) is not None:
                values = {name: given}
                self.compare("change", self.saving(values), {**key, **values})
                self.compare("add", self.adding(values), values)
        request = self.browser.client.get(self.path("changelist")).wsgi_request
        has_permission = self.admin.has_delete_permission
        if has_permission(request) or not has_permission(request, self.row):
            self.compare("delete", self.deleting, key)
        else:
            # Without a row the admin refuses, so that the user lacks this tool.
            self.counts["delete by row"] += 1
        for name in [each for each in self.tools if each.startswith(f"{self.stem}_")]:
            action = name.removeprefix(f"{self.stem}_")
            if action not in ACTS:
                self.compare(action, self.acting(action), {"ids": [str(self.row.pk)]})

    def opens(self, view):
        row = () if view == "changelist" else (self.row.pk,)
        response = self.browser.client.get(self.path(view, *row))
        return "broken" if response.status_code == 500 else response.status_code == 200

    def submitting(self, path, values):
        def act():
            if self.browser.client.get(path).status_code != 200:
                return False
            form = self.browser.form(path)
            names = {re.sub("_([01]|day|month|year)$", "", each) for each in form.kinds}
            # The button is only for users who may change it.
            if not values.keys() <= names or not self.has_button(path):
                return False
            for name, value in values.items():
                enter(form, name, value)
            pairs = [*form.pairs, ("_continue", "1")]
            return outcome(self.browser.send(path, pairs))

        return act

    def has_button(self, path):
        if path == self.path("add"):
            return True
        request = self.browser.client.get(path).wsgi_request
        return self.admin.has_change_permission(request, self.row)

    def saving(self, values):
        return self.submitting(self.path("change", self.row.pk), values)

    def adding(self, values):
        return self.submitting(self.path("add"), values)

    def deleting(self):
        path = self.path("delete", self.row.pk)
        loaded = self.browser.client.get(path)
        data = getattr(loaded, "context_data", None) or {}
        if loaded.status_code != 200 or data.get("protected") or data.get("perms_lacking"):
            return False
        return outcome(self.browser.send(path, [("post", "yes")]))

    def acting(self, action):
        def act():
            path = self.path("changelist")
            loaded = self.browser.client.get(path)
            if loaded.status_code != 200 or f'value="{action}"' not in loaded.content.decode():
                return False
            pairs = [("action", action), ("index", "0"), ("select_across", "0")]
            pairs.append(("_selected_action", str(self.row.pk)))
            response = self.browser.send(path, pairs)
            # An intermediate page is not a result.
            is_file = "html" not in response.headers.get("Content-Type", "html")
            return outcome(response) or (response.status_code == 200 and is_file)

        return act


def differing(page, call):
    one, other = Counter(page), Counter(call)
    return f"rows:\n  page {list(one - other)[:3]}\n  tool {list(other - one)[:3]}"


def users():
    """Yield five users: of all rights, of all permissions, who may look, change, or nothing."""
    kind = get_user_model()
    name = kind.USERNAME_FIELD
    shared = {"is_staff": True, "is_active": True}
    for who, codes in (
        ("root", None),
        ("everything", ""),
        ("looker", "view_"),
        ("changer", "change_"),
        ("outsider", "none"),
    ):
        text = f"{who}@example.org" if name == "email" else who
        user = kind(**{name: text, **shared, "is_superuser": codes is None})
        user.set_password("a-long-password-7")
        user.save()
        if codes is not None:
            found = Permission.objects.filter(codename__startswith=codes)
            user.user_permissions.set(found)
        yield user


def main():
    # Refusals are expected.
    logging.disable(logging.CRITICAL)
    counts, admins = Counter(), 0
    with transaction.atomic(), override_settings(MCP_BRIDGE=BRIDGE, ALLOWED_HOSTS=["*"]):
        registry.forget()
        tools = {each.name: each.input_schema for each in registry.discovered}
        models = [each for each in apps.get_models() if admin.site.is_registered(each)]
        people = list(users())
        KNOWN.update(str(each.pk) for it in models for each in it._base_manager.all())
        for model in models:
            model_admin = admin.site.get_model_admin(model)
            stem = f"{model._meta.app_label}_{model._meta.model_name}_"
            if any(each.startswith(stem) for each in tools):
                admins += 1
                for user in people:
                    Comparison(model_admin, user, tools, counts).all()
        reasons = [str(it.msg) for it in registry.discovered.messages if it.id.endswith("W086")]
        transaction.set_rollback(True)
    if not counts["change"]:
        sys.exit("No row was changed: the site lacks content.")
    print(
        f"{admins} ModelAdmins, 5 users, {sum(counts.values())} acts as on their pages:",
        *(f"{number} {name}" for name, number in sorted(counts.items())),
        sep=" ",
    )
    for reason in reasons:
        print(f"     left out: {reason[:160]}")


main()
