"""The addresses of the newsroom, asynchronous if its server is."""

from __future__ import annotations

from django.urls import path

from testproject.newsroom.procedures import server
from testproject.urls import pages
from tests.hostile.urls import urlpatterns as endpoint

urlpatterns = [*pages, path("rpc", server.view), *endpoint]
