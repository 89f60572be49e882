from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.protocol import Headers, InvalidParamsError, ProtocolError, Request
from mcp_bridge.protocol.errors import (
    HeaderMismatchError,
    InvalidRequestError,
    MissingEnvelopeError,
    UnsupportedProtocolVersionError,
)
from mcp_bridge.protocol.requests import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    MAX_BATCH,
    PROTOCOL_VERSION,
    read_batch,
    read_message,
)

MODERN = "2026-07-28"
META = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
LIST = Headers(version=MODERN, method="tools/list")


def request(method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def read(message: Any, headers: Headers | None) -> Request:
    found = read_message(message, headers)
    assert found is not None
    return found


def test_modern_request_has_client_info_and_capabilities() -> None:
    meta = {**META, CLIENT_CAPABILITIES: {"sampling": {}}, CLIENT_INFO: {"name": "c"}}
    found = read(request(_meta=meta, cursor="x"), LIST)
    assert (found.id, found.method, found.revision.version) == (7, "tools/list", MODERN)
    assert found.client_capabilities == {"sampling": {}}
    assert found.client_info == {"name": "c"}
    assert (found.params["cursor"], found.meta) == ("x", meta)


def test_legacy_request_has_no_client_info_or_capabilities() -> None:
    meta = {CLIENT_CAPABILITIES: {"sampling": {}}, CLIENT_INFO: {"name": "c"}}
    found = read(request(_meta=meta), Headers(version="2025-06-18"))
    assert found.meta == meta
    assert (found.client_capabilities, found.client_info) == ({}, {})


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_legacy_request_speaks_the_revision_of_its_header(version: str) -> None:
    assert read(request(), Headers(version=version)).revision.version == version


@pytest.mark.parametrize("headers", [None, Headers()])
def test_request_without_a_revision_speaks_2025_03_26(headers: Headers | None) -> None:
    assert read(request(), headers).revision.version == "2025-03-26"


def test_transport_without_headers_has_none_to_match() -> None:
    found = read(request("tools/call", name="add", _meta=META), None)
    assert found.revision.modern


def test_params_may_be_absent() -> None:
    message = request()
    del message["params"]
    assert read(message, None).params == {}


@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-03-26"])
def test_legacy_members_of_null_are_absent(version: str | None) -> None:
    assert read({**request(), "params": None}, Headers(version=version)).params == {}
    found = read(request(_meta=None, cursor=None, other=None), Headers(version=version))
    assert (found.params, found.meta) == ({"other": None}, {})


def test_modern_params_of_null_are_refused() -> None:
    with pytest.raises(MissingEnvelopeError):
        read_message({**request(), "params": None}, LIST)
    assert read(request(_meta=META, cursor=None), LIST).params["cursor"] is None


@pytest.mark.parametrize("params", [[], [1], "x", 1, 0, False])
def test_params_that_are_not_an_object_are_refused(params: Any) -> None:
    message = {**request(), "params": params}
    with pytest.raises(InvalidParamsError) as raised:
        read_message(message, Headers(version="2025-11-25"))
    assert (raised.value.request_id, raised.value.http_status) == (7, 200)
    with pytest.raises(MissingEnvelopeError) as raised:
        read_message(message, LIST)
    assert (raised.value.request_id, raised.value.http_status) == (7, 400)


@pytest.mark.parametrize("meta", [None, [], "x", 1, {}, {CLIENT_CAPABILITIES: {}}])
def test_modern_header_needs_the_modern_envelope(meta: Any) -> None:
    with pytest.raises(MissingEnvelopeError) as raised:
        read_message(request(_meta=meta), LIST)
    assert raised.value.http_status == 400


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (PROTOCOL_VERSION, [None, 20260728, True, [], {}]),
        (CLIENT_CAPABILITIES, [None, "x", [], True, 0]),
        (CLIENT_INFO, [None, 5, "x", []]),
        ("progressToken", [None, {}, [], True]),
    ],
)
def test_envelope_member_of_a_wrong_type_is_refused(key: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(MissingEnvelopeError) as raised:
            read_message(request(_meta={**META, key: value}), LIST)
        assert raised.value.request_id == 7


@pytest.mark.requirement("meta.others-tolerated")
@pytest.mark.parametrize(
    "more",
    [{}, {"progressToken": "t"}, {"progressToken": 0}, {"traceparent": "?"}, {"x/y": [None]}],
)
def test_other_members_of_the_envelope_are_tolerated(more: dict[str, Any]) -> None:
    assert read(request(_meta={**META, **more}), LIST).meta == {**META, **more}


def test_envelope_is_checked_before_headers_and_version() -> None:
    unknown = {**META, PROTOCOL_VERSION: "1900-01-01"}
    without = {PROTOCOL_VERSION: "1900-01-01"}
    same = Headers(version="1900-01-01", method="tools/list")
    for meta, headers, error in (
        (without, LIST, MissingEnvelopeError),
        (unknown, LIST, HeaderMismatchError),
        (unknown, same, UnsupportedProtocolVersionError),
    ):
        with pytest.raises(error):
            read_message(request(_meta=meta), headers)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "a"}),
        ("prompts/get", {"name": "a"}),
        ("resources/read", {"uri": "a"}),
    ],
)
def test_name_header_mirrors_the_name_or_uri(method: str, params: dict[str, Any]) -> None:
    message = request(method, _meta=META, **params)
    assert read(message, Headers(version=MODERN, method=method, name="a"))
    for name in (None, "b"):
        with pytest.raises(HeaderMismatchError):
            read_message(message, Headers(version=MODERN, method=method, name=name))


