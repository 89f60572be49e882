"""The newsroom's pages, and those that a theme adds."""

from __future__ import annotations

from django.apps import apps
from django.urls import include, path

from testproject.urls import urlpatterns as newsroom

urlpatterns = list(newsroom)
if apps.is_installed("grappelli"):
    urlpatterns.insert(0, path("grappelli/", include("grappelli.urls")))
