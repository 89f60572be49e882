"""
The REST API of the newsroom's authors, made with Django REST framework: /api/authors/.

Its marks make tools of it: each call goes through the view as a request over HTTP does, with its
permissions, filters and pages.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, pagination, permissions, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from mcp_bridge import mcp_tool, mcp_toolset
from testproject.newsroom.models import Article, Author


class AuthorSerializer(serializers.ModelSerializer[Author]):
    class Meta:
        model = Author
        fields = ("id", "byline", "bio")
        read_only_fields = ("byline",)
        extra_kwargs = {"bio": {"help_text": "A few words, which readers see."}}


class HeadlineSerializer(serializers.ModelSerializer[Article]):
    class Meta:
        model = Article
        fields = ("slug", "title", "published_at")


class IsOneself(permissions.BasePermission):
    message = "Only the author may change that."

    def has_object_permission(self, request: Request, view: Any, obj: Author) -> bool:
        return request.method in permissions.SAFE_METHODS or obj.user_id == request.user.pk


class Pages(pagination.PageNumberPagination):
    page_size = 20
    page_size_query_param = "page_size"
    max_page_size = 100


@extend_schema_view(
    list=extend_schema(summary="List the authors"),
    retrieve=extend_schema(summary="Read who an author is"),
)
@mcp_toolset(
    actions=["list", "retrieve"],
    permissions="newsroom.view_author",
    scopes="news:read",
)
class AuthorView(
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.UpdateModelMixin,
    viewsets.GenericViewSet[Author],
):
    """Those who sign the articles, with a few words on each."""

    queryset = Author.objects.all()
    serializer_class = AuthorSerializer
    permission_classes = [permissions.IsAuthenticated, IsOneself]
    pagination_class = Pages
    filter_backends = [SearchFilter, OrderingFilter]
    search_fields = ["byline", "bio"]
    ordering_fields = ["byline"]
    http_method_names = ["get", "patch", "head", "options"]

    @mcp_tool(title="Write a few words on oneself", permissions="newsroom.add_article")
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Change the few words on an author, who has to be the caller."""
        return super().partial_update(request, *args, **kwargs)

    @mcp_tool(title="List what an author has written", permissions="newsroom.view_article")
    @extend_schema(responses=HeadlineSerializer(many=True))
    @action(detail=True, filter_backends=[], pagination_class=None)
    def articles(self, request: Request, pk: str) -> Response:
        """List the newest articles of an author that you may see, at most twenty."""
        found = self.get_object().articles.visible_to(request.user)[:20]
        return Response(HeadlineSerializer(found, many=True).data)


router = SimpleRouter()
router.register("authors", AuthorView, basename="authors")
