"""A site whose accounts are djoser's and whose credentials are simplejwt's, here as well."""

from __future__ import annotations

from tests.sites import notes
from tests.sites.site import STARTPROJECT, Interface, Site, rest_framework

AUTHENTICATION = ["rest_framework_simplejwt.authentication.JWTAuthentication"]

SITE = Site(
    name="djoser",
    create=STARTPROJECT,
    own_settings=notes.SETTINGS
    + f"""
INSTALLED_APPS += ["rest_framework", "djoser", "rest_framework_simplejwt"]
REST_FRAMEWORK = {{"DEFAULT_AUTHENTICATION_CLASSES": {AUTHENTICATION}}}
SECRET_KEY = "a key that is long enough for the signature of a token of simplejwt"
""",
    own_urls=notes.URLS
    + """
from django.urls import include
urlpatterns += [path("auth/", include("djoser.urls")), path("auth/", include("djoser.urls.jwt"))]
""",
    apps={"notes": notes.MODELS},
    seed="notes/seed.py",
    procedures=notes.PROCEDURES,
    bridge={"AUTHENTICATION_CLASSES": AUTHENTICATION},
    token_url="/auth/jwt/create/",
    token_key="access",
    pages=("/notes/", "/admin/jsi18n/"),
    listed=notes.LISTED,
    calls=notes.CALLS,
    publish=notes.PUBLISH,
    interface=Interface(
        sources={
            "drf": rest_framework(
                "djoser.views.UserViewSet",
                "rest_framework_simplejwt.views.TokenObtainPairView",
                "rest_framework_simplejwt.views.TokenRefreshView",
                "rest_framework_simplejwt.views.TokenVerifyView",
            )
        },
        operations=21,
        pages=("/auth/users/me/",),
        values={"id": [1, 2, 3, 99]},
        credential="""
from rest_framework_simplejwt.tokens import AccessToken
def credential(user):
    return {"HTTP_AUTHORIZATION": f"Bearer {AccessToken.for_user(user)}"}
""",
    ),
)
