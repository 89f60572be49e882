"""The pages of remote servers in the admin: their form, their buttons, and what is never shown."""

from __future__ import annotations

import io
import logging
import re
import sys
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.core.signals import got_request_exception
from django.test import Client
from django.urls import reverse
from django.views.debug import get_exception_reporter_class

from mcp_bridge.models import Generation, ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.remote.encryption import opened, sealed
from mcp_bridge.remote.models import RemoteHeader, RemoteServer
from mcp_bridge.testing import MCPClient
from tests.remote import tiny as upstream
from tests.remote.owner import (
    CODENAMES,
    ONE_SOURCE,
    OTHER,
    SECRET,
    Owner,
    address,
    enable,
    errors_in,
    filled,
    made,
    messages_in,
    recorded,
    words,
)
from tests.remote.tiny import Tiny
from tests.support.administrator import shown_by

pytestmark = [pytest.mark.django_db, pytest.mark.off_lane, pytest.mark.off_stdio]

# Secrets.


def test_secret_is_sent_and_stored_encrypted(tiny: Tiny) -> None:
    owner = Owner()
    owner.add(tiny, auth="static", secret=SECRET)
    server = RemoteServer.objects.get()
    assert SECRET not in server.credential
    assert opened(server.credential) == SECRET
    owner.press("fetch", server)
    assert tiny.header("authorization") == f"Bearer {SECRET}"


def test_secret_appears_nowhere_in_clear_text(tiny: Tiny, caplog: Any, capsys: Any) -> None:
    caplog.set_level(logging.DEBUG)
    owner = Owner()
    header = {"name": "X-Api-Key", "secret": OTHER}
    # A form with an error too, which is shown again.
    owner.add(tiny, header, auth="static", secret=SECRET, slug="Weather!")
    owner.add(tiny, header, auth="static", secret=SECRET)
    server = RemoteServer.objects.get()
    headers = [{"name": "X-Api-Key", "secret": OTHER, "id": server.headers.get().pk}]
    owner.change(server, *headers, secret=SECRET, whole_call_s="")
    owner.change(server, *headers, secret=SECRET)
    for answer in (None, upstream.html, upstream.unauthorized):
        tiny.answer = answer
        owner.press("verify", server)
        owner.press("fetch", server)
    tiny.answer = None
    enable(owner, "weather_forecast")
    MCPClient(user=owner.user).call_tool("weather_forecast", {})
    flush()
    for page, *args in (("changelist",), ("change", server.pk), ("history", server.pk)):
        owner.at(page, *args)
    owner.at("delete", server.pk)
    for kind in ("csv", "json"):
        export = owner.browser.get(reverse(f"admin:mcp_bridge_toolcallrecord_{kind}"))
        owner.seen += export.getvalue().decode()
    owner.seen += "".join(str(each.__dict__) for each in LogEntry.objects.all())
    owner.seen += str(list(ToolCallRecord.objects.values()))
    dump = io.StringIO()
    call_command("dumpdata", stdout=dump)
    written = "".join(capsys.readouterr())
    for text in (owner.seen, caplog.text, dump.getvalue(), written):
        assert SECRET not in text
        assert OTHER not in text
    assert "weather_forecast" in owner.seen
    # Ciphertexts are not shown either.
    assert server.credential not in owner.seen
    assert server.headers.get().value not in owner.seen
    assert tiny.header("x-api-key") == OTHER


def test_stored_secret_has_an_empty_password_input(tiny: Tiny) -> None:
    owner, lengths = Owner(), []
    for secret in ("a", "a" * 500):
        server = made(tiny, auth="static", credential=sealed(secret), slug=f"w{len(secret)}")
        RemoteHeader.objects.create(
            server=server, name="X-Key", is_secret=True, value=sealed(secret)
        )
        text = owner.at("change", server.pk)
        (field,) = re.findall(r'<input[^>]*name="secret"[^>]*>', text)
        (header,) = re.findall(r'<input[^>]*name="headers-0-secret"[^>]*>', text)
        for each in (field, header):
            assert 'type="password"' in each
            assert 'autocomplete="new-password"' in each
            assert "value=" not in each
        assert 'placeholder="stored, encrypted"' in header
        assert "Stored secret: stored, encrypted" in words(text)
        lengths.append(field + header)
    assert lengths[0] == lengths[1]


