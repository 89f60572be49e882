"""Views of all kinds, as sites have them."""

from __future__ import annotations

from typing import Any

from adrf.views import APIView as AsyncAPIView
from django.contrib import messages
from django.contrib.auth import login
from django.core.exceptions import ObjectDoesNotExist
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from drf_spectacular.utils import extend_schema
from rest_framework import generics, pagination, permissions, serializers, versioning, viewsets
from rest_framework.authentication import SessionAuthentication
from rest_framework.decorators import (
    action,
    api_view,
    authentication_classes,
    permission_classes,
)
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle
from rest_framework.views import APIView, exception_handler

from mcp_bridge import mcp_tool, mcp_toolset
from testproject.newsroom.models import Article, Comment, Section


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ("id", "name", "slug", "description")


class ArticleSerializer(serializers.ModelSerializer[Article]):
    section_name = serializers.CharField(source="section.name", read_only=True)

    class Meta:
        model = Article
        fields = ("slug", "title", "section", "author", "body", "tags", "status", "section_name")


class FilingSerializer(serializers.Serializer[Any]):
    shelf = serializers.CharField()


class Pages(pagination.PageNumberPagination):
    page_size = 2


@mcp_toolset(
    actions=["list", "retrieve", "create", "update", "partial_update", "destroy", "count"],
    permissions="newsroom.view_article",
)
class ArticleView(viewsets.ModelViewSet[Article]):
    """The articles of the newsroom."""

    queryset = Article.objects.order_by("slug")
    serializer_class = ArticleSerializer
    permission_classes = [permissions.DjangoModelPermissions]
    filter_backends = [SearchFilter, OrderingFilter]
    search_fields = ["title"]
    ordering_fields = ["slug", "title"]
    pagination_class = Pages
    lookup_field = "slug"

    @mcp_tool(permissions="newsroom.publish_article")
    @action(detail=True, methods=["post"])
    def publish(self, request: Any, slug: str = "") -> Response:
        """Publish an article."""
        article = self.get_object()
        article.status = "published"
        article.save()
        return Response({"slug": slug, "by": request.user.get_username()})

    @action(detail=True, methods=["post"])
    @mcp_tool
    def retitle(self, request: Any, slug: str = "") -> Response:
        """Give an article another title."""
        return Response({"slug": slug, "title": request.data.get("title")})

    def get_serializer_class(self) -> Any:
        return FilingSerializer if self.action == "file" else super().get_serializer_class()

    @action(detail=True, methods=["post"])
    @mcp_tool
    def file(self, request: Any, slug: str = "") -> Response:
        """File an article."""
        filing = self.get_serializer(data=request.data)
        filing.is_valid(raise_exception=True)
        return Response(filing.data)

    @action(detail=False)
    def count(self, request: Any) -> Response:
        """Count the articles."""
        return Response(self.get_queryset().count())

    @mcp_tool
    @action(detail=True, methods=["get", "delete"], url_path="tags/(?P<tag>[^/.]+)")
    def tag(self, request: Any, slug: str, tag: str) -> Response:
        """Show a tag, or take it away."""
        if request.method == "DELETE":
            return Response(status=204)
        return Response({"slug": slug, "tag": tag})


class SubclassView(ArticleView):
    """A subclass, which does not inherit the mark."""


class SectionView(viewsets.ReadOnlyModelViewSet[Section]):
    """The sections of the newsroom."""

    queryset = Section.objects.all()
    serializer_class = SectionSerializer


class IsAuthor(permissions.BasePermission):
    message = "Only the author of a comment may do that."

    def has_permission(self, request: Any, view: Any) -> bool:
        return request.user.is_authenticated and request.user.get_username() != "outsider"

    def has_object_permission(self, request: Any, view: Any, obj: Comment) -> bool:
        return bool(obj.user == request.user)


class CommentSerializer(serializers.ModelSerializer[Comment]):
    class Meta:
        model = Comment
        fields = ("id", "article", "text")


@mcp_toolset(prefix="remark", actions=["list", "retrieve", "create", "destroy"])
class CommentView(viewsets.ModelViewSet[Comment]):
    """The comments on articles."""

    queryset = Comment.objects.all()
    serializer_class = CommentSerializer
    permission_classes = [IsAuthor]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(user=self.request.user)
        if "refuse" in serializer.validated_data["text"]:
            raise ValidationError({"text": ["We do not print that."]})


@mcp_tool(read_only=True)
@api_view(["GET"])
@permission_classes([permissions.IsAdminUser])
def who(request: Any) -> Response:
    """Say who calls."""
    return Response({"user": request.user.get_username(), "auth": request.auth})


@api_view(["GET", "POST"])
@mcp_tool(public=True)
def echo(request: Any) -> Response:
    """Say what was sent."""
    return Response({"method": request.method, "data": request.data})


@mcp_tool(public=True)
@api_view(["GET"])
@authentication_classes([])
@permission_classes([])
def anonymous(request: Any) -> Response:
    """Say who calls, without authentication."""
    return Response({"user": str(request.user), "authenticated": request.user.is_authenticated})


class Slow(UserRateThrottle):
    rate = "2/min"
    scope = "slow"


