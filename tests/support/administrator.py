"""An administrator at the pages of the tools."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.http import HttpResponse
from django.test import Client
from django.urls import path, reverse

from mcp_bridge.models import ToolSetting
from mcp_bridge.testing.serving import serve

VIEW, CHANGE = "view_toolsetting", "change_toolsetting"


def serve_tools(settings: Any, *functions: Any, **options: Any) -> None:
    """Serve the functions as tools, as mcp_bridge.testing.serving does, beside the admin."""
    serve(settings, *functions, **options)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("admin/", admin.site.urls))


class Administrator:
    """
    Return the browser of a staff user with these permissions; without any, of a superuser.

    Every page must answer 200, unless another status is given.
    """

    def __init__(self, *codenames: str, username: str = "administrator") -> None:
        users = get_user_model().objects
        if codenames:
            self.user = users.create_user(username, is_staff=True)
            wanted = Permission.objects.filter(codename__in=codenames)
            assert len(wanted) == len(codenames)
            self.user.user_permissions.set(wanted)
        else:
            self.user = users.create_superuser(username)
        self.browser = Client()
        self.browser.force_login(self.user)

    def get(self, page: str, *args: Any, expected: int = 200, **query: Any) -> str:
        return self._text(self.browser.get(address(page, *args), query), expected)

    def post(self, page: str, *args: Any, expected: int = 200, **data: Any) -> str:
        return self._text(self.browser.post(address(page, *args), data, follow=True), expected)

    def _text(self, response: Any, expected: int) -> str:
        self.response: HttpResponse = response
        assert response.status_code == expected, response.status_code
        return str(response.content.decode())

    def save(self, name: str, *, expected: int = 200, **values: Any) -> str:
        """Save a tool's page with these values; a checkbox that is not named is cleared."""
        values = {"_revision": self.shown("change", row(name).pk), **values}
        return self.post("change", row(name).pk, expected=expected, _save="Save", **values)

    def shown(self, page: str, *args: Any) -> str:
        """Return the revision that a page must be sent with, to be saved."""
        return shown_by(self.browser, address(page, *args))

    def act(self, action: str, *names: str, expected: int = 200) -> str:
        chosen = [row(name).pk for name in names]
        return self.post("changelist", action=action, _selected_action=chosen, expected=expected)

    def tick(self, **enabled: bool) -> str:
        """Save the list after some checkboxes were ticked or cleared."""
        rows = list(ToolSetting.objects.order_by("name"))
        data: dict[str, Any] = {"_save": "Save"}
        data |= {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows)}
        for number, each in enumerate(rows):
            data |= {f"form-{number}-id": each.pk, f"initial-form-{number}-enabled": each.enabled}
            if enabled.get(each.name, each.enabled):
                data[f"form-{number}-enabled"] = "on"
        return self.post("changelist", **data)


def shown_by(browser: Client, path: str) -> str:
    """Return the revision that the form of a page is sent with; empty if it has none."""
    text = browser.get(path).content.decode()
    return "".join(re.findall(r'<input type="hidden" name="_revision" value="([^"]*)">', text))


def address(page: str, *args: Any) -> str:
    return reverse(f"admin:mcp_bridge_toolsetting_{page}", args=args)


def row(name: str) -> ToolSetting:
    return ToolSetting.objects.get(name=name)
