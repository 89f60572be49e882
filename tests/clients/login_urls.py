"""The addresses of a newsroom in which clients can log in, as a site under ASGI has them."""

from __future__ import annotations

from testproject.authorization_urls import login_urls
from tests.clients import urls

urlpatterns = [*login_urls, *urls.urlpatterns]
