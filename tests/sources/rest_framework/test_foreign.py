"""Views as other packages write them: properties, serializers, HTML, other names."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, permissions, renderers, serializers, viewsets
from rest_framework.decorators import api_view, renderer_classes
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView

from mcp_bridge import mcp_tool, mcp_toolset
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Section
from tests.support.serving import messages, names, served

SOURCE = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"


def offer(settings: Any, *patterns: Any, **options: Any) -> None:
    """Serve the views at these addresses, and no others."""
    route(settings, *patterns)
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {"BACKEND": SOURCE, "OPTIONS": options}}}


def seen(user: Any) -> set[str]:
    return {each["name"] for each in CheckedClient(user=user).list_tools()}


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ["id", "name", "slug"]


# Attributes that are properties.


class ByMethod:
    @property
    def permission_classes(self) -> list[Any]:
        return [permissions.IsAdminUser if self.request.method == "POST" else permissions.AllowAny]  # type: ignore[attr-defined]


class ByAction:
    @property
    def authentication_classes(self) -> list[Any]:
        return list(APIView.authentication_classes)


class ByTenant:
    @property
    def queryset(self) -> Any:
        return Section.objects.all()


class ByChoice:
    @property
    def serializer_class(self) -> Any:
        return SectionSerializer


@pytest.mark.parametrize("mixin", [ByMethod, ByAction, ByTenant, ByChoice, type("No", (), {})])
@pytest.mark.parametrize("expose", ["marked", "all"])
def test_attributes_can_be_properties(
    settings: Any, user: Any, django_user_model: Any, mixin: type, expose: str
) -> None:
    base: dict[str, Any] = {"serializer_class": SectionSerializer}
    base |= {"queryset": Section.objects.all(), "permission_classes": [permissions.IsAuthenticated]}
    own = {name: each for name, each in base.items() if name not in vars(mixin)}
    kind = type("View", (mixin, viewsets.ModelViewSet), {"__doc__": "The sections.", **own})
    kind = mcp_toolset(actions=["list", "create"])(kind)
    router = SimpleRouter()
    router.register("sections", kind, basename="section")
    offer(settings, *router.urls, expose=expose)
    assert {"section_list", "section_create"} <= set(names())
    assert messages("mcp_bridge.E070") == messages("mcp_bridge.W076") == []
    assert ("section_create" in seen(user)) is (mixin is not ByMethod)
    assert "section_list" in seen(user)
    root = django_user_model.objects.create_superuser("root")
    made = CheckedClient(user=root).call_tool("section_create", {"name": "News", "slug": "news"})
    assert made["structuredContent"]["slug"] == "news"


# Views that read their serializers.


class BasketSerializer(serializers.Serializer[Any]):
    """The content of a basket."""

    owner = serializers.CharField()
    lines = serializers.IntegerField()


class LineSerializer(serializers.Serializer[Any]):
    url = serializers.CharField()
    quantity = serializers.IntegerField(min_value=1)


def reading(kind: str) -> type[APIView]:
    """Return a view that reads its own serializer, in one of the usual ways."""

    class Own(APIView):
        """Read it."""

        serializer_class = LineSerializer

        def post(self, request: Any) -> Response:
            serializer = self.serializer_class(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response(serializer.data)

    class Getting(generics.GenericAPIView[Any]):
        """Read it."""

        serializer_class = LineSerializer

        def post(self, request: Any) -> Response:
            return self.handle(request)

        def handle(self, request: Any) -> Response:
            serializer = self.get_serializer(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response(serializer.data)

    class Delegating(generics.CreateAPIView[Any]):
        """Read it."""

        serializer_class = LineSerializer

        def post(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            return self.create(request, *args, **kwargs)

    class Inheriting(generics.CreateAPIView[Any]):
        """Read it."""

        serializer_class = LineSerializer

    class Described(APIView):
        """Read it."""

        serializer_class = BasketSerializer

        @extend_schema(request=LineSerializer)
        def post(self, request: Any) -> Response:
            return Response(request.data)

    class Super(generics.CreateAPIView[Any]):
        """Read it."""

        serializer_class = LineSerializer

        def post(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            return super().post(request, *args, **kwargs)

    found: type[APIView] = locals()[kind]
    return found


@pytest.mark.parametrize(
    "kind", ["Own", "Getting", "Delegating", "Inheriting", "Described", "Super"]
)
def test_view_reading_its_serializer_keeps_its_access(settings: Any, user: Any, kind: str) -> None:
    offer(settings, path("add/", reading(kind).as_view(), name="add"), views={"add": {}})
    client = CheckedClient(user=user)
    (tool,) = client.list_tools()
    assert tool["inputSchema"]["additionalProperties"] is False
    assert set(tool["inputSchema"]["required"]) == {"url", "quantity"}
    assert client.call_tool("add", {"url": "/1/", "quantity": 2, "more": 1})["isError"]
    assert messages("mcp_bridge.W072") == []


# Descriptions.


@pytest.mark.parametrize("has_queryset", [True, False])
def test_view_set_is_described_by_its_serializers_model(settings: Any, has_queryset: bool) -> None:
    class View(viewsets.ModelViewSet[Section]):
        serializer_class = SectionSerializer
        if has_queryset:
            queryset = Section.objects.all()

        def get_queryset(self) -> Any:
            return Section.objects.filter(name=self.request.user.get_username())

    router = SimpleRouter()
    router.register("sections", View, basename="section")
    offer(settings, *router.urls, views={"section-*": {}})
    assert len(names()) == 6
    assert served("section_list").description == "List sections."
    assert served("section_retrieve").description == "Read one section."
    assert served("section_partial_update").description == "Change one section."
    assert messages("mcp_bridge.W002") == []


# Names of path parameters.


class Named(generics.RetrieveAPIView[Section]):
    """Show a section."""

    queryset = Section.objects.all()
    serializer_class = SectionSerializer

    @extend_schema(
        parameters=[OpenApiParameter("id", int, OpenApiParameter.PATH, description="Which one.")]
    )
    def get(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


@pytest.mark.parametrize("address", ["s/<int:pk>/", "s/<pk>/"])
@pytest.mark.parametrize(("setting", "name"), [(None, "pk"), (False, "pk"), (True, "id")])
def test_path_key_name_can_be_set(
    settings: Any, user: Any, address: str, setting: bool | None, name: str
) -> None:
    section = Section.objects.create(name="News", slug="news")
    given = {} if setting is None else {"SCHEMA_COERCE_PATH_PK": setting}
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, **given}
    offer(settings, path(address, Named.as_view(), name="section"), views={"section": {}})
    properties = served("section_get" if "section_get" in names() else "section").input_schema
    assert set(properties["properties"]) == {name}
    if setting is not False:
        assert properties["properties"][name]["description"] == "Which one."
        assert messages("mcp_bridge.W037") == []
    (tool,) = names()
    found = CheckedClient(user=user).call_tool(tool, {name: section.pk})
    assert found["structuredContent"]["slug"] == "news"
    missing = CheckedClient(user=user).call_tool(tool, {name: 0})
    assert missing["isError"]


# HTML.


@api_view(["GET"])
@renderer_classes([renderers.TemplateHTMLRenderer])
def page(request: Any) -> Response:
    """Show a page."""
    return Response({}, template_name="page.html")


class Static(APIView):
    """Show a page."""

    renderer_classes = [renderers.StaticHTMLRenderer, renderers.BrowsableAPIRenderer]

    def get(self, request: Any) -> Response:
        return Response("<p>page</p>")


class Chosen(APIView):
    """Show a page."""

    def get_renderers(self) -> list[Any]:
        return [renderers.AdminRenderer()]

    def get(self, request: Any) -> Response:
        return Response({})


class Both(APIView):
    """Show a page or data."""

    renderer_classes = [renderers.TemplateHTMLRenderer, renderers.JSONRenderer]

    def get(self, request: Any) -> Response:
        return Response({"a": 1})


@pytest.mark.parametrize(
    "view", [page, Static.as_view(), Chosen.as_view()], ids=["function", "class", "method"]
)
def test_html_only_views_are_skipped(settings: Any, user: Any, view: Any) -> None:
    patterns = path("page/", view, name="page"), path("both/", Both.as_view(), name="both")
    offer(settings, *patterns, views={"page": {}, "both": {}})
    assert names() == ["both"]
    assert CheckedClient(user=user).call_tool("both")["structuredContent"] == {"a": 1}
    (warning,) = messages("mcp_bridge.W078")
    assert "GET /page/" in warning
    assert messages("mcp_bridge.E070") == []


@pytest.mark.parametrize("view", [page, Static.as_view(), Chosen.as_view()])
def test_html_only_views_are_not_candidates(settings: Any, view: Any) -> None:
    patterns = path("page/", view, name="page"), path("both/", Both.as_view(), name="both")
    offer(settings, *patterns, expose="all")
    assert sorted(registry.discovered.candidates) == ["both"]
    assert len(messages("mcp_bridge.W078")) == 1


# Errors.


@pytest.mark.parametrize(
    ("detail", "errors"),
    [
        ({"stock": ["None left."]}, [("", "stock: None left.")]),
        ({"name": ["Taken."], "stock": "x"}, [("/name", "Taken."), ("", "stock: x")]),
        ({"lines": {"0": ["No."]}}, [("", "lines.0: No.")]),
        ("No.", [("", "No.")]),
        (["No.", "Never."], [("", "No."), ("", "Never.")]),
        ({"non_field_errors": ["No."]}, [("", "No.")]),
    ],
    ids=str,
)
def test_errors_of_a_view_are_like_schema_errors(
    settings: Any, user: Any, detail: Any, errors: list[tuple[str, str]]
) -> None:
    class Refusing(APIView):
        """Refuse it."""

        @extend_schema(request=SectionSerializer)
        @mcp_tool(name="refuse")
        def post(self, request: Any) -> Response:
            raise ValidationError(detail)

    offer(settings, path("refuse/", Refusing.as_view()))
    result = CheckedClient(user=user).call_tool("refuse", {"name": "a", "slug": "b"})
    found = result["_meta"]["mcp-bridge/errors"]
    assert [(each["path"], each["message"]) for each in found] == errors
    lines = [f"{place or '/'}: {text}" for place, text in errors]
    assert text_of(result).splitlines() == lines
