"""The addresses of the views, and of the endpoint."""

from __future__ import annotations

from django.conf.urls.i18n import i18n_patterns
from django.http import HttpResponse
from django.urls import include, path, re_path
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie, vary_on_headers
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import DefaultRouter

from tests.sources.rest_framework import views

router = DefaultRouter()
router.register("articles", views.ArticleView, basename="article")
router.register("others", views.SubclassView, basename="other")
router.register("sections", views.SectionView, basename="section")
router.register("comments", views.CommentView, basename="comment")


def version(kind: type) -> object:
    return views.Versioned.as_view(versioning_class=kind)


by_name = version(views.ByNamespace)
urlpatterns = [
    path("api/", include(router.urls)),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("who/", views.who, name="who"),
    path("echo/", views.echo, name="echo"),
    path("anonymous/", views.anonymous),
    path("limited/", views.Limited.as_view(), name="limited"),
    path("mine/cookie/", cache_page(60)(vary_on_cookie(views.mine)), name="mine_cookie"),
    path(
        "mine/header/",
        cache_page(60)(vary_on_headers("Authorization")(views.mine)),
        name="mine_header",
    ),
    path("orders/", views.OrderView.as_view(), name="order"),
    path("uploads/", views.UploadView.as_view(), name="upload"),
    path("by-path/<str:version>/", version(views.ByPath), name="by_path"),
    path("by-accept/", version(views.ByAccept), name="by_accept"),
    path("by-query/", version(views.ByQuery), name="by_query"),
    path("one/", include(([path("v/", by_name, name="named")], "shop"), namespace="one")),
    path("two/", include(([path("v/", by_name, name="named")], "shop"), namespace="two")),
    path("async/", views.AsyncView.as_view(), name="async"),
    path("odd/", views.OddView.as_view(), name="odd"),
    path("session-login/", views.SessionLogin.as_view()),
    re_path(r"^meta/(?P<word>[^/]+)/(?:page-(?P<page>\d+)/)?$", views.meta, name="meta"),
    path("accounts/login/", lambda request: HttpResponse("Log in."), name="login"),
    *i18n_patterns(path("local/<slug:word>/", views.meta, name="local")),
    path("", include("mcp_bridge.urls")),
]
