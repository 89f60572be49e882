"""Methods of gRPC services, found in descriptor sets and called as tools."""

from __future__ import annotations

import builtins
import logging
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.contrib.auth.models import Permission
from django.db import connection
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from mcp_bridge.features import Context, ToolCall
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry
from mcp_bridge.sources.grpc.channels import is_local
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.tokens.models import Token
from tests.sources.grpc.conftest import Offer
from tests.support.protobuf import compiled, proto3
from tests.support.serving import messages, names, served

PUBLIC = "option (mcp_bridge.tool) = {public: true};"
READS = "option (mcp_bridge.tool) = {public: true, read_only: true};"
ECHO = """
    message Asked { int32 number = 1; string text = 2; }
    message Told { int32 number = 1; string text = 2; bytes data = 3; }
"""
SERVICE = f"""
    service Echo {{
      // Say it again.
      rpc Say(Asked) returns (Told) {{ {PUBLIC} }}
      // Look.
      rpc Look(Asked) returns (Told) {{ {READS} }}
      // Count.
      rpc Count(Asked) returns (stream Told) {{ {READS} }}
    }}
"""
DATA = compiled(proto3(ECHO, SERVICE))


def say(request: Any, sent: Any, context: Any) -> Any:
    return {"number": request.number, "text": sent.get("x-user", request.text)}


def count(request: Any, sent: Any, context: Any) -> Iterator[Any]:
    for number in range(request.number):
        yield {"number": number}


def failing(code: grpc.StatusCode, text: str, *details: Any) -> Any:
    """A method that fails so."""

    def fail(request: Any, sent: Any, context: Any) -> Any:
        if not details:
            context.abort(code, text)
        status = Status(code=code.value[0], message=text)
        for each in details:
            status.details.add().Pack(each)
        context.abort_with_status(rpc_status.to_status(status))

    return fail


def told(name: str, **arguments: Any) -> str:
    """What a model reads of a call that fails."""
    result = CheckedClient().call_tool(name, arguments)
    assert result["isError"], result
    return text_of(result)


def structured(name: str, **arguments: Any) -> Any:
    result = CheckedClient().call_tool(name, arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


def test_methods_with_the_option_are_tools(offer: Offer) -> None:
    offer(DATA, {"Say": say})
    assert names() == ["echo_count", "echo_look", "echo_say"]
    assert structured("echo_say", number=3, text="a") == {"number": 3, "text": "a"}
    tool = served("echo_say")
    assert tool.function == "tested.Echo.Say"
    assert tool.source.startswith("tested.proto:")
    record = ToolCallRecord.objects.get()
    assert (record.tool, record.outcome) == ("echo_say", "succeeded")


def test_the_options_are_those_of_the_mark(offer: Offer, user: Any) -> None:
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


def test_methods_of_others_are_named_in_the_settings(offer: Offer) -> None:
    offer(UNMARKED, {"SayIt": say}, methods=["tested.Legacy/*"], prefix="old_")
    assert names() == ["old_legacy_say_it"]
    assert registry.discovered.messages == ()


def test_the_settings_give_them_options(offer: Offer) -> None:
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
def test_what_is_deprecated_has_to_be_named_and_what_is_not_exposed_is_none(
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
    assert messages("mcp_bridge.E051") == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("public", "no mapping"),
        ({"colour": 1}, "no option 'colour'"),
        ({"timeout": 0}, "timeout has to be more than 0"),
        ({"max_messages": "9"}, "max_messages has to be more than 0"),
    ],
)
def test_options_of_the_settings_are_checked(offer: Offer, given: Any, why: str) -> None:
    offer(UNMARKED, methods={"tested.Legacy/SayIt": given})
    assert names() == []
    assert why in messages("mcp_bridge.E051")[0]


def test_a_pattern_of_no_method_is_a_warning(offer: Offer) -> None:
    offer(UNMARKED, methods=["tested.Legacy/*", "tested.Lost/*"])
    (text,) = messages("mcp_bridge.W051")
    assert "'tested.Lost/*'" in text


def test_names_may_be_dotted(offer: Offer, settings: Any) -> None:
    offer(DATA)
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "TOOL_NAME_STYLE": "dotted"}
    assert names() == ["echo.count", "echo.look", "echo.say"]