def test_empty_secret_keeps_the_stored_one(tiny: Tiny) -> None:
    owner = Owner()
    owner.add(tiny, {"name": "X-Key", "secret": OTHER}, auth="static", secret=SECRET)
    server = RemoteServer.objects.get()
    key = {"name": "X-Key", "id": server.headers.get().pk}
    owner.change(server, key, name="Forecasts")
    server.refresh_from_db()
    header = server.headers.get()
    assert (server.name, opened(server.credential)) == ("Forecasts", SECRET)
    assert (header.is_secret, opened(header.value)) == (True, OTHER)
    # Other values of the header change, and its secret does not.
    owner.change(server, {**key, "name": "X-Other", "is_required": ""})
    header.refresh_from_db()
    assert (header.name, opened(header.value)) == ("X-Other", OTHER)


def test_checkbox_clears_the_stored_secret(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny, auth="static", credential=sealed(SECRET))
    text = owner.change(server, clear_secret="on")
    assert "Enter the site's credential, or choose another way." in errors_in(text)
    owner.change(server, clear_secret="on", auth="none")
    server.refresh_from_db()
    assert server.credential == ""
    assert "clear_secret" not in owner.at("change", server.pk)


def test_variable_is_shown_by_its_name(tiny: Tiny, monkeypatch: Any) -> None:
    owner = Owner()
    header = {"name": "X-Key", "secret": "env:MCP_REMOTE_KEY"}
    owner.add(tiny, header, auth="static", secret="env:MCP_REMOTE_TOKEN")
    server = RemoteServer.objects.get()
    assert server.credential == "env:MCP_REMOTE_TOKEN"
    text = owner.at("change", server.pk)
    problem = "it cannot be used: the environment variable MCP_REMOTE_TOKEN is not set"
    assert f"the environment variable MCP_REMOTE_TOKEN; {problem}" in words(text)
    assert 'placeholder="the environment variable MCP_REMOTE_KEY"' in text
    monkeypatch.setenv("MCP_REMOTE_TOKEN", SECRET)
    monkeypatch.setenv("MCP_REMOTE_KEY", OTHER)
    text = owner.at("change", server.pk)
    assert problem not in words(text)
    owner.press("fetch", server)
    assert tiny.header("authorization") == f"Bearer {SECRET}"
    assert tiny.header("x-key") == OTHER
    assert SECRET not in owner.seen


@pytest.mark.parametrize(
    ("secret", "error"),
    [
        (
            "env:SECRET_KEY",
            "Enter env: and a variable that begins with MCP_REMOTE_: env:MCP_REMOTE_WEATHER.",
        ),
        (
            "env:NOT-A-NAME",
            "Enter env: and a variable that begins with MCP_REMOTE_: env:MCP_REMOTE_WEATHER.",
        ),
        ("one\ntwo", "Enter letters, digits and punctuation of ASCII, on one line."),
        ("", "Enter the site's credential, or choose another way."),
    ],
)
def test_unusable_secret_is_an_error(tiny: Tiny, secret: str, error: str) -> None:
    owner = Owner()
    assert errors_in(owner.add(tiny, auth="static", secret=secret)) == [error]
    assert not RemoteServer.objects.exists()


def test_secret_without_keys_names_the_setting(tiny: Tiny, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "REMOTE_SECRET_KEYS": []}
    owner = Owner()
    text = owner.add(tiny, {"name": "X-Key", "secret": OTHER}, auth="static", secret=SECRET)
    errors = errors_in(text)
    assert len(errors) == 2
    assert all("MCP_BRIDGE['REMOTE_SECRET_KEYS'] needs a list of Fernet keys" in e for e in errors)
    assert not RemoteServer.objects.exists()
    assert SECRET not in owner.seen
    # A name of a variable needs no key.
    owner.add(tiny, auth="static", secret="env:MCP_REMOTE_TOKEN")
    assert RemoteServer.objects.get().credential == "env:MCP_REMOTE_TOKEN"


def test_secret_of_another_way_is_an_error(tiny: Tiny) -> None:
    text = Owner().add(tiny, auth="per_user", secret=SECRET)
    assert errors_in(text) == ["Only “the site's credential” has a secret."]


