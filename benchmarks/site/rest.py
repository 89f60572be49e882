"""A thousand endpoints of Django REST framework, and procedures with the same permissions."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.urls import include, path
from modernrpc import RpcServer
from rest_framework import generics, serializers, viewsets
from rest_framework.permissions import DjangoModelPermissions
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from mcp_bridge import mcp_tool, mcp_toolset

# Of each set, what reads, makes, replaces and deletes.
SETS = 250
ACTIONS = {"list": "view", "create": "add", "update": "change", "destroy": "delete"}


class Sum(serializers.Serializer[Any]):
    first = serializers.IntegerField(min_value=0)
    second = serializers.IntegerField(min_value=0)


class Add(generics.GenericAPIView[Any]):
    serializer_class = Sum
    permission_classes = ()

    @mcp_tool(public=True, name="add")
    def post(self, request: Any) -> Response:
        """Add two numbers."""
        return Response({"sum": request.data["first"] + request.data["second"]})


add = Add.as_view()


class GroupSerializer(serializers.ModelSerializer[Group]):
    class Meta:
        model = Group
        fields = ("id", "name")


def made(number: int) -> type:
    """A view set of its own, of which four actions are tools."""
    members = {
        "__doc__": f"The groups of kind {number}.",
        "queryset": Group.objects.all(),
        "serializer_class": GroupSerializer,
        "permission_classes": [DjangoModelPermissions],
    }
    kind = type(f"GroupView{number}", (viewsets.ModelViewSet,), members)
    return mcp_toolset(actions=list(ACTIONS))(kind)


@mcp_tool(public=True)
def plain_add(first: int, second: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": first + second}


router = SimpleRouter()
server = RpcServer(register_system_procedures=False)
server.register_procedure(plain_add)
for number in range(SETS):
    router.register(f"groups{number}", made(number), basename=f"groups{number}")
    for action, permission in ACTIONS.items():

        def procedure(id: int = 0, name: str = "") -> None:
            """Do what a view does."""

        needed = () if permission == "view" else f"auth.{permission}_group"
        named = f"{action}{number}"
        server.register_procedure(name=named)(mcp_tool(permissions=needed)(procedure))

views = [path("add", add, name="add"), path("api/", include(router.urls))]
endpoint = path("", include("mcp_bridge.urls"))
