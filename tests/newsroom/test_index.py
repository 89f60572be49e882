"""The first page of the newsroom, for people who have only its address."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client


@pytest.mark.parametrize("urls", ["testproject.urls", "testproject.authorization_urls"])
def test_first_page_links_to_all_interfaces(urls: str, settings: Any) -> None:
    settings.ROOT_URLCONF = urls
    response = Client().get("/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "claude mcp add --transport http newsroom http://testserver/mcp" in page
    links = re.findall(r'<a href="([^"]+)">', page)
    assert links == ["/admin/", "/mcp", "/mcp/tokens/"]
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("visitor"))
    assert [browser.get(each).status_code for each in links] == [200, 405, 200]