def test_what_cannot_be_a_tool_is_an_error_that_says_why(offer: Offer) -> None:
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
    found = {text.split()[0]: text for text in messages("mcp_bridge.E051")}
    assert "streams from the client" in found["tested.Odd/Up"]
    assert "StringValue, is no object in JSON" in found["tested.Odd/Scalar"]
    assert "1 to 128 of the characters" in found["tested.Odd/Named"]
    assert "is refused by clients" in found[f"tested.Odd/{'Long' * 20}"]
    assert "public=True" in found["tested.Odd/Both"]


def test_two_methods_of_one_name_are_both_left_out(offer: Offer) -> None:
    service = f"service %s {{ \n// Say.\n rpc Say(Asked) returns (Told) {{ {PUBLIC} }} }}"
    offer(compiled(proto3(ECHO, service % "Echo", service % "ECHO", service % "More")))
    assert names() == ["more_say"]
    (text,) = messages("mcp_bridge.E007")
    assert "tested.Echo.Say" in text
    assert "tested.ECHO.Say" in text


def test_a_set_without_comments_is_one_warning(offer: Offer) -> None:
    offer(compiled(proto3(ECHO, SERVICE), "--retain_options"))
    (text,) = messages("mcp_bridge.W050")
    assert "of 3 methods" in text
    assert "without comments" in text
    assert len(names()) == 3


def test_a_method_without_a_comment_is_a_warning(offer: Offer) -> None:
    offer(UNMARKED, methods=["tested.Other/*"])
    (text,) = messages("mcp_bridge.W050")
    assert text.endswith("1 methods that are tools: tested.Other/Say.")


def test_an_answer_beyond_the_bounds_has_no_output_schema(offer: Offer) -> None:
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
        (b"", "is no descriptor set"),
        (b"\x7fELF nonsense", "is no descriptor set"),
        (
            compiled(proto3(ECHO, SERVICE)).replace(b"google/protobuf/any.proto", b"x" * 25, 1),
            "imports",
        ),
    ],
)
def test_a_file_that_is_no_descriptor_set_is_one_error(offer: Offer, data: bytes, why: str) -> None:
    offer(data)
    assert names() == []
    (text,) = messages("mcp_bridge.E050")
    assert why in text


def test_a_file_that_is_not_there_is_one_error(offer: Offer, tmp_path: Any) -> None:
    offer(b"", descriptors=str(tmp_path / "lost.binpb"))
    assert names() == []
    (text,) = messages("mcp_bridge.E050")
    assert text.endswith("cannot be read: No such file or directory.")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"colour": 1}, "it has no option 'colour'"),
        ({"target": ""}, "'target' is missing"),
        ({"timeout": "10"}, "'timeout' has to be a number of seconds"),
        ({"max_messages": True}, "'max_messages' has to be a number"),
        ({"max_bytes": 0}, "'max_bytes' has to be more than 0"),
        ({"target": "orders.internal:443"}, "is another machine"),
        ({"anonymous": False}, "either 'metadata'"),
        ({"metadata": len, "anonymous": True}, "either 'metadata'"),
        ({"metadata": "no.such.function"}, "No module named 'no'"),
        ({"metadata": "django.VERSION"}, "is no function"),
    ],
)
def test_wrong_options_are_one_error(offer: Offer, options: dict[str, Any], why: str) -> None:
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
def test_only_this_machine_is_reached_without_tls(targets: str, local: bool) -> None:
    assert {is_local(each) for each in targets.split()} == {local}


