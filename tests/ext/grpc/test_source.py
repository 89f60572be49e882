"""Methods of gRPC services, found in descriptor sets and made into tools."""

from __future__ import annotations

import builtins
import sys
import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission

from mcp_bridge.ext.grpc.channels import is_local
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.echo import DATA, ECHO, PUBLIC, SERVICE, say, structured, told
from tests.support.protobuf import compiled, proto3
from tests.support.serving import messages, names, served


def test_methods_with_the_option_are_tools(offer: Offer) -> None:
    offer(DATA, {"Say": say})
    assert names() == ["echo_count", "echo_look", "echo_say"]
    assert structured("echo_say", number=3, text="a") == {"number": 3, "text": "a"}
    tool = served("echo_say")
    assert tool.function == "tested.Echo.Say"
    assert tool.source.startswith("tested.proto:")
    record = ToolCallRecord.objects.get()
    assert (record.tool, record.outcome) == ("echo_say", "succeeded")


def test_method_options_match_those_of_mcp_tool(offer: Offer, user: Any) -> None:
    option = """option (mcp_bridge.tool) = {
        name: "say", title: "Say it", description: "Say a thing.", destructive: true,
        idempotent: false, open_world: true, permissions: "auth.view_user",
        permissions: "auth.add_user", scopes: "talk", confirm: true, throttle: "20/min"
    };"""
    offer(
        compiled(proto3(ECHO, f"service Echo {{ rpc Say(Asked) returns (Told) {{ {option} }} }}"))
    )
    options = served("say").options
    assert options.permissions == ("auth.view_user", "auth.add_user")
    assert (options.scopes, options.confirm, options.throttle) == (("talk",), True, "20/min")
    codenames = ["view_user", "add_user"]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    (tool,) = CheckedClient(user=type(user).objects.get(pk=user.pk)).list_tools()
    assert (tool["title"], tool["description"]) == ("Say it", "Say a thing.")
    assert tool["annotations"] == {
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert CheckedClient(user=type(user).objects.create(username="eve")).list_tools() == []


UNMARKED = compiled(
    proto3(
        ECHO,
        """
        service Legacy {
          // Say it.
          rpc SayIt(Asked) returns (Told);
          // Say all.
          rpc SayAll(stream Asked) returns (Told);
        }
        service Other { rpc Say(Asked) returns (Told); }
        """,
    )
)


def test_settings_can_name_unannotated_methods(offer: Offer) -> None:
    offer(UNMARKED, {"SayIt": say}, methods=["tested.Legacy/*"], prefix="old_")
    assert names() == ["old_legacy_say_it"]
    assert registry.discovered.messages == ()


def test_settings_give_options_to_methods(offer: Offer) -> None:
    public = {"public": True, "read_only": True, "timeout": 0.2}
    offer(
        UNMARKED,
        {"SayIt": lambda request, sent, context: time.sleep(0.5)},
        methods={"tested.Legacy/SayIt": public},
    )
    assert served("legacy_say_it").is_read_only
    assert told("legacy_say_it") == "The service did not answer in time."


@pytest.mark.parametrize(
    ("methods", "found"),
    [
        (["tested.Legacy/*"], ["legacy_new"]),
        (["tested.Legacy/Old"], ["legacy_old"]),
        ({"tested.Legacy/New": {"exposed": False}, "*": {}}, []),
        ({"tested.Legacy/New": {"deprecated": True}}, []),
    ],
)
def test_deprecated_and_unexposed_methods_are_not_matched_by_patterns(
    offer: Offer, methods: Any, found: list[str]
) -> None:
    service = """service Legacy {
        // Say.
        rpc New(Asked) returns (Told);
        // Say.
        rpc Old(Asked) returns (Told) { option deprecated = true; }
    }"""
    offer(compiled(proto3(ECHO, service)), methods=methods)
    assert names() == found
    assert messages("mcp_bridge.W054") == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("public", "must be a string with a mapping of options"),
        ({"colour": 1}, "unknown option 'colour'"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"max_messages": "9"}, "max_messages must be more than 0"),
    ],
)
def test_options_of_the_settings_are_checked(offer: Offer, given: Any, why: str) -> None:
    offer(UNMARKED, methods={"tested.Legacy/SayIt": given})
    assert names() == []
    assert why in messages("mcp_bridge.E003")[0]


def test_pattern_without_a_method_is_a_warning(offer: Offer) -> None:
    offer(UNMARKED, methods=["tested.Legacy/*", "tested.Lost/*"])
    (text,) = messages("mcp_bridge.W051")
    assert "'tested.Lost/*'" in text


def test_names_can_be_dotted(offer: Offer, settings: Any) -> None:
    offer(DATA)
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "TOOL_NAME_STYLE": "dotted"}
    assert names() == ["echo.count", "echo.look", "echo.say"]