def test_secret_does_not_follow_to_another_host(tiny: Tiny, settings: Any) -> None:
    allowed = [tiny.host, tiny.host.replace("127.0.0.1", "localhost")]
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "REMOTE_ALLOWED_HOSTS": allowed}
    owner = Owner()
    owner.add(tiny, {"name": "X-Key", "secret": OTHER}, auth="static", secret=SECRET)
    server = RemoteServer.objects.get()
    key = {"name": "X-Key", "id": server.headers.get().pk}
    elsewhere = tiny.url.replace("127.0.0.1", "localhost")
    errors = errors_in(owner.change(server, key, url=elsewhere))
    assert len(errors) == 2
    assert all(each.startswith("Enter it again") for each in errors)
    # Also if the form leaves the header out.
    assert "Enter it again" in owner.change(server, url=elsewhere, secret=SECRET)
    server.refresh_from_db()
    assert server.url == tiny.url
    owner.change(server, {**key, "secret": OTHER}, url=elsewhere, secret=SECRET)
    server.refresh_from_db()
    assert server.url == elsewhere


def test_error_report_does_not_contain_secrets(tiny: Tiny, settings: Any, monkeypatch: Any) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("The disk is full")

    reports = []

    def report(sender: Any, request: Any, **kwargs: Any) -> None:
        # As Django's AdminEmailHandler makes it.
        reporter: Any = get_exception_reporter_class(request)
        made = reporter(request, *sys.exc_info(), is_email=True)
        reports.append(made.get_traceback_text() + made.get_traceback_html())

    settings.DEBUG = False
    got_request_exception.connect(report)
    monkeypatch.setattr(RemoteServer, "save_base", fail)
    owner = Owner()
    owner.browser.raise_request_exception = False
    data = filled(tiny.url, {"name": "X", "secret": OTHER}, auth="static", secret=SECRET)
    assert owner.browser.post(address("add"), data).status_code == 500
    got_request_exception.disconnect(report)
    (text,) = reports
    assert "The disk is full" in text
    assert SECRET not in text
    assert OTHER not in text


# The form.


def test_added_server_leads_to_its_page(tiny: Tiny) -> None:
    owner = Owner()
    text = owner.add(tiny)
    server, response = RemoteServer.objects.get(), owner.response
    assert vars(response)["redirect_chain"][-1][0] == address("change", server.pk)
    assert "Next, verify that it can be reached, and fetch its tools." in messages_in(text)
    assert "“Fetch tools” asks the server for them." in words(text)


@pytest.mark.parametrize("url", ["https://127.0.0.1/mcp", "https://[::ffff:10.0.0.1]/mcp"])
def test_private_host_is_refused_with_a_hint(tiny: Tiny, url: str) -> None:
    text = Owner().send("add", **filled(url))
    (error,) = errors_in(text)
    assert error.startswith("The host of this URL is not on the public internet.")
    assert "MCP_BRIDGE['REMOTE_ALLOWED_HOSTS']" in error
    assert "field-url" in text.split("errorlist")[0].rpartition("form-row")[2]
    assert not RemoteServer.objects.exists()


@pytest.mark.parametrize("url", ["http://example.com/mcp", "https://u:p@example.com", "ftp://a"])
def test_invalid_url_is_an_error(tiny: Tiny, url: str) -> None:
    (error,) = errors_in(Owner().send("add", **filled(url)))
    assert error.startswith("Enter a")
    assert not RemoteServer.objects.exists()


def test_server_without_a_host_can_be_disabled(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny, url="https://gone.invalid/mcp")
    assert errors_in(owner.change(server)) == ["The host of this URL cannot be found."]
    owner.change(server, enabled=None)
    server.refresh_from_db()
    assert not server.enabled


def test_host_is_looked_up_once_before_the_transaction(tiny: Tiny, monkeypatch: Any) -> None:
    calls: list[str] = []

    def look_up(url: str) -> None:
        calls.append(url)

    monkeypatch.setattr("mcp_bridge.remote.models.check_reachable", look_up)
    Owner().add(tiny)
    assert calls == [tiny.url]


