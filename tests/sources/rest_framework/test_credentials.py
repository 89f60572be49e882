"""Views that issue and revoke credentials, on a site with django-rest-knox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import run_python

SITE = """
import json, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error")
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF="site_urls",
    USE_TZ=True,
    INSTALLED_APPS=[
        *("django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"),
        *("rest_framework", "knox", "mcp_bridge", "mcp_bridge.tokens"),
    ],
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": ["knox.auth.TokenAuthentication"]},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    MIDDLEWARE=[],
    ALLOWED_HOSTS=["testserver"],
)
import django
django.setup()
from django.core.management import call_command
from django.test import override_settings

DRF = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"

def bridge(**options):
    source = {"BACKEND": DRF, "OPTIONS": options}
    kinds = ["mcp_bridge.tokens.authentication.TokenAuthentication",
             "knox.auth.TokenAuthentication"]
    return override_settings(MCP_BRIDGE={"SOURCES": {"drf": source},
                                         "AUTHENTICATION_CLASSES": kinds})

told = {}
with bridge():
    # Described before its tables are there: a warning, and tried again.
    from mcp_bridge.registry.registry import registry
    told["before"] = [
        (type(each).__mro__[1].__name__, each.id)
        for each in registry.discovered.messages
        if "database" in str(each.msg)
    ]
    call_command("migrate", verbosity=0)
    registry.reload()
    told["after"] = sorted(registry.discovered.tools)

from django.contrib.auth import get_user_model
from knox.models import AuthToken
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.tokens.models import Token

user = get_user_model().objects.create_superuser("root")
with bridge(expose="all"):
    told["candidates"] = sorted(registry.discovered.candidates)
    told["errors"] = {}
    for name, candidate in registry.discovered.candidates.items():
        try:
            registry.build(candidate)
        except Exception as error:
            told["errors"][name] = str(error)

with bridge(views={"*": {}, "site_urls.login": {}, "knox_login": {}}):
    told["by pattern"] = sorted(registry.discovered.tools)
    told["left out"] = [str(each.msg) for each in registry.discovered.messages
                        if each.id == "mcp_bridge.W071"]

with bridge(views={"knox_logout": {}, "knox_logoutall": {}}):
    ours, key = Token.objects.issue(user=user, name="ours")
    client = MCPClient()
    client.headers["Authorization"] = f"Bearer {key}"
    told["ours"] = text_of(client.call_tool("knox_logout"))
    told["ours left"] = Token.objects.filter(pk=ours.pk).exists()
    theirs, key = AuthToken.objects.create(user)
    client.headers["Authorization"] = f"Token {key}"
    told["theirs"] = text_of(client.call_tool("knox_logout"))
    told["theirs left"] = AuthToken.objects.filter(pk=theirs.pk).exists()
print(json.dumps(told))
"""
URLS = """
from django.contrib.auth import get_user_model
from django.urls import include, path
from knox.views import LoginView
from rest_framework import serializers, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from mcp_bridge import mcp_tool, mcp_toolset


class OwnLogin(LoginView):
    pass


class Key(serializers.Serializer):
    api_key = serializers.CharField(read_only=True)


class UserSerializer(serializers.ModelSerializer):
    class Meta:
        model = get_user_model()
        fields = ["id", "username"]


class Nested(serializers.Serializer):
    key = Key(read_only=True)


@mcp_toolset(actions=["list"])
class UserView(viewsets.ModelViewSet):
    queryset = get_user_model().objects.all()

    def get_serializer_class(self):
        list(get_user_model().objects.all())
        return UserSerializer

    @action(detail=False)
    def plain(self, request):
        "Say it."
        return Response({})


class NestedView(viewsets.ViewSet):
    serializer_class = Nested

    def list(self, request):
        return Response({})


@api_view(["POST"])
def change_password(request):
    return Response({})


@api_view(["POST"])
def login(request):
    return Response({})


router = SimpleRouter()
router.register("users", UserView, basename="user")
router.register("nested", NestedView, basename="nested")
urlpatterns = [
    path("knox/", include("knox.urls")),
    path("own/", OwnLogin.as_view(), name="own_entry"),
    path("password/", change_password, name="change_password"),
    path("login/", login, name="enter"),
    path("", include(router.urls)),
    path("", include("mcp_bridge.urls")),
]
"""


@pytest.mark.alone
def test_credential_views_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "site_urls.py").write_text(URLS)
    told = json.loads(run_python("-c", SITE, str(tmp_path)))
    assert told["before"] == [["Warning", "mcp_bridge.W019"]]
    assert told["after"] == ["user_list"]
    # Not those of knox, subclasses of those, or views named after passwords or login.
    assert told["candidates"] == [
        *("nested_list", "user_create", "user_destroy", "user_partial_update", "user_plain"),
        *("user_retrieve", "user_update"),
    ]
    # Nested serializers are only known when a candidate is built.
    assert told["errors"].keys() == {"nested_list"}
    assert all("secret" in text for text in told["errors"].values())
    # A pattern does not select them either; a line with the exact name does.
    assert told["by pattern"] == [
        *("enter", "knox_login", "nested_list", "user_create", "user_destroy", "user_list"),
        *("user_partial_update", "user_plain", "user_retrieve", "user_update"),
    ]
    (text,) = told["left out"]
    assert "'*' skips 4 operations that handle credentials, such as knox.views." in text
    assert told["ours left"]
    assert told["theirs left"]
    assert "the site's log says why" in told["ours"]
    assert "the site's log says why" in told["theirs"]
