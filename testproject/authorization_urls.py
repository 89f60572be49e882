"""The newsroom's addresses, with those of a login and of the authorization server."""

from __future__ import annotations

from django.contrib.auth.views import LoginView
from django.urls import include, path

from testproject import urls
from testproject.newsroom.seeding.users import PASSWORD, USERS

login = LoginView.as_view(
    template_name="newsroom/login.html", extra_context={"users": [*USERS], "password": PASSWORD}
)

login_urls = [path("login/", login, name="login"), path("", include("mcp_bridge.oauth.urls"))]
urlpatterns = [*login_urls, *urls.urlpatterns]
