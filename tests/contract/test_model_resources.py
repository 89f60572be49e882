"""ModelResource: list, template, reading and completion of a model's rows in one statement."""

from __future__ import annotations

import itertools
import json
import sys
from types import ModuleType
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge import Context, mcp_prompt, mcp_toolset
from mcp_bridge.checks.tools import check_tools
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.resources import ModelResource
from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import MCPClient, MCPError

numbers = itertools.count()


def visible(context: Context) -> Any:
    """Everybody may see the groups that are not secret."""
    return Group.objects.exclude(name__startswith="secret").order_by("name")


def offer(settings: Any, **values: Any) -> None:
    """Serve the values of a module, as if it were an app's mcp_tools."""
    named = f"offered_{next(numbers)}"
    module = ModuleType(named)
    for name, value in values.items():
        value.__module__ = named
        setattr(module, name, value)
    sys.modules[named] = module
    source = {"BACKEND": "mcp_bridge.sources.functions.FunctionSource"}
    source["OPTIONS"] = {"modules": [named]}
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SOURCES": {"functions": source}}


@pytest.fixture
def client(user: Any, settings: Any) -> MCPClient:
    groups = ModelResource(
        Group, uri="groups://{name}", fields=["id", "name"], queryset=visible, throttle="999/day"
    )
    offer(settings, groups=groups)
    # The last one cannot be the value of a variable.
    for name in ("press", "sport", "sports & games", "secret police", "on/off"):
        Group.objects.create(name=name)
    return MCPClient(user=user)


def read(client: MCPClient, uri: str) -> Any:
    (contents,) = client.post("resources/read", uri=uri)["contents"]
    assert contents["uri"] == uri
    return json.loads(contents["text"])


def complete(client: MCPClient, ref: dict[str, str], name: str, value: str, **earlier: str) -> Any:
    argument, context = {"name": name, "value": value}, {"arguments": earlier}
    found = client.post("completion/complete", ref=ref, argument=argument, context=context)
    return found["completion"]["values"]


@pytest.mark.off_rest
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_one_statement_lists_reads_and_completes(
    client: MCPClient, user: Any, revision: str
) -> None:
    client = MCPClient(user=user, revision=revision)
    (template,) = client.list_all("resources/templates/list", "resourceTemplates")
    assert (template["uriTemplate"], template["name"]) == ("groups://{name}", "group")
    (listed,) = client.list_all("resources/list", "resources")
    assert (listed["uri"], listed["name"]) == ("groups://all", "group_list")
    found = read(client, "groups://all")
    assert [each["title"] for each in found] == ["press", "sport", "sports & games"]
    for each in found:
        assert read(client, each["uri"])["name"] == each["title"]
    ref = {"type": "ref/resource", "uri": "groups://{name}"}
    assert complete(client, ref, "name", "spo") == ["sport", "sports & games"]
    assert complete(client, ref, "name", "sec") == []


@pytest.mark.off_rest
@pytest.mark.parametrize("name", ["secret%20police", "nothing", "SPORT"])
def test_row_outside_the_queryset_is_not_found(client: MCPClient, name: str) -> None:
    with pytest.raises(MCPError) as raised:
        read(client, f"groups://{name}")
    assert raised.value.error["data"] == {"uri": f"groups://{name}"}
    assert raised.value.error["code"] == -32602


def test_reading_listing_and_completing_take_one_query(client: MCPClient) -> None:
    ref = {"type": "ref/resource", "uri": "groups://{name}"}
    read(client, "groups://sport")
    for act in (
        lambda: read(client, "groups://sport"),
        lambda: read(client, "groups://all"),
        lambda: complete(client, ref, "name", "s"),
    ):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            act()
        asked = [each for each in captured.captured_queries if "auth_group" in each["sql"]]
        assert len(asked) == 1


@pytest.mark.off_rest
def test_one_field_is_read_as_text(user: Any, settings: Any) -> None:
    options = {"uri": "names://{pk}", "fields": "name", "mime_type": "text/markdown"}
    offer(settings, groups=ModelResource(Group, list_uri="names://every", **options))
    group = Group.objects.create(name="# Press")
    client = MCPClient(user=user)
    (contents,) = client.read_resource(f"names://{group.pk}")
    assert (contents["text"], contents["mimeType"]) == ("# Press", "text/markdown")
    assert read(client, "names://every") == [{"uri": f"names://{group.pk}", "title": "# Press"}]
    for other in ("x", "99999999999999999999999", "-1"):
        with pytest.raises(MCPError, match="Resource not found"):
            client.read_resource(f"names://{other}")