def test_short_name_is_fixed_once_it_has_tools(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.change(server, slug="sky")
    server.refresh_from_db()
    assert server.slug == "sky"
    owner.press("fetch", server)
    owner.change(server, slug="weather")
    server.refresh_from_db()
    assert server.slug == "sky"
    assert 'name="slug"' not in owner.at("change", server.pk)


def test_stale_form_is_not_saved(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    header = RemoteHeader.objects.create(server=server, name="X-Region", value="north")
    for change in (
        lambda: RemoteServer.objects.update(idle_s=7),
        lambda: RemoteServer.objects.update(credential=sealed(SECRET)),
        lambda: RemoteHeader.objects.update(value="south"),
        lambda: RemoteHeader.objects.create(server=server, name="X-More", value="1"),
    ):
        token = shown_by(owner.browser, address("change", server.pk))
        change()
        given = {"name": "X-Region", "value": "west", "id": header.pk}
        text = owner.change(server, given, name="Mine", _revision=token)
        assert "Not saved: this was changed after you opened the page." in errors_in(text)[0]
        server.refresh_from_db()
        assert server.name == "Weather"
        assert 'value="west"' not in text
    assert 'value="south"' in text
    assert 'value="X-More"' in text


def test_rejected_form_leaves_the_state_as_saved(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    recorded("2xx", 5)
    text = words(owner.change(server, enabled=None, whole_call_s=""))
    assert "1 candidate" in text
    assert "Calls in 24 hours 1 (2xx: 1)" in text


def test_changed_url_forgets_the_protocol_version(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    server.refresh_from_db()
    assert server.version == "2026-07-28"
    owner.change(server, name="Other")
    server.refresh_from_db()
    assert server.version == "2026-07-28"
    owner.change(server, url=f"{tiny.url}/v2")
    server.refresh_from_db()
    assert server.version == ""


def test_saving_renews_the_generation(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    before = Generation.current()
    owner.change(server, name="Other")
    assert Generation.current() != before


# Headers.


def test_header_sources_are_saved(tiny: Tiny) -> None:
    owner = Owner()
    owner.add(
        tiny,
        {"name": "X-Region", "value": "north"},
        {"name": "X-Key", "secret": OTHER},
        {"name": "X-Trace", "from_header": "X-Trace", "is_required": ""},
    )
    headers = {each.name: each for each in RemoteHeader.objects.all()}
    assert headers["X-Region"].value == "north"
    assert opened(headers["X-Key"].value) == OTHER
    assert headers["X-Key"].is_secret
    assert not headers["X-Region"].is_secret
    assert headers["X-Trace"].from_header == "X-Trace"
    assert not headers["X-Trace"].is_required
    assert 'value="north"' in owner.at("change", RemoteServer.objects.get().pk)


def test_secret_header_becomes_another_source(tiny: Tiny) -> None:
    owner = Owner()
    for source in ({"value": "plain"}, {"from_header": "X-Its"}):
        RemoteServer.objects.all().delete()
        server = made(tiny)
        header = RemoteHeader.objects.create(
            server=server, name="X-Key", is_secret=True, value=sealed(OTHER)
        )
        owner.change(server, {"name": "X-Key", "id": header.pk, **source})
        header.refresh_from_db()
        assert not header.is_secret
        assert {header.value, header.from_header} == {"", *source.values()}


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([{"name": "Host", "value": "a"}], "This header is set by the connection."),
        ([{"name": "X"}], ONE_SOURCE),
        ([{"name": "X", "value": "a", "from_header": "Y"}], ONE_SOURCE),
        ([{"name": "X", "secret": "a", "from_header": "Y"}], ONE_SOURCE),
        ([{"name": "X", "value": "a", "secret": "b"}], ONE_SOURCE),
        ([{"name": "X Y", "value": "a"}], "Enter a valid value."),
        (
            [{"name": "X", "value": "a\r\nHost: b"}],
            "Enter letters, digits and punctuation of ASCII, on one line.",
        ),
        (
            [{"name": "X", "value": "a"}, {"name": "x", "value": "b"}],
            "This header is there already.",
        ),
        (
            [{"name": "X", "from_header": "Authorization"}],
            "This header has the caller's credential for this site.",
        ),
    ],
)
def test_invalid_headers_are_errors(tiny: Tiny, headers: list[Any], error: str) -> None:
    assert errors_in(Owner().add(tiny, *headers)) == [error]
    assert not RemoteServer.objects.exists()


def test_authorization_header_excludes_a_credential(tiny: Tiny) -> None:
    header = {"name": "authorization", "secret": OTHER}
    owner = Owner()
    response = owner.add(tiny, header, auth="static", secret=SECRET)
    assert errors_in(response) == ["The server's credential is sent in this header."]
    assert not RemoteServer.objects.exists()
    assert not errors_in(owner.add(tiny, header))
    assert RemoteHeader.objects.get().name == "authorization"


def test_header_is_deleted_with_its_secret(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    header = RemoteHeader.objects.create(
        server=server, name="X-Key", is_secret=True, value=sealed(OTHER)
    )
    owner.change(server, {"name": "X-Key", "id": header.pk, "DELETE": "on"})
    assert not RemoteHeader.objects.exists()


# The buttons.

UNASKED = (
    "The remote server Weather requires a credential or header that it was not sent (HTTP 401)"
)


def test_verify_reports_the_server(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    text = owner.send("verify", server.pk)
    assert messages_in(text) == "It was reached: Tiny <b>, MCP 2026-07-28."
    assert "Tiny &lt;b&gt;" in text


@pytest.mark.parametrize(
    ("answer", "verified", "fetched"),
    [
        (upstream.html, *["which is not MCP."] * 2),
        (upstream.failing, "failed (HTTP status 503)", "failed (HTTP status 503)."),
        (
            upstream.unauthorized,
            f"{UNASKED}.",
            f"{UNASKED}.",
        ),
    ],
)
def test_failures_are_reported(tiny: Tiny, answer: Any, verified: str, fetched: str) -> None:
    owner, server = Owner(), made(tiny)
    tiny.answer = answer
    for button, expected in (("verify", verified), ("fetch", fetched)):
        text = owner.press(button, server)
        assert expected in text
        assert "127.0.0.1" not in text
    server.refresh_from_db()
    assert fetched.removeprefix("The remote server Weather ").rstrip(".") in server.last_error
    assert f"The server {server.last_error}." in words(owner.at("change", server.pk))
    assert server.last_error in words(owner.at("changelist"))


def test_time_out_is_reported(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny, first_byte_s=1)
    tiny.answer = tiny.silent
    expected = "The remote server Weather did not answer in time."
    assert owner.press("verify", server) == owner.press("fetch", server) == expected


def test_refused_credential_is_reported(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny, auth="static", credential=sealed(SECRET))
    tiny.answer = upstream.unauthorized
    expected = "The remote server Weather refused the credential."
    assert owner.press("verify", server) == owner.press("fetch", server) == expected


@pytest.mark.parametrize(
    ("port", "cause"), [(9, "[Errno 111] Connection refused"), (11, "its address is not allowed")]
)
def test_unreachable_server_is_reported_with_the_cause(
    tiny: Tiny, settings: Any, port: int, cause: str
) -> None:
    settings.MCP_BRIDGE |= {"REMOTE_ALLOWED_HOSTS": ["127.0.0.1:9"]}
    owner, server = Owner(), made(tiny, url=f"https://127.0.0.1:{port}/mcp")
    expected = f"The remote server Weather cannot be reached ({cause})."
    assert owner.press("fetch", server) == owner.press("verify", server) == expected


def test_unreadable_secret_is_reported(tiny: Tiny, settings: Any) -> None:
    owner, server = Owner(), made(tiny, auth="static", credential=sealed(SECRET))
    keys = [Fernet.generate_key().decode()]
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "REMOTE_SECRET_KEYS": keys}
    assert "the site's credential is unavailable" in owner.press("verify", server)
    text = words(owner.at("change", server.pk))
    assert "it cannot be used: no key in REMOTE_SECRET_KEYS can decrypt it" in text
    assert not tiny.service.received


@pytest.mark.parametrize("button", ["verify", "fetch"])
def test_buttons_need_post_csrf_and_permission(tiny: Tiny, button: str) -> None:
    owner, server = Owner(), made(tiny)
    assert owner.browser.get(address(button, server.pk)).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner.user)
    assert strict.post(address(button, server.pk)).status_code == 403
    viewer = Owner("view_remoteserver", username="viewer")
    viewer.send(button, server.pk, expected=403)
    stranger = Owner("view_toolsetting", username="stranger")
    stranger.send(button, server.pk, expected=403)
    assert not tiny.service.received
    Owner(*CODENAMES, username="changer").press(button, server)
    assert tiny.service.received


def test_buttons_of_unknown_servers_are_not_found(tiny: Tiny) -> None:
    assert Owner().browser.post(address("verify", 7)).status_code == 404
