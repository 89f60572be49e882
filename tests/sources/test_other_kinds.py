"""Resources and prompts of the sources other than plain functions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.urls import include, path
from rest_framework.authentication import SessionAuthentication
from rest_framework.filters import BaseFilterBackend
from rest_framework.permissions import BasePermission
from rest_framework.routers import SimpleRouter
from rest_framework.serializers import ModelSerializer
from rest_framework.viewsets import ReadOnlyModelViewSet

from mcp_bridge import mcp_prompt, mcp_resource, mcp_toolset
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.sources.test_functions import MakeApp, app
from tests.support.serving import messages

__all__ = ["app"]

pytestmark = pytest.mark.django_db


class Published(BasePermission):
    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.name != "Secret")


class TeamSerializer(ModelSerializer):
    class Meta:
        model = Group
        fields = ["id", "name"]


@mcp_toolset(public=True)
class TeamViewSet(ReadOnlyModelViewSet):
    """Teams."""

    authentication_classes = []
    permission_classes = [Published]
    queryset = Group.objects.all()
    serializer_class = TeamSerializer

    @mcp_resource("teams://{pk}", expose_as_tool=True)
    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return one team."""
        return super().retrieve(request, *args, **kwargs)


@pytest.fixture
def views(settings: Any) -> None:
    router = SimpleRouter()
    router.register("teams", TeamViewSet)
    route(settings, path("api/", include(router.urls)))
    settings.MCP_BRIDGE = {
        "SOURCES": {"api": {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"}}
    }


@pytest.mark.usefixtures("views")
def test_action_of_a_view_is_a_resource(client: CheckedClient) -> None:
    shown, hidden = (Group.objects.create(name=each) for each in ("Shown", "Secret"))
    (template,) = client.list_all("resources/templates/list", "resourceTemplates")
    assert (template["uriTemplate"], template["description"]) == (
        "teams://{pk}",
        "Return one team.",
    )
    (contents,) = client.read_resource(f"teams://{shown.pk}")
    assert contents["mimeType"] == "application/json"
    assert json.loads(contents["text"]) == {"id": shown.pk, "name": "Shown"}
    for missing in (hidden.pk, 10**6, "x"):
        with pytest.raises(MCPError, match="Resource not found"):
            client.read_resource(f"teams://{missing}")
    (tool,) = client.list_tools()
    assert client.call_tool(tool["name"], {"pk": shown.pk})["isError"] is False


SHOP = """
from mcp_bridge import Context, mcp_prompt, mcp_resource, mcp_tool, mcp_toolset

@mcp_toolset(prefix="shop", public=True)
class Shop:
    def __init__(self, context: Context):
        self.user = context.user

    @mcp_resource("orders://{number}")
    def order(self, number: int) -> dict[str, str]:
        '''Return an order.'''
        return {"number": str(number), "user": str(self.user)}

    @mcp_prompt
    def complain(self, number: int) -> str:
        '''Complain about an order.'''
        return f"Complain about {number}."

    @mcp_tool
    def hours(self) -> str:
        '''Say when it is open.'''
        return "9 to 5"

@mcp_resource("stock://{sku}")
def stock(sku: str, pieces: int) -> str:
    '''Return what there is.'''
    return sku
"""


def test_methods_of_a_toolset_are_of_any_kind(app: MakeApp) -> None:
    app(mcp_tools=SHOP)
    client = CheckedClient()
    assert [each["name"] for each in client.list_tools()] == ["shop_hours"]
    assert json.loads(client.read_resource("orders://7")[0]["text"]) == {
        "number": "7",
        "user": "AnonymousUser",
    }
    (message,) = client.get_prompt("shop_complain", number="7")
    assert message["content"]["text"] == "Complain about 7."


def test_parameter_that_the_uri_lacks_is_an_error(app: MakeApp) -> None:
    app(mcp_tools=SHOP)
    (message,) = messages("mcp_bridge.E006")
    assert "its parameter 'pieces' is not a variable of stock://{sku}" in message


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        (lambda f: mcp_resource("a://{other}")(f), "does not have the parameter 'other'"),
        (lambda f: mcp_resource("nowhere")(f), "is not a URI such as"),
        (lambda f: mcp_resource("a://{value}", color=1)(f), r"mcp_resource\(\): unknown option"),
        (lambda f: mcp_resource("a://{value}", ttl=-1)(f), r"mcp_resource\(ttl=-1\)"),
        (lambda f: mcp_resource("a://{value}", ttl=math.inf)(f), r"mcp_resource\(ttl=inf\)"),
        (lambda f: mcp_resource("a://{value}", ttl=True)(f), r"mcp_resource\(ttl=True\)"),
        (lambda f: mcp_prompt(template=1)(f), r"mcp_prompt\(template=1\)"),
        (lambda f: mcp_prompt(mcp_resource("a://{value}")(f)), "has a mark of another kind"),
    ],
)
def test_wrong_marks_raise_where_they_stand(mark: Any, error: str) -> None:
    def function(value: str) -> str:
        return value

    with pytest.raises((TypeError, ValueError), match=error):
        mark(function)


class MineOnly(BaseFilterBackend):
    """Shows a caller the groups that begin as the user's name does."""

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        return queryset.filter(name__startswith=request.user.get_username()[:1])


@mcp_toolset(prefix="own")
class OwnTeamViewSet(ReadOnlyModelViewSet):
    """Teams."""

    permission_classes = [Published]
    authentication_classes = [SessionAuthentication]
    filter_backends = [MineOnly]
    queryset = Group.objects.all()
    serializer_class = TeamSerializer
    lookup_field = "name"

    @mcp_resource("own://{name}")
    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return one team."""
        return super().retrieve(request, *args, **kwargs)


def test_lookup_is_completed_as_the_view_reads(settings: Any, user: Any) -> None:
    router = SimpleRouter()
    router.register("own", OwnTeamViewSet)
    route(settings, path("api/", include(router.urls)))
    source = {"BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource"}
    settings.MCP_BRIDGE = {"SOURCES": {"api": source}}
    first = user.get_username()[:1]
    for name in (f"{first}-one", f"{first}-two", "Secret", "zebra"):
        Group.objects.create(name=name)
    client = CheckedClient(user=user)
    ref = {"type": "ref/resource", "uri": "own://{name}"}

    def completed(value: str) -> list[str]:
        argument = {"name": "name", "value": value}
        found: list[str] = client.post("completion/complete", ref=ref, argument=argument)[
            "completion"
        ]["values"]
        return found

    assert completed("") == [f"{first}-one", f"{first}-two"]
    assert completed(f"{first}-t") == [f"{first}-two"]
    assert completed("Sec") == completed("zeb") == []
    for name in completed(""):
        assert client.read_resource(f"own://{name}")
