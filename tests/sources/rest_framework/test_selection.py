"""Selection and names of views as tools, and the checks' messages about others."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.urls import include, path, re_path
from drf_spectacular.utils import extend_schema
from jsonschema import Draft202012Validator
from rest_framework import generics, serializers, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView

from mcp_bridge import mcp_tool, mcp_toolset
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.sources.rest_framework import urls, views
from tests.sources.rest_framework.conftest import SOURCE, allowed
from tests.support.serving import messages, names, served
from tests.test_docs_code import BLOCK, PAGES, block, run


def offer(settings: Any, *patterns: Any, **options: Any) -> None:
    """Serve the views at these addresses, with these options of the source."""
    source = {**SOURCE, "OPTIONS": options}
    settings.MCP_BRIDGE = {"SOURCES": {"drf": source}}
    route(settings, *patterns)
    registry.reload()


class GroupSerializer(serializers.ModelSerializer[Group]):
    class Meta:
        model = Group
        fields = ("id", "name")


def test_views_are_selected_by_mark_or_setting() -> None:
    assert names() == [
        "anonymous",
        *(f"article_{name}" for name in ("count", "create", "destroy", "file", "list")),
        *(f"article_{name}" for name in ("partial_update", "publish", "retitle", "retrieve")),
        *("article_tag_delete", "article_tag_get", "article_update", "async"),
        *("by_accept", "by_path", "by_query", "desk_section_list", "desk_section_retrieve"),
        *("echo_get", "echo_post", "limits_get", "limits_put", "local", "meta"),
        *("mine_cookie", "mine_header", "odd_get", "odd_post", "one_named", "order"),
        *("other_file", "other_publish", "other_retitle", "other_tag_delete", "other_tag_get"),
        *("remark_create", "remark_destroy", "remark_list", "remark_retrieve"),
        *("session_login", "two_named", "upload", "who"),
    ]


def test_schemas_are_valid_and_names_legal() -> None:
    for tool in registry.discovered:
        Draft202012Validator.check_schema(dict(tool.input_schema))
        assert tool.input_schema["additionalProperties"] is False, tool.name
        assert str(tool.description)


def test_path_query_and_body_arguments_are_flat() -> None:
    update = served("article_update").input_schema
    assert update["properties"].keys() == {
        *("path_slug", "slug", "title", "section", "author", "body", "tags", "status"),
    }
    assert {"path_slug", "title"} <= set(update["required"])
    assert "required" not in served("article_partial_update").input_schema or served(
        "article_partial_update"
    ).input_schema["required"] == ["path_slug"]
    listed = served("article_list").input_schema["properties"]
    assert listed.keys() == {"ordering", "page", "search"}
    assert listed["ordering"]["enum"] == ["slug", "-slug", "title", "-title"]
    order = served("order").input_schema["properties"]
    assert order.keys() == {"customer", "lines", "secret"}
    assert served("upload").input_schema["properties"]["file"]["type"] == "string"


def test_tool_has_hints_and_a_source_location() -> None:
    tool = served("article_publish")
    assert tool.description == "Publish an article."
    assert tool.source.startswith("tests/sources/rest_framework/views.py:")
    assert tool.function == "tests.sources.rest_framework.views.ArticleView.publish"
    assert served("article_list").description == "List: The articles of the newsroom."
    assert served("article_list").annotations == {"readOnlyHint": True}
    assert served("article_create").annotations == {"destructiveHint": False}
    assert served("article_destroy").annotations["idempotentHint"] is True
    assert served("article_list").meta == {"mcp_bridge/tags": ["api"]}


def test_undocumented_class_is_described_by_its_model(settings: Any) -> None:
    class Set(viewsets.ModelViewSet[Group]):
        queryset = Group.objects.all()
        serializer_class = GroupSerializer

    class Many(generics.ListCreateAPIView[Group]):
        queryset = Group.objects.all()
        serializer_class = GroupSerializer

    class One(generics.RetrieveDestroyAPIView[Group]):
        """A group of the desk."""

        queryset = Group.objects.all()
        serializer_class = GroupSerializer

    router = SimpleRouter()
    router.register("sets", Set)
    addresses = [
        path("many", Many.as_view(), name="many"),
        path("one/<int:pk>", One.as_view(), name="one"),
    ]
    settings.MCP_BRIDGE = {"SOURCES": {"drf": SOURCE | {"OPTIONS": {"views": {"*": {}}}}}}
    route(settings, *addresses, *router.urls)
    assert {name: served(name).description for name in names()} == {
        "group_list": "List groups.",
        "group_create": "Create one group.",
        "group_retrieve": "Read one group.",
        "group_update": "Replace one group.",
        "group_partial_update": "Change one group.",
        "group_destroy": "Delete one group.",
        "many_get": "List groups.",
        "many_post": "Create one group.",
        "one_get": "A group of the desk.",
        "one_delete": "A group of the desk.",
    }
    assert messages("mcp_bridge.W002") == []
    where = served("group_list").source
    assert where.startswith("tests/sources/rest_framework/test_selection.py, ")
    assert where.endswith("Set")


def test_view_that_raises_on_listing_is_not_a_candidate(settings: Any) -> None:
    class Odd(type):
        @property
        def serializer_class(cls) -> Any:
            raise RuntimeError("not now")

    class Sound(APIView):
        def get(self, request: Any) -> Response:
            """Be sound."""
            return Response({})

    class Broken(Sound, metaclass=Odd):
        pass

    settings.MCP_BRIDGE = {"SOURCES": {"drf": SOURCE | {"OPTIONS": {"expose": "all"}}}}
    route(settings, path("a", Broken.as_view(), name="a"), path("b", Sound.as_view(), name="b"))
    assert [*registry.discovered.candidates] == ["b"]
    (message,) = messages("mcp_bridge.W076")
    assert message.endswith("is not a candidate: not now.")


def test_extra_action_does_not_inherit_a_body() -> None:
    assert served("article_publish").input_schema["properties"].keys() == {"slug"}
    assert served("article_retitle").input_schema["properties"].keys() == {"slug"}
    assert served("article_file").input_schema["properties"].keys() == {"slug", "shelf"}


def test_view_without_a_serializer_is_reported() -> None:
    texts = messages("mcp_bridge.W072")
    assert [text.split()[0] for text in texts] == [
        *("echo_post", "limits_put", "odd_post", "session_login"),
    ]


def test_valid_site_has_no_errors() -> None:
    found = [each for each in run_checks() if each.id.startswith("mcp_bridge.E")]
    assert found == []


class Thing(serializers.Serializer[Any]):
    name = serializers.CharField()


@extend_schema(request=Thing, responses=Thing)
@api_view(["POST"])
def described(request: Any) -> Response:
    """Do it."""
    return Response(request.data)


class Broken(serializers.Serializer[Any]):
    def get_fields(self) -> Any:
        raise RuntimeError("no fields today")


class BrokenView(generics.CreateAPIView[Any]):
    serializer_class = Broken


def test_view_that_raises_on_description_is_one_message(settings: Any) -> None:
    offer(
        settings,
        path("broken/", BrokenView.as_view(), name="broken"),
        path("fine/", described, name="fine"),
        views={"broken": {}, "fine": {}},
    )
    assert names() == ["fine"]
    (text,) = messages("mcp_bridge.E070")
    assert "POST /broken/" in text
    assert "no fields today" in text


def test_extend_schema_names_the_tool(settings: Any) -> None:
    @mcp_tool
    @extend_schema(operation_id="shop/listThings")
    @api_view(["GET"])
    def things(request: Any) -> Response:
        """List them."""
        return Response([])

    offer(settings, path("things/", things, name="other"))
    assert names() == ["shop_listThings"]


def test_accept_versioned_view_is_named_by_extend_schema(settings: Any) -> None:
    class Things(APIView):
        versioning_class = views.ByAccept

        @extend_schema(operation_id="list_things")
        def get(self, request: Any) -> Response:
            """List them."""
            return Response([])

    offer(settings, path("things/", Things.as_view(), name="other"), views={"other": {}})
    assert messages("mcp_bridge.E070") == []
    assert names() == ["list_things"]


def test_view_excluded_by_extend_schema_is_reported(settings: Any) -> None:
    @mcp_tool
    @extend_schema(exclude=True)
    @api_view(["GET"])
    def things(request: Any) -> Response:
        return Response([])

    offer(settings, path("things/", things))
    assert names() == []
    assert "excludes it" in messages("mcp_bridge.E070")[0]


def test_pattern_skips_views_excluded_by_extend_schema(settings: Any) -> None:
    @extend_schema(exclude=True)
    @api_view(["GET"])
    def things(request: Any) -> Response:
        return Response([])

    patterns = path("things/", things, name="things"), path("fine/", described, name="fine")
    offer(settings, *patterns, views={"*": {}})
    assert names() == ["fine"]
    assert messages("mcp_bridge.E070") == []


def test_ineffective_extend_schema_is_reported(settings: Any) -> None:
    settings.REST_FRAMEWORK = {}

    @mcp_tool
    @extend_schema(request=Thing)
    @api_view(["POST"])
    def things(request: Any) -> Response:
        """Do it."""
        return Response(request.data)

    offer(settings, path("things/", things, name="things"))
    (text,) = messages("mcp_bridge.W074")
    assert text.startswith("1 views") or "POST /things/" in text


def test_explicit_schema_is_the_body(settings: Any) -> None:
    @mcp_tool(
        input_schema={
            "type": "object",
            "properties": {"pk": {"type": "integer"}, "why": {"type": "string"}},
            "required": ["pk", "why"],
        },
        public=True,
    )
    @api_view(["POST"])
    def things(request: Any, pk: int) -> Response:
        """Do it."""
        return Response({"pk": pk, "data": request.data})

    offer(settings, path("things/<int:pk>/", things, name="things"))
    result = CheckedClient().call_tool("things", {"pk": 3, "why": "because"})
    assert result["structuredContent"] == {"pk": 3, "data": {"why": "because"}}


def test_options_of_setting_class_and_method_are_merged(settings: Any) -> None:
    @mcp_toolset(actions=["get"], permissions="auth.view_user", read_only=True)
    class Things(APIView):
        """Some things."""

        def get(self, request: Any) -> Response:
            return Response([])

        @mcp_tool(permissions="auth.change_user", read_only=False, destructive=True)
        def post(self, request: Any) -> Response:
            return Response([])

        def delete(self, request: Any) -> Response:
            return Response([])

    line = {"permissions": ["auth.add_user"], "title": "Things", "actions": ["get", "put"]}
    offer(settings, path("things/", Things.as_view(), name="things"), views={"things": line})
    assert names() == ["things_get", "things_post"]
    got, posted = served("things_get"), served("things_post")
    assert got.access.permissions == ("auth.view_user", "auth.add_user")
    assert got.title == "Things"
    assert posted.access.permissions == ("auth.view_user", "auth.change_user")
    assert posted.annotations == {"readOnlyHint": False, "destructiveHint": True}
    assert messages("mcp_bridge.W070") == [
        "MCP_BRIDGE['SOURCES']['drf']['OPTIONS']['views']: 'things' lacks the action put."
    ]


def test_unmatched_view_option_is_reported(settings: Any) -> None:
    offer(settings, path("fine/", described, name="fine"), views={"fine": {}, "shop:*": {}})
    assert "'shop:*'" in messages("mcp_bridge.W070")[0]
    assert names() == ["fine"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"view": {}}, "unknown option 'view'"),
        ({"views": ["a"]}, "'views' is not a dict"),
        ({"views": {"a": None}}, "a mapping of options"),
        ({"views": {5: {}}}, "5 must be a string with a mapping of options"),
        ({"views": {"a": {"actions": "list"}}}, "not a list of names"),
        ({"views": {"a": {"colour": "red"}}}, "unknown option 'colour'"),
        ({"probe": "yes"}, "'probe' is not True or False"),
    ],
)
def test_invalid_option_is_one_message(settings: Any, options: dict[str, Any], told: str) -> None:
    offer(settings, path("fine/", described), **options)
    (text,) = messages("mcp_bridge.E003")
    assert told in text


def test_missing_extra_is_one_message(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge.sources.rest_framework.source.find_spec", lambda name: None)
    offer(settings, path("fine/", described))
    (text,) = messages("mcp_bridge.E003")
    assert 'pip install "django-mcp-bridge[drf]"' in text


def test_unimportable_urlconf_is_one_message(settings: Any) -> None:
    offer(settings, path("fine/", described), urlconf="no.such.urls")
    (text,) = messages("mcp_bridge.E071")
    assert "no.such" in text or "no" in text


def test_regular_expression_routes_are_supported(settings: Any) -> None:
    @mcp_tool
    @api_view(["GET"])
    def thing(request: Any, **kwargs: Any) -> Response:
        """Show it."""
        return Response(kwargs)

    offer(
        settings,
        re_path(r"^named/(?P<pk>[0-9]+)/(?:(?P<part>\w+)/)?$", thing, name="named"),
        re_path(r"^unnamed/([0-9]+)/$", thing, name="unnamed"),
        re_path(r"^(?:one|two)/$", thing, name="branches"),
        re_path(r"^suffix\.(?P<format>[a-z]+)$", thing, name="suffix"),
    )
    assert names() == ["named"]
    assert served("named").input_schema["properties"].keys() == {"pk"}
    texts = messages("mcp_bridge.E070")
    assert len(texts) == 2
    assert any("unnamed groups" in text for text in texts)
    assert any("alternatives" in text for text in texts)


def test_nested_namespaces_and_deprecated_views_are_supported(settings: Any) -> None:
    class Things(viewsets.ViewSet):
        """Some things."""

        def list(self, request: Any) -> Response:
            return Response([])

        @extend_schema(deprecated=True)
        @action(detail=False)
        def old(self, request: Any) -> Response:
            return Response([])

    router = SimpleRouter()
    router.register("things", Things, basename="thing")
    inner = include((router.urls, "inner"))
    patterns = path("a/", include(([path("b/", inner)], "outer")))
    offer(settings, patterns, views={"outer:inner:*": {}})
    assert names() == ["outer_inner_thing_list"]
    offer(settings, patterns, views={"outer:inner:thing-old": {}})
    assert names() == ["outer_inner_thing_old"]


def test_callbacks_and_classes_are_not_modified() -> None:
    callbacks = [each.callback for each in urls.urlpatterns if hasattr(each, "callback")]
    kinds = (views.ArticleView, views.OrderView, APIView)

    def parts() -> list[dict[str, Any]]:
        return [dict(getattr(each, "__dict__", {})) for each in (*callbacks, *kinds)]

    before = parts()
    registry.reload()
    assert names()
    assert parts() == before


def test_example_of_the_page_works(settings: Any, user: Any) -> None:
    shop = run("sources/rest-framework", "class TeamView")
    offer(settings, path("api/", include(shop["router"].urls)))
    assert names() == ["team_create", "team_join", "team_list", "team_retrieve"]
    client = CheckedClient(user=allowed(user, "view_group", "add_group", "change_user"))
    made = client.call_tool("team_create", {"name": "press"})["structuredContent"]
    assert client.call_tool("team_list")["structuredContent"] == {"result": [made]}
    assert client.call_tool("team_retrieve", {"pk": made["id"]})["structuredContent"] == made
    assert served("team_join").options.confirm
    example: dict[str, Any] = {}
    exec(block("sources/rest-framework", '"wagtailapi:pages:*"'), example)
    options = example["MCP_BRIDGE"]["SOURCES"]["rest"]["OPTIONS"]
    offer(settings, path("api/", include(shop["router"].urls)), **options)
    assert len(messages("mcp_bridge.W070")) == 3


def test_readme_example_makes_tools(settings: Any) -> None:
    example: dict[str, Any] = {}
    blocks = [each["text"] for each in BLOCK.finditer(PAGES["README.md"])]
    (code,) = (each for each in blocks if '"ticket-*"' in each)
    exec(dedent(code), example)
    router = SimpleRouter()
    router.register("tickets", views.SectionView, basename="ticket")
    settings.MCP_BRIDGE = example["MCP_BRIDGE"]
    route(settings, path("", include(router.urls)))
    assert names() == ["ticket_list", "ticket_retrieve"]