@pytest.mark.off_rest
def test_variables_through_relations_are_completed_by_earlier_ones(
    user: Any, settings: Any
) -> None:
    rows = Permission.objects.all()
    uri = "permissions://{content_type__app_label}/{codename}"
    offer(settings, each=ModelResource(Permission, uri=uri, fields=["name"], queryset=rows))
    client = MCPClient(user=user)
    assert read(client, "permissions://auth/add_group") == {"name": "Can add group"}
    ref = {"type": "ref/resource", "uri": uri}
    assert complete(client, ref, "content_type__app_label", "aut") == ["auth"]
    earlier = {"content_type__app_label": "auth"}
    assert complete(client, ref, "codename", "add_gr", **earlier) == ["add_group"]
    earlier = {"content_type__app_label": "admin"}
    assert complete(client, ref, "codename", "add_gr", **earlier) == []


@pytest.mark.off_rest
def test_permissions_hold_for_rows_and_list(user: Any, settings: Any) -> None:
    options = {"uri": "groups://{name}", "fields": ["name"], "permissions": "auth.view_group"}
    offer(settings, groups=ModelResource(Group, **options))
    Group.objects.create(name="press")
    client = MCPClient(user=user)
    for uri in ("groups://press", "groups://all"):
        with pytest.raises(MCPError, match="Resource not found"):
            read(client, uri)
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    client = MCPClient(user=User.objects.get(pk=user.pk))
    assert read(client, "groups://press") == {"name": "press"}


def test_mistakes_are_errors_in_the_code() -> None:
    with pytest.raises(ValueError, match="needs a variable"):
        ModelResource(Group, uri="groups://all", fields=["name"])
    with pytest.raises(FieldError):
        ModelResource(Group, uri="groups://{name}", fields=["nam"])
    with pytest.raises(FieldError):
        ModelResource(Group, uri="groups://{nam}", fields=["name"])
    with pytest.raises(TypeError, match="unknown option 'read_only'"):
        ModelResource(Group, uri="groups://{name}", fields=["name"], read_only=True)  # type: ignore[call-arg]


@mcp_toolset(prefix="")
class Prompts:
    @mcp_prompt
    def greet(self, group: Annotated[Group, Lookup("name")]) -> str:
        """Greet a group."""
        return f"Greet {group.name}."


@pytest.mark.off_rest
def test_models_are_completed_for_who_may_view_them(user: Any, settings: Any) -> None:
    offer(settings, Prompts=Prompts)
    for name in ("press", "sport"):
        Group.objects.create(name=name)
    ref = {"type": "ref/prompt", "name": "greet"}
    assert complete(MCPClient(user=user), ref, "group", "s") == []
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    client = MCPClient(user=User.objects.get(pk=user.pk))
    assert complete(client, ref, "group", "s") == ["sport"]
    (message,) = client.get_prompt("greet", group="sport")
    assert message["content"]["text"] == "Greet sport."


@pytest.mark.off_rest
@pytest.mark.parametrize(
    ("model", "variables", "is_warned"),
    [
        (Group, "{name}", False),
        (Group, "{pk}", False),
        (Permission, "{codename}", True),
        (Permission, "{content_type__app_label}/{codename}", True),
        (Permission, "{content_type_id}/{codename}", False),
        (Permission, "{content_type__app_label}/{content_type__model}/{codename}", False),
        (ToolSetting, "{kind}/{name}", False),
        (ToolSetting, "{name}", True),
        (ToolCallRecord, "{started_at__year}", True),
    ],
)
def test_w045_warns_of_uris_of_several_rows(
    settings: Any, user: User, model: Any, variables: str, is_warned: bool
) -> None:
    rows = ModelResource(model, uri=f"rows://{variables}", fields=["pk"], list_uri="list://all")
    offer(settings, rows=rows)
    found = [each for each in check_tools() if each.id == "mcp_bridge.W045"]
    assert len(found) == is_warned
    for message in found:
        text = f"ModelResource({model.__name__}, uri='rows://{variables}') in tests.contract."
        assert message.msg.startswith(text)
    # It is served in any case.
    client = MCPClient(user=user)
    assert len(client.list_all("resources/templates/list", "resourceTemplates")) == 1


@pytest.mark.off_rest
def test_uri_of_several_rows_cannot_be_read(settings: Any, user: User) -> None:
    offer(settings, rows=ModelResource(Permission, uri="rows://{codename}", fields=["name"]))
    permission = Permission.objects.get(codename="add_group")
    other = ContentType.objects.exclude(pk=permission.content_type_id)[0]
    Permission.objects.create(codename="add_group", content_type=other)
    with pytest.raises(MCPError) as raised:
        read(MCPClient(user=user), "rows://add_group")
    assert raised.value.error["code"] == -32603