def test_a_site_without_the_extra_is_told_what_to_install(
    offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any) -> Any:
        if name == "grpc":
            raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
        return real(name, *args)

    for name in [each for each in sys.modules if each.startswith("mcp_bridge.sources.grpc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    offer(DATA)
    assert names() == []
    (text,) = messages("mcp_bridge.E003")
    assert "No module named 'grpc': run pip install \"django-mcp-bridge[grpc]\"" in text


def test_a_stream_is_a_list(offer: Offer) -> None:
    offer(DATA, {"Count": count})
    assert structured("echo_count", number=3) == {
        "result": [{}, {"number": 1}, {"number": 2}],
        "truncated": False,
    }


def test_a_stream_is_cut_and_cancelled(offer: Offer) -> None:
    ended = threading.Event()

    def endless(request: Any, sent: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        while context.is_active():
            yield {"number": 1}

    offer(DATA, {"Count": endless}, max_messages=5)
    answer = structured("echo_count")
    assert (len(answer["result"]), answer["truncated"]) == (5, True)
    assert ended.wait(5)


def test_a_stream_is_cut_by_its_size(offer: Offer) -> None:
    def large(request: Any, sent: Any, context: Any) -> Iterator[Any]:
        for _ in range(50):
            yield {"data": b"x" * 1000}

    offer(DATA, {"Count": large}, max_bytes=5000)
    answer = structured("echo_count")
    assert (len(answer["result"]), answer["truncated"]) == (5, True)


Code = grpc.StatusCode


@pytest.mark.parametrize(
    "code",
    [
        *(Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION),
        *(Code.OUT_OF_RANGE, Code.ABORTED, Code.PERMISSION_DENIED, Code.RESOURCE_EXHAUSTED),
    ],
)
def test_what_the_service_means_for_callers_is_told(offer: Offer, code: grpc.StatusCode) -> None:
    offer(DATA, {"Say": failing(code, "Not in March."), "Look": failing(code, "")})
    assert told("echo_say") == "Not in March."
    assert told("echo_look").endswith(".")


def test_each_field_that_the_service_refuses_is_a_line(offer: Offer) -> None:
    wrong = BadRequest(
        field_violations=[
            {"field": "lines[0].sku", "description": "is not known"},
            {"field": 'labels["a/b"]', "description": "is too long"},
            {"field": "", "description": "cannot be"},
            {"field": "text"},
        ]
    )
    offer(DATA, {"Say": failing(Code.INVALID_ARGUMENT, "Wrong.", wrong)})
    assert told("echo_say").splitlines() == [
        "/lines/0/sku: is not known",
        "/labels/a~1b: is too long",
        "/: cannot be",
        "/text: is not valid",
    ]


def test_when_to_try_again_is_told(offer: Offer) -> None:
    retry = RetryInfo(retry_delay=Duration(seconds=36, nanos=500_000_000))
    offer(DATA, {"Say": failing(Code.RESOURCE_EXHAUSTED, "Too much.", retry)})
    assert told("echo_say") == "Too much. Retry after 37 seconds."


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.INTERNAL, Code.DATA_LOSS])
def test_what_may_be_any_exception_is_logged_alone(
    offer: Offer, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    offer(DATA, {"Say": failing(code, "the password is 7f3a")})
    text = told("echo_say")
    assert "7f3a" not in text
    assert "the site's log says why" in text
    assert "7f3a" in caplog.text


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (Code.UNAUTHENTICATED, "The service refused the site."),
        (Code.UNIMPLEMENTED, "This tool is not implemented yet."),
        (Code.UNAVAILABLE, "The service cannot be reached just now."),
        (Code.CANCELLED, "The call was cancelled."),
    ],
)
def test_what_is_the_sites_own_concern_is_a_sentence(
    offer: Offer, code: grpc.StatusCode, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    offer(DATA, {"Look": failing(code, "token 7f3a of 10.0.0.1")})
    with caplog.at_level(logging.WARNING, "mcp_bridge.sources.grpc"):
        assert told("echo_look") == sentence
    assert "token 7f3a of 10.0.0.1" in caplog.text


def test_a_write_whose_outcome_nobody_knows_is_said_to_be_that(offer: Offer) -> None:
    offer(DATA, {"Say": lambda request, sent, context: time.sleep(0.5)}, timeout=0.1)
    assert told("echo_say") == (
        "The service did not answer in time. Whether it was done or not is unknown: look before "
        "you try again."
    )


def test_a_service_that_is_down_is_a_sentence(offer: Offer) -> None:
    offer(DATA, target="127.0.0.1:1")
    assert told("echo_look") == "The service cannot be reached just now."


@pytest.mark.parametrize(("size", "fits"), [(100_000, True), (300_000, False)])
def test_an_answer_is_no_larger_than_is_wanted(offer: Offer, size: int, fits: bool) -> None:
    offer(DATA, {"Look": lambda request, sent, context: {"data": b"x" * size}}, max_bytes=200_000)
    if fits:
        assert len(structured("echo_look")["data"]) > size
    else:
        assert "larger than may be sent" in told("echo_look")


def test_a_request_that_is_too_large_for_the_service_is_a_sentence(offer: Offer) -> None:
    limit = {"options": [("grpc.max_receive_message_length", 1000)]}
    offer(DATA, {"Look": say}, limit)
    assert "larger than may be sent" in told("echo_look", text="x" * 5000)


@pytest.mark.django_db(transaction=True)
def test_nothing_waits_for_the_service_in_a_transaction(offer: Offer) -> None:
    seen = []

    def metadata(call: Any) -> list[Any]:
        seen.append(connection.in_atomic_block)
        return []

    offer(DATA, {"Say": say}, metadata=metadata)
    structured("echo_say")
    assert seen == [False]


def user_of(call: Any) -> list[tuple[str, str]]:
    return [("x-user", call.context.user.get_username())]


def test_the_service_hears_who_calls_in_every_thread(offer: Offer) -> None:
    offer(DATA, {"Look": say}, metadata=f"{__name__}.user_of")
    tool = served("echo_look")

    class Someone:
        def __init__(self, name: str) -> None:
            self.get_username = lambda: name

    def call(number: int) -> bool:
        made = ToolCall(
            tool=tool,
            arguments=tool.check({"number": number}),
            context=Context(user=Someone(f"user {number}")),
        )
        answer = tool.invoke(made)
        return (answer.number, answer.text) == (number, f"user {number}")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(1, 200)))


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("X-User", "ada"), "the key 'X-User'"),
        (("grpc-timeout", "1"), "the key 'grpc-timeout'"),
        ((":path", "/"), "the key ':path'"),
        (("x-user", "Zoë 7f3a"), "the value of 'x-user'"),
        (("x-user", "a\r\nb 7f3a"), "the value of 'x-user'"),
        (("x-user", b"ada 7f3a"), "the value of 'x-user'"),
        (("x-user-bin", "ada 7f3a"), "the value of 'x-user-bin'"),
        (("x-user", None), "the value of 'x-user'"),
        (("authorization", "Bearer {}"), "the caller's own credential"),
        (("x-trace-bin", b"\xff{}"), "the caller's own credential"),
    ],
)
def test_metadata_that_may_not_be_sent_is_refused_before(
    offer: Offer, pair: Any, why: str, user: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    _, secret = Token.objects.issue(user=user, name="test")
    key, value = pair
    if value and "{}" in str(value):
        value = (
            value.replace(b"{}", secret.encode()) if key[-4:] == "-bin" else value.format(secret)
        )
    heard: list[Any] = []
    offer(DATA, {"Look": lambda *args: heard.append(1)}, metadata=lambda call: [(key, value)])
    result = CheckedClient(token=secret).call_tool("echo_look", {})
    assert "the site's log says why" in text_of(result)
    assert why in caplog.text
    shown = text_of(result) + caplog.text + "".join(capfd.readouterr())
    assert "7f3a" not in shown
    assert secret not in shown
    assert heard == []


def test_names_beyond_ascii_go_as_bytes(offer: Offer) -> None:
    offer(
        DATA,
        {"Look": lambda request, sent, context: {"text": sent["x-user-bin"].decode()}},
        metadata=lambda call: [("x-user-bin", "Zoë".encode())],
    )
    assert structured("echo_look") == {"text": "Zoë"}


@pytest.fixture(scope="module")
def certificate() -> tuple[bytes, bytes]:
    """A key and a certificate for this machine, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        made.public_bytes(serialization.Encoding.PEM),
    )


def test_a_service_is_called_over_tls(offer: Offer, certificate: tuple[bytes, bytes]) -> None:
    server = {"credentials": grpc.ssl_server_credentials([certificate])}
    offer(
        DATA,
        {"Look": say},
        server,
        credentials=lambda: grpc.ssl_channel_credentials(certificate[1]),
    )
    assert structured("echo_look", text="a") == {"text": "a"}


def test_a_certificate_of_nobody_known_is_refused(
    offer: Offer, certificate: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    server = {"credentials": grpc.ssl_server_credentials([certificate])}
    offer(DATA, {"Look": say}, server, credentials=grpc.ssl_channel_credentials)
    assert told("echo_look") == "The service cannot be reached just now."
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
