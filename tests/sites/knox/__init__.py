"""A site whose own API is opened by knox, whose tokens the endpoint takes too."""

from __future__ import annotations

from tests.sites import notes
from tests.sites.site import STARTPROJECT, Call, Interface, Site, rest_framework

AUTHENTICATION = ["knox.auth.TokenAuthentication"]

SITE = Site(
    name="knox",
    create=STARTPROJECT,
    own_settings=notes.SETTINGS
    + f"""
INSTALLED_APPS += ["rest_framework", "knox"]
REST_FRAMEWORK = {{
    "DEFAULT_AUTHENTICATION_CLASSES": [
        *{AUTHENTICATION}, "rest_framework.authentication.BasicAuthentication"
    ]
}}
""",
    own_urls=notes.URLS
    + """
from django.urls import include
urlpatterns.append(path("api/auth/", include("knox.urls")))
""",
    apps={"notes": notes.MODELS},
    seed="notes/seed.py",
    procedures=notes.PROCEDURES,
    bridge={"AUTHENTICATION_CLASSES": AUTHENTICATION},
    token_url="/api/auth/login/",
    token_key="token",
    scheme="Token",
    pages=("/notes/", "/admin/jsi18n/"),
    listed=notes.LISTED,
    calls=notes.CALLS,
    publish=notes.PUBLISH,
    interface=Interface(
        sources={
            "drf": rest_framework(
                "knox.views.LoginView", "knox.views.LogoutView", "knox.views.LogoutAllView"
            )
        },
        operations=3,
        # None of its views has a serializer.
        warned=frozenset({"W002", "W072"}),
        # It deletes request.auth, which must not be the token that has called the tool: a user's
        # calls are all made with the same one.
        refused=(Call("admin", "api_knox_logout", {}, "failed"),) * 2,
    ),
)