def test_initialize_is_legacy_with_any_header() -> None:
    for version in (MODERN, "1900-01-01", "2025-11-25", None):
        assert not read(request("initialize"), Headers(version=version)).revision.modern


def test_initialize_in_a_modern_envelope_is_a_modern_request() -> None:
    headers = Headers(version=MODERN, method="initialize")
    assert read(request("initialize", _meta=META), headers).revision.modern


@pytest.mark.parametrize("method", [None, 1, True, [], {}, ["tools/list"]])
def test_method_must_be_a_string(method: Any) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        read_message({"jsonrpc": "2.0", "id": 7, "method": method}, None)
    assert raised.value.request_id == 7


@pytest.mark.parametrize("version", [None, MODERN, "2025-11-25"])
@pytest.mark.parametrize("method", ["notifications/initialized", "tools/call", "x"])
def test_notification_has_no_answer(version: str | None, method: str) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": {"name": "add", "_meta": META}}
    read = read_message(message, Headers(version=version))
    assert read is not None
    assert (read.id, read.method) == (None, method)


@pytest.mark.requirement("request.no-responses")
@pytest.mark.parametrize("member", ["result", "error"])
@pytest.mark.parametrize("id", [1, "x"])
def test_response_is_taken_from_legacy_clients_only(member: str, id: Any) -> None:
    message = {"jsonrpc": "2.0", "id": id, member: {}}
    for version in (None, "2025-11-25", "2024-11-05"):
        assert read_message(message, Headers(version=version)) is None
    for version in (MODERN, "1900-01-01"):
        with pytest.raises(ProtocolError) as raised:
            read_message(message, Headers(version=version))
        assert raised.value.http_status == 400


def test_error_for_an_unsupported_version_lists_the_served_ones() -> None:
    with pytest.raises(UnsupportedProtocolVersionError) as raised:
        read_message(request(), Headers(version="v" * 1000))
    assert raised.value.data["supported"][0] == MODERN
    assert len(raised.value.data["requested"]) <= 65


@pytest.mark.parametrize("count", [1, MAX_BATCH])
def test_batch_is_read_at_its_revision(count: int) -> None:
    for headers in (None, Headers(), Headers(version="2025-03-26")):
        assert len(read_batch([request()] * count, headers)) == count


@pytest.mark.parametrize("version", [MODERN, "2025-11-25", "2025-06-18", "2024-11-05", "x"])
def test_batch_is_refused_at_any_other_revision(version: str) -> None:
    with pytest.raises(InvalidRequestError, match="batch"):
        read_batch([request()], Headers(version=version))


@pytest.mark.parametrize(
    "messages",
    [[], [request()] * (MAX_BATCH + 1), [request(), request("initialize")]]
    + [[request(), request(_meta=META)], [request(_meta={PROTOCOL_VERSION: None})]],
    ids=["empty", "too long", "initialize", "one modern", "half an envelope"],
)
def test_invalid_batch_is_refused(messages: list[Any]) -> None:
    with pytest.raises(InvalidRequestError, match="batch"):
        read_batch(messages, None)