class Limited(APIView):
    """Read or write, twice a minute."""

    throttle_classes = [Slow]

    def get(self, request: Any) -> Response:
        return Response({"read": True})

    def put(self, request: Any) -> Response:
        return Response({"written": True})


@mcp_tool(read_only=True)
@api_view(["GET"])
def mine(request: Any) -> Response:
    """Say whose answer it is; kept by a cache."""
    return Response({"user": request.user.get_username()})


class LineSerializer(serializers.Serializer[Any]):
    sku = serializers.CharField(max_length=20)
    pieces = serializers.IntegerField(min_value=1)


class OrderSerializer(serializers.Serializer[Any]):
    customer = serializers.CharField()
    lines = LineSerializer(many=True)
    secret = serializers.CharField(write_only=True, required=False)
    number = serializers.IntegerField(read_only=True)


class OrderView(generics.CreateAPIView[Any]):
    """Order something."""

    serializer_class = OrderSerializer

    @mcp_tool
    def post(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        pieces = sum(each["pieces"] for each in serializer.validated_data["lines"])
        return Response({"pieces": pieces}, status=201)


class UploadSerializer(serializers.Serializer[Any]):
    title = serializers.CharField()
    file = serializers.FileField()
    line = LineSerializer(required=False)


class UploadView(generics.GenericAPIView[Any]):
    """Keep a file."""

    serializer_class = UploadSerializer
    parser_classes = [MultiPartParser, FormParser]

    @mcp_tool
    def post(self, request: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        file = serializer.validated_data["file"]
        line = serializer.validated_data.get("line")
        return Response({"name": file.name, "text": file.read().decode(), "line": line})


class ByPath(versioning.URLPathVersioning):
    allowed_versions = ["v1", "v2"]


class ByAccept(versioning.AcceptHeaderVersioning):
    allowed_versions = ["1.0", "2.0"]


class ByQuery(versioning.QueryParameterVersioning):
    allowed_versions = ["a", "b"]


class ByNamespace(versioning.NamespaceVersioning):
    allowed_versions = ["one", "two"]


class Versioned(APIView):
    """Say which version it is."""

    @mcp_tool(read_only=True)
    def get(self, request: Any, **kwargs: Any) -> Response:
        return Response({"version": request.version})


class AsyncView(AsyncAPIView):
    """Answer on the event loop."""

    @mcp_tool
    async def get(self, request: Any) -> Response:
        return Response({"user": request.user.get_username()})


@mcp_toolset(actions=["get", "post"], prefix="odd")
class OddView(APIView):
    """Answer in other ways than with JSON."""

    @extend_schema(parameters=[], request=None)
    def get(self, request: Any) -> HttpResponse:
        kind = request.query_params.get("kind", "")
        if kind == "text":
            return HttpResponse("plain", content_type="text/plain")
        if kind == "page":
            return HttpResponse("<p>page</p>")
        if kind == "login":
            return redirect("/accounts/login/?next=/odd/")
        if kind == "message":
            messages.error(request._request, "You may not edit this page.")
            return redirect("/admin/")
        if kind == "elsewhere":
            return redirect("who")
        if kind == "stream":
            return StreamingHttpResponse(iter([b"a", b"b"]), content_type="text/plain")
        if kind == "endless":
            return StreamingHttpResponse(iter(lambda: b"x" * 100_000, b""))
        if kind == "file":
            return FileResponse(open(__file__, "rb"), filename="views.py")
        if kind == "error":
            return HttpResponse("Traceback: hidden", status=503)
        if kind == "raise":
            raise ObjectDoesNotExist("hidden")
        if kind == "conflict":
            return Response({"detail": "Somebody was faster."}, status=409)
        if kind == "context":
            return Response({"client": request.mcp_context.client.info.get("name", "")})
        return Response(None, status=204)

    def post(self, request: Any) -> Response:
        return Response({"detail": "No."}, status=409)

    def get_exception_handler(self) -> Any:
        return handle


def handle(exception: Exception, context: Any) -> Response | None:
    if isinstance(exception, ObjectDoesNotExist):
        return None
    return exception_handler(exception, context)


class SessionLogin(APIView):
    """Log in; this must not be offered as a tool."""

    authentication_classes = [SessionAuthentication]

    @mcp_tool(name="session_login")
    def post(self, request: Any) -> Response:
        login(request._request, request.user, "django.contrib.auth.backends.ModelBackend")
        messages.info(request._request, "Welcome.")
        request._request.session["cart"] = [1]
        return Response({"key": request._request.session.session_key is not None})


@mcp_tool(public=True)
@api_view(["GET"])
@permission_classes([])
def meta(request: Any, **kwargs: Any) -> Response:
    """Say what a view can read of the request."""
    return Response(
        {
            "authorization": request.META.get("HTTP_AUTHORIZATION", ""),
            "cookie": request.META.get("HTTP_COOKIE", ""),
            "agent": request.META.get("HTTP_USER_AGENT", ""),
            "secret": request.META.get("HTTP_X_SECRET", ""),
            "tenant": getattr(request, "tenant", ""),
            "path": request.path,
            "uri": request.build_absolute_uri(),
            "kwargs": kwargs,
        }
    )
