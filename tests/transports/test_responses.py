"""The response of a success, which is a copy, is equal to one made by Django itself."""

from __future__ import annotations

import pickle
from http import HTTPStatus

from django.http import HttpResponse

from mcp_bridge.protocol import Reply
from mcp_bridge.transports import http


def own(response: HttpResponse) -> dict[str, object]:
    """Return all parts of a response, with the headers as they are sent."""
    return {**vars(response), "headers": list(response.headers.items())}


def django_made(body: bytes) -> HttpResponse:
    return HttpResponse(
        body, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def test_response_equals_one_made_by_django() -> None:
    assert http._CAN_COPY
    made, django = http.respond(Reply(status=HTTPStatus.OK, body=b"{}")), django_made(b"{}")
    assert type(made) is HttpResponse
    assert own(made) == own(django)
    assert (made.serialize(), made.reason_phrase) == (django.serialize(), "OK")
    assert own(pickle.loads(pickle.dumps(made))) == own(django)
    for response in (made, django):
        response.headers["X-Own"] = "1"
        response.set_cookie("own", "1")
        response.write(b"\n")
    assert own(made) == own(django)
    assert made.serialize() == django.serialize()


def test_changes_of_one_response_do_not_affect_the_next() -> None:
    first = http.respond(Reply(status=HTTPStatus.OK, body=b"{}"))
    first.headers["X-Own"] = "1"
    del first.headers["Cache-Control"]
    first.set_cookie("own", "1")
    first._resource_closers.append(first.close)
    first.status_code, first.closed, first._charset = 500, True, "latin-1"
    assert own(http.respond(Reply(status=HTTPStatus.OK, body=b"[]"))) == own(django_made(b"[]"))