def test_unsupported_methods_are_warnings_with_a_reason(offer: Offer) -> None:
    service = f"""
        service Odd {{
          // Up.
          rpc Up(stream Asked) returns (Told) {{ {PUBLIC} }}
          // Scalar.
          rpc Scalar(google.protobuf.StringValue) returns (Told) {{ {PUBLIC} }}
          // Named.
          rpc Named(Asked) returns (Told) {{ option (mcp_bridge.tool).name = "a b"; }}
          // Long.
          rpc {"Long" * 20}(Asked) returns (Told) {{ {PUBLIC} }}
          // Both.
          rpc Both(Asked) returns (Told) {{
            option (mcp_bridge.tool) = {{public: true, permissions: "auth.view_user"}};
          }}
          // Good.
          rpc Good(Asked) returns (Told) {{ {PUBLIC} }}
        }}
    """
    offer(compiled(proto3(ECHO, service)))
    assert names() == ["odd_good"]
    found = {text.split()[0]: text for text in messages("mcp_bridge.W054")}
    assert "streams from the client" in found["tested.Odd/Up"]
    assert "StringValue, is not an object in JSON" in found["tested.Odd/Scalar"]
    assert "1 to 128 of the characters" in found["tested.Odd/Named"]
    assert "is refused by clients" in found[f"tested.Odd/{'Long' * 20}"]
    assert "public=True" in found["tested.Odd/Both"]


def test_methods_with_the_same_name_are_skipped(offer: Offer) -> None:
    service = f"service %s {{ \n// Say.\n rpc Say(Asked) returns (Told) {{ {PUBLIC} }} }}"
    offer(compiled(proto3(ECHO, service % "Echo", service % "ECHO", service % "More")))
    assert names() == ["more_say"]
    (text,) = messages("mcp_bridge.W027")
    assert "tested.Echo.Say" in text
    assert "tested.ECHO.Say" in text


def test_set_without_comments_is_one_warning(offer: Offer) -> None:
    offer(compiled(proto3(ECHO, SERVICE), "--retain_options"))
    (text,) = messages("mcp_bridge.W050")
    assert "of 3 methods" in text
    assert "without comments" in text
    assert len(names()) == 3


def test_method_without_a_comment_is_a_warning(offer: Offer) -> None:
    offer(UNMARKED, methods=["tested.Other/*"])
    (text,) = messages("mcp_bridge.W050")
    assert text.endswith("1 methods that are tools: tested.Other/Say.")


def test_oversized_answers_have_no_output_schema(offer: Offer) -> None:
    wide = "\n".join(f"string f{each} = {each};" for each in range(1, 1100))
    service = f"service Deep {{ \n// Dive.\nrpc Dive(Asked) returns (Wide) {{ {PUBLIC} }} }}"
    offer(
        compiled(proto3(ECHO, "message Wide {", wide, "}", service)),
        {"Dive": lambda request, sent, context: {"f7": "seven"}},
    )
    assert "tested.Deep/Dive" in messages("mcp_bridge.W052")[0]
    assert served("deep_dive").output_schema is None
    assert structured("deep_dive") == {"f7": "seven"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not a descriptor set"),
        (b"\x7fELF nonsense", "is not a descriptor set"),
        (DATA.replace(b"google/protobuf/any.proto", b"x" * 25, 1), "protoc --include_imports"),
    ],
)
def test_invalid_descriptor_set_is_one_warning(offer: Offer, data: bytes, why: str) -> None:
    offer(data)
    assert names() == []
    (text,) = messages("mcp_bridge.W053")
    assert why in text


def test_missing_descriptor_set_is_one_warning(offer: Offer, tmp_path: Any) -> None:
    offer(b"", descriptors=str(tmp_path / "lost.binpb"))
    assert names() == []
    (text,) = messages("mcp_bridge.W053")
    assert text.endswith("cannot be read: No such file or directory.")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"colour": 1}, "unknown option 'colour'"),
        ({"target": ""}, "'target' is missing"),
        ({"timeout": "10"}, "'timeout' is not a number of seconds"),
        ({"max_messages": True}, "'max_messages' is not a number"),
        ({"max_bytes": 0}, "'max_bytes' must be more than 0"),
        ({"target": "orders.internal:443"}, "is another machine"),
        ({"anonymous": False}, "either 'metadata'"),
        ({"metadata": len, "anonymous": True}, "either 'metadata'"),
        ({"metadata": "no.such.function"}, "No module named 'no'"),
        ({"metadata": "django.VERSION"}, "is not a function"),
    ],
)
def test_invalid_options_are_one_error(offer: Offer, options: dict[str, Any], why: str) -> None:
    offer(DATA, **options)
    assert names() == []
    (text,) = messages("mcp_bridge.E003")
    assert why in text


@pytest.mark.parametrize(
    ("targets", "local"),
    [
        ("localhost:1 127.0.0.1:1 dns:///localhost:1 [::1]:1", True),
        ("ipv4:127.0.0.1:1,127.0.0.2:2 ipv6:[::1]:1 unix:/run/a unix-abstract:a", True),
        ("orders:443 dns:///orders:443 10.0.0.1:1 ipv4:127.0.0.1:1,10.0.0.1:1", False),
        ("xds:///localhost 2001:db8::1 localhost.evil.example:1 127.0.0.1.evil.example", False),
        ("dns://9.9.9.9/localhost", False),
    ],
)
def test_only_localhost_is_reached_without_tls(targets: str, local: bool) -> None:
    assert {is_local(each) for each in targets.split()} == {local}


def test_missing_extra_names_the_package_to_install(
    offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any) -> Any:
        if name == "grpc":
            raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
        return real(name, *args)

    for name in [each for each in sys.modules if each.startswith("mcp_bridge.ext.grpc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    offer(DATA)
    assert names() == []
    (text,) = messages("mcp_bridge.E003")
    assert "No module named 'grpc': run pip install \"django-mcp-bridge[grpc]\"" in text
